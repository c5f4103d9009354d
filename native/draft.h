// draft.h: the part of a blueprint that wanted nodes need, as a graph of our own for some tokens. Weights and caches stay where they are, views of a
// cache end behind the cells in use, and inputs become our own tensors, for slice_inputs.h to fill.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attention.h"
#include "blueprint.h"
#include "context.h"

namespace relay {

struct DraftOptions {
    int64_t n_tokens;
    int64_t n_cells;                 // in use
    int32_t cut;                     // nodes behind this one (-1: none) are left out, and it becomes the input "hidden"
    std::vector<QueryBlock> blocks;  // flash attention is written out in these (attention.h); empty: it is kept
};

class Draft {
  public:
    Draft(const Blueprint & blueprint, Arena & arena, const DraftOptions & options);

    // Once.
    void draw(const std::vector<int32_t> & wanted);

    ggml_tensor * tensor(int32_t node) const { return tensors_[node]; }
    // The flash-attention node itself, which is not in the graph if it was written out.
    const ggml_tensor * attention(int32_t node) const { return attentions_.at(node); }
    // By the names that the blueprint gives them.
    std::vector<std::pair<std::string, ggml_tensor *>> inputs() const;

  private:
    std::vector<bool> needed_for(const std::vector<int32_t> & wanted) const;
    void draw_node(int32_t index);
    ggml_tensor * source(const Origin & origin);
    ggml_tensor * hidden();
    ggml_tensor * input(int32_t index);

    const Blueprint & blueprint_;
    Arena & arena_;
    const DraftOptions options_;
    std::vector<ggml_tensor *> tensors_;
    std::unordered_map<int32_t, ggml_tensor *> attentions_;
    std::vector<ggml_tensor *> inputs_;
    ggml_tensor * hidden_ = nullptr;
};

}  // namespace relay
