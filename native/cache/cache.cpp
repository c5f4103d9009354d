#include "cache/cache.h"

#include <algorithm>

int32_t relay_cache::length() const {
    return llama_memory_seq_pos_max(memory, relay::live_seq) + 1;
}

int32_t relay_cache::n_window(int32_t il) const {
    const bool is_windowed =
        layers_by_cache.size() > 1 && std::count(layers_by_cache[1].begin(), layers_by_cache[1].end(), il) > 0;
    return is_windowed ? facts.window.n : 0;
}
