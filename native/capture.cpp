#include "capture.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ggml-backend.h"
#include "handles.h"

namespace relay {

static Watch & watch_at(relay_capture * capture, int32_t i, int32_t p0, int32_t p1, size_t n) {
    require_open(capture, "capture");
    require(i >= 0 && i < (int32_t) capture->watches.size(), "no such watch");
    require(p0 >= 0 && p0 <= p1 && p1 <= capture->n_positions, "positions outside the capture");
    Watch & watch = capture->watches[i];
    require(n == (size_t) (p1 - p0) * watch.width, "buffer is not (p1 - p0) x width");
    return watch;
}

// Makes room up to position `end`, and no more: most contexts are far longer than their conversations.
static void reach(Watch & watch, int32_t end) {
    const size_t n = (size_t) end * watch.width;
    if (watch.vectors.size() < n) {
        watch.vectors.resize(n, ggml_fp32_to_fp16(NAN));
    }
}

static Watch * watch_named(relay_capture * capture, const char * name) {
    for (Watch & watch : capture->watches) {
        if (watch.name == name) {
            return &watch;
        }
    }
    return nullptr;
}

static void keep(relay_capture * capture, Watch & watch, const ggml_tensor * tensor) {
    const int64_t n_tokens = tensor->ne[1];
    const int64_t at = watch.cursor;
    watch.cursor = (int32_t) std::min<int64_t>(at + n_tokens, capture->n_positions);  // also if nothing can be kept
    if (tensor->type != GGML_TYPE_F32 || tensor->ne[0] != watch.width || !ggml_is_contiguous(tensor) ||
        at + n_tokens > capture->n_positions) {
        return;
    }
    capture->staging.resize((size_t) n_tokens * watch.width);
    ggml_backend_tensor_get(tensor, capture->staging.data(), 0, ggml_nbytes(tensor));
    reach(watch, (int32_t) (at + n_tokens));
    ggml_fp32_to_fp16_row(capture->staging.data(), watch.vectors.data() + (size_t) at * watch.width,
                          n_tokens * watch.width);
}

}  // namespace relay

using namespace relay;

relay_capture * relay_capture_new(int32_t n_positions) {
    relay_capture * capture = nullptr;
    guarded([&] {
        require(n_positions >= 0, "n_positions is negative");
        auto made = std::make_unique<relay_capture>();
        made->n_positions = n_positions;
        capture = Handles<relay_capture>::add(std::move(made));
    });
    return capture;
}

void relay_capture_free(relay_capture * capture) {
    Handles<relay_capture>::close(capture);
}

bool relay_capture_callback(ggml_tensor * tensor, bool ask, void * data) {
    auto * capture = static_cast<relay_capture *>(data);
    if (!capture || capture->watches.empty() || !tensor) {
        return !ask;
    }
    Watch * watch = watch_named(capture, tensor->name);
    if (ask) {
        return watch != nullptr;
    }
    try {
        if (watch) {
            keep(capture, *watch, tensor);
        }
    } catch (...) {
        // Memory ran out. The position holds NaN, so its token is computed again later.
    }
    return true;
}

int relay_capture_watch(relay_capture * capture, int32_t n, const char * const * names, const int32_t * widths) {
    return guarded([&] {
        require_open(capture, "capture");
        require(n >= 0 && (n == 0 || (names && widths)), "names and widths are needed");
        std::vector<Watch> watches;
        for (int32_t i = 0; i < n; ++i) {
            require(names[i] && names[i][0] && widths[i] > 0, "a watch needs a name and a width");
            watches.push_back({names[i], widths[i], 0, {}});
        }
        capture->watches = std::move(watches);
    });
}

int relay_capture_seek(relay_capture * capture, int32_t position) {
    return guarded([&] {
        require_open(capture, "capture");
        require(position >= 0 && position <= capture->n_positions, "position outside the capture");
        for (Watch & watch : capture->watches) {
            watch.cursor = position;
            watch.vectors.resize(std::min(watch.vectors.size(), (size_t) position * watch.width));
        }
    });
}

int relay_capture_read(const relay_capture * capture, int32_t i, int32_t p0, int32_t p1, uint16_t * out, size_t n_out) {
    return guarded([&] {
        require(out != nullptr || n_out == 0, "out is null");
        const Watch & watch = watch_at(const_cast<relay_capture *>(capture), i, p0, p1, n_out);
        const size_t from = std::min((size_t) p0 * watch.width, watch.vectors.size());
        const size_t known = std::min(watch.vectors.size() - from, n_out);
        std::copy_n(watch.vectors.data() + from, known, out);
        std::fill(out + known, out + n_out, ggml_fp32_to_fp16(NAN));
    });
}

int relay_capture_write(relay_capture * capture, int32_t i, int32_t p0, int32_t p1, const uint16_t * in, size_t n_in) {
    return guarded([&] {
        require(in != nullptr || n_in == 0, "in is null");
        Watch & watch = watch_at(capture, i, p0, p1, n_in);
        reach(watch, p1);
        std::copy_n(in, n_in, watch.vectors.data() + (size_t) p0 * watch.width);
    });
}
