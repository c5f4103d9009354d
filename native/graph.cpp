#include "graph.h"

namespace relay {

std::string plain_name(const ggml_tensor * tensor) {
    const std::string name = tensor->name;
    const size_t first = name.find('#');
    const size_t last = name.rfind('#');
    return first == last ? name : name.substr(first + 1, last - first - 1);
}

bool is_resident(const ggml_tensor * tensor) {
    return tensor->op == GGML_OP_NONE && tensor->buffer != nullptr && !(tensor->flags & GGML_TENSOR_FLAG_INPUT);
}

bool is_input(const ggml_tensor * tensor) {
    return tensor->op == GGML_OP_NONE && !is_resident(tensor);
}

static bool is_copy(const ggml_tensor * tensor) {
    return tensor->op == GGML_OP_NONE && plain_name(tensor) != tensor->name;
}

Graph::Graph(ggml_cgraph * graph) {
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        ggml_tensor * node = ggml_graph_node(graph, i);
        order_[node] = (int32_t) nodes_.size();
        by_name_[node->name].push_back((int32_t) nodes_.size());
        nodes_.push_back(node);
    }
}

ggml_tensor * Graph::find(const std::string & name) const {
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? nullptr : nodes_[it->second.back()];
}

ggml_tensor * Graph::original(ggml_tensor * tensor, const ggml_tensor * user) const {
    if (!tensor || !is_copy(tensor)) {
        return tensor;
    }
    const auto named = by_name_.find(plain_name(tensor));
    if (named == by_name_.end()) {
        return tensor;
    }
    const auto at = order_.find(user);
    const int32_t before = at == order_.end() ? (int32_t) nodes_.size() : at->second;
    ggml_tensor * nearest = nullptr;
    for (const int32_t i : named->second) {
        if (i < before && nodes_[i]->type == tensor->type && ggml_are_same_shape(nodes_[i], tensor)) {
            nearest = nodes_[i];
        }
    }
    return nearest ? nearest : tensor;
}

ggml_tensor * Graph::source(const ggml_tensor * node, int j) const {
    return original(node->src[j], node);
}

ggml_tensor * Graph::view_source(const ggml_tensor * node) const {
    return original(node->view_src, node);
}

}  // namespace relay
