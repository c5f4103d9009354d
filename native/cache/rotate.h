// cache/rotate.h: gives K rows other positions by RoPE. The graph follows llama.cpp's llama_kv_cache::build_rope_shift.
#pragma once

#include <vector>

#include "cache/cache.h"

namespace relay {

// K rows in the slots [p0, p1), to be rotated by `delta` positions.
struct Move {
    int32_t p0;
    int32_t p1;
    int32_t delta;
};

// The moves lie in the live sequence, and rotate_refusal is "". Throws Failure RELAY_FAILED or RELAY_STOPPED; K rows of
// the moves are undefined then.
void rotate(relay_cache & cache, const std::vector<Move> & moves, LayerRange layers);

}  // namespace relay
