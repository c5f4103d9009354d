#include "model_facts.h"

#include <cmath>
#include <cstdlib>
#include <string>

namespace relay {

float QueryScale::at(int32_t position) const {
    return (float) (std::log(std::floor((position + offset) / step) + 1.0) * strength + 1.0);
}

static std::string metadata(const llama_model * model, const std::string & key) {
    char value[64];
    return llama_model_meta_val_str(model, key.c_str(), value, sizeof(value)) < 0 ? "" : value;
}

// As the architectures' load_arch_hparams in llama.cpp's src/models set it.
static QueryScale read_query_scale(const llama_model * model, const std::string & architecture) {
    if (architecture == "llama4") {
        return {8192, 1.0f, 0.1f};
    }
    if (architecture == "mistral3") {
        const std::string step = metadata(model, "mistral3.rope.scaling.original_context_length");
        const std::string strength = metadata(model, "mistral3.attention.temperature_scale");
        return {step.empty() ? llama_model_n_ctx_train(model) : atoi(step.c_str()), 0.0f,
                strtof(strength.c_str(), nullptr)};
    }
    return {};
}

ModelFacts read_facts(const llama_model * model) {
    const std::string architecture = metadata(model, "general.architecture");
    ModelFacts facts;
    facts.n_layer = llama_model_n_layer(model);
    facts.n_embd = llama_model_n_embd(model);
    facts.n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    facts.window = {llama_model_n_swa(model), architecture == "llama4"};
    facts.query_scale = read_query_scale(model, architecture);
    return facts;
}

}  // namespace relay
