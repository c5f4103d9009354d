#include "failure.h"

#include <cstdarg>
#include <cstdio>

namespace relay {

static thread_local char last_text[512] = "";

void remember(const char * text) noexcept {
    snprintf(last_text, sizeof(last_text), "%s", text);
}

void fail(int code, const char * format, ...) {
    char text[sizeof(last_text)];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    throw Failure{code, text};
}

}  // namespace relay

const char * relay_error_text(void) {
    return relay::last_text;
}
