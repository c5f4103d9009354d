#include "context.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "graph.h"

namespace relay {

Arena::Arena(size_t n_nodes) {
    const size_t n = std::max<size_t>(n_nodes, 16);
    ctx = ggml_init({n * 2 * ggml_tensor_overhead() + ggml_graph_overhead_custom(n, false), nullptr, true});
    if (!ctx) {
        fail(RELAY_FAILED, "no memory for a graph of %zu nodes", n);
    }
    graph = ggml_new_graph_custom(ctx, n, false);
}

Arena::~Arena() {
    ggml_free(ctx);
}

namespace {

constexpr int32_t probe_tokens = 2;  // of the round trip at open

// Layers by llama.cpp's caches: one, or the full-attention cache before the sliding-window one (llama_kv_cache_iswa::state_write).
std::vector<std::vector<int32_t>> layers_by_cache(const Layers & layers, bool is_reversed) {
    std::vector<std::vector<int32_t>> caches(layers.n_groups);
    for (int32_t il = 0; il < (int32_t) layers.all.size(); ++il) {
        const int32_t group = layers.all[il].group;
        caches[is_reversed ? layers.n_groups - 1 - group : group].push_back(il);
    }
    return caches;
}

// The state of an empty sequence: magic, sequence id, then streams and cell count of every cache.
void read_state_header(relay_context & relay) {
    std::vector<uint8_t> empty(llama_state_seq_get_size(relay.ctx, live_seq));
    const size_t n = llama_state_seq_get_data(relay.ctx, empty.data(), empty.size(), live_seq);
    const size_t expected = 8 + 8 * (size_t) relay.layers.n_groups;
    if (n != expected) {
        fail(RELAY_UNSUPPORTED, "llama.cpp's state of an empty sequence has %zu bytes, %zu were expected", n, expected);
    }
    memcpy(&relay.state_magic, empty.data(), sizeof(relay.state_magic));
}

// Rows that differ in every layer, so that a wrong order of layers shows. Bytes stay small: finite numbers in every cache type.
std::vector<uint8_t> patterned_rows(const Layers & layers) {
    std::vector<uint8_t> rows(layers.token_bytes() * probe_tokens);
    for (size_t i = 0, salt = 1; i < rows.size(); ++i) {
        salt = salt * 6364136223846793005u + 1442695040888963407u;
        rows[i] = (uint8_t) (salt >> 58);
    }
    return rows;
}

bool round_trip(relay_context & relay, const std::vector<uint8_t> & rows) {
    bool is_equal = false;
    try {
        const relay_segment segment = {rows.data(), probe_tokens, 0, probe_tokens, 0};
        append(relay, &segment, 1);
        std::vector<uint8_t> back(rows.size());
        read_rows(relay, 0, probe_tokens, back.data());
        is_equal = back == rows;
    } catch (const Failure &) {
        is_equal = false;
    }
    llama_memory_clear(relay.memory, true);
    return is_equal;
}

void settle_state_order(relay_context & relay) {
    const std::vector<uint8_t> rows = patterned_rows(relay.layers);
    for (const bool is_reversed : {false, true}) {
        relay.caches = layers_by_cache(relay.layers, is_reversed);
        if (round_trip(relay, rows)) {
            return;
        }
    }
    fail(RELAY_UNSUPPORTED, "rows that were placed do not read back from where they belong");
}

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

std::vector<ggml_tensor *> residents(ggml_cgraph * reserved) {
    const Graph graph(reserved);
    std::vector<ggml_tensor *> found;
    for (const ggml_tensor * node : graph.nodes()) {
        for (int j = 0; j < GGML_MAX_SRC; ++j) {
            ggml_tensor * source = graph.source(node, j);
            if (source && is_resident(source)) {
                found.push_back(source);
            }
        }
    }
    return found;
}

std::string refusal_of(const Layers & layers) {
    return !layers.rotate_refusal.empty() ? layers.rotate_refusal : layers.slice_refusal;
}

std::unique_ptr<relay_context> open(llama_context * ctx, int32_t n_threads, relay_stop * stop) {
    require(ctx != nullptr, "ctx is null");
    require(n_threads > 0, "n_threads must be positive");
    check_context(ctx);
    const llama_model * model = llama_get_model(ctx);
    ggml_cgraph * reserved = llama_graph_reserve(ctx, probe_tokens, 1, 1);
    if (!reserved) {
        fail(RELAY_FAILED, "llama.cpp could not reserve a graph");
    }
    auto relay = std::make_unique<relay_context>();
    relay->ctx = ctx;
    relay->memory = llama_get_memory(ctx);
    relay->stop = stop;
    relay->layers = read_layers(reserved, llama_model_n_layer(model));
    relay->n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    relay->n_batch = (int32_t) llama_n_ubatch(ctx);
    relay->n_window = relay->layers.n_groups > 1 ? llama_model_n_swa(model) : 0;
    relay->backends.open(residents(reserved), n_threads, stop);
    read_state_header(*relay);
    settle_state_order(*relay);
    relay->refusal = refusal_of(relay->layers);
    return relay;
}

}  // namespace

}  // namespace relay

int32_t relay_context::length() const {
    return llama_memory_seq_pos_max(memory, relay::live_seq) + 1;
}

bool relay_context::has_window(int32_t il) const {
    return caches.size() > 1 && std::count(caches.back().begin(), caches.back().end(), il) > 0;
}

using namespace relay;

const char * relay_built_commit(void) {
    return RELAY_BUILT_COMMIT;
}

int relay_open(llama_context * ctx, int32_t n_threads, relay_stop * stop, relay_context ** out) {
    return guarded([&] {
        require(out != nullptr, "out is null");
        *out = open(ctx, n_threads, stop).release();
    });
}

void relay_close(relay_context * relay) {
    delete relay;
}

int relay_describe(const relay_context * relay, relay_info * out) {
    return guarded([&] {
        require(relay && out, "relay and out are needed");
        const Layers & layers = relay->layers;
        *out = {
            (int32_t) layers.all.size(), relay->n_cells(), (int32_t) layers.n_embd, (int32_t) layers.n_attn, relay->n_vocab,
            relay->n_batch, relay->n_window, layers.all[0].k->type, layers.all[0].v->type, layers.rotate_refusal.empty(),
            layers.slice_refusal.empty(),
        };
    });
}

const char * relay_refusal(const relay_context * relay) {
    return relay ? relay->refusal.c_str() : "relay is null";
}

int relay_row_bytes(const relay_context * relay, int32_t il, size_t * k_bytes, size_t * v_bytes) {
    return guarded([&] {
        require(relay && k_bytes && v_bytes, "relay, k_bytes and v_bytes are needed");
        require(il >= 0 && il < (int32_t) relay->layers.all.size(), "no such layer");
        *k_bytes = relay->layers.all[il].k_row;
        *v_bytes = relay->layers.all[il].v_row;
    });
}
