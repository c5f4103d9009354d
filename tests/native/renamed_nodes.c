/* Preloaded, it makes a llama.cpp of another version: graph nodes and inputs whose name begins with $RENAMED get another one. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ggml.h"

static struct ggml_tensor * named(struct ggml_tensor * tensor, const char * name) {
    const char * renamed = getenv("RENAMED");
    const int is_hit = renamed && strncmp(name, renamed, strlen(renamed)) == 0;
    snprintf(tensor->name, sizeof(tensor->name), "%s%s", is_hit ? "other_" : "", name);
    return tensor;
}

struct ggml_tensor * ggml_set_name(struct ggml_tensor * tensor, const char * name) {
    return named(tensor, name);
}

struct ggml_tensor * ggml_format_name(struct ggml_tensor * tensor, const char * format, ...) {
    char name[GGML_MAX_NAME];
    va_list args;
    va_start(args, format);
    vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    return named(tensor, name);
}
