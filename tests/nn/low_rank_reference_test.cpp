// Layers with low-rank adapters against PEFT on PyTorch in f64 (scripts/reference/low_rank.py): a linear layer, and
// three training steps of a small GPT-2 whose adapters alone are trained.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/nn/gpt2_names.hpp>
#include <headroom/nn/low_rank.hpp>
#include <headroom/optim/adamw.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/tests/support/reference.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::nn {
namespace low_rank_reference_test {

using test::error_in_epsilons;

constexpr double kEpsilon = 0x1p-52;

test::Reference read(const std::string& name) {
    return test::Reference(test::source_path("tests/reference/" + name + ".safetensors"));
}

TEST(LowRankReference, ALinearLayerAgrees) {
    const test::Reference file = read("low_rank");
    const auto want = [&](const std::string& name) { return file.at("linear/" + name); };
    Context context = Context::cpu({.threads = 1});
    Parameters parameters(context, {.dtype = Dtype::f64});
    Linear layer(Path(parameters) / "layer", 5, 7);
    add_low_rank(layer, Path(parameters) / "adapter", {.rank = 3, .alpha = 4.5});
    for (const char* const name : {"weight", "bias"}) parameters.set(std::string("layer.") + name, want(name).values);
    for (const char* const name : {"lora_a", "lora_b"})
        parameters.set(std::string("adapter.") + name + ".weight", want(name).values);
    const auto tensor = [&](const std::string& name) { return context.from_host(want(name).values, want(name).shape); };
    Tensor x = tensor("x");
    x.requires_grad_();
    const Tensor y = layer(x);
    backward(sum(mul(y, tensor("dy"))));

    constexpr double errors = 64;  // sums of up to 12 terms, three products behind each other
    const auto expect = [&](const Tensor& got, const std::string& name) {
        EXPECT_LE(error_in_epsilons(got.to_vector<double>(), want(name).values, kEpsilon), errors) << name;
    };
    expect(y, "y");
    expect(x.grad(), "grad_x");
    for (const std::string name : {"lora_a", "lora_b"})
        expect(parameters.at("adapter." + name + ".weight").tensor.grad(), "grad_" + name);
}

/// The adapters lie in the model, at the names of the layers in Hugging Face's.
class LowRankGptReference : public ::testing::Test {
  protected:
    LowRankGptReference() {
        parameters.freeze("**");
        for (std::size_t i = 0; i < model.blocks.size(); ++i) {
            TransformerBlock& block = model.blocks[i];
            const Path h = Path(parameters) / "h" / static_cast<std::int64_t>(i);
            const LowRankOptions options{.rank = 4, .alpha = 6};
            add_low_rank(block.attention.qkv, h / "attn" / "c_attn", options);
            add_low_rank(block.attention.projection, h / "attn" / "c_proj", options);
            add_low_rank(block.mlp.up, h / "mlp" / "c_fc", options);
            add_low_rank(block.mlp.down, h / "mlp" / "c_proj", options);
        }
        load_gpt2(test::source_path("tests/reference/gpt_initial.safetensors"), model);
        for (const std::string& name : names) parameters.set(name + ".weight", want("initial/" + name));
    }
    const std::vector<double>& want(const std::string& name) const { return file.at("gpt/" + name).values; }
    Tensor batch(const std::string& name, int step) {
        const std::vector<double>& all = batches.at(name).values;
        return context.from_host(std::vector<std::int32_t>(all.begin() + 16 * step, all.begin() + 16 * (step + 1)),
                                 {2, 8});
    }
    static std::vector<std::string> names_of(const test::Reference& file) {
        const std::string prefix = "gpt/initial/";
        std::vector<std::string> names;
        for (const auto& [name, tensor] : file.all()) {
            if (name.starts_with(prefix)) names.push_back(name.substr(prefix.size()));
        }
        return names;
    }

    /// As in gpt_reference_test: some 20 ops with sums of up to 64 terms, and what the adapters add to them.
    static constexpr double kErrors = 512;

    test::Reference file = read("low_rank"), batches = read("gpt_batches");
    std::vector<std::string> names = names_of(file);
    Context context = Context::cpu({.threads = 2});
    Parameters parameters{context, {.dtype = Dtype::f64}};
    Gpt model{Path(parameters), {.vocabulary = 11, .block = 8, .layers = 2, .heads = 2, .width = 16}};
};

TEST_F(LowRankGptReference, LogitsGradientsAndThreeStepsAgree) {
    ASSERT_EQ(names.size(), 2u * 4 * 2);
    {
        const NoGradGuard no_grad(context);
        const std::vector<double> logits = model(batch("ids", 0)).to_vector<double>();
        EXPECT_LE(error_in_epsilons(logits, want("logits"), kEpsilon), kErrors);
    }
    optim::AdamW optimizer(parameters, {.beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1});
    optim::GradientAccumulator accumulator(parameters, optimizer, {.clip = 1.0, .keep_gradients = true});
    for (int step = 0; step < 3; ++step) {
        accumulator.accumulate([&] { return model.loss(batch("ids", step), batch("targets", step)); });
        accumulator.step(1e-3);
        const optim::StepResult result = accumulator.result();
        const auto of_step = [&](const char* name) { return want(name)[static_cast<std::size_t>(step)]; };
        EXPECT_NEAR(result.loss, of_step("losses"), 1e-12);
        EXPECT_NEAR(result.gradient_norm, of_step("norms"), 1e-12);
        if (step > 0) continue;
        for (const std::string& name : names) {
            std::vector<double> got = parameters.at(name + ".weight").tensor.grad().to_vector<double>();
            for (double& value : got) value *= result.multiplier;
            EXPECT_LE(error_in_epsilons(got, want("gradients/" + name), kEpsilon), kErrors) << name;
        }
    }
    for (const std::string& name : names) {
        const std::vector<double> got = parameters.at(name + ".weight").tensor.to_vector<double>();
        EXPECT_LE(error_in_epsilons(got, want("trained/" + name), 1e-12), 1) << name;
    }
}

}  // namespace low_rank_reference_test
}  // namespace headroom::nn
