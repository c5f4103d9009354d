// graph/graph.h: a read-only view of a graph that llama.cpp reserved, with the scheduler's rewiring undone. Knows
// names and sources, no meaning.
//
// With several backends, ggml_backend_sched_split_graph replaces sources by per-backend copies named
// "<backend>#<name>#<n>" (ggml-backend.cpp). A copy stands for the nearest earlier node of that name, shape and type.
// If there is none, it stands for the weight or cache of that name, and otherwise for the graph input.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ggml.h"
#include "llama.h"

namespace relay {

// Weights and caches by name.
using Residents = std::unordered_map<std::string, ggml_tensor *>;

// llama.cpp's compute graph of n tokens. Valid until the next reserve on that context. Throws Failure RELAY_FAILED.
ggml_cgraph * reserve_graph(llama_context * ctx, int32_t n_tokens);

class Graph {
  public:
    // `known`: the weights and caches that copies may stand for; may be null.
    explicit Graph(ggml_cgraph * graph, const Residents * known = nullptr);

    const std::vector<ggml_tensor *> & nodes() const { return nodes_; }
    // The last node of that name, or null.
    ggml_tensor * find(const std::string & name) const;
    // Source j of a node, or null: another node, a tensor in a buffer (weight, cache), or a graph input.
    ggml_tensor * source(const ggml_tensor * node, int j) const;
    // The tensor that a node is a view of, or null.
    ggml_tensor * view_source(const ggml_tensor * node) const;
    // The cache that a node is a view or a cast of, or null.
    ggml_tensor * cache_of(const ggml_tensor * node) const;
    // The nodes and inputs that `roots` are computed from, and `roots` themselves, without weights and caches.
    // The search ends at `cut` (may be null), which is among the result if it is reached.
    std::unordered_set<ggml_tensor *> behind(std::vector<ggml_tensor *> roots, const ggml_tensor * cut) const;

  private:
    ggml_tensor * original(ggml_tensor * tensor, const ggml_tensor * user) const;

    const Residents * known_;
    std::vector<ggml_tensor *> nodes_;
    std::unordered_map<const ggml_tensor *, int32_t> order_;
    std::unordered_map<std::string, std::vector<int32_t>> by_name_;
};

// The weights and caches that the graph's nodes read.
Residents find_residents(const Graph & graph);

// Name of a tensor without the scheduler's wrapping.
std::string plain_name(const ggml_tensor * tensor);
// The backend that the scheduler made this copy for, "" for any other tensor.
std::string backend_of_copy(const ggml_tensor * tensor);
// A weight or a cache: it was in a buffer before the graph was made.
bool is_resident(const ggml_tensor * tensor);
// An input of the graph: computed from nothing, the host sets it before each computation.
bool is_input(const ggml_tensor * tensor);

}  // namespace relay
