// stop.h: a flag that one thread sets and a computation on another thread reads between graph nodes.
#pragma once

#include <atomic>

#include "failure.h"

struct relay_stop {
    std::atomic<bool> is_set{false};
};

namespace relay {

// Throws Failure RELAY_STOPPED if `stop` is there and set.
inline void check_stop(const relay_stop * stop) {
    if (stop && stop->is_set.load(std::memory_order_relaxed)) {
        fail(RELAY_STOPPED, "stopped");
    }
}

}  // namespace relay
