// handles.h: which objects are open, so that a closed handle is an error text and not a use after free.
#pragma once

#include <mutex>
#include <unordered_set>

#include "failure.h"

namespace relay {

// One set a type. An address that was closed and given to a new object counts as open again.
template <typename T>
class Handles {
  public:
    static T * add(T * object) {
        const std::lock_guard<std::mutex> lock(mutex());
        open().insert(object);
        return object;
    }

    // Deletes the object, once.
    static void close(T * object) {
        {
            const std::lock_guard<std::mutex> lock(mutex());
            if (open().erase(object) == 0) {
                return;
            }
        }
        delete object;
    }

    static bool has(const T * object) {
        const std::lock_guard<std::mutex> lock(mutex());
        return open().count(object) > 0;
    }

  private:
    static std::mutex & mutex() {
        static std::mutex value;
        return value;
    }

    static std::unordered_set<const T *> & open() {
        static std::unordered_set<const T *> value;
        return value;
    }
};

template <typename T>
void require_open(const T * object, const char * name) {
    if (!object || !Handles<T>::has(object)) {
        fail(RELAY_BAD_ARGUMENT, "%s is %s", name, object ? "closed" : "null");
    }
}

}  // namespace relay
