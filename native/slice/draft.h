// slice/draft.h: the part of a blueprint that wanted nodes need, as a graph of our own for some tokens. Weights and
// caches stay where they are, views of a cache end behind the slots in use, and inputs become our own tensors, which
// slice/inputs.h fills.
#pragma once

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "arena.h"
#include "graph/attention.h"
#include "graph/blueprint.h"

namespace relay {

struct DraftOptions {
    int64_t n_tokens;
    int64_t n_slots;  // slots that attention runs over
    int32_t cut;      // this node becomes the input "hidden", and what it is computed from is left out; -1: none
    std::vector<QueryBlock>
        blocks;  // attention is written out in these (graph/attention.h); empty: it stays flash attention
};

class Draft {
  public:
    Draft(const Blueprint & blueprint, Arena & arena, const DraftOptions & options);

    // Adds these nodes of the blueprint, and all that they need, to the arena's graph. Call it once.
    void draw(const std::vector<int32_t> & wanted);

    // Our tensor for a node of the blueprint.
    ggml_tensor * tensor(int32_t node) const { return tensors_[node]; }
    // The flash-attention node itself. It is not in the graph if it was written out.
    const ggml_tensor * attention(int32_t node) const { return attentions_.at(node); }
    // The graph's inputs, by the names that the blueprint gives them.
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
