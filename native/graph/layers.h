// graph/layers.h: what the model's compute graph says about its layers: caches, RoPE, masks. Read once at open; keeps
// no node of that graph.
#pragma once

#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/nodes.h"

namespace relay {

struct Layer {
    ggml_tensor * k = nullptr;        // llama.cpp's cache of K rows, [k width, n_slots]
    ggml_tensor * v = nullptr;        // of V rows, [v width, n_slots]
    bool has_rope = false;            // this RoPE rotates K; without one, K does not depend on its position
    int32_t rope[16] = {};            // op_params of the ROPE node
    ggml_tensor * factors = nullptr;  // RoPE frequency factors, may be null
    int64_t k_head = 0;               // width of one K head
    int64_t n_hadamard = 0;           // size of the Hadamard matrix that K passes before it is quantized, 0: none
    int64_t n_attn = 0;               // width of the attention output, 0 if there is no flash-attention node
    int64_t n_head = 0;               // heads side by side in it
    int32_t mask = 0;                 // the mask that its attention reads, an index of Layers::masks
    size_t k_row = 0;                 // bytes of one K row
    size_t v_row = 0;
};

struct Layers {
    std::vector<Layer> all;
    // For each mask, the backend that it was copied to. Nothing tells which of two masks a copy stands for.
    std::vector<std::string> masks;
    int32_t n_kinds = 0;  // masks that certainly differ, because one backend has them both
    int64_t n_slots = 0;
    bool has_alibi = false;  // masks hold distances

    // Bytes of all rows of one token.
    size_t token_bytes() const;
};

// `nodes` are those of each layer; they must pass rows_refusal (graph/refusals.h).
Layers read_layers(const Graph & graph, const std::vector<LayerNodes> & nodes);

}  // namespace relay
