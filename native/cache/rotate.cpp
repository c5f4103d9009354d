#include "cache/rotate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "arena.h"
#include "hadamard.h"
#include "handles.h"

namespace relay {

namespace {

constexpr size_t nodes_per_move = 10;  // in one layer, with a cache that is quantized behind a Hadamard matrix

float as_float(int32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

// YaRN scales K rows by a magnitude factor, which is in the row already. ggml_rope_ext multiplies it in once more
// (ggml's rope_yarn), so this factor takes it out again.
float neutral_magnitude(const Layer & layer) {
    const float freq_scale = as_float(layer.rope[6]);
    const float ext_factor = as_float(layer.rope[7]);
    return ext_factor == 0.0f ? 1.0f : 1.0f / (1.0f + 0.1f * logf(1.0f / freq_scale));
}

ggml_tensor * roped(ggml_context * ctx, const Layer & layer, ggml_tensor * rows, ggml_tensor * shift,
                    bool is_in_place) {
    const int32_t * p = layer.rope;
    const auto rope = is_in_place ? ggml_rope_ext_inplace : ggml_rope_ext;
    return rope(ctx, rows, shift, layer.factors, p[1], p[2], p[4], as_float(p[5]), as_float(p[6]), as_float(p[7]),
                neutral_magnitude(layer), as_float(p[9]), as_float(p[10]));
}

ggml_tensor * through_hadamard(ggml_context * ctx, ggml_tensor * rows, ggml_tensor * matrix) {
    ggml_tensor * flat = ggml_reshape_2d(ctx, rows, matrix->ne[0], ggml_nelements(rows) / matrix->ne[0]);
    ggml_tensor * product = ggml_mul_mat(ctx, matrix, flat);
    return ggml_reshape_4d(ctx, product, rows->ne[0], rows->ne[1], rows->ne[2], rows->ne[3]);
}

// The node that rotates the K rows of one move in one layer. `shift` is its delta for each of its rows.
ggml_tensor * rotated_rows(ggml_context * ctx, const Layer & layer, int32_t p0, ggml_tensor * shift,
                           ggml_tensor * matrix) {
    ggml_tensor * rows = ggml_view_3d(ctx, layer.k, layer.k_head, layer.k->ne[0] / layer.k_head, shift->ne[0],
                                      ggml_row_size(layer.k->type, layer.k_head), layer.k_row, layer.k_row * p0);
    if (layer.k->type == GGML_TYPE_F16 || layer.k->type == GGML_TYPE_F32) {
        return roped(ctx, layer, rows, shift, true);
    }
    ggml_tensor * wide = ggml_cast(ctx, rows, GGML_TYPE_F32);
    wide = matrix ? through_hadamard(ctx, wide, matrix) : wide;
    wide = roped(ctx, layer, wide, shift, false);
    wide = matrix ? through_hadamard(ctx, wide, matrix) : wide;
    return ggml_cpy(ctx, wide, rows);
}

// One graph for some moves.
class Rotation {
  public:
    Rotation(relay_cache & cache, LayerRange layers, size_t n_moves)
        : cache_(cache), layers_(layers), arena_((layers.end - layers.first) * n_moves * nodes_per_move + 32) {}

    void add(const Move & move) {
        ggml_tensor * shift = ggml_new_tensor_1d(arena_.ctx, GGML_TYPE_I32, move.p1 - move.p0);
        ggml_set_input(shift);
        shifts_.emplace_back(shift, move.delta);
        for (int32_t il = layers_.first; il < layers_.end; ++il) {
            const Layer & layer = cache_.layers.all[il];
            if (layer.has_rope) {
                ggml_tensor * rows = rotated_rows(arena_.ctx, layer, move.p0, shift, matrix(layer.n_hadamard));
                ggml_build_forward_expand(arena_.graph, rows);
            }
        }
    }

    void compute() {
        if (ggml_graph_n_nodes(arena_.graph) == 0) {
            return;
        }
        cache_.backends.allocate(arena_.graph);
        for (const auto & [n, matrix] : matrices_) {
            const std::vector<float> values = hadamard(n);
            ggml_backend_tensor_set(matrix, values.data(), 0, ggml_nbytes(matrix));
        }
        for (const auto & [shift, delta] : shifts_) {
            const std::vector<int32_t> values(shift->ne[0], delta);
            ggml_backend_tensor_set(shift, values.data(), 0, ggml_nbytes(shift));
        }
        cache_.backends.compute(arena_.graph);
    }

  private:
    // The graph's one Hadamard matrix of this size, null for 0.
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

    relay_cache & cache_;
    LayerRange layers_;
    Arena arena_;
    std::vector<std::pair<ggml_tensor *, int32_t>> shifts_;
    std::map<int64_t, ggml_tensor *> matrices_;
};

}  // namespace

void rotate(relay_cache & cache, const std::vector<Move> & moves, LayerRange layers) {
    llama_synchronize(cache.ctx);
    const size_t nodes_of_a_move = cache.layers.all.size() * nodes_per_move;
    const size_t n_at_once = std::max<size_t>(1, cache.backends.max_nodes() / nodes_of_a_move);
    for (size_t first = 0; first < moves.size(); first += n_at_once) {
        const size_t end = std::min(first + n_at_once, moves.size());
        Rotation rotation(cache, layers, end - first);
        for (size_t i = first; i < end; ++i) {
            rotation.add(moves[i]);
        }
        rotation.compute();
    }
}

}  // namespace relay

using namespace relay;

int relay_cache_rotate(relay_cache * cache, int32_t p0, int32_t p1, int32_t delta) {
    return guarded([&] {
        require_open(cache, "cache");
        require(p0 >= 0 && p0 <= p1 && p1 <= cache->length(), "positions outside the live sequence");
        if (!cache->rotate_refusal.empty()) {
            fail(RELAY_UNSUPPORTED, "rows cannot be moved: %s", cache->rotate_refusal.c_str());
        }
        if (p0 < p1 && delta != 0) {
            rotate(*cache, {{p0, p1, delta}}, {0, cache->n_layer()});
        }
    });
}
