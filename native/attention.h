// attention.h: a flash-attention node written out as plain products. ggml's CPU kernel of it takes tokens one by one below 64 of them (ops.cpp,
// GGML_FA_TILE_Q), several times slower per token than its tiles or two matrix products; a sweep often has 10 to 60.
#pragma once

#include <vector>

#include "context.h"

namespace relay {

// Queries [first, first + n) of a slice, which see no cell from n_cells on.
struct QueryBlock {
    int64_t first, n, n_cells;
};

// Graph nodes that a layer's attention has at most when it is written out.
constexpr int most_attention_nodes = 56;
// Neighbouring tokens of a slice, ascending in position, that see about as many cells.
std::vector<QueryBlock> query_blocks(const int32_t * positions, int64_t n_tokens, int64_t n_cells);
// softmax(q·k) of `block` of `attention`, [cells, n, heads]; sinks, soft-capping and ALiBi as the node has them.
ggml_tensor * attention_weights(ggml_context * ctx, const ggml_tensor * attention, const QueryBlock & block);
// What `attention` gives, equal to rounding: [value width, heads, tokens].
ggml_tensor * attention_by_products(ggml_context * ctx, const ggml_tensor * attention, const std::vector<QueryBlock> & blocks);
// Whether that pays for a slice of n tokens: few of them, rows in host memory, and of a type that can be transposed.
bool is_faster_by_products(const relay_context & relay, int32_t n_tokens);

}  // namespace relay
