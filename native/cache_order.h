// cache_order.h: which layers lie in which of llama.cpp's caches. llama.cpp does not say, so the possible orders are
// tried.
#pragma once

#include "cache.h"

namespace relay {

// Sets layers_by_cache, witnesses and state_magic of a cache that is empty and stays so. Throws Failure
// RELAY_UNSUPPORTED if rows that are placed do not read back from where they belong, in any order.
void settle_order(relay_cache & cache);

}  // namespace relay
