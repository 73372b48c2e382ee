// LSTM and GRU against PyTorch: outputs, states, every gradient of the first step and every parameter after three, for
// several layers, both directions, and sequences of different lengths.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/nn/gru.hpp>
#include <headroom/nn/lstm.hpp>
#include <headroom/optim/gradient_accumulator.hpp>
#include <headroom/optim/sgd.hpp>
#include <headroom/tests/support/reference.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::nn {
namespace recurrent_reference_test {

struct Setting {
    std::string name;
    Dtype dtype;
    std::int64_t checkpoint;

    bool stack() const { return name.ends_with("stack"); }
    /// f64 to 1e-10 and less. An element of f32 passes 5 steps of 2 layers with sums of 12 terms, forward and backward;
    /// values are below 16.
    double bound() const { return dtype == Dtype::f64 ? 1e-12 : 16.0 * 2 * 5 * 2 * 12 * 0x1p-23; }
};

struct Result {
    Tensor output, h, c;
};
Result run(const Lstm& net, const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& lengths) {
    LstmOutput all = net(x, LstmState{h, c}, lengths);
    return {all.output, all.state.h, all.state.c};
}
Result run(const Gru& net, const Tensor& x, const Tensor& h, const Tensor&, const Tensor& lengths) {
    GruOutput all = net(x, h, lengths);
    return {all.output, all.h, {}};
}

template <class Net>
class Comparison {
  public:
    explicit Comparison(const Setting& setting)
        : setting_(setting),
          context_(Context::cpu({.threads = 2})),
          parameters_(context_, {.dtype = setting.dtype}),
          net_(parameters_, options()),
          optimizer_(parameters_, {.momentum = 0.9}),
          accumulator_(parameters_, optimizer_, {.keep_gradients = true}) {
        for (const Parameter& parameter : parameters_.all())
            parameters_.set(parameter.path, file_.at(setting.name + "/initial/" + parameter.path).values);
    }

    void expect() {
        for (int step = 0; step < 3; ++step) {
            const Tensor x = given("x", true), h0 = given("h0", true), c0 = given("c0", true);
            Result result;
            accumulator_.accumulate([&] {
                result = run(net_, x, h0, c0, given("lengths", false));
                Tensor loss = sum(result.output * given("of_output", false)) + sum(result.h * given("of_h", false));
                if (result.c.defined()) loss = loss + sum(result.c * given("of_c", false));
                return Loss(loss, 1.0);
            });
            if (step == 0) {
                expect_near("output", result.output), expect_near("h_n", result.h), expect_near("c_n", result.c);
                expect_near("dx", x.grad());
                if (setting_.stack()) expect_near("dh0", h0.grad());
                if (setting_.stack() && c0.defined()) expect_near("dc0", c0.grad());
                expect_all("gradient/", [](const Tensor& x) { return x.grad(); });
            }
            accumulator_.step(0.05);
            parameters_.zero_grad();
        }
        expect_all("trained/", [](const Tensor& x) { return x; });
    }

  private:
    RecurrentNetOptions options() const {
        if (!setting_.stack()) return {.in = 3, .width = 4, .batch_first = true, .checkpoint = setting_.checkpoint};
        return {.in = 3, .width = 4, .layers = 2, .bidirectional = true, .checkpoint = setting_.checkpoint};
    }

    /// Undefined where this case has none.
    Tensor given(const std::string& name, bool leaf) {
        if (!file_.has(setting_.name + "/" + name)) return {};
        const test::ReferenceTensor& tensor = file_.at(setting_.name + "/" + name);
        if (tensor.dtype == "I64") {
            return context_.from_host(std::vector<std::int64_t>(tensor.values.begin(), tensor.values.end()),
                                      tensor.shape);
        }
        const std::vector<float> narrow(tensor.values.begin(), tensor.values.end());
        Tensor x = setting_.dtype == Dtype::f64 ? context_.from_host(tensor.values, tensor.shape)
                                                : context_.from_host(narrow, tensor.shape);
        return leaf ? std::move(x).requires_grad_() : x;
    }

    void expect_near(const std::string& name, const Tensor& got) {
        if (!got.defined()) return;
        SCOPED_TRACE(setting_.name + "/" + name);
        const test::ReferenceTensor& want = file_.at(setting_.name + "/" + name);
        ASSERT_EQ(got.shape(), want.shape);
        const std::vector<double> values = got.to_vector<double>();
        for (std::size_t i = 0; i < values.size(); ++i)
            ASSERT_NEAR(values[i], want.values[i], setting_.bound()) << "element " << i;
    }

    template <class Of>
    void expect_all(const std::string& kind, const Of& of) {
        for (const Parameter& parameter : parameters_.all()) expect_near(kind + parameter.path, of(parameter.tensor));
    }

    test::Reference file_{test::source_path("tests/reference/recurrent.safetensors")};
    Setting setting_;
    Context context_;
    Parameters parameters_;
    Net net_;
    optim::Sgd optimizer_;
    optim::GradientAccumulator accumulator_;
};

template <class Net>
void expect_all_cases(const std::string& kind, Dtype dtype) {
    for (const std::string name : {"_plain", "_stack"}) {
        for (const std::int64_t checkpoint : {std::int64_t{0}, std::int64_t{2}, kSqrtOfTime})
            Comparison<Net>({kind + name, dtype, checkpoint}).expect();
    }
}

TEST(RecurrentReference, LstmIsPyTorchs) { expect_all_cases<Lstm>("lstm", Dtype::f64); }
TEST(RecurrentReference, LstmOfF32IsPyTorchs) { expect_all_cases<Lstm>("lstm", Dtype::f32); }
TEST(RecurrentReference, GruIsPyTorchs) { expect_all_cases<Gru>("gru", Dtype::f64); }
TEST(RecurrentReference, GruOfF32IsPyTorchs) { expect_all_cases<Gru>("gru", Dtype::f32); }

}  // namespace recurrent_reference_test
}  // namespace headroom::nn
