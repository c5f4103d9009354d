// failure.h: how native code fails. Inside, a Failure is thrown before ggml could end the process. At the C boundary,
// guarded() turns every exception into a code and a text.
#pragma once

#include <cstddef>
#include <cstdint>
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
    int code;  // of relay.h
    std::string text;
};

// Throws a Failure; its text is cut after 511 bytes.
[[noreturn]] void fail(int code, const char * format, ...) __attribute__((format(printf, 2, 3)));

inline void require(bool condition, const char * what) {
    if (!condition) {
        fail(RELAY_BAD_ARGUMENT, "%s", what);
    }
}

// Sets what relay_error_text() gives on this thread, cut after 511 bytes.
void remember(const char * text) noexcept;

// Runs the body of an entry of relay.h. No exception leaves it.
template <typename Body>
int guarded(Body && body) noexcept {
    try {
        remember("");
        body();
        return RELAY_OK;
    } catch (const Failure & failure) {
        remember(failure.text.c_str());
        return failure.code;
    } catch (const std::bad_alloc &) {
        remember("out of memory");
    } catch (const std::exception & error) {
        remember(error.what());
    } catch (...) {
        remember("unknown C++ exception");
    }
    return RELAY_FAILED;
}

}  // namespace relay
