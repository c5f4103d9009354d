#include "backends.h"

#include <algorithm>

#include "failure.h"

namespace relay {

// ggml ends the process if a graph's nodes, weights and inputs are more than its scheduler was made for. The scheduler
// reserves 20 kB of address space for each.
static constexpr int with_sources = 3;

Backends::~Backends() {
    ggml_backend_sched_free(sched_);
    for (ggml_backend_t backend : backends_) {
        ggml_backend_free(backend);
    }
}

void Backends::add(ggml_backend_dev_t device, int n_threads, relay_stop * stop) {
    ggml_backend_t backend = ggml_backend_dev_init(device, nullptr);
    if (!backend) {
        fail(RELAY_FAILED, "cannot open the device %s", ggml_backend_dev_name(device));
    }
    backends_.push_back(backend);
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(device);
    if (auto set_threads =
            (ggml_backend_set_n_threads_t) ggml_backend_reg_get_proc_address(reg, "ggml_backend_set_n_threads")) {
        set_threads(backend, n_threads);
    }
    if (auto set_abort = (ggml_backend_set_abort_callback_t) ggml_backend_reg_get_proc_address(
            reg, "ggml_backend_set_abort_callback")) {
        set_abort(backend, relay_stop_callback, stop);
    }
}

void Backends::open(const Residents & residents, int max_nodes, int n_threads, relay_stop * stop) {
    max_nodes_ = max_nodes;
    stop_ = stop;
    std::vector<ggml_backend_dev_t> devices;
    for (const auto & [name, tensor] : residents) {
        ggml_backend_dev_t device = ggml_backend_buft_get_device(ggml_backend_buffer_get_type(tensor->buffer));
        const bool is_new = device && ggml_backend_dev_type(device) != GGML_BACKEND_DEVICE_TYPE_CPU &&
                            std::find(devices.begin(), devices.end(), device) == devices.end();
        if (is_new) {
            devices.push_back(device);
        }
    }
    devices.push_back(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
    for (ggml_backend_dev_t device : devices) {
        add(device, n_threads, stop);
    }
    sched_ = ggml_backend_sched_new(backends_.data(), nullptr, (int) backends_.size(),
                                    (size_t) max_nodes * with_sources, false, true);
    if (!sched_) {
        fail(RELAY_FAILED, "cannot make a scheduler over %zu backends", backends_.size());
    }
}

void Backends::allocate(ggml_cgraph * graph) {
    if (ggml_graph_n_nodes(graph) > max_nodes_) {
        fail(RELAY_UNSUPPORTED, "a compute graph of %d nodes is larger than %d", ggml_graph_n_nodes(graph), max_nodes_);
    }
    check_stop(stop_);  // a device without abort callbacks computes a graph to its end
    ggml_backend_sched_reset(sched_);
    if (!ggml_backend_sched_alloc_graph(sched_, graph)) {
        fail(RELAY_FAILED, "no memory for a compute graph of %d nodes", ggml_graph_n_nodes(graph));
    }
}

void Backends::compute(ggml_cgraph * graph) {
    const ggml_status status = ggml_backend_sched_graph_compute(sched_, graph);
    if (status == GGML_STATUS_ABORTED) {
        fail(RELAY_STOPPED, "stopped");
    }
    if (status != GGML_STATUS_SUCCESS) {
        fail(RELAY_FAILED, "ggml could not compute the graph (status %d)", (int) status);
    }
}

}  // namespace relay
