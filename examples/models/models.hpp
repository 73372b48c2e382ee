#pragma once
// Whole models on random data, to be timed or rehearsed (examples/models/task.hpp). Each has its loss, inputs of any
// size, and its own ways of recomputing. For data and weights of your own: nn/, and the programs train_*.
//
//     const models::Model& resnet = models::all().at("resnet50");
//     const models::Step step = resnet.make(parameters, resnet.sizes);
//     const Loss loss = step.loss(step.inputs);
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/loss.hpp>
#include <headroom/core/parameters.hpp>
#include <headroom/core/tensor.hpp>

namespace headroom::models {

/// Of a micro-batch.
struct Sizes {
    std::int64_t batch = 32;                 ///< samples
    std::int64_t height = 224, width = 224;  ///< of images; the width of gpt is that of its layers
    std::int64_t block = 128;                ///< tokens of a sequence
    std::int64_t classes = 1000;             ///< of images or pixels; of gpt, lstm and gru, kinds of tokens
    std::int64_t layers = 12;                ///< of gpt and mlp; others have as many as they have
};
/// Each 0, which stands for a model's usual one.
constexpr Sizes kUsualSizes{.batch = 0, .height = 0, .width = 0, .block = 0, .classes = 0, .layers = 0};

/// A way of recomputing, with the name that the training programs have for it.
struct Way {
    std::string name = "none";
    std::vector<std::pair<std::string, Policy>> policies = {};
    bool checkpoint = false;  ///< recurrent layers keep some states (`kSqrtOfTime`), and compute the others again
};

/// A model's loss, and inputs that stay.
struct Step {
    std::vector<Tensor> inputs;
    std::function<Loss(const std::vector<Tensor>&)> loss;
    std::function<void()> checkpoint = {};  ///< what `Way::checkpoint` says, from now on
    std::function<Loss(const std::vector<Tensor>&)> loss_of_whole_logits = {};  ///< where `loss` takes chunks of them
};

struct Model {
    Sizes sizes = {};  ///< usual ones
    bool reads_tokens = false;
    bool chunks_logits = false;  ///< its steps have a `loss_of_whole_logits`
    std::vector<Way> ways = {};  ///< from keeping all to the least memory
    std::function<Step(Parameters&, const Sizes&)> make;

    /// Errors: Error that lists the ways if none has this name.
    const Way& way(const std::string& name) const;
    /// With the usual ones for those that are 0.
    Sizes completed(Sizes given) const;
    /// "32 sequences of 1024 tokens".
    std::string inputs(const Sizes& given) const;
};

/// By their names.
const std::map<std::string, Model>& all();

}  // namespace headroom::models
