// arena.h: the memory for one compute graph of our own: its nodes and tensors, without their data.
#pragma once

#include <cstddef>

#include "ggml.h"

namespace relay {

struct Arena {
    // Throws Failure RELAY_FAILED if memory runs out.
    explicit Arena(size_t n_nodes);
    ~Arena();
    Arena(const Arena &) = delete;
    Arena & operator=(const Arena &) = delete;

    ggml_context * ctx;
    ggml_cgraph * graph;
};

}  // namespace relay
