// backends.h: our own scheduler over the devices that hold the model. It computes graphs whose weights and caches lie
// in buffers already.
#pragma once

#include <vector>

#include "ggml-backend.h"
#include "graph/graph.h"
#include "stop.h"

namespace relay {

class Backends {
  public:
    Backends() = default;
    Backends(const Backends &) = delete;
    Backends & operator=(const Backends &) = delete;
    ~Backends();

    // Call it once. Computes on the devices that hold these weights and caches, and on the CPU as the last. `max_nodes`
    // is the most that a graph may have. Throws Failure RELAY_FAILED.
    void open(const Residents & residents, int max_nodes, int n_threads, relay_stop * stop);

    // Allocates the graph's own tensors; set its inputs after this and before compute(). Both throw Failure, also
    // RELAY_STOPPED.
    void allocate(ggml_cgraph * graph);
    void compute(ggml_cgraph * graph);
    int max_nodes() const { return max_nodes_; }

  private:
    void add(ggml_backend_dev_t device, int n_threads, relay_stop * stop);

    std::vector<ggml_backend_t> backends_;
    ggml_backend_sched_t sched_ = nullptr;
    int max_nodes_ = 0;
    relay_stop * stop_ = nullptr;
};

}  // namespace relay
