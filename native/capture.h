// capture.h: keeps named graph nodes, per position, while llama.cpp decodes. Knows no layers and no policy.
#pragma once

#include <string>
#include <vector>

#include "ggml.h"
#include "failure.h"

namespace relay {

struct Watch {
    std::string name;
    int32_t width;
    int32_t cursor;                   // position of the next row
    std::vector<ggml_fp16_t> vectors; // [positions seen, width], NaN where none was captured
};

}  // namespace relay

struct relay_capture {
    int32_t n_positions;
    std::vector<relay::Watch> watches;
    std::vector<float> staging;
};
