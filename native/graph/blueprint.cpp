#include "graph/blueprint.h"

#include <cstring>
#include <unordered_map>

namespace relay {

namespace {

// Reads the nodes and inputs of one graph. Every number is a constant (step 0).
class Reader {
  public:
    Reader(const Graph & graph, const Layers & layers, const std::vector<int32_t> & n_window)
        : graph_(graph), layers_(layers), n_window_(n_window) {}

    Blueprint read() {
        for (ggml_tensor * node : graph_.nodes()) {
            index_[node] = (int32_t) index_.size();
            blueprint_.nodes.push_back(read_node(node));
        }
        const int32_t n_layer = (int32_t) layers_.all.size();
        const std::vector<LayerNodes> found = find_layer_nodes(graph_, n_layer);
        for (int32_t il = 0; il < n_layer; ++il) {
            ggml_tensor * leaving = il + 1 < n_layer ? entering(graph_, il + 1) : nullptr;
            blueprint_.layers.push_back({index_.at(found[il].k_write), index_.at(found[il].v_write),
                                         index_.at(graph_.source(found[il].v_write, 0)), index_.at(found[il].attention),
                                         leaving ? index_.at(leaving) : -1});
        }
        blueprint_.logits = index_.at(graph_.find("result_output"));
        return std::move(blueprint_);
    }

  private:
    Node read_node(const ggml_tensor * tensor) {
        Node node;
        node.name = tensor->name;
        node.type = tensor->type;
        node.op = tensor->op;
        node.flags = tensor->flags & ~(GGML_TENSOR_FLAG_INPUT | GGML_TENSOR_FLAG_OUTPUT);
        for (int d = 0; d < GGML_MAX_DIMS; ++d) {
            node.ne[d] = {tensor->ne[d]};
            node.nb[d] = {(int64_t) tensor->nb[d]};
        }
        int32_t params[GGML_MAX_OP_PARAMS / sizeof(int32_t)];
        memcpy(params, tensor->op_params, sizeof(params));
        for (size_t i = 0; i < std::size(params); ++i) {
            node.op_params[i] = {params[i]};
        }
        node.view_offset = {(int64_t) tensor->view_offs};
        node.view = origin(graph_.view_source(tensor), tensor);
        for (int j = 0; j < GGML_MAX_SRC; ++j) {
            node.sources[j] = origin(graph_.source(tensor, j), tensor);
        }
        node.slots_dim = slots_dim(tensor);
        return node;
    }

    // Attention reads VIEW → PERMUTE (→ CPY to F16) of a cache; in the reserved graph these span all slots.
    int32_t slots_dim(const ggml_tensor * node) const {
        const bool is_permuted = node->op == GGML_OP_PERMUTE || node->op == GGML_OP_CPY;
        const int32_t dim = node->op == GGML_OP_VIEW ? 2 : is_permuted ? 1 : -1;
        return dim >= 0 && node->ne[dim] == layers_.n_slots && graph_.cache_of(node) ? dim : -1;
    }

    Origin origin(ggml_tensor * source, const ggml_tensor * user) {
        if (!source) {
            return {};
        }
        if (is_resident(source)) {
            return {Origin::resident, 0, source};
        }
        if (!is_input(source)) {
            return {Origin::node, index_.at(source), nullptr};
        }
        return {Origin::input, input(source, user), nullptr};
    }

    int32_t input(const ggml_tensor * source, const ggml_tensor * user) {
        Input found = {plain_name(source), source->type, {}, false};
        for (int d = 0; d < GGML_MAX_DIMS; ++d) {
            found.ne[d] = {source->ne[d]};
        }
        if (found.name == "attn_inp_kq_mask") {
            const int32_t il = layer_of(graph_.cache_of(graph_.source(user, 1))->name, "cache_k_l");
            found.name = "mask-" + std::to_string(n_window_[il]);
            found.spans_slots = true;
        } else if (found.name == "attn_inp_k_rot" || found.name == "attn_inp_v_rot") {
            found.name += "-" + std::to_string(source->ne[0]);
        }
        const auto [at, is_new] = inputs_.emplace(found.name, (int32_t) blueprint_.inputs.size());
        if (is_new) {
            blueprint_.inputs.push_back(found);
        }
        return at->second;
    }

    const Graph & graph_;
    const Layers & layers_;
    const std::vector<int32_t> & n_window_;
    Blueprint blueprint_;
    std::unordered_map<const ggml_tensor *, int32_t> index_;
    std::unordered_map<std::string, int32_t> inputs_;
};

bool is_same(const Origin & a, const Origin & b) {
    return a.kind == b.kind && a.index == b.index && a.tensor == b.tensor;
}

// Whether two nodes are equal but for their numbers.
bool is_same_kind(const Node & a, const Node & b) {
    bool is_equal = a.name == b.name && a.type == b.type && a.op == b.op && a.flags == b.flags &&
                    a.slots_dim == b.slots_dim && is_same(a.view, b.view);
    for (int j = 0; j < GGML_MAX_SRC; ++j) {
        is_equal = is_equal && is_same(a.sources[j], b.sources[j]);
    }
    return is_equal;
}

bool is_same_kind(const Input & a, const Input & b) {
    return a.name == b.name && a.type == b.type && a.spans_slots == b.spans_slots;
}

bool is_same_kind(const Blueprint & a, const Blueprint & b) {
    bool is_equal = a.nodes.size() == b.nodes.size() && a.inputs.size() == b.inputs.size() && a.logits == b.logits;
    for (size_t i = 0; is_equal && i < a.nodes.size(); ++i) {
        is_equal = is_same_kind(a.nodes[i], b.nodes[i]);
    }
    for (size_t i = 0; is_equal && i < a.inputs.size(); ++i) {
        is_equal = is_same_kind(a.inputs[i], b.inputs[i]);
    }
    return is_equal;
}

// Calls `visit(number of a, number of b)` for every number of two blueprints, until it gives false. Whether it never
// did.
template <typename A, typename Visit>
bool all_numbers(A & a, const Blueprint & b, Visit && visit) {
    bool is_good = true;
    for (size_t i = 0; is_good && i < a.nodes.size(); ++i) {
        auto & node = a.nodes[i];
        const Node & other = b.nodes[i];
        for (int d = 0; d < GGML_MAX_DIMS; ++d) {
            is_good = is_good && visit(node.ne[d], other.ne[d]) && visit(node.nb[d], other.nb[d]);
        }
        for (size_t j = 0; j < std::size(node.op_params); ++j) {
            is_good = is_good && visit(node.op_params[j], other.op_params[j]);
        }
        is_good = is_good && visit(node.view_offset, other.view_offset);
    }
    for (size_t i = 0; is_good && i < a.inputs.size(); ++i) {
        for (int d = 0; d < GGML_MAX_DIMS; ++d) {
            is_good = is_good && visit(a.inputs[i].ne[d], b.inputs[i].ne[d]);
        }
    }
    return is_good;
}

}  // namespace

Blueprint read_blueprint(const Graph & graph, const Layers & layers, const std::vector<int32_t> & n_window) {
    return Reader(graph, layers, n_window).read();
}

bool generalize(Blueprint & a, int64_t n_a, const Blueprint & b, int64_t n_b) {
    return is_same_kind(a, b) && all_numbers(a, b, [&](Affine & x, const Affine & y) {
               const int64_t difference = y.base - x.base;
               x.step = difference / (n_b - n_a);
               x.base -= x.step * n_a;
               return difference % (n_b - n_a) == 0;
           });
}

bool foretells(const Blueprint & general, const Blueprint & exact, int64_t n_tokens) {
    return is_same_kind(general, exact) &&
           all_numbers(general, exact, [&](const Affine & x, const Affine & y) { return x.at(n_tokens) == y.base; });
}

}  // namespace relay
