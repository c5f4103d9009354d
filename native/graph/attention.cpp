#include "graph/attention.h"

#include <algorithm>
#include <cstring>

#include "ggml-backend.h"

namespace relay {

static constexpr int32_t most_tokens = 128;  // measured: from here on ggml's tiles are faster
static constexpr int64_t most_blocks = 4, fewest_queries = 16, slot_step = 64;
// Of one layer's scores and transposed V, which flash attention does not need.
static constexpr int64_t most_bytes = 64 << 20;

std::vector<QueryBlock> query_blocks(const int32_t * positions, int64_t n_tokens, int64_t n_slots) {
    const int64_t fewest = std::max((n_tokens + most_blocks - 1) / most_blocks, fewest_queries);
    std::vector<QueryBlock> blocks;
    for (int64_t j = 0; j < n_tokens; ++j) {
        const int64_t seen = std::min((positions[j] / slot_step + 1) * slot_step, n_slots);
        if (blocks.empty() || (blocks.back().n >= fewest && seen > blocks.back().n_slots)) {
            blocks.push_back({j, 0, seen});
        }
        ++blocks.back().n;
        blocks.back().n_slots = seen;
    }
    return blocks;
}

ggml_tensor * attention_weights(ggml_context * ctx, const ggml_tensor * attention, const QueryBlock & block) {
    ggml_tensor * q = attention->src[0];
    ggml_tensor * k = attention->src[1];
    ggml_tensor * mask = attention->src[3];
    float scale, max_bias, soft_cap;
    memcpy(&scale, attention->op_params + 0, sizeof(scale));
    memcpy(&max_bias, attention->op_params + 1, sizeof(max_bias));
    memcpy(&soft_cap, attention->op_params + 2, sizeof(soft_cap));
    ggml_tensor * queries =
        ggml_view_3d(ctx, q, q->ne[0], block.n, q->ne[2], q->nb[1], q->nb[2], q->nb[1] * block.first);
    ggml_tensor * keys = ggml_view_3d(ctx, k, k->ne[0], block.n_slots, k->ne[2], k->nb[1], k->nb[2], 0);
    ggml_tensor * scores = ggml_mul_mat(ctx, keys, queries);
    if (soft_cap != 0.0f) {
        scores = ggml_scale(ctx, ggml_tanh(ctx, ggml_scale(ctx, scores, scale / soft_cap)), soft_cap);
        scale = 1.0f;
    }
    ggml_tensor * seen =
        ggml_cont(ctx, ggml_view_2d(ctx, mask, block.n_slots, block.n, mask->nb[1], mask->nb[1] * block.first));
    ggml_tensor * weights = ggml_soft_max_ext(ctx, scores, seen, scale, max_bias);
    ggml_soft_max_add_sinks(weights, attention->src[4]);
    return weights;
}

// Joins halves of halves: a chain would copy the first block once for every other.
static ggml_tensor * joined(ggml_context * ctx, const std::vector<ggml_tensor *> & parts, size_t first, size_t end) {
    if (end - first == 1) {
        return parts[first];
    }
    const size_t middle = (first + end) / 2;
    return ggml_concat(ctx, joined(ctx, parts, first, middle), joined(ctx, parts, middle, end), 1);
}

ggml_tensor * attention_by_products(ggml_context * ctx, const ggml_tensor * attention,
                                    const std::vector<QueryBlock> & blocks) {
    ggml_tensor * v = attention->src[2];
    ggml_tensor * seen = ggml_view_3d(ctx, v, v->ne[0], blocks.back().n_slots, v->ne[2], v->nb[1], v->nb[2], 0);
    // [slots, width, heads]. In F32, since ggml would copy transposed F16 value by value.
    ggml_tensor * values = ggml_cast(ctx, ggml_transpose(ctx, seen), GGML_TYPE_F32);
    std::vector<ggml_tensor *> mixed;  // [width, tokens, heads] each
    for (const QueryBlock & block : blocks) {
        ggml_tensor * some =
            ggml_view_3d(ctx, values, block.n_slots, values->ne[1], values->ne[2], values->nb[1], values->nb[2], 0);
        mixed.push_back(ggml_mul_mat(ctx, some, attention_weights(ctx, attention, block)));
    }
    return ggml_cont(ctx, ggml_permute(ctx, joined(ctx, mixed, 0, mixed.size()), 0, 2, 1, 3));
}

static bool is_float(const ggml_tensor * rows) {
    return rows->type == GGML_TYPE_F16 || rows->type == GGML_TYPE_F32;
}

bool is_faster_by_products(const Layer & layer, int32_t n_tokens, int32_t n_positions) {
    const int64_t n_values = (int64_t) n_positions * ((int64_t) n_tokens * layer.n_head + layer.v->ne[0]);
    const bool is_small = n_tokens < most_tokens && n_values * (int64_t) sizeof(float) <= most_bytes;
    return is_small && is_float(layer.k) && is_float(layer.v) && ggml_backend_buffer_is_host(layer.v->buffer);
}

}  // namespace relay
