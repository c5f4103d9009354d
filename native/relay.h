/* relay.h: the contract of relaylite's native extension.
 *
 * The extension reads, places, rotates and recomputes KV rows of one llama_context. It knows nothing of agents,
 * prompts or files. This file holds only declarations, so that the C++ compiler and cffi read the same text.
 *
 * Words.
 *   row            K or V of one token in one layer, in the type of llama.cpp's cache
 *   cell           one token in one layer: its K row and its V row
 *   position       a token's place in the live sequence
 *   slot           a token's place in llama.cpp's cache
 *   live sequence  the tokens whose rows are in the cache. It starts empty and grows at its end, so slot i holds
 *                  position i. Every append checks this (RELAY_BREACH)
 *   rows of n      bytes, layer by layer: K of layer 0 for all n tokens, K of layer 1, …, then V of layer 0, …
 *   tokens
 *   rotate         give K rows another position
 *   slice          some layers of the model, computed for some tokens
 *   ranges         positions [p0, p1) and layers [first, end) exclude their end
 *
 * Errors. A call that returns int returns RELAY_OK or a negative code. After a negative code, relay_error_text()
 * says why. A bad argument never ends the process and changes nothing. A failed call leaves the live sequence as it
 * was, unless its code or its own comment says otherwise. No C++ exception leaves the extension.
 *
 * Threads. One thread at a time uses a relay_cache. Any thread may call relay_stop_set.
 */
/* clang-format off: cffi reads this file too */

enum {
    RELAY_OK = 0,
    RELAY_BAD_ARGUMENT = -1, /* null, closed, negative, out of range, overlapping, or of a wrong size */
    RELAY_UNSUPPORTED = -2,  /* this model or context cannot do that; the text names what is missing */
    RELAY_NO_SPACE = -3,     /* the cache has fewer free slots than that */
    RELAY_FAILED = -4,       /* llama.cpp or ggml refused, or memory ran out */
    RELAY_STOPPED = -5,      /* relay_stop_set: rows of the positions being computed are undefined, truncate them */
    RELAY_BREACH = -6        /* slot i does not hold position i: clear the live sequence */
};

/* Why the last call on this thread failed, "" if it did not. Valid until the thread's next call. */
const char * relay_error_text(void);

/* ggml's build commit that the extension was compiled against. */
const char * relay_built_commit(void);

/* What ggml_tensor_overhead() gave there: bytes of a tensor with its header. */
size_t relay_built_tensor_overhead(void);

/* 1 if ggml's special weight layouts (AMX, repacked weights) compute on this machine. The first call tries them in a
 * child process. 0: load models with llama_model_params.use_extra_bufts = false, or the process ends with an illegal
 * instruction. */
int32_t relay_extra_buffers_work(void);

/* ---- stop: a flag that ends a computation from another thread ---- */

typedef struct relay_stop relay_stop;

/* NULL: out of memory. */
relay_stop * relay_stop_new(void);
void relay_stop_free(relay_stop * stop);
void relay_stop_set(relay_stop * stop, int32_t is_set);
int32_t relay_stop_get(const relay_stop * stop);
/* A ggml_abort_callback; `data` is a relay_stop. */
bool relay_stop_callback(void * data);

/* ---- capture: hidden states, kept while llama.cpp computes ---- */

typedef struct relay_capture relay_capture;

/* NULL: out of memory, or n_positions is negative. */
relay_capture * relay_capture_new(int32_t n_positions);
void relay_capture_free(relay_capture * capture);
/* A ggml_backend_sched_eval_callback for llama_context_params.cb_eval; `data` is a relay_capture. */
bool relay_capture_callback(struct ggml_tensor * tensor, bool ask, void * data);
/* From now on, watch the graph nodes of these n names, such as "l_out-3". Each is F32, [width, n_tokens].
 * n = 0 watches none. What was captured before is dropped. */
int relay_capture_watch(relay_capture * capture, int32_t n, const char * const * names, const int32_t * widths);
/* The next tokens computed stand at `position` and after it. What was captured there is dropped. */
int relay_capture_seek(relay_capture * capture, int32_t position);
/* F16 vectors of positions [p0, p1) of watch i, [p1 − p0][width]. A position that was never captured holds NaN. */
int relay_capture_read(const relay_capture * capture, int32_t i, int32_t p0, int32_t p1, uint16_t * out, size_t n_out);
int relay_capture_write(relay_capture * capture, int32_t i, int32_t p0, int32_t p1, const uint16_t * in, size_t n_in);

/* ---- memory: what a llama_context takes, in bytes, over all devices ---- */

typedef struct relay_memory {
    uint64_t weights;
    uint64_t cache;   /* KV rows, and the states of recurrent layers */
    uint64_t compute; /* what passes between the nodes of llama.cpp's graphs */
} relay_memory;

/* For a context whose model was loaded with llama_model_params.no_alloc: what it would take. */
int relay_memory_read(const struct llama_context * ctx, relay_memory * out);

/* ---- cache: the KV cache of one llama_context ---- */

typedef struct relay_cache relay_cache;

/* Finds the caches and the RoPE parameters in the compute graph of `ctx`, then checks by a round trip that rows land
 * where they should. `ctx` needs an empty cache, n_seq_max >= 2, a unified cache and flash attention. `stop` may be
 * NULL. The relay_cache owns neither `ctx` nor `stop`; both must outlive it. RELAY_UNSUPPORTED: rows of this model
 * cannot be placed at all. */
int relay_cache_open(struct llama_context * ctx, int32_t n_threads, relay_stop * stop, relay_cache ** out);
void relay_cache_close(relay_cache * cache);

typedef struct relay_cache_info {
    int32_t n_layer; /* layers with KV rows */
    int32_t n_slots; /* positions that fit */
    int32_t n_embd;  /* width of the residual stream */
    int32_t n_attn;  /* width of an attention output before its projection, 0 if the layers differ */
    int32_t n_vocab;
    int32_t n_batch;  /* most tokens of a slice */
    int32_t n_window; /* sliding window in positions, 0 if there is none */
    int32_t type_k;   /* ggml_type of K rows */
    int32_t type_v;
    int32_t can_rotate; /* K rows can be rotated */
    int32_t can_slice;  /* layer ranges can be recomputed */
} relay_cache_info;

int relay_cache_describe(const relay_cache * cache, relay_cache_info * out);
/* Why can_rotate or can_slice is 0: one line, "" if both are 1. Valid until the thread's next call. */
const char * relay_cache_refusal(const relay_cache * cache);

typedef struct relay_layer_info {
    size_t k_bytes; /* of one K row */
    size_t v_bytes;
    int32_t v_width;  /* values in a V row */
    int32_t n_attn;   /* width of the attention output before its projection */
    int32_t n_head;   /* heads side by side in it */
    int32_t n_window; /* positions that the layer sees, 0: all before its own */
    int32_t has_rope; /* K depends on its position */
} relay_layer_info;

int relay_cache_describe_layer(const relay_cache * cache, int32_t il, relay_layer_info * out);

/* ---- cache: rows of the live sequence ---- */

/* Tokens [first, first + n) of those whose rows `data` holds. */
typedef struct relay_segment {
    const uint8_t * data; /* rows of n_tokens tokens; NULL: slots whose rows are computed or written later */
    int32_t n_tokens;
    int32_t first;
    int32_t n;
    int32_t delta; /* new position minus the position that K was rotated for */
} relay_segment;

/* Positions in the live sequence. */
int relay_cache_length(const relay_cache * cache, int32_t * n);
/* Drop the positions from p0 on; 0 clears the live sequence. */
int relay_cache_truncate(relay_cache * cache, int32_t p0);
/* Append these segments to the live sequence; K is rotated by each segment's delta. On RELAY_STOPPED nothing is
 * appended. */
int relay_cache_append(relay_cache * cache, const relay_segment * segments, int32_t n_segments);
/* Write the rows of layers [first, end) of these segments into the positions from p0 on; K is rotated by each
 * segment's delta. Positions of a segment without data stay as they are. Bytes of other layers in `data` are not read.
 * After RELAY_FAILED or RELAY_STOPPED, the rows of these positions and layers are undefined. */
int relay_cache_write(relay_cache * cache, int32_t p0, const relay_segment * segments, int32_t n_segments,
                      int32_t first, int32_t end);
/* Rows of positions [p0, p1); n_out = (p1 − p0) · bytes of all rows of a token.
 * If `heeds_stop`, the call may end between two layers with RELAY_STOPPED; `out` is undefined then. */
int relay_cache_read(relay_cache * cache, int32_t p0, int32_t p1, uint8_t * out, size_t n_out, int32_t heeds_stop);
/* Rotate K of positions [p0, p1) by delta positions, in every layer. */
int relay_cache_rotate(relay_cache * cache, int32_t p0, int32_t p1, int32_t delta);
/* Before llama_decode computes the positions up to `last`: mark the slot of `last`. */
int relay_cache_mark(relay_cache * cache, int32_t last);
/* After llama_decode: RELAY_BREACH if it did not write that slot. */
int relay_cache_check(relay_cache * cache, int32_t last);

/* ---- cache: slices, that is layers [first, end) computed for some tokens ---- */

typedef struct relay_slice {
    int32_t first; /* if first == end, no layer runs and only layer `end` is probed */
    int32_t end;
    int32_t n_tokens;          /* 1 … n_batch */
    const int32_t * tokens;    /* [n_tokens], needed if first == 0, else ignored */
    const float * hidden;      /* [n_tokens][n_embd] entering layer `first`, needed if first > 0 */
    const int32_t * positions; /* [n_tokens], ascending, inside the live sequence */
    int32_t write_end;         /* K and V are written for layers [first, write_end);
                                   one of first (none), end, and end + 1 if that is at most n_layer */
    int32_t is_bitwise;        /* 1: equal to llama_decode bit for bit on the same batch;
                                   0: equal to rounding, and faster for few tokens on the CPU */
    int32_t n_probe;           /* the last n_probe tokens are the queries of `mass` */
    /* Results, each NULL if it is not wanted. The first four need end < n_layer; `logits` needs end == n_layer. */
    float * hidden_out; /* [n_tokens][n_embd] entering layer `end`; needs first < end */
    float * v_out;      /* [n_tokens][width of V] of layer `end`, as it would be written */
    float * attn_out;   /* [n_tokens][n_attn of layer `end`] its attention output before the projection */
    float * mass;       /* [length of the live sequence] softmax attention that the probe tokens pay to each
                                   position in layer `end`, summed over heads and probe tokens */
    float * logits;     /* [n_vocab] of the last token */
} relay_slice;

/* Attention sees the cache as it is, plus the rows that this slice writes. RELAY_UNSUPPORTED if can_slice is 0. */
int relay_cache_run_slice(relay_cache * cache, const relay_slice * slice);
