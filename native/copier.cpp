#include "copier.h"

#include <algorithm>
#include <cstring>

namespace relay {

static constexpr int64_t cell_padding = 256;  // llama_kv_cache::get_n_kv

Copier::Copier(const relay_context & relay, const Graph & graph, const ggml_tensor * cut, Arena & arena)
    : relay_(relay), graph_(graph), cut_(cut), arena_(arena) {
    const int64_t padded = (relay.length() + cell_padding - 1) / cell_padding * cell_padding;
    n_kv_ = std::min<int64_t>(std::max(padded, cell_padding), relay.n_cells());
}

void Copier::copy(const std::vector<ggml_tensor *> & wanted) {
    const std::unordered_set<ggml_tensor *> needed = graph_.behind(wanted, cut_);
    for (ggml_tensor * node : graph_.nodes()) {
        if (needed.count(node) && node != cut_) {
            ggml_build_forward_expand(arena_.graph, copy_node(node));  // counts leaves too; keeps the order, since sources stand before
        }
    }
}

// Attention reads VIEW → PERMUTE (→ CPY to F16) of a cache; in the reserved graph these span all cells.
void Copier::narrow(const ggml_tensor * node, ggml_tensor * own) const {
    const int cells_dim = node->op == GGML_OP_VIEW ? 2 : node->op == GGML_OP_PERMUTE || node->op == GGML_OP_CPY ? 1 : -1;
    if (cells_dim < 0 || node->ne[cells_dim] != relay_.n_cells() || !graph_.cache_of(node)) {
        return;
    }
    own->ne[cells_dim] = n_kv_;
    if (node->op == GGML_OP_CPY) {
        own->nb[2] = own->nb[1] * own->ne[1];
        own->nb[3] = own->nb[2] * own->ne[2];
    }
}

ggml_tensor * Copier::copy_node(ggml_tensor * node) {
    ggml_tensor * own = ggml_new_tensor(arena_.ctx, node->type, GGML_MAX_DIMS, node->ne);
    copies_[node] = own;
    memcpy(own->nb, node->nb, sizeof(own->nb));
    memcpy(own->op_params, node->op_params, sizeof(own->op_params));
    ggml_set_name(own, node->name);
    own->op = node->op;
    own->flags = node->flags & ~(GGML_TENSOR_FLAG_INPUT | GGML_TENSOR_FLAG_OUTPUT);
    own->view_offs = node->view_offs;
    narrow(node, own);
    ggml_tensor * root = graph_.view_source(node);
    own->view_src = root ? own_source(root, node) : nullptr;
    for (int j = 0; j < GGML_MAX_SRC; ++j) {
        ggml_tensor * source = graph_.source(node, j);
        own->src[j] = source ? own_source(source, node) : nullptr;
    }
    return own;
}

ggml_tensor * Copier::own_source(ggml_tensor * source, const ggml_tensor * user) {
    if (is_resident(source)) {
        return source;
    }
    if (source == cut_) {
        return input("hidden", source, source->ne[0], source->ne[1]);
    }
    if (!is_input(source)) {
        return copies_.at(source);
    }
    const std::string name = plain_name(source);
    if (name == "attn_inp_kq_mask") {
        const int32_t il = layer_of(graph_.cache_of(graph_.source(user, 1))->name, "cache_k_l");
        return input("mask-" + std::to_string(relay_.n_window(il)), source, n_kv_, source->ne[1]);
    }
    const bool is_matrix = name == "attn_inp_k_rot" || name == "attn_inp_v_rot";
    return input(is_matrix ? name + "-" + std::to_string(source->ne[0]) : name, source, source->ne[0], source->ne[1]);
}

ggml_tensor * Copier::input(const std::string & name, const ggml_tensor * like, int64_t ne0, int64_t ne1) {
    ggml_tensor *& own = inputs_[name];
    if (!own) {
        own = ggml_new_tensor_3d(arena_.ctx, like->type, ne0, ne1, like->ne[2]);
        ggml_set_name(own, name.c_str());
        ggml_set_input(own);
    }
    return own;
}

}  // namespace relay
