// layers.h: what the model's compute graph says about its layers: caches, RoPE, masks. Read once at open; decides what can be rotated and sliced.
#pragma once

#include <string>
#include <vector>

#include "ggml.h"
#include "failure.h"

namespace relay {

struct Layer {
    ggml_tensor * k = nullptr;        // cache, [k width, n_cells]
    ggml_tensor * v = nullptr;
    bool has_rope = false;            // K's last operation before the cache is this RoPE (Hadamard rotation of the cache aside)
    int32_t rope[16] = {};            // op_params of the ROPE node
    ggml_tensor * factors = nullptr;  // RoPE frequency factors, may be null
    ggml_tensor * hadamard = nullptr; // graph input that holds the cache's Hadamard rotation, may be null
    int64_t k_head = 0;               // width of one K head
    int32_t group = 0;                // layers of one group share mask and cell inputs
    size_t k_row = 0;                 // bytes of one token's row
    size_t v_row = 0;
};

struct Layers {
    std::vector<Layer> all;
    int32_t n_groups = 0;
    int64_t n_embd = 0;
    int64_t n_attn = 0;
    int64_t n_cells = 0;
    std::string rotate_refusal;       // why K rows cannot be moved, "" if they can
    std::string slice_refusal;        // why layer ranges cannot be recomputed, "" if they can

    size_t token_bytes() const;
};

// Throws Failure RELAY_UNSUPPORTED if this model has no rows that can be read and placed.
Layers read_layers(ggml_cgraph * graph, int32_t n_layer);

// The layer number that ends `name` ("cache_k_l12", "l_out-12", also with a suffix such as " (view)"), or -1; `prefix` is what stands before it.
int32_t layer_of(const char * name, const char * prefix);

}  // namespace relay
