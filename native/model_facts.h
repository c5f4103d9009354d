// model_facts.h: what llama.cpp knows about a model and its compute graph does not show: sizes, and how positions count
// besides RoPE.
#pragma once

#include <cstdint>

#include "llama.h"

namespace relay {

// Which positions up to its own a windowed layer sees (llama_hparams::is_masked_swa in llama.cpp's
// src/llama-hparams.h).
struct Window {
    int32_t n = 0;            // 0: there is none
    bool is_chunked = false;  // true: the positions since the last multiple of n; false: the last n
};

// How a position scales the query there (llm_graph_input_attn_temp in llama.cpp's src/llama-graph.cpp).
struct QueryScale {
    int32_t step = 0;  // 0: not known
    float offset = 0.0f;
    float strength = 0.0f;

    float at(int32_t position) const;
};

struct ModelFacts {
    int32_t n_layer = 0;
    int32_t n_embd = 0;
    int32_t n_vocab = 0;
    Window window;
    QueryScale query_scale;
};

ModelFacts read_facts(const llama_model * model);

}  // namespace relay
