#pragma once
// Low-rank adapters of linear layers (LoRA: Hu et al. 2021, arXiv:2106.09685): y = W x + b + alpha / rank * B A x,
// where only A and B are trained. B is initialised to 0, so new adapters do not change the model's output. Add adapters
// before loading weights, since loading allocates all parameters. Files with another project's names (`save_gpt2`,
// `load_bert`) hold the model without its adapters; files::save_parameters keeps both. Not for embeddings, convolutions
// or the tied head of a Gpt, which are not `Linear`.
//
//     nn::Gpt model(parameters, nn::gpt2_sizes(file));
//     parameters.freeze("**");
//     for (std::size_t i = 0; i < model.blocks.size(); ++i)
//         nn::add_low_rank(model.blocks[i].attention.qkv, nn::Path(parameters) / "adapters" / i, {.rank = 8});
//     nn::load_gpt2(file, model);
#include <cstdint>
#include <string_view>

#include <headroom/nn/linear.hpp>

namespace headroom::nn {

struct LowRankOptions {
    std::int64_t rank = 8;
    double alpha = 16;
};

class LowRank : public Module<LowRank> {
  public:
    /// Registers "lora_a.weight" [rank, in], Kaiming uniform with slope sqrt(5), and "lora_b.weight" [out, rank],
    /// zeros. Errors: ShapeError for a rank below 1; Error for an alpha that is not finite.
    LowRank(const Path& path, std::int64_t in, std::int64_t out, const LowRankOptions& options = {});
    /// alpha / rank * B A x: [..., in] -> [..., out].
    Tensor forward(const Tensor& x) const;

    Linear a;
    Linear b;
    double scale;  ///< alpha / rank
};

/// Adds a new `LowRank` of matching size to the layer, with its parameters below `path`, which may be inside or outside
/// the model. An `Mlp` with an adapter keeps more for backward (see mlp.hpp). Errors: as LowRank; Error if the layer
/// already has an adapter, or if parameters were used already.
void add_low_rank(Linear& layer, const Path& path, const LowRankOptions& options = {});

/// Whether the parameter at this path belongs to a `LowRank`.
bool is_low_rank(std::string_view path);

}  // namespace headroom::nn
