// cache_rotate.h: K rows given other positions by RoPE, in a graph of our own (after llama.cpp's
// llama_kv_cache::build_rope_shift).
#pragma once

#include <vector>

#include "cache.h"

namespace relay {

// K rows of positions [p0, p1) that shall be good `delta` positions later.
struct Move {
    int32_t p0;
    int32_t p1;
    int32_t delta;
};

// The moves lie in the live sequence, and rotate_refusal is "". Throws Failure RELAY_FAILED or RELAY_STOPPED; K rows of
// the moves are undefined then.
void rotate(relay_cache & cache, const std::vector<Move> & moves, LayerRange layers);

}  // namespace relay
