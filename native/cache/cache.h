// cache/cache.h: the KV cache of one llama_context as relaylite sees it. Owns our scheduler and scratch memory; the
// llama_context and the stop flag belong to the caller.
#pragma once

#include <string>
#include <vector>

#include "backends.h"
#include "graph/blueprint.h"
#include "graph/layers.h"
#include "llama.h"
#include "model_facts.h"
#include "stop.h"

namespace relay {

constexpr llama_seq_id live_seq = 0;     // the live sequence
constexpr llama_seq_id scratch_seq = 1;  // holds slots only while new ones are placed (cache/state.h)

struct LayerRange {
    int32_t first;
    int32_t end;
};

}  // namespace relay

struct relay_cache {
    llama_context * ctx = nullptr;
    llama_memory_t memory = nullptr;
    relay_stop * stop = nullptr;
    int32_t n_batch = 0;
    relay::ModelFacts facts;
    relay::Layers layers;
    std::string rotate_refusal;  // why K rows cannot be rotated, "" if they can
    std::string slice_refusal;   // why layer ranges cannot be recomputed, "" if they can
    relay::Residents residents;
    relay::Backends backends;
    struct {
        relay::Blueprint value;
        bool is_tried = false;
        bool is_general = false;  // good for any number of tokens
    } blueprint;
    // The layers of each of llama.cpp's caches, in the order of its state format: a windowed cache is the second.
    std::vector<std::vector<int32_t>> layers_by_cache;
    std::vector<int32_t> witnesses;  // one layer of each of llama.cpp's caches; its K rows show a misplaced slot
    std::vector<uint8_t> state;      // the composed state (cache/state.h); its memory is kept between appends
    uint32_t state_magic = 0;

    // Positions in the live sequence.
    int32_t length() const;
    int32_t n_slots() const { return (int32_t) layers.n_slots; }
    int32_t n_layer() const { return (int32_t) layers.all.size(); }
    // Sliding window of layer `il` in positions. 0: the layer sees all positions before its own.
    int32_t n_window(int32_t il) const;
};
