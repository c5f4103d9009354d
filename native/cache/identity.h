// cache/identity.h: slot i holds position i. After every append, the first and the last K row of each segment are
// compared with what was placed. A slot that waits for its rows holds a marker, which names its position.
#pragma once

#include "cache/segments.h"

namespace relay {

// Writes a marker of `position` into a row: small finite numbers in every cache type.
void fill_marker(uint8_t * row, size_t n_bytes, int32_t position);
// Call it when these segments have been placed from position p0 on. If one of them is not in its slots, clears the live
// sequence and throws Failure RELAY_BREACH.
void check_identity(relay_cache & cache, int32_t p0, Segments segments);

}  // namespace relay
