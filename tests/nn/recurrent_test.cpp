// Recurrent modules: PyTorch's names and initial values, cells, memory with checkpoints, and what is refused.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/create.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/memory_scope.hpp>
#include <headroom/nn/gru.hpp>
#include <headroom/nn/lstm.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::nn {
namespace recurrent_test {

using headroom::test::throws;

Context cpu() { return Context::cpu({.threads = 2}); }

std::vector<std::string> paths_of(const Parameters& parameters) {
    std::vector<std::string> paths;
    for (const Parameter& parameter : parameters.all()) paths.push_back(parameter.path);
    return paths;
}

TEST(Recurrent, ParametersHavePyTorchsNamesShapesAndValues) {
    Context context = cpu();
    Parameters parameters(context);
    const Lstm net(parameters, {.in = 3, .width = 25, .layers = 2, .bidirectional = true});
    EXPECT_THAT(
        paths_of(parameters),
        ::testing::ElementsAre("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "weight_ih_l0_reverse",
                               "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse", "weight_ih_l1",
                               "weight_hh_l1", "bias_ih_l1", "bias_hh_l1", "weight_ih_l1_reverse",
                               "weight_hh_l1_reverse", "bias_ih_l1_reverse", "bias_hh_l1_reverse"));
    EXPECT_EQ(parameters.at("weight_ih_l0").tensor.shape(), (Shape{100, 3}));
    EXPECT_EQ(parameters.at("weight_ih_l1_reverse").tensor.shape(), (Shape{100, 50}));
    const std::vector<double> values = parameters.at("weight_hh_l1").tensor.to_vector<double>();
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    EXPECT_TRUE(*least >= -0.2 && *least < -0.19 && *most <= 0.2 && *most > 0.19) << *least << " to " << *most;

    Parameters others(context, {.name = "others"});
    const GruCell cell(Path(others) / "cell", 3, 4, false);
    EXPECT_THAT(paths_of(others), ::testing::ElementsAre("others.cell.weight_ih", "others.cell.weight_hh"));
    EXPECT_EQ(others.at("others.cell.weight_ih").tensor.shape(), (Shape{12, 3}));
}

TEST(Recurrent, CellsDoWhatAStepOfALayerDoes) {
    Context context = cpu();
    Parameters parameters(context);
    const LstmCell lstm(Path(parameters) / "lstm", 3, 4);
    const GruCell gru(Path(parameters) / "gru", 3, 4);
    const Tensor x = randn(context, {5, 2, 3});
    const LstmOutput whole = headroom::lstm(x, {lstm.weights});
    const GruOutput other = headroom::gru(x, {gru.weights});
    LstmState state;
    Tensor h;
    for (std::int64_t t = 0; t < 5; ++t) {
        state = lstm(x.select(0, t), state);
        h = gru(x.select(0, t), h);
        const auto want = whole.output.select(0, t).to_vector<double>(), got = state.h.to_vector<double>(),
                   wanted = other.output.select(0, t).to_vector<double>(), have = h.to_vector<double>();
        // A step's products may be another kernel's; values are below 1, sums have 7 terms.
        for (std::size_t i = 0; i < want.size(); ++i) {
            EXPECT_NEAR(got[i], want[i], 64 * 0x1p-23 * static_cast<double>(t + 1));
            EXPECT_NEAR(have[i], wanted[i], 64 * 0x1p-23 * static_cast<double>(t + 1));
        }
    }
    EXPECT_THAT([&] { lstm(x); }, throws<ShapeError>("lstm_cell: x [5, 2, 3] must be [B, features]", ""));
}

TEST(Recurrent, DropoutIsBetweenLayersWhileTraining) {
    Context context = cpu();
    Parameters parameters(context);
    const Gru net(parameters, {.in = 3, .width = 4, .layers = 2, .dropout = 1});
    const Tensor x = randn(context, {4, 2, 3}), other = randn(context, {4, 2, 3});
    EXPECT_NE(net(x).h.select(0, 0).to_vector<float>(), net(other).h.select(0, 0).to_vector<float>())
        << "the first layer's is x";
    EXPECT_NE(net(x).output.select(0, 0).to_vector<float>(), std::vector<float>(8)) << "it is not dropped";
    EXPECT_EQ(net(x).output.to_vector<float>(), net(other).output.to_vector<float>())
        << "the second layer's input is 0";
    parameters.train(false);
    EXPECT_NE(net(x).output.to_vector<float>(), net(other).output.to_vector<float>());
}

/// As wide as the output, whose gradient dx may be written over where both lie alike.
TEST(Recurrent, InputsThatDoNotLieInOrderOfTimeHaveTheSameGradient) {
    Context context = cpu();
    Parameters parameters(context);
    const Lstm net(parameters, {.in = 4, .width = 4});
    const Tensor source = randn(context, {3, 20, 4}).detach();
    const auto gradient = [&](bool copied) {
        const Tensor leaf = source.clone().detach().requires_grad_();
        Tensor x = neg(leaf).transpose(0, 1);
        if (copied) x = x.contiguous();
        const Tensor y = net(std::move(x)).output;
        backward(sum(y * y));
        return leaf.grad().to_vector<float>();
    };
    const std::vector<float> want = gradient(true), got = gradient(false);
    // 20 steps there and back, with sums of 8 terms below 2.
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 20 * 2 * 8 * 2 * 0x1p-23) << i;
}

struct Step {
    std::vector<std::vector<double>> bits;
    std::int64_t kept = 0;
    std::size_t peak = 0;
};

template <class Net, class State>
Step step(Context context, std::int64_t checkpoint, Dtype dtype, std::int64_t time, bool packed) {
    Parameters parameters(context);
    const Net net(parameters, {.in = 32, .width = 32, .layers = 2, .bidirectional = packed, .checkpoint = checkpoint});
    const Tensor x = randn(context, {time, 8, 32}).detach().requires_grad_();
    std::vector<std::int64_t> lengths;
    for (std::int64_t i = 0; i < 8; ++i) lengths.push_back(time - 3 * i);
    const Tensor ends = packed ? context.from_host(lengths, {8}) : Tensor();
    parameters.materialize();
    memory::MemoryScope scope(context.memory());
    Step result;
    const auto run = [&] {
        Autocast autocast(context, dtype == Dtype::f32 ? std::nullopt : std::optional(dtype));
        const Tensor y = net(x, State{}, ends).output;
        result.kept = scope.live();
        return sum(y * y);
    };
    backward(run());
    result.peak = scope.peak();
    result.bits.push_back(x.grad().to_vector<double>());
    for (const Parameter& parameter : parameters.all())
        result.bits.push_back(parameter.tensor.grad().to_vector<double>());
    return result;
}

template <class Net, class State>
void expect_the_same_bits() {
    for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
        for (const bool packed : {false, true}) {
            const Step want = step<Net, State>(cpu(), 0, dtype, 37, packed);
            for (const std::int64_t checkpoint : {1, 8, 9, 16, 30, 1000, -1})
                EXPECT_EQ((step<Net, State>(cpu(), checkpoint, dtype, 37, packed).bits), want.bits) << checkpoint;
        }
    }
}

TEST(LstmCheckpoints, ChangeNoBit) { expect_the_same_bits<Lstm, LstmState>(); }
TEST(GruCheckpoints, ChangeNoBit) { expect_the_same_bits<Gru, Tensor>(); }

template <class Net, class State>
void expect_rehearsed(double share) {
    for (const std::int64_t checkpoint : {std::int64_t{0}, kSqrtOfTime}) {
        for (const bool packed : {false, true}) {
            const Step real = step<Net, State>(cpu(), checkpoint, Dtype::f32, 256, packed);
            const Step dry = step<Net, State>(Context::dry(cpu().profile()), checkpoint, Dtype::f32, 256, packed);
            EXPECT_EQ(dry.peak, real.peak);
            EXPECT_EQ(dry.kept, real.kept);
        }
    }
    const Step all = step<Net, State>(cpu(), 0, Dtype::f32, 256, false);
    const Step few = step<Net, State>(cpu(), kSqrtOfTime, Dtype::f32, 256, false);
    EXPECT_LT(static_cast<double>(few.kept), share * static_cast<double>(all.kept));
}

TEST(LstmCheckpoints, KeepLessThanAQuarterAsRehearsed) { expect_rehearsed<Lstm, LstmState>(0.25); }
/// The states, which are the output, where else two gates are beside them.
TEST(GruCheckpoints, KeepAThirdAsRehearsed) { expect_rehearsed<Gru, Tensor>(0.334); }

TEST(Recurrent, AGruKeepsTwoOfItsGates) {
    const std::int64_t layers = 2, states = 256 * 8 * 32 * 4, last_states = 8 * 32 * 4;
    const Step all = step<Gru, Tensor>(cpu(), 0, Dtype::f32, 256, false);
    EXPECT_LE(all.kept, layers * (3 * states + 2 * last_states));
}

TEST(Recurrent, WithoutGradientsOnlyABlockOfTimeIsThere) {
    Context context = cpu();
    Parameters parameters(context);
    const Lstm net(parameters, {.in = 32, .width = 32});
    const Tensor x = randn(context, {256, 8, 32});
    parameters.materialize();
    const NoGradGuard no_grad(context);
    memory::MemoryScope scope(context.memory());
    const Tensor y = net(x).output;
    const std::size_t output = 256 * 8 * 32 * 4;
    EXPECT_LT(scope.peak(), output + output * 3 / 4) << "gates of 16 of 256 steps, four times as wide, and the weights";
}

template <class Net, class Cell, class State>
void expect_refusals(const std::string& op) {
    Context context = cpu();
    Parameters parameters(context);
    for (const RecurrentNetOptions& wrong : {RecurrentNetOptions{.in = 0, .width = 2}, RecurrentNetOptions{.in = 2},
                                             RecurrentNetOptions{.in = 2, .width = 2, .layers = 0}}) {
        EXPECT_THAT([&] { Net(Path(parameters) / "net", wrong); },
                    throws<ShapeError>("net: in ", "must be at least 1"));
    }
    EXPECT_THAT([&] { Net(Path(parameters) / "net", {.in = 2, .width = 2, .dropout = 2}); },
                throws<Error>(op + " net: dropout", "2"));
    EXPECT_THAT([&] { Net(Path(parameters), {.in = 2}); }, throws<ShapeError>(op + ": in 2, width 0"));
    EXPECT_THAT([&] { Cell(Path(parameters) / "cell", 2, 0); }, throws<ShapeError>("cell: in 2", "at least 1"));
    const Net net(Path(parameters) / "net", {.in = 3, .width = 4, .layers = 2});
    const Tensor x = randn(context, {5, 2, 3});
    const auto lengths = [&](std::vector<std::int64_t> values) {
        const auto count = static_cast<std::int64_t>(values.size());
        return context.from_host(values, {count});
    };
    EXPECT_THAT([&] { net(Tensor()); }, throws<Error>(op + ": x is an undefined tensor", "net"));
    EXPECT_THAT([&] { net(x.select(0, 0)); }, throws<ShapeError>(op + ": x [2, 3] must be [T, B, I]", "net"));
    EXPECT_THAT([&] { net(randn(context, {5, 2, 4})); }, throws<ShapeError>(op + ": weight_ih", "net"));
    EXPECT_THAT([&] { net(randn(context, {0, 2, 3})); }, throws<ShapeError>(op + ": x [0, 2, 3]", "T at least 1"));
    EXPECT_THAT(
        [&] {
            net(x, State{}, lengths({5, 0}));
        },
        throws<ShapeError>(op + ": length 0 at position 1 is outside of [1, 6)", "net"));
    EXPECT_THAT([&] { net(x, State{}, lengths({6, 5})); }, throws<ShapeError>(op + ": length 6 at position 0", "net"));
    EXPECT_THAT([&] { net(x, State{}, lengths({5})); }, throws<ShapeError>(op + ": lengths [1] must be [2]", "net"));
    EXPECT_THAT([&] { net(x, State{}, x); }, throws<DtypeError>(op + ": lengths must be i32 or i64", "net"));
    EXPECT_THAT(
        [&] {
            net(x, State{randn(context, {1, 2, 4})});
        },
        throws<ShapeError>(op + ": h0 [1, 2, 4] must be [2, B, H]", "net"));
    EXPECT_THAT(
        [&] {
            net(x, State{randn(context, {2, 3, 4})});
        },
        throws<ShapeError>(op + ": h0 [1, 3, 4] must be [1, 2, 4]", "net"));
}

TEST(Recurrent, LstmRefusesWhatDoesNotFit) { expect_refusals<Lstm, LstmCell, LstmState>("lstm"); }
TEST(Recurrent, GruRefusesWhatDoesNotFit) { expect_refusals<Gru, GruCell, Tensor>("gru"); }

TEST(Recurrent, CellsOfHalvesAreF32) {
    Context context = cpu();
    Parameters parameters(context);
    const Lstm net(parameters, {.in = 3, .width = 4});
    Autocast autocast(context, Dtype::bf16);
    const LstmOutput all = net(randn(context, {5, 2, 3}));
    EXPECT_EQ(all.output.dtype(), Dtype::bf16);
    EXPECT_EQ(all.state.c.dtype(), Dtype::f32);
}

}  // namespace recurrent_test
}  // namespace headroom::nn
