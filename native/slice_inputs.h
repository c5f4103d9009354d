// slice_inputs.h: fills the inputs of a slice's graph as llama.cpp's llm_graph_input_* classes do for a batch of one sequence.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "context.h"

namespace relay {

// `inputs` as a Blueprint names them. Throws Failure for one that is not known.
void set_inputs(const relay_context & relay, const std::vector<std::pair<std::string, ggml_tensor *>> & inputs, const relay_slice & slice);

}  // namespace relay
