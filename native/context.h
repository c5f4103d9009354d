// context.h: one llama_context as relaylite sees it. Owns our scheduler and scratch memory; the llama_context belongs to the caller.
#pragma once

#include <string>
#include <vector>

#include "backends.h"
#include "blueprint.h"
#include "layers.h"
#include "llama.h"
#include "model_facts.h"

namespace relay {

constexpr llama_seq_id live_seq = 0;     // the conversation
constexpr llama_seq_id scratch_seq = 1;  // only ever holds cells between llama_state_seq_set_data and llama_memory_seq_cp

// ggml metadata of one graph: tensors without data.
struct Arena {
    explicit Arena(size_t n_nodes);
    ~Arena();
    Arena(const Arena &) = delete;
    Arena & operator=(const Arena &) = delete;

    ggml_context * ctx;
    ggml_cgraph * graph;
};

}  // namespace relay

struct relay_context {
    llama_context * ctx;
    llama_memory_t memory;
    relay_stop * stop;
    relay::Layers layers;
    relay::Residents residents;                // weights and caches by name
    relay::Backends backends;
    struct {
        relay::Blueprint value;
        bool is_tried = false;
        bool is_general = false;               // good for any number of tokens
    } blueprint;
    std::vector<std::vector<int32_t>> caches;  // layers of each of llama.cpp's caches, in the order of the state format: the windowed one is second
    std::vector<int32_t> witnesses;            // one layer of each cache, by whose rows a misplaced cell is noticed
    std::vector<uint8_t> state;                // the composed state, kept between appends
    uint32_t state_magic;
    int32_t n_batch;
    relay::ModelFacts facts;
    std::string refusal;

    int32_t length() const;
    int32_t n_cells() const { return (int32_t) layers.n_cells; }
    int32_t n_layer() const { return (int32_t) layers.all.size(); }
    // 0 if layer `il` sees all positions before its own.
    int32_t n_window(int32_t il) const;
};

namespace relay {

struct LayerRange {
    int32_t first;
    int32_t end;
};

void append(relay_context & relay, const relay_segment * segments, int32_t n_segments);
void write(relay_context & relay, int32_t p0, const relay_segment * segments, int32_t n_segments, LayerRange layers);
// Rows of positions [p0, p0 + n) to be turned by delta positions.
struct Run {
    int32_t p0;
    int32_t n;
    int32_t delta;
};

void rotate(relay_context & relay, const std::vector<Run> & runs, LayerRange layers);
void run_slice(relay_context & relay, const relay_slice & slice);
void read_rows(const relay_context & relay, int32_t p0, int32_t p1, uint8_t * out, const relay_stop * stop);

}  // namespace relay
