// memory.cpp: what a llama_context takes over all devices, as llama.cpp counts it.
#include <map>

#include "failure.h"
#include "llama.h"

// Of llama.cpp's staging API (src/llama-ext.h), a C++ symbol of libllama.
struct llama_memory_breakdown_data {
    size_t model = 0;
    size_t context = 0;
    size_t compute = 0;
};

std::map<ggml_backend_buffer_type_t, llama_memory_breakdown_data> llama_get_memory_breakdown(const llama_context * ctx);

using namespace relay;

int relay_memory_read(const llama_context * ctx, relay_memory * out) {
    return guarded([&] {
        require(ctx != nullptr && out != nullptr, "context or out is null");
        *out = {};
        for (const auto & [type, bytes] : llama_get_memory_breakdown(ctx)) {
            out->weights += bytes.model;
            out->cache += bytes.context;
            out->compute += bytes.compute;
        }
    });
}
