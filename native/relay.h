/* relay.h: the contract of relaylite's native extension.
 *
 * It reads, places, rotates and recomputes KV rows of one llama_context. It knows nothing of agents, prompts or files.
 * Only declarations stand here, so that the C++ compiler and cffi read the same text.
 *
 * Words. position: place of a token in the live sequence. cell: slot in the KV cache. The live sequence is filled from empty,
 * in order, so that cell i holds position i; this is checked after every append (RELAY_BREACH). layer range: [first, end).
 * row: K or V of one token in one layer, in the cache's own type. rows of a run of n tokens ("data"): layer-major bytes,
 * K of layer 0 for all n tokens, K of layer 1, …, then V of layer 0, ….
 *
 * Errors. Every call returns RELAY_OK or a negative code; relay_error_text() then says why (per thread, until the next call
 * on that thread). Bad arguments never abort the process and change nothing. Unless a code says otherwise, a failed call leaves
 * the live sequence as it was.
 *
 * Threads. One relay_context is used by one thread at a time. relay_stop_set may be called from any thread.
 */

enum {
    RELAY_OK           = 0,
    RELAY_BAD_ARGUMENT = -1, /* null, negative, out of range, overlapping, or not of the size that it must have */
    RELAY_UNSUPPORTED  = -2, /* this model or context cannot do that; the text names what is missing */
    RELAY_NO_SPACE     = -3, /* the cells do not fit the context */
    RELAY_FAILED       = -4, /* llama.cpp or ggml refused or ran out of memory */
    RELAY_STOPPED      = -5, /* relay_stop_set: rows of the positions being computed are undefined, truncate them */
    RELAY_BREACH       = -6  /* cell i does not hold position i: clear the live sequence */
};

/* Text of the last failure on this thread, "" if there was none. Valid until the thread's next call. */
const char * relay_error_text(void);

/* ggml's build commit that the extension was compiled against. */
const char * relay_built_commit(void);

/* 1 if ggml's special weight layouts (AMX, repacked weights) compute on this machine, tried out once in a child process; 0: load models with
 * llama_model_params.use_extra_bufts = false, or the process would end with an illegal instruction. */
int32_t relay_extra_buffers_work(void);

/* ---- stop: a flag that ends a computation from another thread ---------------------------------------------------- */

typedef struct relay_stop relay_stop;

relay_stop * relay_stop_new(void);
void         relay_stop_free(relay_stop * stop);
void         relay_stop_set(relay_stop * stop, int32_t is_set);
int32_t      relay_stop_get(const relay_stop * stop);
/* ggml_abort_callback; `data` is a relay_stop. */
bool         relay_stop_callback(void * data);

/* ---- capture: hidden states seen while llama.cpp computes --------------------------------------------------------- */

typedef struct relay_capture relay_capture;

relay_capture * relay_capture_new(int32_t n_positions);
void            relay_capture_free(relay_capture * capture);
/* ggml_backend_sched_eval_callback for llama_context_params.cb_eval; `data` is a relay_capture. */
bool            relay_capture_callback(struct ggml_tensor * tensor, bool ask, void * data);
/* Watch these graph nodes (F32, [width, n_tokens]) by name, such as "l_out-3", from now on; drops what was captured. n = 0: none. */
int             relay_capture_watch(relay_capture * capture, int32_t n, const char * const * names, const int32_t * widths);
/* The next tokens computed stand at `position` and after; what was captured there is forgotten. */
int             relay_capture_seek(relay_capture * capture, int32_t position);
/* F16 vectors of positions [p0, p1) of watch i, [p1 − p0, width]; a position that was never captured holds NaN. */
int             relay_capture_read(const relay_capture * capture, int32_t i, int32_t p0, int32_t p1, uint16_t * out, size_t n_out);
int             relay_capture_write(relay_capture * capture, int32_t i, int32_t p0, int32_t p1, const uint16_t * in, size_t n_in);

/* ---- memory: what a llama_context takes, in bytes, over all devices ------------------------------------------------- */

typedef struct relay_memory {
    uint64_t weights;
    uint64_t cache;      /* KV rows, and states of recurrent layers */
    uint64_t compute;    /* what passes between the nodes of llama.cpp's graphs */
} relay_memory;

/* Also of a context whose model was loaded with llama_model_params.no_alloc: what it would take. */
int relay_memory_read(const struct llama_context * ctx, relay_memory * out);

/* ---- context: one llama_context, seen through its compute graph --------------------------------------------------- */

typedef struct relay_context relay_context;

typedef struct relay_info {
    int32_t n_layer;     /* layers with KV rows */
    int32_t n_cells;     /* of the cache = positions that fit */
    int32_t n_embd;      /* width of the residual stream */
    int32_t n_attn;      /* width of an attention output before its projection, 0 if the layers differ */
    int32_t n_vocab;
    int32_t n_batch;     /* tokens that one slice takes at most */
    int32_t n_window;    /* sliding window in positions, 0 if there is none */
    int32_t type_k;      /* ggml_type of the caches */
    int32_t type_v;
    int32_t can_rotate;  /* K rows can be moved to another position */
    int32_t can_slice;   /* layer ranges can be recomputed */
} relay_info;

/* Looks at the graph of `ctx` (which must have an empty cache, n_seq_max >= 2, a unified cache and flash attention), finds the caches and
 * RoPE parameters, and checks by a round trip that rows land where they should. `stop` may be NULL. RELAY_UNSUPPORTED: rows of this model cannot
 * be placed at all. Neither `ctx` nor `stop` is owned; both outlive the relay_context. */
int  relay_open(struct llama_context * ctx, int32_t n_threads, relay_stop * stop, relay_context ** out);
void relay_close(relay_context * relay);

int  relay_describe(const relay_context * relay, relay_info * out);
/* Why can_rotate or can_slice is 0: one line, "" if both are 1. */
const char * relay_refusal(const relay_context * relay);

typedef struct relay_layer {
    size_t  k_bytes;     /* of one token's row */
    size_t  v_bytes;
    int32_t v_width;     /* values in a V row */
    int32_t n_attn;      /* width of the attention output before its projection */
    int32_t n_head;      /* heads side by side in it */
    int32_t n_window;    /* positions that the layer sees, 0: all before its own */
    int32_t has_rope;    /* K depends on its position */
} relay_layer;

int  relay_describe_layer(const relay_context * relay, int32_t il, relay_layer * out);

/* ---- cells of the live sequence ------------------------------------------------------------------------------------ */

typedef struct relay_segment {
    const uint8_t * data; /* rows of a run of n_run tokens; NULL: cells to be computed by a slice or written later */
    int32_t n_run;
    int32_t first;        /* tokens [first, first + n) of the run are taken over */
    int32_t n;
    int32_t delta;        /* new position minus the position that K is rotated for */
} relay_segment;

/* Positions in the live sequence. */
int relay_length(const relay_context * relay, int32_t * n);
/* Drop positions from p0 on; 0 clears. */
int relay_truncate(relay_context * relay, int32_t p0);
/* Append cells behind the live sequence, with these rows, K rotated by each segment's delta. On RELAY_STOPPED nothing is appended. */
int relay_append(relay_context * relay, const relay_segment * segments, int32_t n_segments);
/* Rows of layers [first, end) of these segments, into the cells from position p0 on, K rotated by each segment's delta; cells of a segment without
 * data stay as they are. Bytes of the run's other layers are not read. Whatever the failure, rows of these cells and layers are undefined after it. */
int relay_write(relay_context * relay, int32_t p0, const relay_segment * segments, int32_t n_segments, int32_t first, int32_t end);
/* Rows of positions [p0, p1), n_out = (p1 − p0) · bytes of all rows of a token. RELAY_STOPPED, if `heeds_stop`, between two layers; `out` is
 * undefined then. */
int relay_read(relay_context * relay, int32_t p0, int32_t p1, uint8_t * out, size_t n_out, int32_t heeds_stop);
/* Rotate K of positions [p0, p1) by delta positions, in every layer. */
int relay_rotate(relay_context * relay, int32_t p0, int32_t p1, int32_t delta);
/* Before llama_decode computes positions up to `last`: mark its cell. After: RELAY_BREACH if that cell was not written. */
int relay_mark(relay_context * relay, int32_t last);
int relay_check(relay_context * relay, int32_t last);

/* ---- slices: layers [first, end) for some tokens -------------------------------------------------------------------- */

typedef struct relay_slice {
    int32_t first;              /* layer range; first == end runs no layer and only probes layer `end` */
    int32_t end;
    int32_t n_tokens;           /* 1 … n_batch */
    const int32_t * tokens;     /* [n_tokens], needed if first == 0, else ignored */
    const float   * hidden;     /* [n_tokens][n_embd] entering layer `first`, needed if first > 0 */
    const int32_t * positions;  /* [n_tokens], ascending, inside the live sequence */
    int32_t write_end;          /* K and V are written for layers [first, write_end); end or end + 1, at most n_layer. first: none */
    int32_t is_bitwise;         /* 1: equal llama_decode bit for bit on the same batch; 0: equal to rounding, and faster for few tokens on the CPU */
    int32_t n_probe;            /* the last n_probe tokens are the queries of `mass` */
    /* results, each NULL if not wanted */
    float * hidden_out;         /* [n_tokens][n_embd] entering layer `end`; end < n_layer */
    float * v_out;              /* [n_tokens][width of V] of layer `end`, as it would be written; end < n_layer */
    float * attn_out;           /* [n_tokens][n_attn of layer `end`] its attention output before the projection; end < n_layer */
    float * mass;               /* [length of the live sequence] softmax attention of layer `end` that the probe tokens pay to each position, summed over
                                   heads and probe tokens; end < n_layer */
    float * logits;             /* [n_vocab] of the last token; end == n_layer */
} relay_slice;

/* Attention sees the cells as they are, plus the rows that this slice writes. RELAY_UNSUPPORTED if can_slice is 0. */
int relay_slice_run(relay_context * relay, const relay_slice * slice);
