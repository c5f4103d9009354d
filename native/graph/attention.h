// graph/attention.h: a flash-attention node written out as plain products. Below 64 tokens, ggml's CPU kernel for that
// node takes tokens one by one (ops.cpp, GGML_FA_TILE_Q). That is several times slower per token than its tiles or two
// matrix products, and a sweep often has 10 to 60 tokens.
#pragma once

#include <vector>

#include "graph/layers.h"

namespace relay {

// Queries [first, first + n) of a slice. They see slots [0, n_slots).
struct QueryBlock {
    int64_t first, n, n_slots;
};

// The most graph nodes of a layer's attention that is written out.
constexpr int most_attention_nodes = 56;

// The tokens of a slice, ascending in position, cut into blocks that see about equally many slots.
std::vector<QueryBlock> query_blocks(const int32_t * positions, int64_t n_tokens, int64_t n_slots);
// softmax(q·k) of `block` of `attention`, [slots, n, heads]; sinks, soft-capping and ALiBi as the node has them.
ggml_tensor * attention_weights(ggml_context * ctx, const ggml_tensor * attention, const QueryBlock & block);
// The output of `attention`, equal to rounding: [value width, heads, tokens].
ggml_tensor * attention_by_products(ggml_context * ctx, const ggml_tensor * attention,
                                    const std::vector<QueryBlock> & blocks);
// Whether products are faster for a slice of n_tokens over n_positions: few tokens, and rows in host memory of a type
// that can be transposed.
bool is_faster_by_products(const Layer & layer, int32_t n_tokens, int32_t n_positions);

}  // namespace relay
