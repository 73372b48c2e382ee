#pragma once
// Models of this project's own, which memory_speed and what_fits of the installed package compare.
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <headroom/examples/models/models.hpp>
#include <headroom/headroom.hpp>

using namespace headroom;

struct Network : nn::Module<Network> {
    Network(const nn::Path& path, const models::Sizes& sizes)
        : Module(path), in(path / "in", 2, sizes.width), out(path / "out", sizes.width, sizes.classes) {
        for (std::int64_t i = 0; i < sizes.layers; ++i) blocks.emplace_back(path / "blocks" / i, sizes.width);
    }
    Tensor forward(const Tensor& x) const {
        Tensor y = in(x);
        for (const Block& block : blocks) y = block(std::move(y));
        return out(y);
    }

    struct Block : nn::Module<Block> {
        Block(const nn::Path& path, std::int64_t width)
            : Module(path), norm(path / "norm", width), linear(path / "linear", width, width) {}
        Tensor forward(const Tensor& x) const { return x + gelu(linear(norm(x))); }

        nn::LayerNorm norm;
        nn::Linear linear;
    };
    nn::Linear in;
    std::vector<Block> blocks;
    nn::Linear out;
};

/// On random points, of the sizes that the flags say.
inline models::Model network() {
    return {.name = "network",
            .sizes = {.batch = 256, .width = 64, .classes = 10, .layers = 4},
            .ways = {{},
                     {"cheap", "norms and the like", {{"", recompute_cheap()}}},
                     {"blocks", "whole blocks", {{"blocks.*", recompute_all()}}}},
            .make = [](Parameters& parameters, const models::Sizes& sizes) -> models::Step {
                Context& context = parameters.context();
                const auto network = std::make_shared<Network>(nn::Path(parameters), sizes);
                const Tensor points = randn(context, {sizes.batch, 2});
                const Tensor classes = randint(context, 0, sizes.classes, {sizes.batch});
                return {{points, classes}, [network](const std::vector<Tensor>& batch) {
                            return cross_entropy((*network)(batch[0]), batch[1]);
                        }};
            }};
}

/// Learns a rotation of the plane from points that are drawn as it goes, as a task of a Trainer.
class Rotation final : public training::EndlessTask {
  public:
    Rotation(Parameters& parameters, std::int64_t batch)
        : context_(parameters.context()), batch_(batch), model_(nn::Path(parameters), 2, 2) {}
    Batch batch() override {
        const Tensor x = randn(context_, {batch_, 2});
        return {x, matmul(x, context_.from_host(std::vector<float>{0, 1, -1, 0}, {2, 2}))};
    }
    Loss loss(const Batch& batch) override { return mse_loss(model_(batch[0]), batch[1]); }

  private:
    Context& context_;
    std::int64_t batch_;
    nn::Linear model_;
};

/// The task that a Trainer trains.
inline models::Model rotation() { return {.name = "rotation", .task = training::task<Rotation>()}; }
