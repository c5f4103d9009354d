// built_commit.cpp: the sources of ggml that CMakeLists.txt compiled the extension against.
#include "failure.h"

const char * relay_built_commit(void) {
    return RELAY_BUILT_COMMIT;
}

size_t relay_built_tensor_overhead(void) {
    return RELAY_BUILT_TENSOR_OVERHEAD;
}
