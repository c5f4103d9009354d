// slice/run.cpp: runs some layers of the model's own compute graph for chosen tokens. The graph goes from the wanted
// results back to the residual stream that enters the first of these layers.
#include <algorithm>
#include <cstring>

#include "cache/cache.h"
#include "graph/attention.h"
#include "handles.h"
#include "slice/draft.h"
#include "slice/inputs.h"

namespace relay {

namespace {

ggml_tensor * as_output(Arena & arena, ggml_tensor * tensor) {
    if (!ggml_is_contiguous(tensor)) {
        tensor = ggml_cont(arena.ctx, tensor);
        ggml_build_forward_expand(arena.graph, tensor);
    }
    ggml_set_output(tensor->view_src ? tensor->view_src : tensor);
    ggml_set_output(tensor);
    return tensor;
}

// The attention that the last n_probe tokens pay to each slot, [slots, n_probe, heads].
ggml_tensor * weights_of_probes(Arena & arena, const ggml_tensor * attention, int32_t n_probe) {
    const int64_t n_tokens = attention->src[0]->ne[1], n_slots = attention->src[1]->ne[1];
    ggml_tensor * weights = attention_weights(arena.ctx, attention, {n_tokens - n_probe, n_probe, n_slots});
    ggml_build_forward_expand(arena.graph, weights);
    ggml_set_output(weights);
    return weights;
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

void check_slice(const relay_cache & cache, const relay_slice & s) {
    const int32_t n_layer = cache.n_layer();
    require(0 <= s.first && s.first <= s.end && s.end <= n_layer, "layer range outside the model");
    require(s.first < n_layer, "no layer is run or probed");
    require(s.n_tokens > 0 && s.n_tokens <= cache.n_batch, "a slice takes 1 to n_batch tokens");
    require(s.positions != nullptr, "positions are needed");
    require(s.first > 0 ? s.hidden != nullptr : s.tokens != nullptr,
            "tokens are needed for layer 0, hidden states for a later one");
    require(s.write_end == s.first || ((s.write_end == s.end || s.write_end == s.end + 1) && s.write_end <= n_layer),
            "write_end must be first, end or end + 1");
    const bool has_probe = s.hidden_out || s.v_out || s.attn_out || s.mass;
    require(!has_probe || s.end < n_layer, "behind the last layer there are only logits");
    require(!s.logits || s.end == n_layer, "logits need the last layer");
    require(s.write_end > s.first || has_probe || s.logits, "nothing is asked for");
    require(s.first < s.end || !s.hidden_out, "no layer is run");
    require(!s.mass || (s.n_probe > 0 && s.n_probe <= s.n_tokens), "n_probe must be 1 to n_tokens");
    for (int32_t j = 0; j < s.n_tokens; ++j) {
        require(s.positions[j] >= 0 && s.positions[j] < cache.length(), "a position lies outside the live sequence");
        require(j == 0 || s.positions[j - 1] < s.positions[j], "positions must ascend");
        require(s.first > 0 || (s.tokens[j] >= 0 && s.tokens[j] < cache.facts.n_vocab), "no such token");
    }
}

// A result that was asked for: the node that gives it, its tensor in our graph, and where it goes.
struct Result {
    int32_t node;
    float * out;
    size_t n;
    ggml_tensor * tensor = nullptr;
};

std::vector<Result> results_of(const relay_cache & cache, const Blueprint & blueprint, const relay_slice & slice) {
    const size_t n = (size_t) slice.n_tokens;
    std::vector<Result> results;
    if (slice.hidden_out) {
        results.push_back({blueprint.layers[slice.end - 1].leaving, slice.hidden_out, n * cache.facts.n_embd});
    }
    if (slice.v_out) {
        results.push_back({blueprint.layers[slice.end].v, slice.v_out, n * cache.layers.all[slice.end].v->ne[0]});
    }
    if (slice.attn_out) {
        results.push_back(
            {blueprint.layers[slice.end].attention, slice.attn_out, n * cache.layers.all[slice.end].n_attn});
    }
    if (slice.logits) {
        results.push_back({blueprint.logits, slice.logits, (size_t) cache.facts.n_vocab});
    }
    return results;
}

std::vector<int32_t> wanted_nodes(const Blueprint & blueprint, const std::vector<Result> & results,
                                  const relay_slice & slice) {
    std::vector<int32_t> wanted;
    for (int32_t il = slice.first; il < slice.write_end; ++il) {
        wanted.insert(wanted.end(), {blueprint.layers[il].k_write, blueprint.layers[il].v_write});
    }
    for (const Result & result : results) {
        wanted.push_back(result.node);
    }
    if (slice.mass) {
        wanted.push_back(blueprint.layers[slice.end].attention);
    }
    return wanted;
}

// The slots that attention runs over. llama.cpp pads those in use to multiples of 256 (llama_kv_cache::get_n_kv), and
// their number changes how it rounds. So a slice that must round alike takes them all, any other only those its last
// token sees.
int64_t slots_seen(const relay_cache & cache, const relay_slice & slice) {
    constexpr int64_t padding = 256;
    const int64_t n = slice.is_bitwise || slice.mass ? cache.length() : slice.positions[slice.n_tokens - 1] + 1;
    return std::min<int64_t>((n + padding - 1) / padding * padding, cache.n_slots());
}

Blueprint reserve_blueprint(const relay_cache & cache, int32_t n_tokens) {
    llama_synchronize(cache.ctx);
    ggml_cgraph * reserved = reserve_graph(cache.ctx, n_tokens);
    std::vector<int32_t> n_window;
    for (int32_t il = 0; il < cache.n_layer(); ++il) {
        n_window.push_back(cache.n_window(il));
    }
    return read_blueprint(Graph(reserved, &cache.residents), cache.layers, n_window);
}

// One blueprint for all numbers of tokens, if two sizes foretell the others. Otherwise a new one for each slice.
const Blueprint & blueprint_for(relay_cache & cache, int32_t n_tokens) {
    auto & kept = cache.blueprint;
    if (!kept.is_tried) {
        kept.is_tried = true;
        Blueprint general = reserve_blueprint(cache, 2);
        kept.is_general = cache.n_batch > 3 && generalize(general, 2, reserve_blueprint(cache, 3), 3);
        for (const int32_t n : {1, cache.n_batch}) {
            kept.is_general = kept.is_general && foretells(general, reserve_blueprint(cache, n), n);
        }
        kept.value = std::move(general);
    }
    if (!kept.is_general) {
        kept.value = reserve_blueprint(cache, n_tokens);
    }
    return kept.value;
}

void read_result(const Result & result) {
    if (result.tensor->type != GGML_TYPE_F32 || ggml_nbytes(result.tensor) != result.n * sizeof(float)) {
        fail(RELAY_UNSUPPORTED, "node %s has %zu bytes, %zu were expected", result.tensor->name,
             ggml_nbytes(result.tensor), result.n * sizeof(float));
    }
    ggml_backend_tensor_get(result.tensor, result.out, 0, result.n * sizeof(float));
}

}  // namespace

static void run_slice(relay_cache & cache, const relay_slice & slice) {
    if (!cache.slice_refusal.empty()) {
        fail(RELAY_UNSUPPORTED, "layers cannot be recomputed: %s", cache.slice_refusal.c_str());
    }
    check_slice(cache, slice);
    const Blueprint & blueprint = blueprint_for(cache, slice.n_tokens);
    std::vector<Result> results = results_of(cache, blueprint, slice);
    const int64_t n_slots = slots_seen(cache, slice);
    std::vector<QueryBlock> blocks;
    if (!slice.is_bitwise && is_faster_by_products(cache.layers.all[0], slice.n_tokens, cache.length())) {
        blocks = query_blocks(slice.positions, slice.n_tokens, n_slots);
    }
    Arena arena(blueprint.nodes.size() + most_attention_nodes * blueprint.layers.size() + 64);
    const int32_t cut = slice.first > 0 ? blueprint.layers[slice.first - 1].leaving : -1;
    Draft draft(blueprint, arena, {slice.n_tokens, n_slots, cut, std::move(blocks)});
    draft.draw(wanted_nodes(blueprint, results, slice));
    for (Result & result : results) {
        result.tensor = as_output(arena, draft.tensor(result.node));
    }
    ggml_tensor * weights = nullptr;
    if (slice.mass) {
        weights = weights_of_probes(arena, draft.attention(blueprint.layers[slice.end].attention), slice.n_probe);
    }

    llama_synchronize(cache.ctx);
    cache.backends.allocate(arena.graph);
    set_inputs(cache, draft.inputs(), slice);
    cache.backends.compute(arena.graph);
    for (const Result & result : results) {
        read_result(result);
    }
    if (weights) {
        read_mass(weights, cache.length(), slice.mass);
    }
}

}  // namespace relay

using namespace relay;

int relay_cache_run_slice(relay_cache * cache, const relay_slice * slice) {
    return guarded([&] {
        require_open(cache, "cache");
        require(slice != nullptr, "slice is null");
        run_slice(*cache, *slice);
    });
}
