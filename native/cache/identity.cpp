#include "cache/identity.h"

#include <cstring>

#include "handles.h"

namespace relay {

void fill_marker(uint8_t * row, size_t n_bytes, int32_t position) {
    memset(row, 0, n_bytes);
    for (size_t i = 0; i + 1 < n_bytes && i < 8; i += 2) {
        row[i] = (uint8_t) (1 + (position >> (i / 2 * 7) & 0x7f));
    }
}

namespace {

std::vector<uint8_t> marker(size_t n_bytes, int32_t position) {
    std::vector<uint8_t> row(n_bytes);
    fill_marker(row.data(), n_bytes, position);
    return row;
}

std::vector<uint8_t> k_row(const relay_cache & cache, int32_t il, int32_t slot) {
    const Layer & layer = cache.layers.all[il];
    std::vector<uint8_t> row(layer.k_row);
    ggml_backend_tensor_get(layer.k, row.data(), layer.k_row * slot, layer.k_row);
    return row;
}

// Of token j of a segment, which stands at `position`.
std::vector<uint8_t> expected_k_row(const relay_cache & cache, int32_t il, const relay_segment & segment, int32_t j,
                                    int32_t position) {
    const size_t n_bytes = cache.layers.all[il].k_row;
    if (!segment.data) {
        return marker(n_bytes, position);
    }
    const uint8_t * row = rows_of(cache.layers, il, false, segment) + n_bytes * j;
    return std::vector<uint8_t>(row, row + n_bytes);
}

}  // namespace

void check_identity(relay_cache & cache, int32_t p0, Segments segments) {
    for (const relay_segment & segment : segments) {
        for (const int32_t j : {0, segment.n - 1}) {
            for (const int32_t il : cache.witnesses) {
                if (k_row(cache, il, p0 + j) != expected_k_row(cache, il, segment, j, p0 + j)) {
                    llama_memory_clear(cache.memory, false);
                    fail(RELAY_BREACH, "slot %d does not hold position %d; the live sequence was cleared", p0 + j,
                         p0 + j);
                }
            }
        }
        p0 += segment.n;
    }
}

}  // namespace relay

using namespace relay;

int relay_cache_mark(relay_cache * cache, int32_t last) {
    return guarded([&] {
        require_open(cache, "cache");
        require(last >= cache->length() && last < cache->n_slots(), "position is not a free slot");
        llama_synchronize(cache->ctx);
        for (const int32_t il : cache->witnesses) {
            const Layer & layer = cache->layers.all[il];
            const std::vector<uint8_t> row = marker(layer.k_row, last);
            ggml_backend_tensor_set(layer.k, row.data(), layer.k_row * last, layer.k_row);
        }
    });
}

int relay_cache_check(relay_cache * cache, int32_t last) {
    return guarded([&] {
        require_open(cache, "cache");
        require(last >= 0 && last < cache->n_slots(), "position outside the cache");
        llama_synchronize(cache->ctx);
        bool is_written = cache->length() == last + 1;
        for (const int32_t il : cache->witnesses) {
            is_written = is_written && k_row(*cache, il, last) != marker(cache->layers.all[il].k_row, last);
        }
        if (!is_written) {
            fail(RELAY_BREACH, "slot %d does not hold position %d", last, last);
        }
    });
}
