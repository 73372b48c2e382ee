// The transformer's encoder against torch.nn.TransformerEncoder: output and all gradients, with padding.
#include <headroom/nn/transformer_encoder.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/support/reference.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::nn {
namespace transformer_encoder_test {

/// "post.layers.1.attention.qkv.weight" as PyTorch has it: "layers.1.self_attn.in_proj_weight".
std::string torch_name(std::string path) {
    path.erase(0, path.find('.') + 1);
    const std::pair<std::string, std::string> names[] = {{"attention.qkv.", "self_attn.in_proj_"},
                                                         {"attention.projection.", "self_attn.out_proj."},
                                                         {"mlp.up.", "linear1."},
                                                         {"mlp.down.", "linear2."}};
    for (const auto& [ours, theirs] : names) {
        if (const std::size_t at = path.find(ours); at != std::string::npos) path.replace(at, ours.size(), theirs);
    }
    return path;
}

TransformerEncoderOptions sizes() {
    return {.width = 8, .heads = 2, .hidden = 12, .layers = 2, .dropout = 0, .attention_dropout = 0};
}

class TransformerEncoders : public ::testing::Test {
  protected:
    static constexpr int kErrors = 512;  // gradients pass some 30 ops with sums of up to 24 terms

    Tensor at(const std::string& name, Dtype dtype) {
        const test::ReferenceTensor& tensor = reference.at(name);
        if (tensor.dtype == "I64")
            return context.from_host(std::vector<std::int64_t>(tensor.values.begin(), tensor.values.end()),
                                     tensor.shape);
        return cast(context.from_host(tensor.values, tensor.shape), dtype).detach();
    }
    void expect_near(const Tensor& got, const std::string& name) {
        const double error =
            test::error_in_epsilons(got.to_vector<double>(), reference.at(name).values, epsilon(got.dtype()));
        EXPECT_LE(error, kErrors) << name;
    }
    void expect_agrees(const std::string& name, const TransformerEncoderOptions& options) {
        for (const Dtype dtype : {Dtype::f64, Dtype::f32}) expect_agrees(name, options, dtype);
    }
    void expect_agrees(const std::string& name, const TransformerEncoderOptions& options, Dtype dtype) {
        SCOPED_TRACE(kernels::name(dtype));
        Parameters parameters(context, {.name = name, .dtype = dtype});
        const TransformerEncoder encoder(parameters, options);
        for (const Parameter& parameter : parameters.all())
            parameters.set(parameter.path, reference.at(name + "/" + torch_name(parameter.path)).values);
        const Tensor lengths = at(name + "/lengths", dtype);
        const Tensor seen = lt(arange(context, 0, 7, 1, Dtype::i64), lengths.unsqueeze(1));
        for (const AttentionMask& mask : {AttentionMask{.lengths = lengths}, AttentionMask{.keys = seen}}) {
            const Tensor x = at(name + "/x", dtype).requires_grad_();
            const Tensor y = encoder(x, mask);
            expect_near(y, name + "/y");
            backward(sum(y * at(name + "/dy", dtype)));
            expect_near(x.grad(), name + "/dx");
            for (const Parameter& parameter : parameters.all())
                expect_near(parameter.tensor.grad(), name + "/grad/" + torch_name(parameter.path));
            parameters.zero_grad();
        }
    }

    test::Reference reference{test::source_path("tests/reference/transformer_encoder.safetensors")};
    Context context = Context::cpu({.threads = 2, .seed = 1});
    Parameters parameters_{context, {.name = "refused"}};
};

TEST_F(TransformerEncoders, WithNormsBehindBranchesAgreesWithPyTorch) {
    TransformerEncoderOptions options = sizes();
    options.activation = Activation::gelu_erf;
    expect_agrees("post", options);
}

TEST_F(TransformerEncoders, WithNormsBeforeBranchesAgreesWithPyTorch) {
    TransformerEncoderOptions options = sizes();
    options.norm_first = true;
    expect_agrees("pre", options);
}

/// Dropout of probabilities and of branches: gradients of a region that is recomputed have the same bits, and nothing
/// is dropped in evaluation.
TEST_F(TransformerEncoders, DropTheSameWhenRecomputed) {
    const auto gradients = [](bool recompute, bool training) {
        Context own = Context::cpu({.threads = 2, .seed = 5});
        Parameters parameters(own);
        TransformerEncoderOptions options = sizes();
        options.dropout = 0.2, options.attention_dropout = 0.3;
        const TransformerEncoder encoder(parameters, options);
        parameters.train(training);
        if (recompute) own.policy("layers.*", recompute_all());
        const Tensor x = randn(own, {3, 7, 8});
        const Tensor y = encoder(x, AttentionMask{.lengths = own.from_host(std::vector<std::int64_t>{7, 0, 3}, {3})});
        backward(sum(y * y));
        std::vector<float> result = y.to_vector<float>();
        for (const Parameter& parameter : parameters.all()) {
            const std::vector<float> gradient = parameter.tensor.grad().to_vector<float>();
            result.insert(result.end(), gradient.begin(), gradient.end());
        }
        return result;
    };
    EXPECT_EQ(gradients(true, true), gradients(false, true));
    EXPECT_NE(gradients(false, false), gradients(false, true));
}

TEST_F(TransformerEncoders, RefuseWhatTheyCannotBe) {
    Path root(parameters_);
    TransformerEncoderOptions options = sizes();
    options.heads = 3;
    EXPECT_THROW(TransformerEncoder(root / "a", options), ShapeError);
    options = sizes();
    options.attention_dropout = 1;
    EXPECT_THROW(TransformerEncoder(root / "b", options), Error);
    options = sizes();
    options.layers = 0;
    EXPECT_THROW(TransformerEncoder(root / "c", options), ShapeError);
}

}  // namespace transformer_encoder_test
}  // namespace headroom::nn
