// cache/rows.h: rows in and out of the live sequence.
#pragma once

#include "cache/segments.h"

namespace relay {

// As relay_cache_append and relay_cache_write in relay.h, whose checks of segments, positions and layers are made here.
void append(relay_cache & cache, Segments segments);
void write(relay_cache & cache, int32_t p0, Segments segments, LayerRange layers);
// Rows of positions [p0, p1), which must lie in the live sequence. Throws Failure RELAY_STOPPED between
// two layers if `stop` is not null and set.
void read_rows(const relay_cache & cache, int32_t p0, int32_t p1, uint8_t * out, const relay_stop * stop);

}  // namespace relay
