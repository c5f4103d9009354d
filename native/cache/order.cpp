#include "cache/order.h"

#include "cache/rows.h"
#include "cache/state.h"

namespace relay {

namespace {

constexpr int32_t n_probe_tokens = 2;
constexpr size_t most_masks = 16;  // two on each of eight backends: 256 round trips at most

// The layers of each of llama.cpp's caches.
using Order = std::vector<std::vector<int32_t>>;

// Bit i of `windowed` says that mask i is a windowed one. Two masks of one backend differ, so they cannot both be
// windowed, nor both be full.
bool is_contradictory(const Layers & layers, uint32_t windowed) {
    for (size_t i = 0; i < layers.masks.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
            if (layers.masks[i] == layers.masks[j] && (windowed >> i & 1) == (windowed >> j & 1)) {
                return true;
            }
        }
    }
    return false;
}

// Either all layers lie in one cache, or their masks spread them over a full cache and a windowed one
// (llama_kv_cache_iswa::state_write writes the full one first). The first order tried takes the mask of layer 0 for a
// windowed one, which is so in the models seen so far.
std::vector<Order> possible_orders(const Layers & layers, size_t n_caches) {
    std::vector<Order> orders;
    const uint32_t n_ways = n_caches < 2 ? 1 : 1u << layers.masks.size();
    for (uint32_t way = 0; way < n_ways; ++way) {
        const uint32_t windowed = n_caches < 2 ? 0 : way ^ 1;
        if (n_caches > 1 && is_contradictory(layers, windowed)) {
            continue;
        }
        Order & order = orders.emplace_back(n_caches);
        for (int32_t il = 0; il < (int32_t) layers.all.size(); ++il) {
            order[windowed >> layers.all[il].mask & 1].push_back(il);
        }
    }
    return orders;
}

// Rows that differ in every layer, so that a wrong order shows. Bytes stay small: finite numbers in every cache type.
std::vector<uint8_t> patterned_rows(const Layers & layers) {
    std::vector<uint8_t> rows(layers.token_bytes() * n_probe_tokens);
    for (size_t i = 0, salt = 1; i < rows.size(); ++i) {
        salt = salt * 6364136223846793005u + 1442695040888963407u;
        rows[i] = (uint8_t) (salt >> 58);
    }
    return rows;
}

bool round_trip(relay_cache & cache, const std::vector<uint8_t> & rows) {
    bool is_equal = false;
    try {
        relay_segment segment = {};
        segment.data = rows.data();
        segment.n_tokens = segment.n = n_probe_tokens;
        append(cache, {&segment, 1});
        std::vector<uint8_t> back(rows.size());
        read_rows(cache, 0, n_probe_tokens, back.data(), nullptr);
        is_equal = back == rows;
    } catch (const Failure &) {
        is_equal = false;
    }
    llama_memory_clear(cache.memory, true);
    return is_equal;
}

std::vector<int32_t> first_of_each(const Order & order) {
    std::vector<int32_t> first;
    for (const std::vector<int32_t> & layers : order) {
        if (!layers.empty()) {
            first.push_back(layers[0]);
        }
    }
    return first;
}

}  // namespace

void settle_order(relay_cache & cache) {
    const size_t n_caches = read_state_header(cache);
    if (n_caches > 1 && cache.layers.masks.size() > most_masks) {
        fail(RELAY_UNSUPPORTED, "the layers of this windowed model are spread over too many devices: %zu masks",
             cache.layers.masks.size());
    }
    const std::vector<uint8_t> rows = patterned_rows(cache.layers);
    for (const Order & order : possible_orders(cache.layers, n_caches)) {
        cache.layers_by_cache = order;
        cache.witnesses = first_of_each(order);
        if (round_trip(cache, rows)) {
            return;
        }
    }
    fail(RELAY_UNSUPPORTED, "rows that were placed do not read back from where they belong");
}

}  // namespace relay
