// draft.h: the part of a blueprint that wanted nodes need, as a graph of our own for some tokens. Weights and caches stay where they are, views of a
// cache end behind the cells in use, and inputs become our own tensors, for slice_inputs.h to fill.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "blueprint.h"
#include "context.h"

namespace relay {

class Draft {
  public:
    // Nodes behind `cut` (-1: none) are left out: it becomes the input "hidden".
    Draft(const Blueprint & blueprint, int64_t n_tokens, int64_t n_cells, int32_t cut, Arena & arena);

    // Once.
    void draw(const std::vector<int32_t> & wanted);

    ggml_tensor * tensor(int32_t node) const { return tensors_[node]; }
    // By the names that the blueprint gives them.
    std::vector<std::pair<std::string, ggml_tensor *>> inputs() const;

  private:
    std::vector<bool> needed_for(const std::vector<int32_t> & wanted) const;
    void draw_node(int32_t index);
    ggml_tensor * source(const Origin & origin);
    ggml_tensor * hidden();
    ggml_tensor * input(int32_t index);

    const Blueprint & blueprint_;
    const int64_t n_tokens_;
    const int64_t n_cells_;
    const int32_t cut_;
    Arena & arena_;
    std::vector<ggml_tensor *> tensors_;
    std::vector<ggml_tensor *> inputs_;
    ggml_tensor * hidden_ = nullptr;
};

}  // namespace relay
