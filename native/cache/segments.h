// cache/segments.h: reads a caller's segments: checks them, counts their tokens, finds their rows.
#pragma once

#include "cache/cache.h"

namespace relay {

// A view of relay_segments, which the caller owns.
struct Segments {
    const relay_segment * data;
    int32_t size;

    const relay_segment * begin() const { return data; }
    const relay_segment * end() const { return data + size; }
    // Tokens of all of them, INT32_MAX if there are more.
    int32_t n_tokens() const;
};

// Throws Failure RELAY_BAD_ARGUMENT, or RELAY_UNSUPPORTED if a segment needs a rotation that this model refuses.
void check_segments(const relay_cache & cache, Segments segments);
// Where the K rows (or V rows) of layer `il` begin among the data of a segment that has data.
const uint8_t * rows_of(const Layers & layers, int32_t il, bool is_v, const relay_segment & segment);

}  // namespace relay
