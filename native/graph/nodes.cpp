#include "graph/nodes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace relay {

int32_t layer_of(const char * name, const char * prefix) {
    const size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0 || name[n] < '0' || name[n] > '9') {
        return -1;
    }
    return (int32_t) strtol(name + n, nullptr, 10);
}

ggml_tensor * entering(const Graph & graph, int32_t il) {
    return il > 0 ? graph.find("l_out-" + std::to_string(il - 1)) : nullptr;
}

std::vector<LayerNodes> find_layer_nodes(const Graph & graph, int32_t n_layer) {
    std::vector<LayerNodes> found(n_layer);
    for (ggml_tensor * node : graph.nodes()) {
        const bool is_write = node->op == GGML_OP_SET_ROWS;
        ggml_tensor * keys = node->op == GGML_OP_FLASH_ATTN_EXT ? graph.source(node, 1) : nullptr;
        const ggml_tensor * cache = is_write || keys ? graph.cache_of(is_write ? node : keys) : nullptr;
        const int32_t k = cache ? layer_of(cache->name, "cache_k_l") : -1;
        const int32_t v = cache ? layer_of(cache->name, "cache_v_l") : -1;
        if (std::max(k, v) < 0 || std::max(k, v) >= n_layer) {
            continue;
        }
        LayerNodes & layer = found[std::max(k, v)];
        (is_write ? (k >= 0 ? layer.k_write : layer.v_write) : layer.attention) = node;
        layer.n_attentions += is_write ? 0 : 1;
    }
    return found;
}

ggml_tensor * behind_layout(const Graph & graph, ggml_tensor * tensor, int64_t * n_hadamard) {
    while (tensor) {
        ggml_tensor * first = graph.source(tensor, 0);
        const bool is_layout =
            tensor->op == GGML_OP_VIEW || tensor->op == GGML_OP_RESHAPE || tensor->op == GGML_OP_CONT;
        if (is_layout || tensor->op == GGML_OP_RMS_NORM) {
            tensor = first;
        } else if (tensor->op == GGML_OP_MUL_MAT && first && is_input(first) && plain_name(first) == "attn_inp_k_rot") {
            *n_hadamard = first->ne[0];
            tensor = graph.source(tensor, 1);
        } else {
            return tensor;
        }
    }
    return nullptr;
}

}  // namespace relay
