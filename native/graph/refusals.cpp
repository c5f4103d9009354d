#include "graph/refusals.h"

#include <algorithm>
#include <set>

namespace relay {

namespace {

const std::set<std::string> slice_inputs = {
    "inp_tokens",       "inp_pos",        "inp_attn_scale", "attn_inp_k_idxs", "attn_inp_v_idxs",
    "attn_inp_kq_mask", "attn_inp_k_rot", "attn_inp_v_rot", "out_ids",
};
// What K before RoPE and V may be computed from, besides the layer's own input: nothing that knows positions.
const std::set<std::string> row_inputs = {"inp_tokens", "attn_inp_k_rot", "attn_inp_v_rot"};

const std::string rope = "RoPE";

std::string no_node(const std::string & name) {
    return "the graph has no node " + name;
}

std::string in_layer(size_t il, const std::string & what) {
    return "layer " + std::to_string(il) + " " + what;
}

bool is_named(const ggml_tensor * tensor, const char * prefix) {
    return plain_name(tensor).rfind(prefix, 0) == 0;
}

bool has_input(const Graph & graph, const char * prefix) {
    return std::any_of(graph.nodes().begin(), graph.nodes().end(), [&](const ggml_tensor * node) {
        for (int j = 0; j < GGML_MAX_SRC; ++j) {
            const ggml_tensor * source = graph.source(node, j);
            if (source && source->op == GGML_OP_NONE && is_named(source, prefix)) {
                return true;
            }
        }
        return false;
    });
}

std::string missing_rows(const Graph & graph, const std::vector<LayerNodes> & nodes, size_t il) {
    if (has_input(graph, "rs_s_copy") || has_input(graph, "cache_r_l")) {
        return in_layer(il, "is recurrent: it keeps a state instead of rows");
    }
    if (nodes[il].k_write) {
        return in_layer(il, "keeps K and V as one compressed row (MLA)");
    }
    const bool is_shared =
        std::any_of(nodes.begin(), nodes.end(), [](const LayerNodes & layer) { return layer.n_attentions > 1; });
    return in_layer(il, is_shared ? "reads the rows of another layer" : "keeps no rows");
}

// Something that knows positions among what `row` is computed from, "" if there is nothing.
std::string position_behind(const Graph & graph, ggml_tensor * row, const ggml_tensor * cut) {
    std::set<std::string> found;
    for (const ggml_tensor * node : graph.behind({row}, cut)) {
        if (node != cut && node->op == GGML_OP_ROPE) {
            return rope;
        }
        if (node != cut && is_input(node) && !row_inputs.count(plain_name(node))) {
            found.insert(plain_name(node));
        }
    }
    return found.empty() ? "" : *found.begin();
}

std::string unknown_input(const Graph & graph, const std::vector<ggml_tensor *> & wanted, const ModelFacts & facts) {
    for (const ggml_tensor * node : graph.behind(wanted, nullptr)) {
        if (!is_input(node)) {
            continue;
        }
        const std::string name = plain_name(node);
        if (!slice_inputs.count(name) || (name == "inp_attn_scale" && facts.query_scale.step == 0)) {
            return "the graph has an input that is not known here: " + (name.empty() ? "one without a name" : name);
        }
    }
    return "";
}

// A layer that takes more from below than the residual stream shows by reaching the tokens.
bool is_cut_clean(const Graph & graph, const LayerNodes & nodes, ggml_tensor * leaving, const ggml_tensor * cut) {
    for (const ggml_tensor * node : graph.behind({nodes.k_write, nodes.v_write, leaving}, cut)) {
        if (node != cut && is_input(node) && plain_name(node) == "inp_tokens") {
            return false;
        }
    }
    return true;
}

}  // namespace

std::string rows_refusal(const Graph & graph, const std::vector<LayerNodes> & nodes) {
    const ggml_tensor * first = nullptr;
    for (size_t il = 0; il < nodes.size(); ++il) {
        if (!nodes[il].k_write || !nodes[il].v_write) {
            return missing_rows(graph, nodes, il);
        }
        const ggml_tensor * k = graph.cache_of(nodes[il].k_write);
        const ggml_tensor * v = graph.cache_of(nodes[il].v_write);
        first = first ? first : k;
        if (k->ne[2] != 1 || v->ne[2] != 1) {
            return "the KV cache is split into streams; open the context with a unified one";
        }
        if (v->ne[1] != k->ne[1] || k->ne[1] != first->ne[1]) {
            return "the layers' caches differ in size; open the context with swa_full";
        }
    }
    for (const ggml_tensor * node : graph.nodes()) {
        if (node->op == GGML_OP_ROPE && (node->op_params[2] & GGML_ROPE_TYPE_MROPE)) {
            return "positions have more than one dimension (M-RoPE)";
        }
    }
    const bool has_flash =
        std::any_of(nodes.begin(), nodes.end(), [](const LayerNodes & layer) { return layer.attention; });
    return has_flash ? "" : "the context computes without flash attention";
}

std::string rotate_refusal(const Graph & graph, const std::vector<LayerNodes> & nodes, const Layers & layers) {
    for (size_t il = 0; il < nodes.size(); ++il) {
        const Layer & layer = layers.all[il];
        const ggml_tensor * cut = entering(graph, (int32_t) il);
        if (il > 0 && !cut) {
            return no_node("l_out-" + std::to_string(il - 1));
        }
        int64_t n_hadamard = 0;
        ggml_tensor * last = behind_layout(graph, graph.source(nodes[il].k_write, 0), &n_hadamard);
        const std::string behind_k = position_behind(graph, layer.has_rope ? graph.source(last, 0) : last, cut);
        if (behind_k == rope) {
            return in_layer(il, "does not write K straight from RoPE");
        }
        const std::string behind =
            behind_k.empty() ? position_behind(graph, graph.source(nodes[il].v_write, 0), cut) : behind_k;
        if (!behind.empty()) {
            return in_layer(il, "has rows that depend on their position other than by RoPE on K (" + behind + ")");
        }
        if (layer.has_rope && layer.k->ne[0] % layer.k_head != 0) {
            return in_layer(il, "has K heads of unequal width");
        }
    }
    return "";
}

std::string slice_refusal(const Graph & graph, const std::vector<LayerNodes> & nodes, const Layers & layers,
                          const ModelFacts & facts) {
    ggml_tensor * logits = graph.find("result_output");
    if (!logits) {
        return no_node("result_output");
    }
    if (layers.n_kinds > 1 && facts.window.n == 0) {
        return "the layers see different tokens, but the model names no window";
    }
    std::vector<ggml_tensor *> wanted = {logits};
    for (size_t il = 0; il < nodes.size(); ++il) {
        if (!nodes[il].attention) {
            return in_layer(il, "has no flash-attention node");
        }
        ggml_tensor * leaving = il + 1 < nodes.size() ? entering(graph, (int32_t) il + 1) : logits;
        if (!leaving) {
            return no_node("l_out-" + std::to_string(il));
        }
        if (il > 0 && !is_cut_clean(graph, nodes[il], leaving, entering(graph, (int32_t) il))) {
            return in_layer(il, "takes more from below than the residual stream");
        }
        wanted.insert(wanted.end(), {nodes[il].k_write, nodes[il].v_write});
    }
    return unknown_input(graph, wanted, facts);
}

}  // namespace relay
