// cache/state.h: new slots with rows in them. llama.cpp gives such slots only to a saved state that is loaded
// (llama_kv_cache::state_write in its src/llama-kv-cache.cpp has the format). So a state with the rows is composed and
// loaded into the scratch sequence. Then the live sequence takes over its slots, which copies no rows.
#pragma once

#include "cache/segments.h"

namespace relay {

// Reads the state of an empty sequence: keeps its magic number in `cache`, returns how many caches llama.cpp has (1 or
// 2). Throws Failure RELAY_UNSUPPORTED if the state does not look as this file expects.
size_t read_state_header(relay_cache & cache);
// Appends these rows to the live sequence as they are; segments without data get markers. On a Failure some of the
// slots may have been appended.
void place(relay_cache & cache, Segments segments);

}  // namespace relay
