#include "context.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "attention.h"
#include "graph.h"
#include "handles.h"

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
constexpr size_t most_masks = 16;    // two on each of eight backends: 256 round trips at most

// Whether two masks of one backend, which differ, are both taken for windowed ones or both for full ones.
bool is_contradictory(const Layers & layers, uint32_t windowed) {
    for (size_t i = 0; i < layers.masks.size(); ++i) {
        for (size_t j = 0; j < i; ++j) {
            if (layers.masks[i] == layers.masks[j] && (windowed >> i & 1) == (windowed >> j & 1)) {
                return true;
            }
        }
    }
    return false;
}

// Ways in which the layers may be spread over llama.cpp's caches: all in one, or by their masks over a full and a windowed one
// (llama_kv_cache_iswa::state_write writes the full one first). Layer 0, of the first mask, has the window in the models seen so far.
std::vector<std::vector<std::vector<int32_t>>> cache_orders(const Layers & layers, size_t n_caches) {
    std::vector<std::vector<std::vector<int32_t>>> orders;
    const uint32_t n_ways = n_caches < 2 ? 1 : 1u << layers.masks.size();
    for (uint32_t way = 0; way < n_ways; ++way) {
        const uint32_t windowed = n_caches < 2 ? 0 : way ^ 1;
        if (n_caches > 1 && is_contradictory(layers, windowed)) {
            continue;
        }
        std::vector<std::vector<int32_t>> & caches = orders.emplace_back(n_caches);
        for (int32_t il = 0; il < (int32_t) layers.all.size(); ++il) {
            caches[windowed >> layers.all[il].mask & 1].push_back(il);
        }
    }
    return orders;
}

// The state of an empty sequence: magic, sequence id, then streams and cell count of every cache. Returns how many caches there are.
size_t read_state_header(relay_context & relay) {
    std::vector<uint8_t> empty(llama_state_seq_get_size(relay.ctx, live_seq));
    const size_t n = llama_state_seq_get_data(relay.ctx, empty.data(), empty.size(), live_seq);
    const size_t n_caches = n < 8 ? 0 : (n - 8) / 8;
    if (n != 8 + 8 * n_caches || n_caches < (size_t) relay.layers.n_kinds || n_caches > 2) {
        fail(RELAY_UNSUPPORTED, "llama.cpp's state of an empty sequence has %zu bytes for %d kinds of layers", n, relay.layers.n_kinds);
    }
    if (n_caches > 1 && relay.layers.masks.size() > most_masks) {
        fail(RELAY_UNSUPPORTED, "the layers of this windowed model are spread over too many devices: %zu masks", relay.layers.masks.size());
    }
    memcpy(&relay.state_magic, empty.data(), sizeof(relay.state_magic));
    return n_caches;
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
        read_rows(relay, 0, probe_tokens, back.data(), nullptr);
        is_equal = back == rows;
    } catch (const Failure &) {
        is_equal = false;
    }
    llama_memory_clear(relay.memory, true);
    return is_equal;
}

void settle_state_order(relay_context & relay) {
    const std::vector<uint8_t> rows = patterned_rows(relay.layers);
    for (const auto & order : cache_orders(relay.layers, read_state_header(relay))) {
        relay.caches = order;
        relay.witnesses.clear();
        for (const std::vector<int32_t> & layers : order) {
            relay.witnesses.insert(relay.witnesses.end(), layers.begin(), layers.begin() + (layers.empty() ? 0 : 1));
        }
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

std::unique_ptr<relay_context> open(llama_context * ctx, int32_t n_threads, relay_stop * stop) {
    require(ctx != nullptr, "ctx is null");
    require(n_threads > 0 && n_threads <= GGML_MAX_N_THREADS, "n_threads is not between 1 and 512");
    require(!stop || Handles<relay_stop>::has(stop), "stop is closed");
    check_context(ctx);
    ggml_cgraph * reserved = llama_graph_reserve(ctx, probe_tokens, 1, 1);
    if (!reserved) {
        fail(RELAY_FAILED, "llama.cpp could not reserve a graph");
    }
    auto relay = std::make_unique<relay_context>();
    relay->ctx = ctx;
    relay->memory = llama_get_memory(ctx);
    relay->stop = stop;
    relay->n_batch = (int32_t) llama_n_ubatch(ctx);
    relay->facts = read_facts(llama_get_model(ctx));
    relay->residents = find_residents(Graph(reserved));
    relay->layers = read_layers(Graph(reserved, &relay->residents), relay->facts);
    // A slice is at most the model's graph with attention written out; rotations are cut to fit.
    const int max_nodes = ggml_graph_n_nodes(reserved) + most_attention_nodes * relay->facts.n_layer + 256;
    relay->backends.open(relay->residents, max_nodes, n_threads, stop);
    settle_state_order(*relay);
    return relay;
}

}  // namespace

}  // namespace relay

int32_t relay_context::length() const {
    return llama_memory_seq_pos_max(memory, relay::live_seq) + 1;
}

int32_t relay_context::n_window(int32_t il) const {
    const bool is_windowed = caches.size() > 1 && std::count(caches[1].begin(), caches[1].end(), il) > 0;
    return is_windowed ? facts.window.n : 0;
}

using namespace relay;

const char * relay_built_commit(void) {
    return RELAY_BUILT_COMMIT;
}

int relay_open(llama_context * ctx, int32_t n_threads, relay_stop * stop, relay_context ** out) {
    return guarded([&] {
        require(out != nullptr, "out is null");
        *out = nullptr;
        *out = Handles<relay_context>::add(open(ctx, n_threads, stop).release());
    });
}

void relay_close(relay_context * relay) {
    Handles<relay_context>::close(relay);
}

int relay_describe(const relay_context * relay, relay_info * out) {
    return guarded([&] {
        require_open(relay, "relay");
        require(out != nullptr, "out is null");
        const Layers & layers = relay->layers;
        const bool is_even = std::all_of(layers.all.begin(), layers.all.end(), [&](const Layer & l) { return l.n_attn == layers.all[0].n_attn; });
        *out = {
            (int32_t) layers.all.size(), relay->n_cells(), relay->facts.n_embd, is_even ? (int32_t) layers.all[0].n_attn : 0, relay->facts.n_vocab,
            relay->n_batch, relay->facts.window.n, layers.all[0].k->type, layers.all[0].v->type, layers.rotate_refusal.empty(),
            layers.slice_refusal.empty(),
        };
    });
}

const char * relay_refusal(const relay_context * relay) {
    if (!Handles<relay_context>::has(relay)) {
        return relay ? "relay is closed" : "relay is null";
    }
    return (relay->layers.rotate_refusal.empty() ? relay->layers.slice_refusal : relay->layers.rotate_refusal).c_str();
}

int relay_describe_layer(const relay_context * relay, int32_t il, relay_layer * out) {
    return guarded([&] {
        require_open(relay, "relay");
        require(out != nullptr, "out is null");
        require(il >= 0 && il < (int32_t) relay->layers.all.size(), "no such layer");
        const Layer & layer = relay->layers.all[il];
        *out = {layer.k_row, layer.v_row, (int32_t) layer.v->ne[0], (int32_t) layer.n_attn, (int32_t) layer.n_head, relay->n_window(il), layer.has_rope};
    });
}
