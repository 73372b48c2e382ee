#pragma once
// What train_gpt can be told. Defaults are nanoGPT's configuration for a CPU.
//
//     GptFlags flags;
//     add_flags(app, flags);
#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include <headroom/kernels/dtype.hpp>
#include <headroom/nn/gpt.hpp>

namespace headroom::gpt {

struct GptFlags {
    std::string data;
    std::int64_t layers = 4;
    std::int64_t heads = 4;
    std::int64_t width = 128;
    std::int64_t block = 64;
    std::int64_t batch = 12;  ///< of one micro-batch
    std::int64_t accumulate = 1;
    std::int64_t steps = 2000;
    double lr = 1e-3;
    double min_lr = -1;  ///< below 0: a tenth of lr
    std::int64_t warmup = 100;
    double weight_decay = 0.1;
    double beta2 = 0.99;
    double clip = 1.0;
    double dropout = 0.0;
    std::uint64_t seed = 1337;
    std::string device = "cpu";
    std::size_t gpu_memory = 0;
    std::string dtype = "f32";
    bool checkpoint = false;  ///< the same as recompute = "blocks"
    std::string recompute = "mlp";
    std::size_t memory_limit = 0;
    std::string memory_history;
    std::string save;
    std::string resume;
    std::int64_t stop_after = -1;
    std::int64_t sample = 0;
    double temperature = 0.8;
    std::int64_t top_k = 0;
    int threads = 0;
    bool bytes = false;
    std::string json;

    double floor() const { return min_lr < 0 ? lr / 10 : min_lr; }
    /// "none", "cheap", "mlp" or "blocks".
    std::string recomputed() const { return checkpoint ? "blocks" : recompute; }
    /// None for f32.
    std::optional<Dtype> autocast() const;
    nn::GptOptions model(std::int64_t vocabulary) const;
};

/// Ranges are checked by the parser: out of range is wrong usage.
void add_flags(CLI::App& app, GptFlags& flags);

}  // namespace headroom::gpt
