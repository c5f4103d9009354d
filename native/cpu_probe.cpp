// cpu_probe.cpp: whether ggml's special weight layouts compute on this machine. Some compilers build AMX kernels that
// end the process with an illegal instruction (seen: gcc 12 drops stores to the tile configuration), so a child process
// first computes a tiny product.
#include <vector>

#include "failure.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"

#if defined(__unix__) || defined(__APPLE__)
#include <csignal>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr int64_t n_columns = 512;
constexpr int64_t n_rows = 64;
constexpr int64_t n_tokens = 16;

void multiply(ggml_backend_dev_t device, ggml_backend_buffer_type_t layout, ggml_type type) {
    ggml_context * ctx = ggml_init({16 * ggml_tensor_overhead() + ggml_graph_overhead(), nullptr, true});
    ggml_tensor * weights = ggml_new_tensor_2d(ctx, type, n_columns, n_rows);
    ggml_tensor * input = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, n_columns, n_tokens);
    ggml_backend_t backend = ggml_backend_dev_init(device, nullptr);
    ggml_backend_buffer_t buffer =
        ggml_backend_buft_alloc_buffer(layout, ggml_backend_buft_get_alloc_size(layout, weights));
    if (!buffer ||
        ggml_backend_tensor_alloc(buffer, weights, ggml_backend_buffer_get_base(buffer)) != GGML_STATUS_SUCCESS) {
        return;
    }
    ggml_tensor * product = ggml_mul_mat(ctx, weights, input);
    if (!ggml_backend_dev_supports_op(device, product)) {
        return;
    }
    const std::vector<uint8_t> zeros(ggml_nbytes(weights));
    ggml_backend_tensor_set(weights, zeros.data(), 0, zeros.size());
    ggml_cgraph * graph = ggml_new_graph(ctx);
    ggml_build_forward_expand(graph, product);
    if (ggml_backend_alloc_ctx_tensors(ctx, backend)) {
        ggml_backend_tensor_memset(input, 0, 0, ggml_nbytes(input));
        ggml_backend_graph_compute(backend, graph);
    }
}

void multiply_in_every_layout() {
    ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
    ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(device);
    auto extra =
        (ggml_backend_dev_get_extra_bufts_t) ggml_backend_reg_get_proc_address(reg, "ggml_backend_dev_get_extra_bufts");
    for (ggml_backend_buffer_type_t * layout = extra ? extra(device) : nullptr; layout && *layout; ++layout) {
        for (const ggml_type type : {GGML_TYPE_Q4_0, GGML_TYPE_Q8_0}) {
            multiply(device, *layout, type);
        }
    }
}

bool child_succeeds() noexcept {
    const pid_t child = fork();
    if (child == 0) {
        for (const int number : {SIGILL, SIGSEGV, SIGBUS, SIGABRT}) {
            signal(number, SIG_DFL);
        }
        const int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        try {
            multiply_in_every_layout();
        } catch (...) {
            _exit(1);
        }
        _exit(0);
    }
    int status = 1;
    for (int waited_ms = 0; child > 0 && waited_ms < 5000; ++waited_ms) {
        if (waitpid(child, &status, WNOHANG) != 0) {
            return WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        usleep(1000);
    }
    if (child > 0) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
    }
    return false;
}

}  // namespace

int32_t relay_extra_buffers_work(void) {
    static const bool works = child_succeeds();
    return works;
}
#else
int32_t relay_extra_buffers_work(void) {
    return 1;
}
#endif
