// backends.h: our own scheduler over the devices that hold the model. Computes graphs whose weights and caches already lie in buffers.
#pragma once

#include <vector>

#include "ggml-backend.h"
#include "graph.h"
#include "stop.h"

namespace relay {

class Backends {
  public:
    Backends() = default;
    Backends(const Backends &) = delete;
    Backends & operator=(const Backends &) = delete;
    ~Backends();

    // The buffers of weights and caches name the devices to compute on; the CPU is always the last. `max_nodes`: of the graphs to come.
    void open(const Residents & residents, int max_nodes, int n_threads, relay_stop * stop);

    // Allocates the graph's own tensors; set the inputs after this and before compute(). Throws Failure, RELAY_STOPPED too.
    void allocate(ggml_cgraph * graph);
    int max_nodes() const { return max_nodes_; }
    void compute(ggml_cgraph * graph);

  private:
    void add(ggml_backend_dev_t device, int n_threads, relay_stop * stop);

    std::vector<ggml_backend_t> backends_;
    ggml_backend_sched_t sched_ = nullptr;
    int max_nodes_ = 0;
    relay_stop * stop_ = nullptr;
};

}  // namespace relay
