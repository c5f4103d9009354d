// graph/blueprint.h: the model's compute graph as a function of the number of tokens, read off the graphs that
// llama.cpp reserves for some sizes. Slices are made from it without asking llama.cpp again, because a reserve costs as
// much as a layer of 60 tokens (measured on SmolLM2: 1.3 ms against 1.0 ms).
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/layers.h"

namespace relay {

// A number of the graph: base + step · n_tokens.
struct Affine {
    int64_t base = 0;
    int64_t step = 0;

    int64_t at(int64_t n_tokens) const { return base + step * n_tokens; }
};

// Where a node's source comes from.
struct Origin {
    enum Kind { none, node, input, resident };

    Kind kind = none;
    int32_t index = 0;               // of the node or input
    ggml_tensor * tensor = nullptr;  // the weight or cache
};

struct Input {
    std::string name;  // plain_name; a mask's is "mask-<window>", a Hadamard matrix's ends in its size
    ggml_type type;
    Affine ne[GGML_MAX_DIMS];
    bool spans_slots = false;  // ne[0] is the number of slots in use
};

struct Node {
    std::string name;
    ggml_type type;
    ggml_op op;
    int32_t flags;
    Affine ne[GGML_MAX_DIMS];
    Affine nb[GGML_MAX_DIMS];
    Affine op_params[GGML_MAX_OP_PARAMS / sizeof(int32_t)];
    Affine view_offset;
    Origin view;
    Origin sources[GGML_MAX_SRC];
    int32_t slots_dim = -1;  // the dimension that spans the slots of a cache, -1: none
};

// Indices of the nodes that slices ask for.
struct LayerIndices {
    int32_t k_write;
    int32_t v_write;
    int32_t v;  // what v_write writes
    int32_t attention;
    int32_t leaving;  // the residual stream behind the layer; -1 for the last
};

struct Blueprint {
    std::vector<Node> nodes;  // in llama.cpp's order: attention reads what was written before it
    std::vector<Input> inputs;
    std::vector<LayerIndices> layers;
    int32_t logits = -1;
};

// The blueprint of one reserved graph, good for its number of tokens only. `n_window` gives each layer's window.
Blueprint read_blueprint(const Graph & graph, const Layers & layers, const std::vector<int32_t> & n_window);

// Makes `a`, of n_a tokens, good for any number of tokens by its differences to `b`, of n_b tokens. False if the two
// differ in more than numbers, or a difference is no whole multiple; `a` is of no use then.
bool generalize(Blueprint & a, int64_t n_a, const Blueprint & b, int64_t n_b);
// Whether `general` gives exactly `exact`, which is of n_tokens.
bool foretells(const Blueprint & general, const Blueprint & exact, int64_t n_tokens);

}  // namespace relay
