// cache/open.cpp: a relay_cache made from a llama_context, and described. It stands above all other files of cache/ and
// graph/.
#include <algorithm>
#include <memory>

#include "cache/order.h"
#include "graph/attention.h"
#include "graph/refusals.h"
#include "handles.h"

namespace relay {

namespace {

constexpr int32_t n_probe_tokens = 2;  // of the graph that is looked at

void check_context(llama_context * ctx) {
    if (llama_n_seq_max(ctx) < 2) {
        fail(RELAY_BAD_ARGUMENT, "the context needs n_seq_max >= 2");
    }
    llama_memory_t memory = llama_get_memory(ctx);
    if (!memory) {
        fail(RELAY_UNSUPPORTED, "the model keeps no KV cache");
    }
    if (llama_memory_seq_pos_max(memory, live_seq) >= 0) {
        fail(RELAY_BAD_ARGUMENT, "the cache must be empty");
    }
}

void read_graph(relay_cache & cache, ggml_cgraph * reserved) {
    cache.residents = find_residents(Graph(reserved));
    const Graph graph(reserved, &cache.residents);
    const std::vector<LayerNodes> nodes = find_layer_nodes(graph, cache.facts.n_layer);
    const std::string refusal = rows_refusal(graph, nodes);
    if (!refusal.empty()) {
        fail(RELAY_UNSUPPORTED, "%s", refusal.c_str());
    }
    cache.layers = read_layers(graph, nodes);
    cache.rotate_refusal = rotate_refusal(graph, nodes, cache.layers);
    cache.slice_refusal = slice_refusal(graph, nodes, cache.layers, cache.facts);
}

std::unique_ptr<relay_cache> open(llama_context * ctx, int32_t n_threads, relay_stop * stop) {
    require(ctx != nullptr, "ctx is null");
    require(n_threads > 0 && n_threads <= GGML_MAX_N_THREADS, "n_threads is not between 1 and 512");
    require(!stop || Handles<relay_stop>::has(stop), "stop is closed");
    check_context(ctx);
    ggml_cgraph * reserved = reserve_graph(ctx, n_probe_tokens);
    auto cache = std::make_unique<relay_cache>();
    cache->ctx = ctx;
    cache->memory = llama_get_memory(ctx);
    cache->stop = stop;
    cache->n_batch = (int32_t) llama_n_ubatch(ctx);
    cache->facts = read_facts(llama_get_model(ctx));
    read_graph(*cache, reserved);
    // A slice is at most the model's graph with attention written out; rotations are cut to fit.
    const int max_nodes = ggml_graph_n_nodes(reserved) + most_attention_nodes * cache->facts.n_layer + 256;
    cache->backends.open(cache->residents, max_nodes, n_threads, stop);
    settle_order(*cache);
    return cache;
}

// The width of the layers' attention outputs, 0 if they differ.
int32_t common_n_attn(const std::vector<Layer> & layers) {
    const int64_t n = layers[0].n_attn;
    return std::all_of(layers.begin(), layers.end(), [&](const Layer & l) { return l.n_attn == n; }) ? (int32_t) n : 0;
}

}  // namespace

}  // namespace relay

using namespace relay;

int relay_cache_open(llama_context * ctx, int32_t n_threads, relay_stop * stop, relay_cache ** out) {
    return guarded([&] {
        require(out != nullptr, "out is null");
        *out = nullptr;
        *out = Handles<relay_cache>::add(open(ctx, n_threads, stop));
    });
}

void relay_cache_close(relay_cache * cache) {
    Handles<relay_cache>::close(cache);
}

int relay_cache_describe(const relay_cache * cache, relay_cache_info * out) {
    return guarded([&] {
        require_open(cache, "cache");
        require(out != nullptr, "out is null");
        const std::vector<Layer> & layers = cache->layers.all;
        out->n_layer = cache->n_layer();
        out->n_slots = cache->n_slots();
        out->n_embd = cache->facts.n_embd;
        out->n_attn = common_n_attn(layers);
        out->n_vocab = cache->facts.n_vocab;
        out->n_batch = cache->n_batch;
        out->n_window = cache->facts.window.n;
        out->type_k = layers[0].k->type;
        out->type_v = layers[0].v->type;
        out->can_rotate = cache->rotate_refusal.empty();
        out->can_slice = cache->slice_refusal.empty();
    });
}

const char * relay_cache_refusal(const relay_cache * cache) {
    const std::string * refusal = nullptr;
    guarded([&] {
        require_open(cache, "cache");
        refusal = cache->rotate_refusal.empty() ? &cache->slice_refusal : &cache->rotate_refusal;
    });
    return refusal ? refusal->c_str() : relay_error_text();
}

int relay_cache_describe_layer(const relay_cache * cache, int32_t il, relay_layer_info * out) {
    return guarded([&] {
        require_open(cache, "cache");
        require(out != nullptr, "out is null");
        require(il >= 0 && il < cache->n_layer(), "no such layer");
        const Layer & layer = cache->layers.all[il];
        out->k_bytes = layer.k_row;
        out->v_bytes = layer.v_row;
        out->v_width = (int32_t) layer.v->ne[0];
        out->n_attn = (int32_t) layer.n_attn;
        out->n_head = (int32_t) layer.n_head;
        out->n_window = cache->n_window(il);
        out->has_rope = layer.has_rope;
    });
}
