#include "graph/graph.h"

#include <cstring>

#include "failure.h"

// Of llama.cpp's staging API (src/llama-ext.h), a C++ symbol of libllama.
ggml_cgraph * llama_graph_reserve(llama_context * ctx, uint32_t n_tokens, uint32_t n_seqs, uint32_t n_outputs);

namespace relay {

ggml_cgraph * reserve_graph(llama_context * ctx, int32_t n_tokens) {
    ggml_cgraph * graph = llama_graph_reserve(ctx, (uint32_t) n_tokens, 1, 1);
    if (!graph) {
        fail(RELAY_FAILED, "llama.cpp could not reserve a graph for %d tokens", n_tokens);
    }
    return graph;
}

std::string plain_name(const ggml_tensor * tensor) {
    const std::string name = tensor->name;
    const size_t first = name.find('#');
    const size_t last = name.rfind('#');
    return first == last ? name : name.substr(first + 1, last - first - 1);
}

std::string backend_of_copy(const ggml_tensor * tensor) {
    const std::string name = tensor->name;
    const size_t first = name.find('#');
    return first == name.rfind('#') ? "" : name.substr(0, first);
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

static bool is_like(const ggml_tensor * a, const ggml_tensor * b) {
    return a->type == b->type && ggml_are_same_shape(a, b);
}

Graph::Graph(ggml_cgraph * graph, const Residents * known) : known_(known) {
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
    const std::string name = plain_name(tensor);
    const auto at = order_.find(user);
    const int32_t before = at == order_.end() ? (int32_t) nodes_.size() : at->second;
    ggml_tensor * nearest = nullptr;
    if (const auto named = by_name_.find(name); named != by_name_.end()) {
        for (const int32_t i : named->second) {
            nearest = i < before && is_like(nodes_[i], tensor) ? nodes_[i] : nearest;
        }
    }
    if (!nearest && known_) {
        const auto resident = known_->find(name);
        nearest = resident != known_->end() && is_like(resident->second, tensor) ? resident->second : nullptr;
    }
    return nearest ? nearest : tensor;
}

ggml_tensor * Graph::source(const ggml_tensor * node, int j) const {
    return original(node->src[j], node);
}

ggml_tensor * Graph::view_source(const ggml_tensor * node) const {
    return original(node->view_src, node);
}

ggml_tensor * Graph::cache_of(const ggml_tensor * node) const {
    const ggml_tensor * viewed = node->op == GGML_OP_CPY ? source(node, 0) : node;
    ggml_tensor * cache = viewed ? view_source(viewed) : nullptr;
    return cache && is_resident(cache) && strncmp(cache->name, "cache_", 6) == 0 ? cache : nullptr;
}

std::unordered_set<ggml_tensor *> Graph::behind(std::vector<ggml_tensor *> open, const ggml_tensor * cut) const {
    std::unordered_set<ggml_tensor *> found;
    while (!open.empty()) {
        ggml_tensor * node = open.back();
        open.pop_back();
        if (!node || is_resident(node) || !found.insert(node).second || node == cut) {
            continue;
        }
        for (int j = 0; j < GGML_MAX_SRC; ++j) {
            open.push_back(source(node, j));
        }
        open.push_back(view_source(node));
    }
    return found;
}

Residents find_residents(const Graph & graph) {
    Residents found;
    for (const ggml_tensor * node : graph.nodes()) {
        for (int j = 0; j < GGML_MAX_SRC; ++j) {
            ggml_tensor * source = graph.source(node, j);
            if (source && is_resident(source)) {
                found.emplace(source->name, source);
            }
        }
    }
    return found;
}

}  // namespace relay
