// rotate.cpp: K rows moved to other positions by RoPE, one graph for all layers. After llama.cpp's llama_kv_cache::build_rope_shift.
#include <cmath>
#include <cstring>

#include "context.h"
#include "hadamard.h"

namespace relay {

namespace {

float as_float(int32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

// The magnitude factor of a rotation is already in the row. YaRN multiplies it in once more inside ggml_rope_ext (ggml's rope_yarn): take it out again.
float neutral_magnitude(const Layer & layer) {
    const float freq_scale = as_float(layer.rope[6]);
    const float ext_factor = as_float(layer.rope[7]);
    return ext_factor == 0.0f ? 1.0f : 1.0f / (1.0f + 0.1f * logf(1.0f / freq_scale));
}

ggml_tensor * turn(ggml_context * ctx, const Layer & layer, ggml_tensor * rows, ggml_tensor * shift, bool is_in_place) {
    const int32_t * p = layer.rope;
    const auto rope = is_in_place ? ggml_rope_ext_inplace : ggml_rope_ext;
    return rope(ctx, rows, shift, layer.factors, p[1], p[2], p[4], as_float(p[5]), as_float(p[6]), as_float(p[7]), neutral_magnitude(layer),
                as_float(p[9]), as_float(p[10]));
}

ggml_tensor * through_hadamard(ggml_context * ctx, ggml_tensor * rows, ggml_tensor * matrix) {
    ggml_tensor * flat = ggml_reshape_2d(ctx, rows, matrix->ne[0], ggml_nelements(rows) / matrix->ne[0]);
    return ggml_reshape_4d(ctx, ggml_mul_mat(ctx, matrix, flat), rows->ne[0], rows->ne[1], rows->ne[2], rows->ne[3]);
}

ggml_tensor * turned_rows(ggml_context * ctx, const Layer & layer, int32_t p0, int32_t n, ggml_tensor * shift, ggml_tensor * matrix) {
    ggml_tensor * rows = ggml_view_3d(ctx, layer.k, layer.k_head, layer.k->ne[0] / layer.k_head, n, ggml_row_size(layer.k->type, layer.k_head),
                                      layer.k_row, layer.k_row * p0);
    if (layer.k->type == GGML_TYPE_F16 || layer.k->type == GGML_TYPE_F32) {
        return turn(ctx, layer, rows, shift, true);
    }
    ggml_tensor * wide = ggml_cast(ctx, rows, GGML_TYPE_F32);
    wide = matrix ? through_hadamard(ctx, wide, matrix) : wide;
    wide = turn(ctx, layer, wide, shift, false);
    wide = matrix ? through_hadamard(ctx, wide, matrix) : wide;
    return ggml_cpy(ctx, wide, rows);
}

}  // namespace

void rotate(relay_context & relay, const std::vector<int32_t> & starts, const relay_segment * segments, int32_t n_segments) {
    const size_t n_layer = relay.layers.all.size();
    Arena arena(32 + n_layer * n_segments * 12);
    std::vector<std::pair<ggml_tensor *, int32_t>> shifts;
    const Layer & first = relay.layers.all[0];
    ggml_tensor * matrix = first.hadamard ? ggml_new_tensor_2d(arena.ctx, GGML_TYPE_F32, first.hadamard->ne[0], first.hadamard->ne[0]) : nullptr;
    for (int32_t i = 0; i < n_segments; ++i) {
        if (!segments[i].data || segments[i].delta == 0) {
            continue;
        }
        ggml_tensor * shift = ggml_new_tensor_1d(arena.ctx, GGML_TYPE_I32, segments[i].n);
        ggml_set_input(shift);
        shifts.emplace_back(shift, segments[i].delta);
        for (const Layer & layer : relay.layers.all) {
            ggml_build_forward_expand(arena.graph, turned_rows(arena.ctx, layer, starts[i], segments[i].n, shift, matrix));
        }
    }
    if (shifts.empty()) {
        return;
    }
    if (matrix) {
        ggml_set_input(matrix);
    }
    llama_synchronize(relay.ctx);
    relay.backends.allocate(arena.graph);
    if (matrix) {
        const std::vector<float> values = hadamard(matrix->ne[0]);
        ggml_backend_tensor_set(matrix, values.data(), 0, ggml_nbytes(matrix));
    }
    for (const auto & [shift, delta] : shifts) {
        const std::vector<int32_t> values(shift->ne[0], delta);
        ggml_backend_tensor_set(shift, values.data(), 0, ggml_nbytes(shift));
    }
    relay.backends.compute(arena.graph);
}

}  // namespace relay

using namespace relay;

int relay_rotate(relay_context * relay, int32_t p0, int32_t p1, int32_t delta) {
    return guarded([&] {
        require(relay != nullptr, "relay is null");
        require(p0 >= 0 && p0 <= p1 && p1 <= relay->length(), "positions outside the live sequence");
        if (!relay->layers.rotate_refusal.empty()) {
            fail(RELAY_UNSUPPORTED, "rows cannot be moved: %s", relay->layers.rotate_refusal.c_str());
        }
        if (p0 < p1) {
            static const uint8_t present = 0;
            const relay_segment segment = {&present, p1 - p0, 0, p1 - p0, delta};
            rotate(*relay, {p0}, &segment, 1);
        }
    });
}
