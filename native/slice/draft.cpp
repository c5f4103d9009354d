#include "slice/draft.h"

namespace relay {

Draft::Draft(const Blueprint & blueprint, Arena & arena, const DraftOptions & options)
    : blueprint_(blueprint),
      arena_(arena),
      options_(options),
      tensors_(blueprint.nodes.size()),
      inputs_(blueprint.inputs.size()) {}

void Draft::draw(const std::vector<int32_t> & wanted) {
    const std::vector<bool> needed = needed_for(wanted);
    for (int32_t i = 0; i < (int32_t) needed.size(); ++i) {
        if (needed[i]) {
            draw_node(i);
        }
    }
}

// Sources stand before what uses them, so one pass from the end finds all.
std::vector<bool> Draft::needed_for(const std::vector<int32_t> & wanted) const {
    std::vector<bool> needed(blueprint_.nodes.size());
    for (const int32_t i : wanted) {
        needed[i] = true;
    }
    const auto need = [&](const Origin & origin) {
        if (origin.kind == Origin::node) {
            needed[origin.index] = true;
        }
    };
    for (int32_t i = (int32_t) needed.size() - 1; i >= 0; --i) {
        if (i == options_.cut) {
            needed[i] = false;
        }
        if (needed[i]) {
            need(blueprint_.nodes[i].view);
            for (const Origin & origin : blueprint_.nodes[i].sources) {
                need(origin);
            }
        }
    }
    return needed;
}

void Draft::draw_node(int32_t index) {
    const Node & node = blueprint_.nodes[index];
    int64_t ne[GGML_MAX_DIMS];
    for (int d = 0; d < GGML_MAX_DIMS; ++d) {
        ne[d] = node.ne[d].at(options_.n_tokens);
    }
    ggml_tensor * own = tensors_[index] = ggml_new_tensor(arena_.ctx, node.type, GGML_MAX_DIMS, ne);
    for (int d = 0; d < GGML_MAX_DIMS; ++d) {
        own->nb[d] = node.nb[d].at(options_.n_tokens);
    }
    if (node.slots_dim >= 0) {
        own->ne[node.slots_dim] = options_.n_slots;
        if (node.op == GGML_OP_CPY) {
            own->nb[2] = own->nb[1] * own->ne[1];
            own->nb[3] = own->nb[2] * own->ne[2];
        }
    }
    for (size_t i = 0; i < std::size(node.op_params); ++i) {
        own->op_params[i] = (int32_t) node.op_params[i].at(options_.n_tokens);
    }
    ggml_set_name(own, node.name.c_str());
    own->op = node.op;
    own->flags = node.flags;
    own->view_offs = node.view_offset.at(options_.n_tokens);
    own->view_src = source(node.view);
    for (int j = 0; j < GGML_MAX_SRC; ++j) {
        own->src[j] = source(node.sources[j]);
    }
    if (node.op == GGML_OP_FLASH_ATTN_EXT) {
        attentions_[index] = own;
        tensors_[index] = options_.blocks.empty() ? own : attention_by_products(arena_.ctx, own, options_.blocks);
    }
    ggml_build_forward_expand(arena_.graph,
                              tensors_[index]);  // adds leaves too; sources stand before, so the order is kept
}

ggml_tensor * Draft::source(const Origin & origin) {
    switch (origin.kind) {
        case Origin::none: return nullptr;
        case Origin::resident: return origin.tensor;
        case Origin::input: return input(origin.index);
        case Origin::node: return origin.index == options_.cut ? hidden() : tensors_[origin.index];
    }
    return nullptr;
}

ggml_tensor * Draft::hidden() {
    if (!hidden_) {
        const Node & node = blueprint_.nodes[options_.cut];
        hidden_ = ggml_new_tensor_2d(arena_.ctx, node.type, node.ne[0].at(options_.n_tokens),
                                     node.ne[1].at(options_.n_tokens));
        ggml_set_name(hidden_, "hidden");
        ggml_set_input(hidden_);
    }
    return hidden_;
}

ggml_tensor * Draft::input(int32_t index) {
    if (!inputs_[index]) {
        const Input & input = blueprint_.inputs[index];
        const int64_t first = input.spans_slots ? options_.n_slots : input.ne[0].at(options_.n_tokens);
        inputs_[index] = ggml_new_tensor_4d(arena_.ctx, input.type, first, input.ne[1].at(options_.n_tokens),
                                            input.ne[2].at(options_.n_tokens), input.ne[3].at(options_.n_tokens));
        ggml_set_name(inputs_[index], input.name.c_str());
        ggml_set_input(inputs_[index]);
    }
    return inputs_[index];
}

std::vector<std::pair<std::string, ggml_tensor *>> Draft::inputs() const {
    std::vector<std::pair<std::string, ggml_tensor *>> found;
    if (hidden_) {
        found.emplace_back("hidden", hidden_);
    }
    for (size_t i = 0; i < inputs_.size(); ++i) {
        if (inputs_[i]) {
            found.emplace_back(blueprint_.inputs[i].name, inputs_[i]);
        }
    }
    return found;
}

}  // namespace relay
