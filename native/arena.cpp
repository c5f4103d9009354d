#include "arena.h"

#include <algorithm>

#include "failure.h"

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

}  // namespace relay
