#include "stop.h"

#include "handles.h"

using namespace relay;

relay_stop * relay_stop_new(void) {
    relay_stop * stop = nullptr;
    guarded([&] { stop = Handles<relay_stop>::add(std::make_unique<relay_stop>()); });
    return stop;
}

void relay_stop_free(relay_stop * stop) {
    Handles<relay_stop>::close(stop);
}

void relay_stop_set(relay_stop * stop, int32_t is_set) {
    if (Handles<relay_stop>::has(stop)) {
        stop->is_set.store(is_set != 0, std::memory_order_relaxed);
    }
}

int32_t relay_stop_get(const relay_stop * stop) {
    return Handles<relay_stop>::has(stop) && stop->is_set.load(std::memory_order_relaxed);
}

// llama.cpp and ggml call this between all graph nodes, so it does not look at the open handles.
bool relay_stop_callback(void * data) {
    const auto * stop = static_cast<const relay_stop *>(data);
    return stop && stop->is_set.load(std::memory_order_relaxed);
}
