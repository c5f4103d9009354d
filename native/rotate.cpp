// rotate.cpp: K rows moved to other positions by RoPE, one graph for a range of layers. After llama.cpp's llama_kv_cache::build_rope_shift.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "context.h"
#include "handles.h"
#include "hadamard.h"

namespace relay {

namespace {

constexpr size_t nodes_per_run = 10;  // in one layer, with a cache that is quantized and Hadamard-rotated

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

// One graph for some runs of rows.
class Turning {
  public:
    Turning(relay_context & relay, LayerRange layers, size_t n_runs)
        : relay_(relay), layers_(layers), arena_((layers.end - layers.first) * n_runs * nodes_per_run + 32) {}

    void add(int32_t p0, int32_t n, int32_t delta) {
        ggml_tensor * shift = ggml_new_tensor_1d(arena_.ctx, GGML_TYPE_I32, n);
        ggml_set_input(shift);
        shifts_.emplace_back(shift, delta);
        for (int32_t il = layers_.first; il < layers_.end; ++il) {
            const Layer & layer = relay_.layers.all[il];
            if (layer.has_rope) {
                ggml_build_forward_expand(arena_.graph, turned_rows(arena_.ctx, layer, p0, n, shift, matrix(layer.n_hadamard)));
            }
        }
    }

    void compute() {
        if (ggml_graph_n_nodes(arena_.graph) == 0) {
            return;
        }
        relay_.backends.allocate(arena_.graph);
        for (const auto & [n, matrix] : matrices_) {
            const std::vector<float> values = hadamard(n);
            ggml_backend_tensor_set(matrix, values.data(), 0, ggml_nbytes(matrix));
        }
        for (const auto & [shift, delta] : shifts_) {
            const std::vector<int32_t> values(shift->ne[0], delta);
            ggml_backend_tensor_set(shift, values.data(), 0, ggml_nbytes(shift));
        }
        relay_.backends.compute(arena_.graph);
    }

  private:
    ggml_tensor * matrix(int64_t n) {
        if (n == 0) {
            return nullptr;
        }
        ggml_tensor *& found = matrices_[n];
        if (!found) {
            found = ggml_new_tensor_2d(arena_.ctx, GGML_TYPE_F32, n, n);
            ggml_set_input(found);
        }
        return found;
    }

    relay_context & relay_;
    LayerRange layers_;
    Arena arena_;
    std::vector<std::pair<ggml_tensor *, int32_t>> shifts_;
    std::map<int64_t, ggml_tensor *> matrices_;
};

}  // namespace

void rotate(relay_context & relay, const std::vector<Run> & runs, LayerRange layers) {
    llama_synchronize(relay.ctx);
    const size_t n_at_once = std::max<size_t>(1, relay.backends.max_nodes() / (relay.layers.all.size() * nodes_per_run));
    for (size_t first = 0; first < runs.size(); first += n_at_once) {
        const size_t end = std::min(first + n_at_once, runs.size());
        Turning turning(relay, layers, end - first);
        for (size_t i = first; i < end; ++i) {
            turning.add(runs[i].p0, runs[i].n, runs[i].delta);
        }
        turning.compute();
    }
}

}  // namespace relay

using namespace relay;

int relay_rotate(relay_context * relay, int32_t p0, int32_t p1, int32_t delta) {
    return guarded([&] {
        require_open(relay, "relay");
        require(p0 >= 0 && p0 <= p1 && p1 <= relay->length(), "positions outside the live sequence");
        if (!relay->layers.rotate_refusal.empty()) {
            fail(RELAY_UNSUPPORTED, "rows cannot be moved: %s", relay->layers.rotate_refusal.c_str());
        }
        if (p0 < p1 && delta != 0) {
            rotate(*relay, {{p0, p1 - p0, delta}}, {0, relay->n_layer()});
        }
    });
}
