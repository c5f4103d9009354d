#include "layers.h"

#include <cstdlib>
#include <cstring>
#include <set>

#include "graph.h"

namespace relay {

static const std::set<std::string> known_inputs = {
    "inp_tokens", "inp_pos", "attn_inp_k_idxs", "attn_inp_v_idxs", "attn_inp_kq_mask", "attn_inp_k_rot", "attn_inp_v_rot", "out_ids",
};

size_t Layers::token_bytes() const {
    size_t n = 0;
    for (const Layer & layer : all) {
        n += layer.k_row + layer.v_row;
    }
    return n;
}

int32_t layer_of(const char * name, const char * prefix) {
    const size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0 || name[n] < '0' || name[n] > '9') {
        return -1;
    }
    return (int32_t) strtol(name + n, nullptr, 10);
}

// Views, reshapes and copies that only rearrange; a Hadamard rotation of the cache is noted on the way.
static ggml_tensor * behind_layout(const Graph & graph, ggml_tensor * tensor, ggml_tensor ** hadamard) {
    while (tensor) {
        ggml_tensor * first = graph.source(tensor, 0);
        if (tensor->op == GGML_OP_VIEW || tensor->op == GGML_OP_RESHAPE || tensor->op == GGML_OP_CONT) {
            tensor = first;
        } else if (tensor->op == GGML_OP_MUL_MAT && first && is_input(first) && plain_name(first) == "attn_inp_k_rot") {
            *hadamard = first;
            tensor = graph.source(tensor, 1);
        } else {
            return tensor;
        }
    }
    return nullptr;
}

static void read_write_node(const Graph & graph, ggml_tensor * node, Layers & layers) {
    ggml_tensor * cache = graph.view_source(node);
    const int32_t k_layer = cache ? layer_of(cache->name, "cache_k_l") : -1;
    const int32_t v_layer = cache ? layer_of(cache->name, "cache_v_l") : -1;
    const int32_t il = k_layer >= 0 ? k_layer : v_layer;
    if (il < 0 || il >= (int32_t) layers.all.size()) {
        return;
    }
    Layer & layer = layers.all[il];
    if (v_layer >= 0) {
        layer.v = cache;
        layer.v_row = ggml_row_size(cache->type, cache->ne[0]);
        return;
    }
    layer.k = cache;
    layer.k_row = ggml_row_size(cache->type, cache->ne[0]);
    const ggml_tensor * rope = behind_layout(graph, graph.source(node, 0), &layer.hadamard);
    if (rope && rope->op == GGML_OP_ROPE) {
        layer.has_rope = true;
        layer.k_head = rope->ne[0];
        memcpy(layer.rope, rope->op_params, sizeof(layer.rope));
        layer.factors = graph.source(rope, 2);
    }
}

static int32_t cache_layer_of_attention(const Graph & graph, const ggml_tensor * node) {
    const ggml_tensor * k = node->op == GGML_OP_FLASH_ATTN_EXT ? graph.source(node, 1) : nullptr;
    const ggml_tensor * cache = k ? graph.view_source(k) : nullptr;
    return cache ? layer_of(cache->name, "cache_k_l") : -1;
}

static std::string rows_refusal(const Layers & layers) {
    for (size_t il = 0; il < layers.all.size(); ++il) {
        const Layer & layer = layers.all[il];
        if (!layer.k || !layer.v) {
            return "layer " + std::to_string(il) + " keeps no K and V rows of its own (recurrent, hybrid, MLA or shared cache)";
        }
        if (layer.k->ne[2] != 1 || layer.v->ne[2] != 1) {
            return "the KV cache is split into streams (unified cache needed)";
        }
        if (layer.v->ne[1] != layer.k->ne[1] || layer.k->ne[1] != layers.all[0].k->ne[1]) {
            return "the layers' caches differ in size (full-size sliding-window cache needed)";
        }
    }
    return "";
}

static std::string rotate_refusal(const Layers & layers) {
    for (size_t il = 0; il < layers.all.size(); ++il) {
        const Layer & layer = layers.all[il];
        if (!layer.has_rope) {
            return "layer " + std::to_string(il) + " does not write K straight from RoPE";
        }
        const bool is_plain = layer.rope[2] == GGML_ROPE_TYPE_NORMAL || layer.rope[2] == GGML_ROPE_TYPE_NEOX;
        if (!is_plain) {
            return "positions of more than one dimension (M-RoPE)";
        }
        if (layer.k->ne[0] % layer.k_head != 0) {
            return "K heads of unequal width";
        }
    }
    return "";
}

static std::string slice_refusal(const Graph & graph, const Layers & layers, const std::set<int32_t> & attended) {
    const int32_t n_layer = (int32_t) layers.all.size();
    for (int32_t il = 0; il < n_layer; ++il) {
        if (!attended.count(il)) {
            return "layer " + std::to_string(il) + " has no flash-attention node";
        }
        if (il + 1 < n_layer && !graph.find("l_out-" + std::to_string(il))) {
            return "the graph has no node l_out-" + std::to_string(il);
        }
    }
    if (!graph.find("result_output")) {
        return "the graph has no node result_output";
    }
    for (const ggml_tensor * node : graph.nodes()) {
        for (int j = 0; j < GGML_MAX_SRC; ++j) {
            const ggml_tensor * source = graph.source(node, j);
            if (source && is_input(source) && !known_inputs.count(plain_name(source))) {
                return "the graph has an input that is not known here: " + plain_name(source);
            }
        }
    }
    return "";
}

Layers read_layers(ggml_cgraph * reserved, int32_t n_layer) {
    const Graph graph(reserved);
    Layers layers;
    layers.all.resize(n_layer);
    std::set<int32_t> attended;
    std::vector<const ggml_tensor *> masks;
    for (ggml_tensor * node : graph.nodes()) {
        if (node->op == GGML_OP_SET_ROWS) {
            read_write_node(graph, node, layers);
        }
        const int32_t il = cache_layer_of_attention(graph, node);
        if (il < 0 || il >= n_layer) {
            continue;
        }
        attended.insert(il);
        layers.n_attn = node->ne[0] * node->ne[1];
        const ggml_tensor * mask = graph.source(node, 3);
        size_t group = 0;
        while (group < masks.size() && masks[group] != mask) {
            ++group;
        }
        if (group == masks.size()) {
            masks.push_back(mask);
        }
        layers.all[il].group = (int32_t) group;
    }
    const std::string refusal = rows_refusal(layers);
    if (!refusal.empty()) {
        fail(RELAY_UNSUPPORTED, "%s", refusal.c_str());
    }
    layers.n_groups = (int32_t) masks.size();
    layers.n_cells = layers.all[0].k->ne[1];
    layers.rotate_refusal = rotate_refusal(layers);
    layers.slice_refusal = slice_refusal(graph, layers, attended);
    const ggml_tensor * residual = graph.find("l_out-0");
    layers.n_embd = residual ? residual->ne[0] : 0;
    return layers;
}

}  // namespace relay
