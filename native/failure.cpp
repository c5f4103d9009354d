#include "failure.h"

#include <cstdio>

namespace relay {

static thread_local std::string last_text;

void remember(const std::string & text) {
    last_text = text;
}

void fail(int code, const char * format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    throw Failure{code, text};
}

}  // namespace relay

const char * relay_error_text(void) {
    return relay::last_text.c_str();
}
