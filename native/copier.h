// copier.h: copies the part of a reserved graph that wanted nodes need into a graph of our own. Weights and caches stay where they are, views of a
// cache end behind the cells in use, and inputs become our own tensors, for slice_inputs.h to fill.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "context.h"
#include "graph.h"

namespace relay {

class Copier {
  public:
    // Nodes behind `cut` (may be null) are left out: it becomes the input "hidden".
    Copier(const relay_context & relay, const Graph & graph, const ggml_tensor * cut, Arena & arena);

    // Throws Failure. Once.
    void copy(const std::vector<ggml_tensor *> & wanted);

    ggml_tensor * copied(const ggml_tensor * node) const { return copies_.at(node); }
    // By name; a mask by "mask-<window>", a Hadamard matrix by its name and size.
    const std::map<std::string, ggml_tensor *> & inputs() const { return inputs_; }

  private:
    ggml_tensor * copy_node(ggml_tensor * node);
    ggml_tensor * own_source(ggml_tensor * source, const ggml_tensor * user);
    ggml_tensor * input(const std::string & name, const ggml_tensor * like, int64_t ne0, int64_t ne1);
    void narrow(const ggml_tensor * node, ggml_tensor * own) const;

    const relay_context & relay_;
    const Graph & graph_;
    const ggml_tensor * cut_;
    Arena & arena_;
    int64_t n_kv_;
    std::unordered_map<const ggml_tensor *, ggml_tensor *> copies_;
    std::map<std::string, ggml_tensor *> inputs_;
};

}  // namespace relay
