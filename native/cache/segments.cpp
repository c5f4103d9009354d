#include "cache/segments.h"

#include <algorithm>

namespace relay {

int32_t Segments::n_tokens() const {
    int64_t n = 0;
    for (const relay_segment & segment : *this) {
        n += segment.n;
    }
    return (int32_t) std::min<int64_t>(n, INT32_MAX);
}

void check_segments(const relay_cache & cache, Segments segments) {
    require(segments.data != nullptr && segments.size > 0, "segments are needed");
    for (const relay_segment & s : segments) {
        require(s.n > 0, "a segment needs at least one token");
        const bool is_inside = s.first >= 0 && s.n_tokens > 0 && s.first <= s.n_tokens - s.n;
        require(!s.data || is_inside, "a segment reaches outside its data");
        if (s.data && s.delta != 0 && !cache.rotate_refusal.empty()) {
            fail(RELAY_UNSUPPORTED, "rows cannot be moved: %s", cache.rotate_refusal.c_str());
        }
    }
}

const uint8_t * rows_of(const Layers & layers, int32_t il, bool is_v, const relay_segment & segment) {
    size_t bytes = 0;  // of one token, before the layer's rows
    for (int32_t i = 0; i < (int32_t) layers.all.size(); ++i) {
        bytes += is_v || i < il ? layers.all[i].k_row : 0;
        bytes += is_v && i < il ? layers.all[i].v_row : 0;
    }
    const size_t row = is_v ? layers.all[il].v_row : layers.all[il].k_row;
    return segment.data + bytes * segment.n_tokens + row * segment.first;
}

}  // namespace relay
