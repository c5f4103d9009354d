#include "stop.h"

relay_stop * relay_stop_new(void) {
    return new (std::nothrow) relay_stop;
}

void relay_stop_free(relay_stop * stop) {
    delete stop;
}

void relay_stop_set(relay_stop * stop, int32_t is_set) {
    if (stop) {
        stop->is_set.store(is_set != 0, std::memory_order_relaxed);
    }
}

int32_t relay_stop_get(const relay_stop * stop) {
    return stop && stop->is_set.load(std::memory_order_relaxed);
}

bool relay_stop_callback(void * data) {
    return relay_stop_get(static_cast<const relay_stop *>(data)) != 0;
}
