// layers.h: what the model's compute graph says about its layers: caches, RoPE, masks. Read once at open; holds no node of that graph.
#pragma once

#include <string>
#include <vector>

#include "ggml.h"
#include "graph.h"
#include "model_facts.h"

namespace relay {

struct Layer {
    ggml_tensor * k = nullptr;        // cache, [k width, n_cells]
    ggml_tensor * v = nullptr;
    bool has_rope = false;            // K is turned by this RoPE; without it, K does not depend on its position
    int32_t rope[16] = {};            // op_params of the ROPE node
    ggml_tensor * factors = nullptr;  // RoPE frequency factors, may be null
    int64_t k_head = 0;               // width of one K head
    int64_t n_hadamard = 0;           // size of the matrix by which llama.cpp rotates K before it is quantized, 0: none
    int64_t n_attn = 0;               // width of the attention output, 0 if there is no flash-attention node
    int64_t n_head = 0;               // its heads, side by side
    int32_t mask = 0;                 // number of the mask that its attention reads
    size_t k_row = 0;                 // bytes of one token's row
    size_t v_row = 0;
};

struct Layers {
    std::vector<Layer> all;
    std::vector<std::string> masks;   // by its number, the backend that a mask was copied to: nothing tells which of two masks a copy stands for
    int32_t n_kinds = 0;              // masks that differ for sure, since one backend has them both
    int64_t n_cells = 0;
    bool has_alibi = false;           // masks hold distances
    std::string rotate_refusal;       // why K rows cannot be moved, "" if they can
    std::string slice_refusal;        // why layer ranges cannot be recomputed, "" if they can

    size_t token_bytes() const;
};

// The nodes of one layer that a slice or a check asks for; valid as long as the graph.
struct LayerNodes {
    ggml_tensor * k_write = nullptr;
    ggml_tensor * v_write = nullptr;
    ggml_tensor * attention = nullptr;
    int32_t n_attentions = 0;         // more than one: other layers read this cache
};

std::vector<LayerNodes> find_layer_nodes(const Graph & graph, int32_t n_layer);

// Throws Failure RELAY_UNSUPPORTED if this model has no rows that can be read and placed.
Layers read_layers(const Graph & graph, const ModelFacts & facts);

// Why not, one line, "" if it can be done. In refusals.cpp.
std::string rows_refusal(const Graph & graph, const std::vector<LayerNodes> & nodes);
std::string rotate_refusal(const Graph & graph, const std::vector<LayerNodes> & nodes, const Layers & layers);
std::string slice_refusal(const Graph & graph, const std::vector<LayerNodes> & nodes, const Layers & layers, const ModelFacts & facts);

// The node behind views, copies, a norm without weights and the Hadamard rotation of a cache; `n_hadamard` gets that one's size.
ggml_tensor * behind_layout(const Graph & graph, ggml_tensor * tensor, int64_t * n_hadamard);
// The node that enters layer `il`, null for layer 0 and if there is none.
ggml_tensor * entering(const Graph & graph, int32_t il);
// The layer number that ends `name` ("cache_k_l12", "l_out-12", also with a suffix such as " (view)"), or -1; `prefix` is what stands before it.
int32_t layer_of(const char * name, const char * prefix);

}  // namespace relay
