// gradcheck and check_op find what is wrong with an op: one fault each, planted in an op that is right.
#include <headroom/core/test/op_checks.hpp>

#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <headroom/core/gradcheck.hpp>
#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::test {
namespace op_checks_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

enum class Fault : std::uint8_t {
    none,
    gradient,       ///< half of it
    beta,           ///< overwrites what it should add to
    reads,          ///< multiplies by 0 what it should overwrite
    reads_scratch,  ///< the same, in forward, with scratch
    takes_over,     ///< writes over the input that it saved
    not_the_same,   ///< computes something else when it is called again
    allocates,      ///< more where it is not dry
    accepts,        ///< what it should refuse
    message,        ///< without the op's name
};

int calls = 0;

/// tanh(x), which saves x.
template <Fault kFault>
struct Faulty {
    static constexpr OpInfo info{.name = "faulty", .in_place = 0b1};
    struct Attrs {};
    struct Saved {
        Array x;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs&, const Array& x) {
        if (kFault == Fault::accepts && !is_floating(x.dtype)) return {{x}, exec.empty(x.shape(), Dtype::f32)};
        if (kFault == Fault::message && !is_floating(x.dtype)) throw DtypeError("not floating");
        check_floating(info.name, {{"x", x}});
        Array y = kFault == Fault::takes_over ? exec.output(x.shape(), x.dtype) : exec.empty(x.shape(), x.dtype);
        Array more;
        if (kFault == Fault::allocates && !exec.dry()) more = exec.empty({1000}, x.dtype);
        const double factor = kFault == Fault::not_the_same ? 1.0 + ++calls % 2 : 1.0;
        exec.launch([&](auto& stream) {
            kernels::map(stream, kernels::Affine{factor, 0.0}, x.view(), y.view());
            kernels::map(stream, kernels::Tanh{}, y.view(), y.view());
        });
        if (kFault == Fault::reads_scratch) {
            const Array scratch = exec.empty(x.shape(), x.dtype, Category::workspace);
            exec.launch([&](auto& stream) {
                kernels::map(stream, kernels::Affine{0.0, 0.0}, scratch.view(), scratch.view());
                kernels::map(stream, kernels::Add{}, y.view(), scratch.view(), y.view());
            });
        }
        return {{x}, std::move(y)};
    }
    static void backward(Exec& exec, const Attrs&, const Saved& saved, Array dy, GradSink sink) {
        const auto target = sink.destination(0);
        if (!target) return;
        const Array y = exec.empty(dy.shape(), dy.dtype, Category::workspace);
        const Array slope = exec.empty(dy.shape(), dy.dtype, Category::workspace);
        exec.launch([&](auto& stream) {
            kernels::map(stream, kernels::Affine{kFault == Fault::gradient ? 0.5 : 1.0, 0.0}, dy.view(), slope.view());
            kernels::map(stream, kernels::Tanh{}, saved.x.view(), y.view());
            if (kFault == Fault::reads) {
                kernels::map_backward(stream, kernels::Tanh{}, y.view(), slope.view(), 0.0f, slope.view());
                kernels::map(stream, kernels::Affine{target.beta, 0.0}, target.view(), target.view());
                return kernels::map(stream, kernels::Add{}, target.view(), slope.view(), target.view());
            }
            const float beta = kFault == Fault::beta ? 0.0f : target.beta;
            kernels::map_backward(stream, kernels::Tanh{}, y.view(), slope.view(), beta, target.view());
        });
    }
    static std::vector<Sample<Attrs>> samples() {
        return {{"matrix", {}, {SampleInput::normal({3, 5})}},
                {"empty", {}, {SampleInput::normal({0, 3})}},
                {"integers", {}, {SampleInput::index({3}, 5)}, "must be floating"}};
    }
};

template <Fault kFault>
std::string finding() {
    try {
        check_op<Faulty<kFault>>({.dtypes = {Dtype::f64, Dtype::f32}});
    } catch (const Error& error) {
        return error.what();
    }
    return {};
}

TEST(OpChecks, HaveNothingAgainstAnOpThatIsRight) { EXPECT_EQ(finding<Fault::none>(), ""); }

TEST(OpChecks, FindEachFaultAndSayItInOneLine) {
    const auto says = [](const char* text) {
        return AllOf(HasSubstr(text), HasSubstr("faulty, "), HasSubstr("HEADROOM_TEST_SEED="), Not(HasSubstr("\n")));
    };
    EXPECT_THAT(finding<Fault::gradient>(), says("gradcheck: input 0, element 0: backward gives"));
    EXPECT_THAT(finding<Fault::beta>(), says("gradient after a second use 0, element 0"));
    EXPECT_THAT(finding<Fault::reads>(),
                AllOf(says("gradcheck: input 0, element 0: backward gives"), HasSubstr("nan")));
    EXPECT_THAT(finding<Fault::reads_scratch>(), says("nan"));
    EXPECT_THAT(finding<Fault::takes_over>(), says("gradient 0 has other bits when the op may overwrite its inputs"));
    EXPECT_THAT(finding<Fault::not_the_same>(), says(""));
    EXPECT_THAT(finding<Fault::allocates>(), says("the rehearsal's peak is"));
    EXPECT_THAT(finding<Fault::accepts>(), says("the call must be refused, but was accepted"));
    EXPECT_THAT(finding<Fault::message>(), says("lacks \"must be floating\""));
}

class GradcheckTest : public ::testing::Test {
  protected:
    static std::string error_of(const std::function<void()>& work) {
        try {
            work();
        } catch (const Error& error) {
            return error.what();
        }
        return {};
    }
    Context context = Context::cpu({.threads = 1});
    Tensor x = context.from_host(std::vector<double>{0.5, -1, 2}, {3}).requires_grad_();
};

TEST_F(GradcheckTest, TakesFunctionsOfOneAndOfSeveralResults) {
    const Tensor y = context.from_host(std::vector<double>{1, 2, 3}, {3}).requires_grad_();
    gradcheck([](const std::vector<Tensor>& in) { return square(in[0]) * in[1]; }, {x, y});
    gradcheck([](const std::vector<Tensor>& in) { return std::vector<Tensor>{exp(in[0]), in[0] * in[1]}; }, {x, y});
    EXPECT_FALSE(x.grad().defined());  // the caller's stays as it was
}

TEST_F(GradcheckTest, SeesAGradientThatIsCutOff) {
    const auto cut = [](const std::vector<Tensor>& in) { return square(in[0]) + in[0].detach(); };
    EXPECT_THAT(error_of([&] { gradcheck(cut, {x}); }), HasSubstr("input 0, element 0: backward gives"));
}

TEST_F(GradcheckTest, RefusesWhatItCannotCompare) {
    const auto same = [](const std::vector<Tensor>& in) { return in[0] * 1.0; };
    const Tensor narrow = context.from_host(std::vector<float>{1, 2}, {2}).requires_grad_();
    EXPECT_EQ(error_of([&] { gradcheck(same, {narrow}); }),
              "gradcheck: inputs that require a gradient must be f64, got f32");
    EXPECT_EQ(error_of([&] { gradcheck(same, {x.detach()}); }), "gradcheck: no input requires a gradient");
    EXPECT_EQ(error_of([&] { gradcheck([&](const auto& in) { return in[0].detach(); }, {x}); }),
              "gradcheck: no output depends on an input that requires a gradient");
    Context dry = Context::dry(context.profile());
    const Tensor none = dry.from_host(std::vector<double>{1}, {1}).requires_grad_();
    EXPECT_EQ(error_of([&] { gradcheck(same, {none}); }), "gradcheck: a dry context has no values to compare");
}

}  // namespace op_checks_test
}  // namespace headroom::test
