// cache/order.h: which layers lie in which of llama.cpp's caches. llama.cpp does not say it, so all orders are tried.
#pragma once

#include "cache/cache.h"

namespace relay {

// Sets layers_by_cache, witnesses and state_magic of an empty cache, and leaves it empty. Throws Failure
// RELAY_UNSUPPORTED if rows that are placed do not read back from where they belong, in any order.
void settle_order(relay_cache & cache);

}  // namespace relay
