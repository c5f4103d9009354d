// handles.h: which objects are open, so that use of a closed handle is an error text and not a use after free.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_set>

#include "failure.h"

namespace relay {

// The open objects of one type. Entries without a code call `close` and `has`, so these throw nothing. If a new object
// gets the address of a closed one, the old handle counts as open again.
template <typename T>
class Handles {
  public:
    static T * add(std::unique_ptr<T> object) {
        const std::lock_guard<std::mutex> lock(mutex());
        open().insert(object.get());
        return object.release();
    }

    // Deletes the object if it is open.
    static void close(T * object) noexcept {
        {
            const std::lock_guard<std::mutex> lock(mutex());
            if (open().erase(object) == 0) {
                return;
            }
        }
        delete object;
    }

    static bool has(const T * object) noexcept {
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

// Throws Failure RELAY_BAD_ARGUMENT if `object` is null or closed; `name` stands in its text.
template <typename T>
void require_open(const T * object, const char * name) {
    if (!object || !Handles<T>::has(object)) {
        fail(RELAY_BAD_ARGUMENT, "%s is %s", name, object ? "closed" : "null");
    }
}

}  // namespace relay
