// hadamard.h: the normalised Walsh–Hadamard matrix that llama.cpp multiplies rows with before it quantizes them
// (src/llama-kv-cache.cpp). The matrix is its own inverse.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace relay {

// [n, n]; n is a power of two.
inline std::vector<float> hadamard(int64_t n) {
    std::vector<float> values(n * n);
    const float scale = 1.0f / std::sqrt((float) n);
    for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j < n; ++j) {
            values[i * n + j] = __builtin_parityll(i & j) ? -scale : scale;
        }
    }
    return values;
}

}  // namespace relay
