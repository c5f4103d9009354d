// cache_rows.h: rows in and out of the live sequence. relay.h says what each function does; here the arguments are
// checked but for handles.
#pragma once

#include "cache_segments.h"

namespace relay {

void append(relay_cache & cache, Segments segments);
void write(relay_cache & cache, int32_t p0, Segments segments, LayerRange layers);
// Rows of positions [p0, p1), which must lie in the live sequence. `stop`, if not null, is heeded between two layers.
void read_rows(const relay_cache & cache, int32_t p0, int32_t p1, uint8_t * out, const relay_stop * stop);

}  // namespace relay
