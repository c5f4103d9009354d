#include "cache/state.h"

#include <algorithm>
#include <cstring>

#include "cache/identity.h"

namespace relay {

namespace {

constexpr size_t most_state_bytes = size_t(64) << 20;

// Writes into a buffer that only grows: its memory is touched once, not cleared before.
class StateWriter {
  public:
    explicit StateWriter(std::vector<uint8_t> & bytes) : bytes_(bytes) {}

    uint8_t * take(size_t n) {
        if (bytes_.size() < n_ + n) {
            bytes_.resize(n_ + n);
        }
        n_ += n;
        return bytes_.data() + n_ - n;
    }

    template <typename T>
    void put(T value) {
        memcpy(take(sizeof(T)), &value, sizeof(T));
    }

    size_t size() const { return n_; }

  private:
    std::vector<uint8_t> & bytes_;
    size_t n_ = 0;
};

void put_rows(const relay_cache & cache, StateWriter & state, int32_t il, bool is_v, Segments segments) {
    const Layer & layer = cache.layers.all[il];
    const size_t row = is_v ? layer.v_row : layer.k_row;
    state.put<int32_t>((is_v ? layer.v : layer.k)->type);
    state.put<uint64_t>(row);
    int32_t position = cache.length();
    for (const relay_segment & segment : segments) {
        uint8_t * to = state.take(row * segment.n);
        if (segment.data) {
            memcpy(to, rows_of(cache.layers, il, is_v, segment), row * segment.n);
        } else {
            for (int32_t j = 0; j < segment.n; ++j) {
                fill_marker(to + row * j, row, position + j);
            }
        }
        position += segment.n;
    }
}

void put_cache(const relay_cache & cache, StateWriter & state, const std::vector<int32_t> & layers, Segments segments) {
    const int32_t n = segments.n_tokens();
    const int32_t p0 = cache.length();
    state.put<uint32_t>(1);  // streams
    state.put<uint32_t>((uint32_t) n);
    for (int32_t i = 0; i < n; ++i) {
        state.put<llama_pos>(p0 + i);
        state.put<uint32_t>(1);
        state.put<llama_seq_id>(scratch_seq);
    }
    state.put<uint32_t>(0);  // V is not transposed
    state.put<uint32_t>((uint32_t) layers.size());
    for (const bool is_v : {false, true}) {
        for (const int32_t il : layers) {
            put_rows(cache, state, il, is_v, segments);
        }
    }
}

void place_at_once(relay_cache & cache, Segments segments) {
    const int32_t p0 = cache.length();
    StateWriter state(cache.state);
    state.put<uint32_t>(cache.state_magic);
    state.put<llama_seq_id>(scratch_seq);
    for (const std::vector<int32_t> & layers : cache.layers_by_cache) {
        put_cache(cache, state, layers, segments);
    }
    llama_memory_seq_rm(cache.memory, scratch_seq, -1, -1);
    if (llama_state_seq_set_data(cache.ctx, cache.state.data(), state.size(), scratch_seq) == 0) {
        fail(RELAY_FAILED, "llama.cpp refused %zu bytes of rows", state.size());
    }
    llama_memory_seq_cp(cache.memory, scratch_seq, live_seq, -1, -1);
    llama_memory_seq_rm(cache.memory, scratch_seq, -1, -1);
    check_identity(cache, p0, segments);
}

}  // namespace

size_t read_state_header(relay_cache & cache) {
    std::vector<uint8_t> empty(llama_state_seq_get_size(cache.ctx, live_seq));
    const size_t n = llama_state_seq_get_data(cache.ctx, empty.data(), empty.size(), live_seq);
    // A magic number and the sequence's id; then for each cache its streams and its slots.
    const size_t n_caches = n < 8 ? 0 : (n - 8) / 8;
    if (n != 8 + 8 * n_caches || n_caches < (size_t) cache.layers.n_kinds || n_caches > 2) {
        fail(RELAY_UNSUPPORTED, "llama.cpp's state of an empty sequence has %zu bytes for %d kinds of layers", n,
             cache.layers.n_kinds);
    }
    memcpy(&cache.state_magic, empty.data(), sizeof(cache.state_magic));
    return n_caches;
}

// The composed state is a second copy of the rows, so a long append is placed piece by piece.
void place(relay_cache & cache, Segments segments) {
    const int32_t most = (int32_t) std::max<size_t>(1, most_state_bytes / cache.layers.token_bytes());
    std::vector<relay_segment> piece;
    int32_t n = 0;
    for (const relay_segment & segment : segments) {
        for (int32_t done = 0; done < segment.n;) {
            relay_segment part = segment;
            part.first = segment.data ? segment.first + done : 0;
            part.n = std::min(most - n, part.n - done);
            piece.push_back(part);
            done += part.n;
            n += part.n;
            if (n == most) {
                place_at_once(cache, {piece.data(), (int32_t) piece.size()});
                piece.clear();
                n = 0;
            }
        }
    }
    if (n > 0) {
        place_at_once(cache, {piece.data(), (int32_t) piece.size()});
    }
}

}  // namespace relay
