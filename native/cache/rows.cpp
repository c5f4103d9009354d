#include "cache/rows.h"

#include "cache/rotate.h"
#include "cache/state.h"
#include "handles.h"

namespace relay {

namespace {

void write_layer(relay_cache & cache, int32_t p0, Segments segments, int32_t il) {
    const Layer & layer = cache.layers.all[il];
    for (const relay_segment & segment : segments) {
        if (segment.data) {
            const uint8_t * k = rows_of(cache.layers, il, false, segment);
            const uint8_t * v = rows_of(cache.layers, il, true, segment);
            ggml_backend_tensor_set(layer.k, k, layer.k_row * p0, layer.k_row * segment.n);
            ggml_backend_tensor_set(layer.v, v, layer.v_row * p0, layer.v_row * segment.n);
        }
        p0 += segment.n;
    }
}

// What the rows of these segments need once they are placed from position p0 on.
std::vector<Move> moves_of(Segments segments, int32_t p0) {
    std::vector<Move> moves;
    for (const relay_segment & segment : segments) {
        if (segment.data && segment.delta != 0) {
            moves.push_back({p0, p0 + segment.n, segment.delta});
        }
        p0 += segment.n;
    }
    return moves;
}

}  // namespace

void append(relay_cache & cache, Segments segments) {
    check_segments(cache, segments);
    const int32_t n = segments.n_tokens();
    const int32_t p0 = cache.length();
    if (n > cache.n_slots() - p0) {
        fail(RELAY_NO_SPACE, "%d more slots do not fit: %d of %d are in use", n, p0, cache.n_slots());
    }
    try {
        place(cache, segments);
        rotate(cache, moves_of(segments, p0), {0, cache.n_layer()});
    } catch (...) {
        llama_memory_seq_rm(cache.memory, live_seq, p0, -1);
        throw;
    }
}

void write(relay_cache & cache, int32_t p0, Segments segments, LayerRange layers) {
    check_segments(cache, segments);
    const int32_t length = cache.length();
    require(p0 >= 0 && p0 <= length && segments.n_tokens() <= length - p0, "positions outside the live sequence");
    const bool is_inside = 0 <= layers.first && layers.first <= layers.end && layers.end <= cache.n_layer();
    require(is_inside, "layer range outside the model");
    llama_synchronize(cache.ctx);
    for (int32_t il = layers.first; il < layers.end; ++il) {
        check_stop(cache.stop);
        write_layer(cache, p0, segments, il);
    }
    rotate(cache, moves_of(segments, p0), layers);
}

void read_rows(const relay_cache & cache, int32_t p0, int32_t p1, uint8_t * out, const relay_stop * stop) {
    const size_t n = (size_t) (p1 - p0);
    for (const Layer & layer : cache.layers.all) {
        check_stop(stop);
        ggml_backend_tensor_get(layer.k, out, layer.k_row * p0, layer.k_row * n);
        out += layer.k_row * n;
    }
    for (const Layer & layer : cache.layers.all) {
        check_stop(stop);
        ggml_backend_tensor_get(layer.v, out, layer.v_row * p0, layer.v_row * n);
        out += layer.v_row * n;
    }
}

}  // namespace relay

using namespace relay;

int relay_cache_length(const relay_cache * cache, int32_t * n) {
    return guarded([&] {
        require_open(cache, "cache");
        require(n != nullptr, "n is null");
        *n = cache->length();
    });
}

int relay_cache_truncate(relay_cache * cache, int32_t p0) {
    return guarded([&] {
        require_open(cache, "cache");
        require(p0 >= 0 && p0 <= cache->length(), "position outside the live sequence");
        if (p0 == 0) {
            llama_memory_clear(cache->memory, false);
        } else if (!llama_memory_seq_rm(cache->memory, live_seq, p0, -1)) {
            fail(RELAY_UNSUPPORTED, "this model's memory cannot be cut at position %d", p0);
        }
    });
}

int relay_cache_append(relay_cache * cache, const relay_segment * segments, int32_t n_segments) {
    return guarded([&] {
        require_open(cache, "cache");
        append(*cache, {segments, n_segments});
    });
}

int relay_cache_write(relay_cache * cache, int32_t p0, const relay_segment * segments, int32_t n_segments,
                      int32_t first, int32_t end) {
    return guarded([&] {
        require_open(cache, "cache");
        write(*cache, p0, {segments, n_segments}, {first, end});
    });
}

int relay_cache_read(relay_cache * cache, int32_t p0, int32_t p1, uint8_t * out, size_t n_out, int32_t heeds_stop) {
    return guarded([&] {
        require_open(cache, "cache");
        require(p0 >= 0 && p0 <= p1 && p1 <= cache->length(), "positions outside the live sequence");
        const size_t n_bytes = (size_t) (p1 - p0) * cache->layers.token_bytes();
        require(n_out == n_bytes, "buffer is not (p1 - p0) x bytes of a token");
        require(out != nullptr || n_out == 0, "out is null");
        if (p0 < p1) {
            llama_synchronize(cache->ctx);
            read_rows(*cache, p0, p1, out, heeds_stop ? cache->stop : nullptr);
        }
    });
}
