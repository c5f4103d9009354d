// slice.cpp: a layer range of the model's own compute graph, for chosen tokens. The graph that llama.cpp reserves is copied node by node from the
// wanted results back to the cut at the residual stream; weights and caches stay where they are, inputs become our own.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "context.h"
#include "graph.h"
#include "hadamard.h"

namespace relay {

namespace {

constexpr int32_t cell_padding = 256;  // llama_kv_cache::get_n_kv

std::string numbered(const char * name, int32_t il) {
    return std::string(name) + std::to_string(il);
}

// The nodes of one layer that a slice asks for.
struct LayerNodes {
    ggml_tensor * k_write = nullptr;
    ggml_tensor * v_write = nullptr;
    ggml_tensor * attention = nullptr;
};

std::vector<LayerNodes> find_layer_nodes(const Graph & graph, size_t n_layer) {
    std::vector<LayerNodes> found(n_layer);
    for (ggml_tensor * node : graph.nodes()) {
        const bool is_write = node->op == GGML_OP_SET_ROWS;
        ggml_tensor * keys = node->op == GGML_OP_FLASH_ATTN_EXT ? graph.source(node, 1) : nullptr;
        const ggml_tensor * cache = is_write ? graph.view_source(node) : keys ? graph.view_source(keys) : nullptr;
        if (!cache) {
            continue;
        }
        const int32_t k = layer_of(cache->name, "cache_k_l");
        const int32_t v = layer_of(cache->name, "cache_v_l");
        if (std::max(k, v) < 0 || std::max(k, v) >= (int32_t) n_layer) {
            continue;
        }
        (is_write ? (k >= 0 ? found[k].k_write : found[v].v_write) : found[std::max(k, v)].attention) = node;
    }
    return found;
}

// Copies what the wanted nodes need into a graph of our own.
class Copier {
  public:
    Copier(const relay_context & relay, const Graph & graph, const relay_slice & slice, Arena & arena)
        : relay_(relay), graph_(graph), slice_(slice), arena_(arena) {
        const int32_t padded = (relay.length() + cell_padding - 1) / cell_padding * cell_padding;
        n_kv_ = std::min(std::max(padded, cell_padding), relay.n_cells());
        if (slice.first > 0) {
            cut_ = graph.find(numbered("l_out-", slice.first - 1));
        }
    }

    void want(ggml_tensor * node) { mark(node); }

    void copy_wanted() {
        for (ggml_tensor * node : graph_.nodes()) {
            if (needed_.count(node) && node != cut_) {
                ggml_graph_add_node(arena_.graph, copy(node));
            }
        }
    }

    ggml_tensor * copied(const ggml_tensor * node) const { return copies_.at(node); }
    const std::map<std::string, ggml_tensor *> & inputs() const { return inputs_; }
    int64_t n_kv() const { return n_kv_; }

  private:
    void mark(ggml_tensor * from) {
        std::vector<ggml_tensor *> open = {from};
        while (!open.empty()) {
            ggml_tensor * node = open.back();
            open.pop_back();
            if (!node || is_resident(node) || !needed_.insert(node).second || node == cut_) {
                continue;
            }
            if (cut_ && is_input(node) && plain_name(node) == "inp_tokens") {
                fail(RELAY_UNSUPPORTED, "layer %d takes more from below than the residual stream", slice_.first);
            }
            for (int j = 0; j < GGML_MAX_SRC; ++j) {
                open.push_back(graph_.source(node, j));
            }
            open.push_back(graph_.view_source(node));
        }
    }

    // Views of a cache span all its cells in the reserved graph; ours end behind the cells in use.
    int64_t narrowed(const ggml_tensor * node, int dim, const ggml_tensor * root) const {
        const bool is_cache = root && is_resident(root) && node->op != GGML_OP_SET_ROWS && strncmp(root->name, "cache_", 6) == 0;
        const int cells_dim = node->op == GGML_OP_VIEW ? 2 : node->op == GGML_OP_PERMUTE ? 1 : -1;
        return is_cache && dim == cells_dim && node->ne[dim] == relay_.n_cells() ? n_kv_ : node->ne[dim];
    }

    ggml_tensor * copy(ggml_tensor * node) {
        ggml_tensor * root = graph_.view_source(node);
        int64_t ne[GGML_MAX_DIMS];
        for (int d = 0; d < GGML_MAX_DIMS; ++d) {
            ne[d] = narrowed(node, d, root);
        }
        ggml_tensor * own = ggml_new_tensor(arena_.ctx, node->type, GGML_MAX_DIMS, ne);
        memcpy(own->nb, node->nb, sizeof(own->nb));
        memcpy(own->op_params, node->op_params, sizeof(own->op_params));
        ggml_set_name(own, node->name);
        own->op = node->op;
        own->flags = node->flags & ~(GGML_TENSOR_FLAG_INPUT | GGML_TENSOR_FLAG_OUTPUT);
        own->view_offs = node->view_offs;
        own->view_src = root ? own_source(root, node) : nullptr;
        for (int j = 0; j < GGML_MAX_SRC; ++j) {
            ggml_tensor * source = graph_.source(node, j);
            own->src[j] = source ? own_source(source, node) : nullptr;
        }
        copies_[node] = own;
        return own;
    }

    ggml_tensor * own_source(ggml_tensor * source, const ggml_tensor * user) {
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
            const int32_t il = layer_of(graph_.view_source(graph_.source(user, 1))->name, "cache_k_l");
            return input(relay_.has_window(il) ? "window_mask" : "mask", source, n_kv_, source->ne[1]);
        }
        return input(name, source, source->ne[0], source->ne[1]);
    }

    ggml_tensor * input(const std::string & name, const ggml_tensor * like, int64_t ne0, int64_t ne1) {
        ggml_tensor *& own = inputs_[name];
        if (!own) {
            own = ggml_new_tensor_2d(arena_.ctx, like->type, ne0, ne1);
            ggml_set_name(own, name.c_str());
            ggml_set_input(own);
        }
        return own;
    }

    const relay_context & relay_;
    const Graph & graph_;
    const relay_slice & slice_;
    Arena & arena_;
    ggml_tensor * cut_ = nullptr;
    int64_t n_kv_;
    std::unordered_set<const ggml_tensor *> needed_;
    std::unordered_map<const ggml_tensor *, ggml_tensor *> copies_;
    std::map<std::string, ggml_tensor *> inputs_;
};

ggml_tensor * as_output(Arena & arena, ggml_tensor * tensor) {
    if (!ggml_is_contiguous(tensor)) {
        tensor = ggml_cont(arena.ctx, tensor);
        ggml_build_forward_expand(arena.graph, tensor);
    }
    ggml_set_output(tensor->view_src ? tensor->view_src : tensor);
    ggml_set_output(tensor);
    return tensor;
}

// softmax(q·k) of the last n_probe tokens, [n_kv, n_probe, heads]; sinks and soft-capping as the attention node has them.
ggml_tensor * attention_of_probes(Arena & arena, const ggml_tensor * attention, int32_t n_probe) {
    ggml_tensor * q = attention->src[0];
    ggml_tensor * mask = attention->src[3];
    const int64_t first = q->ne[1] - n_probe;
    float scale, max_bias, soft_cap;
    memcpy(&scale, attention->op_params + 0, sizeof(scale));
    memcpy(&max_bias, attention->op_params + 1, sizeof(max_bias));
    memcpy(&soft_cap, attention->op_params + 2, sizeof(soft_cap));
    ggml_tensor * last = ggml_view_3d(arena.ctx, q, q->ne[0], n_probe, q->ne[2], q->nb[1], q->nb[2], q->nb[1] * first);
    ggml_tensor * scores = ggml_mul_mat(arena.ctx, attention->src[1], last);
    if (soft_cap != 0.0f) {
        scores = ggml_scale(arena.ctx, ggml_tanh(arena.ctx, ggml_scale(arena.ctx, scores, scale)), soft_cap);
        scale = 1.0f;
    }
    ggml_tensor * rows = ggml_view_2d(arena.ctx, mask, mask->ne[0], n_probe, mask->nb[1], mask->nb[1] * first);
    ggml_tensor * weights = ggml_soft_max_ext(arena.ctx, scores, rows, scale, max_bias);
    ggml_soft_max_add_sinks(weights, attention->src[4]);
    ggml_build_forward_expand(arena.graph, weights);
    ggml_set_output(weights);
    return weights;
}

void set_mask(ggml_tensor * mask, const relay_slice & slice, int32_t n_window) {
    const int64_t n_kv = mask->ne[0];
    std::vector<float> values(n_kv * mask->ne[1], -INFINITY);
    for (int32_t j = 0; j < slice.n_tokens; ++j) {
        const int32_t end = slice.positions[j] + 1;
        const int32_t begin = n_window > 0 ? std::max(0, end - n_window) : 0;
        std::fill(values.begin() + n_kv * j + begin, values.begin() + n_kv * j + end, 0.0f);
    }
    if (mask->type == GGML_TYPE_F32) {
        ggml_backend_tensor_set(mask, values.data(), 0, ggml_nbytes(mask));
        return;
    }
    std::vector<ggml_fp16_t> halves(values.size());
    ggml_fp32_to_fp16_row(values.data(), halves.data(), (int64_t) values.size());
    ggml_backend_tensor_set(mask, halves.data(), 0, ggml_nbytes(mask));
}

void set_input(const relay_context & relay, const std::string & name, ggml_tensor * tensor, const relay_slice & slice) {
    if (name == "hidden") {
        ggml_backend_tensor_set(tensor, slice.hidden, 0, ggml_nbytes(tensor));
    } else if (name == "inp_tokens") {
        ggml_backend_tensor_set(tensor, slice.tokens, 0, ggml_nbytes(tensor));
    } else if (name == "inp_pos") {
        ggml_backend_tensor_set(tensor, slice.positions, 0, ggml_nbytes(tensor));
    } else if (name == "attn_inp_k_idxs" || name == "attn_inp_v_idxs") {
        const std::vector<int64_t> cells(slice.positions, slice.positions + slice.n_tokens);
        ggml_backend_tensor_set(tensor, cells.data(), 0, ggml_nbytes(tensor));
    } else if (name == "attn_inp_k_rot" || name == "attn_inp_v_rot") {
        ggml_backend_tensor_set(tensor, hadamard(tensor->ne[0]).data(), 0, ggml_nbytes(tensor));
    } else if (name == "out_ids") {
        const int32_t last = slice.n_tokens - 1;
        ggml_backend_tensor_set(tensor, &last, 0, ggml_nbytes(tensor));
    } else {
        set_mask(tensor, slice, name == "window_mask" ? relay.n_window : 0);
    }
}

void read_mass(const ggml_tensor * weights, int32_t n_positions, float * mass) {
    std::vector<float> values(ggml_nelements(weights));
    ggml_backend_tensor_get(weights, values.data(), 0, ggml_nbytes(weights));
    std::fill(mass, mass + n_positions, 0.0f);
    for (int64_t row = 0; row < ggml_nrows(weights); ++row) {
        const float * from = values.data() + row * weights->ne[0];
        for (int32_t i = 0; i < n_positions; ++i) {
            mass[i] += from[i];
        }
    }
}

void check_slice(const relay_context & relay, const relay_slice & s) {
    const int32_t n_layer = (int32_t) relay.layers.all.size();
    require(0 <= s.first && s.first <= s.end && s.end <= n_layer, "layer range outside the model");
    require(s.n_tokens > 0 && s.n_tokens <= relay.n_batch, "a slice takes 1 to n_batch tokens");
    require(s.positions != nullptr, "positions are needed");
    require(s.first > 0 ? s.hidden != nullptr : s.tokens != nullptr, "tokens are needed for layer 0, hidden states for a later one");
    require(s.write_end == s.first || ((s.write_end == s.end || s.write_end == s.end + 1) && s.write_end <= n_layer), "write_end must be first, end or end + 1");
    const bool has_probe = s.hidden_out || s.v_out || s.attn_out || s.mass;
    require(!has_probe || s.end < n_layer, "behind the last layer there are only logits");
    require(!s.logits || s.end == n_layer, "logits need the last layer");
    require(s.write_end > s.first || has_probe || s.logits, "nothing is asked for");
    require(s.first < s.end || !s.hidden_out, "no layer is run");
    require(!s.mass || (s.n_probe > 0 && s.n_probe <= s.n_tokens), "n_probe must be 1 to n_tokens");
    for (int32_t j = 0; j < s.n_tokens; ++j) {
        require(s.positions[j] >= 0 && s.positions[j] < relay.length(), "a position lies outside the live sequence");
        require(j == 0 || s.positions[j - 1] < s.positions[j], "positions must ascend");
        require(s.first > 0 || (s.tokens[j] >= 0 && s.tokens[j] < relay.n_vocab), "no such token");
    }
}

}  // namespace

void run_slice(relay_context & relay, const relay_slice & slice) {
    if (!relay.layers.slice_refusal.empty()) {
        fail(RELAY_UNSUPPORTED, "layers cannot be recomputed: %s", relay.layers.slice_refusal.c_str());
    }
    check_slice(relay, slice);
    llama_synchronize(relay.ctx);
    ggml_cgraph * reserved = llama_graph_reserve(relay.ctx, slice.n_tokens, 1, 1);
    if (!reserved) {
        fail(RELAY_FAILED, "llama.cpp could not reserve a graph for %d tokens", slice.n_tokens);
    }
    const Graph graph(reserved);
    const std::vector<LayerNodes> nodes = find_layer_nodes(graph, relay.layers.all.size());
    Arena arena(graph.nodes().size() + 64);
    Copier copier(relay, graph, slice, arena);
    for (int32_t il = slice.first; il < slice.write_end; ++il) {
        copier.want(nodes[il].k_write);
        copier.want(nodes[il].v_write);
    }
    ggml_tensor * hidden = slice.hidden_out ? graph.find(numbered("l_out-", slice.end - 1)) : nullptr;
    ggml_tensor * v = slice.v_out ? graph.source(nodes[slice.end].v_write, 0) : nullptr;
    ggml_tensor * attention = slice.attn_out || slice.mass ? nodes[slice.end].attention : nullptr;
    ggml_tensor * logits = slice.logits ? graph.find("result_output") : nullptr;
    for (ggml_tensor * node : {hidden, v, attention, logits}) {
        if (node) {
            copier.want(node);
        }
    }
    copier.copy_wanted();

    const auto result = [&](ggml_tensor * node) { return node ? as_output(arena, copier.copied(node)) : nullptr; };
    ggml_tensor * const hidden_result = result(hidden);
    ggml_tensor * const v_result = result(v);
    ggml_tensor * const attention_result = result(attention);
    ggml_tensor * const logits_result = result(logits);
    ggml_tensor * const mass_result = slice.mass ? attention_of_probes(arena, attention_result, slice.n_probe) : nullptr;

    relay.backends.allocate(arena.graph);
    for (const auto & [name, tensor] : copier.inputs()) {
        set_input(relay, name, tensor, slice);
    }
    relay.backends.compute(arena.graph);

    const std::pair<ggml_tensor *, float *> results[] = {
        {hidden_result, slice.hidden_out}, {v_result, slice.v_out}, {attention_result, slice.attn_out}, {logits_result, slice.logits}};
    for (const auto & [tensor, out] : results) {
        if (tensor && out) {
            ggml_backend_tensor_get(tensor, out, 0, ggml_nbytes(tensor));
        }
    }
    if (mass_result) {
        read_mass(mass_result, relay.length(), slice.mass);
    }
}

}  // namespace relay

int relay_slice_run(relay_context * relay, const relay_slice * slice) {
    return relay::guarded([&] {
        relay::require(relay && slice, "relay and slice are needed");
        relay::run_slice(*relay, *slice);
    });
}
