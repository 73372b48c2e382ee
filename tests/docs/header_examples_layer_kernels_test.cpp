// The examples of the headers of kernels that layers and losses are made of: each is compiled as the header shows it.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/channel_norm/channel_norm.hpp>
#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/cross_entropy/cross_entropy.hpp>
#include <headroom/kernels/gradient_target.hpp>
#include <headroom/kernels/layer_norm/layer_norm.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/kernels/matmul/packed.hpp>
#include <headroom/kernels/recurrent/gru.hpp>
#include <headroom/kernels/recurrent/lstm.hpp>
#include <headroom/kernels/recurrent/recurrent.hpp>
#include <headroom/kernels/rms_norm/rms_norm.hpp>
#include <headroom/kernels/rotary/rotary.hpp>
#include <headroom/kernels/softmax/softmax.hpp>
#include <headroom/tests/docs/kernel_arrays.hpp>

namespace headroom::kernels {
namespace header_examples_layer_kernels_test {

using namespace test;

void attention_example(Stream& stream, const View& q, const View& k, const View& v, const View& o, const View& lse,
                       Memory& allocate) {
    const Attention attention{.q = q, .k = k, .v = v, .o = o, .lse = lse, .causal = true, .scale = 0.125};
    const AttentionPlan plan(stream, attention);
    std::byte* scratch = allocate(plan.scratch());
    launch(stream, [&](auto& s) { plan.run(s, scratch); });
}

void channel_norm_example(CpuStream& stream, const View& x, const View& mean, const View& variance, const View& weight,
                          const View& y, const View& dy, const ChannelNorm& norm, const View& dx, const View& dweight) {
    ChannelMomentsPlan(stream, x, mean, variance);
    channel_norm(stream, x, {.mean = mean, .variance = variance, .weight = &weight, .relu = true}, nullptr, y);
    ChannelNormGradientPlan(stream, {.x = &x, .dy = dy}, norm, {.x = &dx, .weight = {&dweight, 1}});
}

void convolution_example(Stream& stream, const View& x, const View& w, const View& b, const View& y, const View& dw,
                         const View& dy, const View& db, Memory& allocate) {
    Convolution c{.x = x, .weight = w, .y = y, .steps = {.padding = 1}, .bias = b};
    const ConvolutionPlan plan(stream, c);
    std::byte* scratch = allocate(plan.scratch());
    launch(stream, [&](auto& s) { plan.run(s, scratch); });
    ConvolutionPlan(stream, {.x = x, .weight = dw, .y = dy, .steps = c.steps, .pass = ConvolutionPass::weight});
    SumPlan(stream, dy, 1.0, db, 0);
}

void cross_entropy_example(CpuStream& stream, const View& logits, const View& targets, const View& loss,
                           const View& terms, const View& lse, const View& dloss, const View& dlogits,
                           std::byte* scratch) {
    const CrossEntropyPlan plan(stream, logits, targets, {}, {}, loss, terms, 0, lse);
    plan.run(stream, scratch);
    cross_entropy_backward(stream, logits, targets, {}, {}, lse, dloss, dlogits, 0);
}

void layer_norm_example(CpuStream& stream, const View& x, const View& gamma, const View& beta, const View& y,
                        const View& mean, const View& rstd, const View& dy, const View& dx, const View& dgamma,
                        std::byte* scratch) {
    layer_norm(stream, x, &gamma, &beta, 1e-5, y, mean, rstd);
    const LayerNormGradientPlan plan(stream, x, dy, &gamma, mean, rstd, {.x = &dx, .gamma = {&dgamma, 1}});
    plan.run(stream, scratch);
}

void matmul_example(Stream& stream, const View& x, const View& weight, const View& bias, const View& y,
                    Memory& allocate) {
    Matmul linear{.a = x, .b = transposed(weight), .c = y, .bias = bias};
    const MatmulPlan plan(stream, linear);
    std::byte* scratch = allocate(plan.scratch());
    launch(stream, [&](auto& s) { plan.run(s, scratch); });
}

std::vector<Matmul> matmuls_of_training(const View& x, const View& w1, const View& b1, const View& inner, const View& h,
                                        const View& w2, const View& dy, const View& dinner, const View& dw2,
                                        const View& db2) {
    constexpr Activation gelu = Activation::gelu_tanh;
    // clang-format off
    return {                                                                                               // not shown
        {.a = x, .b = transposed(w1), .c = h, .bias = b1, .activation = gelu, .inner = inner}
        ,                                                                                                  // not shown
        {.a = dy, .b = w2, .c = dinner, .activation = gelu, .inner = inner, .derivative = true, .outer = h}
        ,                                                                                                  // not shown
        {.a = transposed(dy), .b = h, .c = dw2, .beta = 1, .sums = db2, .sums_beta = 1}
    };
    // clang-format on
}

std::size_t packed_example(const Stream& stream, CpuStream& cpu, const View& a, const View& b, const View& c,
                           const View& bias, std::byte* memory) {
    if (const std::size_t bytes = packed_bytes(stream, b, a.size(0))) {
        pack_matrix(cpu, b, memory);
        packed_product(cpu, a, memory, c, bias, false);
    }
    return packed_bytes(stream, b, a.size(0));
}

void gru_example(CpuStream& stream, const View& gates, const View& n, const View& hidden, const View& h, const View& y,
                 const View& hidden_of_n, const View& dhidden, const View& before, const View& dy, const View& dh) {
    gru_step(stream, {.gates = gates, .n = n, .hidden = hidden, .h = h, .y = y});
    {                                      // not shown
        const View& hidden = hidden_of_n;  // not shown
        gru_step_gradient(
            stream,
            {.gates = gates, .n = n, .hidden = hidden, .dhidden = dhidden, .before = before, .dy = dy, .dh = dh});
    }
}

void lstm_example(CpuStream& stream, const View& gates, const View& hidden, const View& before, const View& c,
                  const View& h, const View& y, const View& dy, const View& dh, const View& dc) {
    lstm_step(stream, {.gates = gates, .hidden = hidden, .before = c, .c = c, .h = h, .y = y});
    lstm_step_gradient(stream, {.gates = gates, .before = before, .c = c, .dy = dy, .dh = dh, .dc = dc});
}

void recurrent_example(CpuStream& stream, const View& last, const View& y, const View& h0, const View& states) {
    check_last(stream, "lstm: length", last, 128);
    states_before(stream, y, h0, {.last = last}, 16, states);
}

void gradient_target_example(CpuStream& stream, const View& x, const View& dy, const View& gamma, const View& rstd,
                             const View& dx, const View& dgamma) {
    RmsNormGradientPlan(stream, x, dy, &gamma, rstd, {.x = &dx, .gamma = {&dgamma, 1}});
}

void rms_norm_example(CpuStream& stream, const View& x, const View& gamma, const View& y, const View& rstd,
                      const View& dy, const View& dx, const View& dgamma, std::byte* scratch) {
    rms_norm(stream, x, &gamma, 1e-5, y, rstd);
    const RmsNormGradientPlan plan(stream, x, dy, &gamma, rstd, {.x = &dx, .gamma = {&dgamma, 1}});
    plan.run(stream, scratch);
}

void rotary_example(CpuStream& stream, const View& x, const View& y, const View& dy, const View& dx) {
    rotary(stream, {.first_position = 3, .heads = 2}, x, 0, y);
    rotary(stream, {.first_position = 3, .heads = 2, .back = true}, dy, 1, dx);
}

void softmax_example(CpuStream& stream, const View& x, const View& y, const View& dy, const View& dx) {
    softmax(stream, x, y);
    softmax_backward(stream, y, dy, dx, 0);
    log_softmax(stream, x, y);
    log_softmax_backward(stream, y, dy, dx, 1);
}

TEST(HeaderExamples, OfProductsRun) {
    CpuStream cpu;
    Stream stream = cpu;
    Memory allocate;
    const TestArray x = array({2, 4}, {1}), weight = array({3, 4}, {1, 2, 3}), bias = array({3}, {1});
    const TestArray y = array({2, 3}, {0});
    matmul_example(stream, x, weight, bias, y, allocate);
    expect_near(y, {8, 9, 10, 8, 9, 10});

    const TestArray packed = array({4, 16}, {1}), biases = array({16}, {2}), c = array({2, 16}, {0});
    EXPECT_GT(packed_example(stream, cpu, x, packed, c, biases, allocate(1 << 12)), 0u);
    expect_near(c, Numbers(32, 6));

    const TestArray w1 = array({8, 4}, {1}), b1 = array({8}, {-4}), inner = array({2, 8}, {7}), h = array({2, 8}, {7});
    const TestArray w2 = array({3, 8}, {1}), dy = array({2, 3}, {1}), dinner = array({2, 8}, {7});
    const TestArray dw2 = array({3, 8}, {1}), db2 = array({3}, {1});
    for (const Matmul& matmul : matmuls_of_training(x, w1, b1, inner, h, w2, dy, dinner, dw2, db2)) {
        const MatmulPlan plan(stream, matmul);
        plan.run(cpu, allocate(plan.scratch()));
    }
    expect_near(inner, Numbers(16, 0));
    expect_near(dinner, Numbers(16, 1.5));  // times the slope of 1/2
    expect_near(dw2, Numbers(24, 1));
    expect_near(db2, Numbers(3, 3));
}

TEST(HeaderExamples, OfAttentionAndConvolutionRun) {
    Stream stream = CpuStream{};
    Memory allocate;
    const TestArray q = array({1, 2, 1, 4}, {0}), v = array({1, 2, 1, 4}, {1, 1, 1, 1, 3, 3, 3, 3});
    const TestArray o = array({1, 2, 1, 4}, {7}), lse = array({1, 1, 2}, {7});
    attention_example(stream, q, q, v, o, lse, allocate);
    expect_near(o, {1, 1, 1, 1, 2, 2, 2, 2});
    expect_near(lse, {0, std::log(2)});

    const TestArray x = array({1, 1, 3, 3}, {1}), b = array({1}, {0.5}), y = array({1, 1, 3, 3}, {7});
    const TestArray dw = array({1, 1, 3, 3}, {7}), db = array({1, 1, 1, 1}, {7});
    convolution_example(stream, x, x, b, y, dw, x, db, allocate);
    expect_near(y, {4.5, 6.5, 4.5, 6.5, 9.5, 6.5, 4.5, 6.5, 4.5});
}

TEST(HeaderExamples, OfNormsRun) {
    CpuStream stream;
    Memory allocate;
    const TestArray x = array({2, 2}, {3, 5, 7, 1}), gamma = array({2}, {2}), beta = array({2}, {1});
    const TestArray y = array({2, 2}, {7}), mean = array({2}, {7}), rstd = array({2}, {7});
    const TestArray dy = array({2, 2}, {1}), dx = array({2, 2}, {7}), dgamma = array({2}, {1});
    layer_norm_example(stream, x, gamma, beta, y, mean, rstd, dy, dx, dgamma, allocate(1 << 12));
    expect_near(y, {-1, 3, 3, -1});
    expect_near(dx, Numbers(4, 0));
    expect_near(dgamma, {1, 1});

    const TestArray of_one = array({2, 2}, {1, -1});
    gradient_target_example(stream, of_one, dy, gamma, rstd, dx, dgamma);
    rms_norm_example(stream, of_one, gamma, y, rstd, dy, dx, dgamma, allocate(1 << 12));
    expect_near(y, {2, -2, 2, -2});
    expect_near(dgamma, {3, -1});

    const TestArray image = array({1, 2, 1, 2}, {1, 2, 4, 2}), means = array({2}, {1, 2}), squares = array({2}, {1, 4});
    const TestArray weight = array({2}, {2, 3}), of_image = array({1, 2, 1, 2}, {7});
    channel_norm_example(stream, image, means, squares, weight, of_image, image, {.mean = means, .variance = squares},
                         of_image, weight);
    expect_near(of_image, {0, 2, 3, 0});
}

TEST(HeaderExamples, OfSoftmaxAndRotaryRun) {
    CpuStream stream;
    Memory allocate;
    const TestArray x = array({1, 2}, {0}), y = array({1, 2}, {7}), dy = array({1, 2}, {1, 0}), dx = array({1, 2}, {7});
    softmax_example(stream, x, y, dy, dx);
    expect_near(y, Numbers(2, -std::log(2)));
    expect_near(dx, {0.75, -0.75});

    const TestArray logits = array({2, 3}, {0}), targets = array({2}, {0, 2}, Dtype::i64), dlogits = array({2, 3}, {7});
    const TestArray loss = array({}, {7}), terms = array({}, {7}, Dtype::f64), lse = array({2, 2}, {7});
    cross_entropy_example(stream, logits, targets, loss, terms, lse, array({}, {1}), dlogits, allocate(1 << 12));
    expect_near(loss, {2 * std::log(3)});
    expect_near(terms, {2.0});
    expect_near(dlogits, {-2.0 / 3, 1.0 / 3, 1.0 / 3, 1.0 / 3, 1.0 / 3, -2.0 / 3});

    const TestArray heads = array({1, 1, 2, 2}, {1, 0}), turned = array({1, 1, 2, 2}, {7});
    const TestArray back = array({1, 1, 2, 2}, {1, 1});
    rotary_example(stream, heads, turned, turned, back);
    expect_near(turned, {std::cos(3), std::sin(3), std::cos(3), std::sin(3)});
    expect_near(back, {2, 1, 2, 1});
}

TEST(HeaderExamples, OfRecurrentCellsRun) {
    CpuStream stream;
    const double t = std::tanh(0.5), dcell = (1 - t * t) / 2;
    const TestArray gates = array({1, 8}, {0}), hidden = array({1, 8}, {0}), before = array({1, 2}, {1});
    const TestArray c = array({1, 2}, {1}), h = array({1, 2}, {1}), y = array({1, 2}, {7}), dy = array({1, 2}, {1});
    const TestArray dh = array({1, 2}, {0}), dc = array({1, 2}, {0});
    lstm_example(stream, gates, hidden, before, c, h, y, dy, dh, dc);
    expect_near(c, {0.5, 0.5});
    expect_near(h, {t / 2, t / 2});
    expect_near(gates, {0, 0, dcell / 4, dcell / 4, dcell / 2, dcell / 2, t / 4, t / 4});

    const TestArray two = array({1, 4}, {0}), n = array({1, 2}, {0}), state = array({1, 2}, {1});
    const TestArray three = array({1, 6}, {0}), hidden_of_n = array({1, 2}, {0}), dhidden = array({1, 6}, {7});
    gru_example(stream, two, n, three, state, y, hidden_of_n, dhidden, before, dy, dh);
    expect_near(state, {0.5, 0.5});
    expect_near(y, {0.5, 0.5});
    expect_near(dh, {0.5, 0.5});

    const TestArray outputs = array({18, 1, 1}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17});
    const TestArray states = array({2, 1, 1}, {7}), h0 = array({1, 1}, {3});
    recurrent_example(stream, array({1}, {17}, Dtype::i64), outputs, h0, states);
    expect_near(states, {15, 16});
}

}  // namespace header_examples_layer_kernels_test
}  // namespace headroom::kernels
