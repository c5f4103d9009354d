// slice/inputs.h: fills the inputs of a slice's graph, as llama.cpp's llm_graph_input_* classes do for a batch of one
// sequence.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cache/cache.h"

namespace relay {

// `inputs` have the names that a Blueprint gives them. Throws Failure RELAY_UNSUPPORTED for an unknown one.
void set_inputs(const relay_cache & cache, const std::vector<std::pair<std::string, ggml_tensor *>> & inputs,
                const relay_slice & slice);

}  // namespace relay
