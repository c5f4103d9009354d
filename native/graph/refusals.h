// graph/refusals.h: what cannot be done with a model, seen from its graph. Each function gives one line for people that
// says why not, "" if it can be done.
#pragma once

#include <string>
#include <vector>

#include "graph/layers.h"
#include "graph/nodes.h"
#include "model_facts.h"

namespace relay {

// Rows can be read and placed.
std::string rows_refusal(const Graph & graph, const std::vector<LayerNodes> & nodes);
// K rows can be given another position.
std::string rotate_refusal(const Graph & graph, const std::vector<LayerNodes> & nodes, const Layers & layers);
// Layer ranges can be recomputed.
std::string slice_refusal(const Graph & graph, const std::vector<LayerNodes> & nodes, const Layers & layers,
                          const ModelFacts & facts);

}  // namespace relay
