// cells.cpp: rows in and out of the live sequence. New cells come from a composed state (layout: llama_kv_cache::state_write in llama.cpp's
// src/llama-kv-cache.cpp) that is set on the scratch sequence and then handed to the live one, which moves metadata only.
#include <algorithm>
#include <cstring>

#include "context.h"
#include "handles.h"
#include "stop.h"

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

    template <typename T> void put(T value) { memcpy(take(sizeof(T)), &value, sizeof(T)); }

    size_t size() const { return n_; }

  private:
    std::vector<uint8_t> & bytes_;
    size_t n_ = 0;
};

int32_t count(const relay_segment * segments, int32_t n_segments) {
    int64_t n = 0;
    for (int32_t i = 0; i < n_segments; ++i) {
        n += segments[i].n;
    }
    return n > INT32_MAX ? INT32_MAX : (int32_t) n;
}

// A cell that waits for its rows is told apart from any other by its position, written as small finite numbers of every cache type.
void fill_marker(uint8_t * row, size_t n_bytes, int32_t position) {
    memset(row, 0, n_bytes);
    for (size_t i = 0; i + 1 < n_bytes && i < 8; i += 2) {
        row[i] = (uint8_t) (1 + (position >> (i / 2 * 7) & 0x7f));
    }
}

std::vector<uint8_t> marker(size_t n_bytes, int32_t position) {
    std::vector<uint8_t> row(n_bytes);
    fill_marker(row.data(), n_bytes, position);
    return row;
}

// Where the K rows (or V rows) of layer il of a segment begin.
const uint8_t * rows_of(const Layers & layers, int32_t il, bool is_v, const relay_segment & segment) {
    size_t bytes = 0;
    for (int32_t i = 0; i < (int32_t) layers.all.size(); ++i) {
        bytes += is_v || i < il ? layers.all[i].k_row : 0;
        bytes += is_v && i < il ? layers.all[i].v_row : 0;
    }
    return segment.data + bytes * segment.n_run + (is_v ? layers.all[il].v_row : layers.all[il].k_row) * segment.first;
}

void put_rows(const relay_context & relay, StateWriter & state, int32_t il, bool is_v, const relay_segment * segments, int32_t n_segments) {
    const Layer & layer = relay.layers.all[il];
    const size_t row = is_v ? layer.v_row : layer.k_row;
    state.put<int32_t>((is_v ? layer.v : layer.k)->type);
    state.put<uint64_t>(row);
    int32_t position = relay.length();
    for (int32_t i = 0; i < n_segments; ++i) {
        const relay_segment & segment = segments[i];
        uint8_t * to = state.take(row * segment.n);
        if (segment.data) {
            memcpy(to, rows_of(relay.layers, il, is_v, segment), row * segment.n);
        } else {
            for (int32_t j = 0; j < segment.n; ++j) {
                fill_marker(to + row * j, row, position + j);
            }
        }
        position += segment.n;
    }
}

void put_cache(const relay_context & relay, StateWriter & state, const std::vector<int32_t> & layers, const relay_segment * segments, int32_t n_segments) {
    const int32_t n = count(segments, n_segments);
    const int32_t p0 = relay.length();
    state.put<uint32_t>(1);  // streams
    state.put<uint32_t>((uint32_t) n);
    for (int32_t i = 0; i < n; ++i) {
        state.put<llama_pos>(p0 + i);
        state.put<uint32_t>(1);
        state.put<llama_seq_id>(scratch_seq);
    }
    state.put<uint32_t>(0);  // V is not transposed
    state.put<uint32_t>((uint32_t) layers.size());
    for (const int32_t il : layers) {
        put_rows(relay, state, il, false, segments, n_segments);
    }
    for (const int32_t il : layers) {
        put_rows(relay, state, il, true, segments, n_segments);
    }
}

void check_segments(const relay_context & relay, const relay_segment * segments, int32_t n_segments) {
    require(segments != nullptr && n_segments > 0, "segments are needed");
    for (int32_t i = 0; i < n_segments; ++i) {
        const relay_segment & s = segments[i];
        require(s.n > 0, "a segment needs at least one token");
        require(!s.data || (s.first >= 0 && s.n_run > 0 && s.first <= s.n_run - s.n), "a segment reaches outside its run");
        if (s.data && s.delta != 0 && !relay.layers.rotate_refusal.empty()) {
            fail(RELAY_UNSUPPORTED, "rows cannot be moved: %s", relay.layers.rotate_refusal.c_str());
        }
    }
}

std::vector<uint8_t> k_row(const relay_context & relay, int32_t il, int32_t cell) {
    const Layer & layer = relay.layers.all[il];
    std::vector<uint8_t> row(layer.k_row);
    ggml_backend_tensor_get(layer.k, row.data(), layer.k_row * cell, layer.k_row);
    return row;
}

std::vector<uint8_t> expected_k_row(const relay_context & relay, int32_t il, const relay_segment & segment, int32_t j, int32_t position) {
    std::vector<uint8_t> row(relay.layers.all[il].k_row);
    if (segment.data) {
        memcpy(row.data(), rows_of(relay.layers, il, false, segment) + row.size() * j, row.size());
    } else {
        fill_marker(row.data(), row.size(), position);
    }
    return row;
}

void clear(relay_context & relay) {
    llama_memory_clear(relay.memory, false);
}

void check_identity(relay_context & relay, int32_t p0, const relay_segment * segments, int32_t n_segments) {
    int32_t position = p0;
    for (int32_t i = 0; i < n_segments; ++i) {
        const int32_t last = segments[i].n - 1;
        for (const int32_t j : {0, last}) {
            for (const int32_t il : relay.witnesses) {
                if (k_row(relay, il, position + j) != expected_k_row(relay, il, segments[i], j, position + j)) {
                    clear(relay);
                    fail(RELAY_BREACH, "cell %d does not hold position %d; the live sequence was cleared", position + j, position + j);
                }
            }
        }
        position += segments[i].n;
    }
}

// Composes a state on the scratch sequence and hands its cells to the live one.
void place(relay_context & relay, const std::vector<relay_segment> & segments) {
    const int32_t p0 = relay.length();
    const int32_t n_segments = (int32_t) segments.size();
    StateWriter state(relay.state);
    state.put<uint32_t>(relay.state_magic);
    state.put<llama_seq_id>(scratch_seq);
    for (const std::vector<int32_t> & layers : relay.caches) {
        put_cache(relay, state, layers, segments.data(), n_segments);
    }
    llama_memory_seq_rm(relay.memory, scratch_seq, -1, -1);
    if (llama_state_seq_set_data(relay.ctx, relay.state.data(), state.size(), scratch_seq) == 0) {
        fail(RELAY_FAILED, "llama.cpp refused %zu bytes of rows", state.size());
    }
    llama_memory_seq_cp(relay.memory, scratch_seq, live_seq, -1, -1);
    llama_memory_seq_rm(relay.memory, scratch_seq, -1, -1);
    check_identity(relay, p0, segments.data(), n_segments);
}

// The composed state is a second copy of the rows: a long append is placed piece by piece.
void place_in_pieces(relay_context & relay, const relay_segment * segments, int32_t n_segments) {
    const int32_t most = (int32_t) std::max<size_t>(1, most_state_bytes / relay.layers.token_bytes());
    std::vector<relay_segment> piece;
    int32_t n = 0;
    for (int32_t i = 0; i < n_segments; ++i) {
        for (int32_t done = 0; done < segments[i].n;) {
            relay_segment part = segments[i];
            part.first += done;
            part.n = std::min(most - n, part.n - done);
            piece.push_back(part);
            done += part.n;
            n += part.n;
            if (n == most) {
                place(relay, piece);
                piece.clear();
                n = 0;
            }
        }
    }
    if (n > 0) {
        place(relay, piece);
    }
}

void write_layer(relay_context & relay, int32_t p0, const relay_segment * segments, int32_t n_segments, int32_t il) {
    const Layer & layer = relay.layers.all[il];
    for (int32_t i = 0, position = p0; i < n_segments; position += segments[i++].n) {
        if (segments[i].data) {
            ggml_backend_tensor_set(layer.k, rows_of(relay.layers, il, false, segments[i]), layer.k_row * position, layer.k_row * segments[i].n);
            ggml_backend_tensor_set(layer.v, rows_of(relay.layers, il, true, segments[i]), layer.v_row * position, layer.v_row * segments[i].n);
        }
    }
}

// The segments whose K is rotated for other positions than theirs.
std::vector<Run> moved_runs(const relay_segment * segments, int32_t n_segments, int32_t p0) {
    std::vector<Run> runs;
    for (int32_t i = 0, position = p0; i < n_segments; position += segments[i++].n) {
        if (segments[i].data && segments[i].delta != 0) {
            runs.push_back({position, segments[i].n, segments[i].delta});
        }
    }
    return runs;
}

}  // namespace

void read_rows(const relay_context & relay, int32_t p0, int32_t p1, uint8_t * out, const relay_stop * stop) {
    const size_t n = (size_t) (p1 - p0);
    for (const Layer & layer : relay.layers.all) {
        check_stop(stop);
        ggml_backend_tensor_get(layer.k, out, layer.k_row * p0, layer.k_row * n);
        out += layer.k_row * n;
    }
    for (const Layer & layer : relay.layers.all) {
        check_stop(stop);
        ggml_backend_tensor_get(layer.v, out, layer.v_row * p0, layer.v_row * n);
        out += layer.v_row * n;
    }
}

void append(relay_context & relay, const relay_segment * segments, int32_t n_segments) {
    check_segments(relay, segments, n_segments);
    const int32_t n = count(segments, n_segments);
    const int32_t p0 = relay.length();
    if (n > relay.n_cells() - p0) {
        fail(RELAY_NO_SPACE, "%d more cells do not fit: %d of %d are in use", n, p0, relay.n_cells());
    }
    try {
        place_in_pieces(relay, segments, n_segments);
        rotate(relay, moved_runs(segments, n_segments, p0), {0, relay.n_layer()});
    } catch (...) {
        llama_memory_seq_rm(relay.memory, live_seq, p0, -1);
        throw;
    }
}

void write(relay_context & relay, int32_t p0, const relay_segment * segments, int32_t n_segments, LayerRange layers) {
    check_segments(relay, segments, n_segments);
    require(p0 >= 0 && p0 <= relay.length() && count(segments, n_segments) <= relay.length() - p0, "positions outside the live sequence");
    require(0 <= layers.first && layers.first <= layers.end && layers.end <= relay.n_layer(), "layer range outside the model");
    llama_synchronize(relay.ctx);
    for (int32_t il = layers.first; il < layers.end; ++il) {
        check_stop(relay.stop);
        write_layer(relay, p0, segments, n_segments, il);
    }
    rotate(relay, moved_runs(segments, n_segments, p0), layers);
}

}  // namespace relay

using namespace relay;

int relay_length(const relay_context * relay, int32_t * n) {
    return guarded([&] {
        require_open(relay, "relay");
        require(n != nullptr, "n is null");
        *n = relay->length();
    });
}

int relay_truncate(relay_context * relay, int32_t p0) {
    return guarded([&] {
        require_open(relay, "relay");
        require(p0 >= 0 && p0 <= relay->length(), "position outside the live sequence");
        if (p0 == 0) {
            clear(*relay);
        } else if (!llama_memory_seq_rm(relay->memory, live_seq, p0, -1)) {
            fail(RELAY_UNSUPPORTED, "this model's memory cannot be cut at position %d", p0);
        }
    });
}

int relay_append(relay_context * relay, const relay_segment * segments, int32_t n_segments) {
    return guarded([&] {
        require_open(relay, "relay");
        append(*relay, segments, n_segments);
    });
}

int relay_write(relay_context * relay, int32_t p0, const relay_segment * segments, int32_t n_segments, int32_t first, int32_t end) {
    return guarded([&] {
        require_open(relay, "relay");
        write(*relay, p0, segments, n_segments, {first, end});
    });
}

int relay_read(relay_context * relay, int32_t p0, int32_t p1, uint8_t * out, size_t n_out, int32_t heeds_stop) {
    return guarded([&] {
        require_open(relay, "relay");
        require(p0 >= 0 && p0 <= p1 && p1 <= relay->length(), "positions outside the live sequence");
        require(n_out == (size_t) (p1 - p0) * relay->layers.token_bytes(), "buffer is not (p1 - p0) x bytes of a token");
        require(out != nullptr || n_out == 0, "out is null");
        if (p0 < p1) {
            llama_synchronize(relay->ctx);
            read_rows(*relay, p0, p1, out, heeds_stop ? relay->stop : nullptr);
        }
    });
}

int relay_mark(relay_context * relay, int32_t last) {
    return guarded([&] {
        require_open(relay, "relay");
        require(last >= relay->length() && last < relay->n_cells(), "position is not a free cell");
        llama_synchronize(relay->ctx);
        for (const int32_t il : relay->witnesses) {
            const Layer & layer = relay->layers.all[il];
            const std::vector<uint8_t> row = marker(layer.k_row, last);
            ggml_backend_tensor_set(layer.k, row.data(), layer.k_row * last, layer.k_row);
        }
    });
}

int relay_check(relay_context * relay, int32_t last) {
    return guarded([&] {
        require_open(relay, "relay");
        require(last >= 0 && last < relay->n_cells(), "position outside the cache");
        llama_synchronize(relay->ctx);
        bool is_written = relay->length() == last + 1;
        for (const int32_t il : relay->witnesses) {
            is_written = is_written && k_row(*relay, il, last) != marker(relay->layers.all[il].k_row, last);
        }
        if (!is_written) {
            fail(RELAY_BREACH, "cell %d does not hold position %d", last, last);
        }
    });
}
