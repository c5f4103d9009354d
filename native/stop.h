// stop.h: a flag that one thread sets and a computation on another thread reads between graph nodes.
#pragma once

#include <atomic>

#include "failure.h"

struct relay_stop {
    std::atomic<bool> is_set{false};
};
