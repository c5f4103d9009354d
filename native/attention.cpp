#include "attention.h"

#include <cstring>

namespace relay {

static constexpr int32_t most_tokens = 128;  // measured: from here on ggml's tiles are faster
static constexpr int64_t most_bytes = 64 << 20;  // of one layer's scores, which flash attention does not need

ggml_tensor * attention_weights(ggml_context * ctx, const ggml_tensor * attention, int64_t first, int64_t n) {
    ggml_tensor * q = attention->src[0];
    ggml_tensor * mask = attention->src[3];
    float scale, max_bias, soft_cap;
    memcpy(&scale, attention->op_params + 0, sizeof(scale));
    memcpy(&max_bias, attention->op_params + 1, sizeof(max_bias));
    memcpy(&soft_cap, attention->op_params + 2, sizeof(soft_cap));
    ggml_tensor * some = ggml_view_3d(ctx, q, q->ne[0], n, q->ne[2], q->nb[1], q->nb[2], q->nb[1] * first);
    ggml_tensor * scores = ggml_mul_mat(ctx, attention->src[1], some);
    if (soft_cap != 0.0f) {
        scores = ggml_scale(ctx, ggml_tanh(ctx, ggml_scale(ctx, scores, scale / soft_cap)), soft_cap);
        scale = 1.0f;
    }
    ggml_tensor * rows = ggml_view_2d(ctx, mask, mask->ne[0], n, mask->nb[1], mask->nb[1] * first);
    ggml_tensor * weights = ggml_soft_max_ext(ctx, scores, rows, scale, max_bias);
    ggml_soft_max_add_sinks(weights, attention->src[4]);
    return weights;
}

ggml_tensor * attention_by_products(ggml_context * ctx, const ggml_tensor * attention) {
    ggml_tensor * weights = attention_weights(ctx, attention, 0, attention->src[0]->ne[1]);
    ggml_tensor * values = ggml_cont(ctx, ggml_transpose(ctx, attention->src[2]));  // [cells, width, heads]
    ggml_tensor * mixed = ggml_mul_mat(ctx, values, weights);                       // [width, tokens, heads]
    return ggml_cont(ctx, ggml_permute(ctx, mixed, 0, 2, 1, 3));
}

bool is_faster_by_products(const relay_context & relay, int32_t n_tokens) {
    const Layer & layer = relay.layers.all[0];
    const auto is_float = [](const ggml_tensor * cache) { return cache->type == GGML_TYPE_F16 || cache->type == GGML_TYPE_F32; };
    const int64_t n_bytes = (int64_t) sizeof(float) * relay.length() * n_tokens * layer.n_head;
    return n_tokens < most_tokens && n_bytes <= most_bytes && is_float(layer.k) && is_float(layer.v) && ggml_backend_buffer_is_host(layer.v->buffer);
}

}  // namespace relay
