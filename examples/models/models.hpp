#pragma once
// Models that memory_speed and what_fits compare (examples/compare): each has a name, its loss on inputs of any size or
// a task of a `training::Trainer`, and its own ways of recomputing. `all` has published models on random data; yours is
// one more, in a program of your own. Not for training: that is `training::Trainer`.
//
//     const models::Model points{.name = "points",                                            // on inputs that it draws
//                                .sizes = {.batch = 64},
//                                .make = [](Parameters& parameters, const models::Sizes& sizes) -> models::Step { ... }};
//     const models::Model digits{.name = "digits", .task = training::task<Digits>(images, held_out)};  // on your data
//     return compare::memory_speed(argc, argv, {points, digits});
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/loss.hpp>
#include <headroom/core/parameters.hpp>
#include <headroom/core/tensor.hpp>
#include <headroom/nn/recompute_way.hpp>
#include <headroom/training/task.hpp>

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

/// A model's loss, and inputs that stay.
struct Step {
    std::vector<Tensor> inputs;
    std::function<Loss(const std::vector<Tensor>&)> loss;
    /// From now on recurrent layers keep some states (`kSqrtOfTime`): a way without policies that is not the first.
    std::function<void()> checkpoint = {};
    std::function<Loss(const std::vector<Tensor>&)> loss_of_whole_logits = {};  ///< where `loss` takes chunks of them
};

/// What a sample of a batch is: of images with a height and a width, of sequences with a block. Others have no size.
enum class Samples { others, images, sequences };
/// "samples", "images", "sequences".
std::string plural(Samples samples);

/// One of `make` and `task` makes its training.
struct Model {
    std::string name = {};  ///< of --model: without a comma, not beginning with "-", and not "all"
    Sizes sizes = {};       ///< usual ones, for flags that are not given
    Samples samples = Samples::others;
    bool chunks_logits = false;  ///< its steps have a `loss_of_whole_logits`
    nn::RecomputeWays ways{{}};  ///< such as `nn::Gpt::recompute_ways()`
    bool has_peer = false;       ///< bench/peers has PyTorch's training of it, for --peers
    /// Makes module, inputs and loss for a micro-batch of `Sizes::batch` samples. Each training calls it anew.
    std::function<Step(Parameters&, const Sizes&)> make = {};
    /// Makes the task as a `Trainer` would, on its own data, which knows no size but the batch.
    training::MakeTask task = {};

    /// Errors: Error that lists the ways if none has this name.
    const nn::RecomputeWay& way(const std::string& name) const;
    /// With the usual ones for those that are 0.
    Sizes completed(Sizes given) const;
    /// "32 sequences of 1024 tokens".
    std::string inputs(const Sizes& given) const;
};

/// By their names.
const std::vector<Model>& all();
std::vector<std::string> names(const std::vector<Model>& models);
/// Errors: Error that lists the names if none of the models has this one.
const Model& named(const std::vector<Model>& models, const std::string& name);
/// Errors: Error that says what to change if there is no model, or --model can't tell one from the others, or one
/// lacks what makes its training.
void check(const std::vector<Model>& models);

}  // namespace headroom::models
