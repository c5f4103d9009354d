// graph/nodes.h: where a layer's nodes stand in a reserved graph. llama.cpp's node names are known here.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"

namespace relay {

// The nodes of one layer that a slice or a check asks for. They are valid as long as the graph.
struct LayerNodes {
    ggml_tensor * k_write = nullptr;  // SET_ROWS into the K cache
    ggml_tensor * v_write = nullptr;
    ggml_tensor * attention = nullptr;  // the flash-attention node
    int32_t n_attentions = 0;           // more than one: other layers read this cache
};

std::vector<LayerNodes> find_layer_nodes(const Graph & graph, int32_t n_layer);

// The residual stream that enters layer `il`. Null for layer 0, and if the graph has no such node.
ggml_tensor * entering(const Graph & graph, int32_t il);
// The node whose value `tensor` stores, behind views, copies, a norm without weights, and the Hadamard product of a
// cache. `n_hadamard` gets the size of that matrix.
ggml_tensor * behind_layout(const Graph & graph, ggml_tensor * tensor, int64_t * n_hadamard);
// The layer number behind `prefix` in `name` ("cache_k_l12", "l_out-12 (view)"), or -1.
int32_t layer_of(const char * name, const char * prefix);

}  // namespace relay
