// failure.h: how native code fails. Inside, a Failure is thrown before ggml could assert; at the C boundary, guarded() turns it into a code and a text.
#pragma once

#include <cstdarg>
#include <cstdint>
#include <cstddef>
#include <exception>
#include <new>
#include <string>

extern "C" {
struct llama_context;
struct ggml_tensor;
#include "relay.h"
}

namespace relay {

struct Failure {
    int code;
    std::string text;
};

[[noreturn]] void fail(int code, const char * format, ...) __attribute__((format(printf, 2, 3)));
void remember(const std::string & text);

inline void require(bool condition, const char * what) {
    if (!condition) {
        fail(RELAY_BAD_ARGUMENT, "%s", what);
    }
}

template <typename Body>
int guarded(Body && body) {
    try {
        remember("");
        body();
        return RELAY_OK;
    } catch (const Failure & failure) {
        remember(failure.text);
        return failure.code;
    } catch (const std::bad_alloc &) {
        remember("out of memory");
        return RELAY_FAILED;
    } catch (const std::exception & error) {
        remember(error.what());
        return RELAY_FAILED;
    }
}

}  // namespace relay
