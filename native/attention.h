// attention.h: a flash-attention node written out as plain products. ggml's CPU kernel of it takes tokens one by one below 64 of them (ops.cpp,
// GGML_FA_TILE_Q), several times slower per token than its tiles or two matrix products; a sweep often has 10 to 60.
#pragma once

#include "context.h"

namespace relay {

// softmax(q·k) of tokens [first, first + n) of `attention`, [cells, n, heads]; sinks, soft-capping and ALiBi as the node has them.
ggml_tensor * attention_weights(ggml_context * ctx, const ggml_tensor * attention, int64_t first, int64_t n);
// What `attention` gives, equal to rounding: [value width, heads, tokens].
ggml_tensor * attention_by_products(ggml_context * ctx, const ggml_tensor * attention);
// Whether that pays for a slice of n tokens: few of them, rows in host memory, and of a type that can be transposed.
bool is_faster_by_products(const relay_context & relay, int32_t n_tokens);

}  // namespace relay
