// cache_identity.h: that slot i holds position i. A slot that waits for its rows holds markers, which name its
// position; and after every append the first and last K rows of each segment are compared with what was placed.
#pragma once

#include "cache_segments.h"

namespace relay {

// Writes a marker of `position` as a row: small finite numbers in every cache type.
void fill_marker(uint8_t * row, size_t n_bytes, int32_t position);
// These segments were placed from position p0 on. Throws Failure RELAY_BREACH and clears the live sequence if one of
// them is not in its slots.
void check_identity(relay_cache & cache, int32_t p0, Segments segments);

}  // namespace relay
