// stop.h: a flag that any thread sets; the thread that computes reads it between graph nodes.
#pragma once

#include <atomic>

#include "failure.h"

struct relay_stop {
    std::atomic<bool> is_set{false};
};

namespace relay {

// Throws Failure RELAY_STOPPED if `stop` is not null and set.
inline void check_stop(const relay_stop * stop) {
    if (stop && stop->is_set.load(std::memory_order_relaxed)) {
        fail(RELAY_STOPPED, "stopped");
    }
}

}  // namespace relay
