// capture.h: keeps the values of named graph nodes, per position, while llama.cpp decodes. Knows no layers and no
// policy.
#pragma once

#include <string>
#include <vector>

#include "failure.h"
#include "ggml.h"

namespace relay {

struct Watch {
    std::string name;
    int32_t width;
    int32_t cursor;                    // position of the next token
    std::vector<ggml_fp16_t> vectors;  // [positions seen, width], NaN where none was captured
};

}  // namespace relay

struct relay_capture {
    int32_t n_positions = 0;
    std::vector<relay::Watch> watches;
    std::vector<float> staging;  // F32 values of a node, before they are made F16
};
