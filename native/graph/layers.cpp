#include "graph/layers.h"

#include <algorithm>
#include <cstring>

namespace relay {

size_t Layers::token_bytes() const {
    size_t n = 0;
    for (const Layer & layer : all) {
        n += layer.k_row + layer.v_row;
    }
    return n;
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
            layers.n_kinds = std::max(
                layers.n_kinds, (int32_t) std::count(layers.masks.begin(), layers.masks.end(), layers.masks.back()));
        }
        layers.all[il].mask = (int32_t) (at - masks.begin());
    }
}

Layers read_layers(const Graph & graph, const std::vector<LayerNodes> & nodes) {
    Layers layers;
    for (const LayerNodes & layer : nodes) {
        layers.all.push_back(read_layer(graph, layer));
    }
    read_masks(graph, nodes, layers);
    layers.n_slots = layers.all[0].k->ne[1];
    return layers;
}

}  // namespace relay
