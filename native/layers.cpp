#include "layers.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace relay {

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
        const bool is_layout = tensor->op == GGML_OP_VIEW || tensor->op == GGML_OP_RESHAPE || tensor->op == GGML_OP_CONT;
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

static Layer read_layer(const Graph & graph, const LayerNodes & nodes) {
    Layer layer;
    layer.k = graph.cache_of(nodes.k_write);
    layer.v = graph.cache_of(nodes.v_write);
    layer.k_row = ggml_row_size(layer.k->type, layer.k->ne[0]);
    layer.v_row = ggml_row_size(layer.v->type, layer.v->ne[0]);
    layer.n_attn = nodes.attention ? nodes.attention->ne[0] * nodes.attention->ne[1] : 0;
    layer.n_head = nodes.attention ? nodes.attention->ne[1] : 0;
    const ggml_tensor * rope = behind_layout(graph, graph.source(nodes.k_write, 0), &layer.n_hadamard);
    if (rope && rope->op == GGML_OP_ROPE) {
        layer.has_rope = true;
        layer.k_head = rope->ne[0];
        memcpy(layer.rope, rope->op_params, sizeof(layer.rope));
        layer.factors = graph.source(rope, 2);
    }
    return layer;
}

static void read_masks(const Graph & graph, const std::vector<LayerNodes> & nodes, Layers & layers) {
    std::vector<const ggml_tensor *> masks;
    for (size_t il = 0; il < nodes.size(); ++il) {
        if (!nodes[il].attention) {
            continue;
        }
        float max_bias;
        memcpy(&max_bias, nodes[il].attention->op_params + 1, sizeof(max_bias));
        layers.has_alibi = layers.has_alibi || max_bias > 0.0f;
        const ggml_tensor * mask = graph.source(nodes[il].attention, 3);
        auto at = std::find(masks.begin(), masks.end(), mask);
        if (at == masks.end()) {
            at = masks.insert(at, mask);
            layers.masks.push_back(backend_of_copy(mask));
            layers.n_kinds = std::max(layers.n_kinds, (int32_t) std::count(layers.masks.begin(), layers.masks.end(), layers.masks.back()));
        }
        layers.all[il].mask = (int32_t) (at - masks.begin());
    }
}

Layers read_layers(const Graph & graph, const ModelFacts & facts) {
    const std::vector<LayerNodes> nodes = find_layer_nodes(graph, facts.n_layer);
    const std::string refusal = rows_refusal(graph, nodes);
    if (!refusal.empty()) {
        fail(RELAY_UNSUPPORTED, "%s", refusal.c_str());
    }
    Layers layers;
    for (const LayerNodes & layer : nodes) {
        layers.all.push_back(read_layer(graph, layer));
    }
    read_masks(graph, nodes, layers);
    layers.n_cells = layers.all[0].k->ne[1];
    layers.rotate_refusal = rotate_refusal(graph, nodes, layers);
    layers.slice_refusal = slice_refusal(graph, nodes, layers, facts);
    return layers;
}

}  // namespace relay
