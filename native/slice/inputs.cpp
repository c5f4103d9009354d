#include "slice/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "hadamard.h"

namespace relay {

namespace {

// Copies exactly what the tensor holds. Another size means that llama.cpp's graph has changed.
template <typename T>
void fill(ggml_tensor * tensor, const T * values, size_t n) {
    if (ggml_nbytes(tensor) != n * sizeof(T)) {
        fail(RELAY_UNSUPPORTED, "the graph's input %s has %zu bytes, %zu were expected", tensor->name,
             ggml_nbytes(tensor), n * sizeof(T));
    }
    ggml_backend_tensor_set(tensor, values, 0, n * sizeof(T));
}

// The first position that the token at `position` sees. n_window = 0: the layer has no window.
int32_t first_seen(const Window & window, int32_t n_window, int32_t position) {
    if (n_window == 0) {
        return 0;
    }
    return window.is_chunked ? position / n_window * n_window : std::max(0, position + 1 - n_window);
}

// For each token and position: 0 (with ALiBi, minus the distance) if the token sees it, else -inf.
void fill_mask(const relay_cache & cache, ggml_tensor * mask, const relay_slice & slice, int32_t n_window) {
    const int64_t n_kv = mask->ne[0];
    std::vector<float> values(n_kv * slice.n_tokens, -INFINITY);
    for (int32_t j = 0; j < slice.n_tokens; ++j) {
        const int32_t position = slice.positions[j];
        const int32_t first = first_seen(cache.facts.window, n_window, position);
        float * row = values.data() + n_kv * j;
        std::fill(row + first, row + position + 1, 0.0f);
        for (int32_t i = first; cache.layers.has_alibi && i < position; ++i) {
            row[i] = (float) (i - position);
        }
    }
    if (mask->type == GGML_TYPE_F32) {
        fill(mask, values.data(), values.size());
        return;
    }
    std::vector<ggml_fp16_t> halves(values.size());
    ggml_fp32_to_fp16_row(values.data(), halves.data(), (int64_t) values.size());
    fill(mask, halves.data(), halves.size());
}

void set_input(const relay_cache & cache, const std::string & name, ggml_tensor * tensor, const relay_slice & slice) {
    const size_t n = (size_t) slice.n_tokens;
    if (name == "hidden") {
        fill(tensor, slice.hidden, n * cache.facts.n_embd);
    } else if (name == "inp_tokens") {
        fill(tensor, slice.tokens, n);
    } else if (name == "inp_pos") {
        fill(tensor, slice.positions, n);
    } else if (name == "attn_inp_k_idxs" || name == "attn_inp_v_idxs") {
        fill(tensor, std::vector<int64_t>(slice.positions, slice.positions + n).data(), n);
    } else if (name == "inp_attn_scale") {
        std::vector<float> scales;
        std::transform(slice.positions, slice.positions + n, std::back_inserter(scales),
                       [&](int32_t p) { return cache.facts.query_scale.at(p); });
        fill(tensor, scales.data(), n);
    } else if (name == "out_ids") {
        const int32_t last = slice.n_tokens - 1;
        fill(tensor, &last, 1);
    } else if (name.rfind("attn_inp_k_rot-", 0) == 0 || name.rfind("attn_inp_v_rot-", 0) == 0) {
        const std::vector<float> matrix = hadamard(tensor->ne[0]);
        fill(tensor, matrix.data(), matrix.size());
    } else if (name.rfind("mask-", 0) == 0) {
        fill_mask(cache, tensor, slice, atoi(name.c_str() + 5));
    } else {
        fail(RELAY_UNSUPPORTED, "the graph has an input that is not known here: %s", name.c_str());
    }
}

}  // namespace

void set_inputs(const relay_cache & cache, const std::vector<std::pair<std::string, ggml_tensor *>> & inputs,
                const relay_slice & slice) {
    for (const auto & [name, tensor] : inputs) {
        set_input(cache, name, tensor, slice);
    }
}

}  // namespace relay
