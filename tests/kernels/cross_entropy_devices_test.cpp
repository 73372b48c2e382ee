#include <headroom/kernels/cross_entropy/cross_entropy.hpp>

#include <cmath>
#include <limits>
#include <optional>

#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace cross_entropy_devices_test {

using namespace test;
using Options = CrossEntropyOptions;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void forward(Device& device, const View& logits, const View& targets, const Options& options, const View& loss,
             const View& terms, float beta, const View& lse, const ClassWeights& weights = {}) {
    device.run<CrossEntropyPlan>(logits, targets, weights, options, loss, terms, beta, lse);
}

/// in: logits, targets, lse, dloss.
void backward(Device& device, const Views& in, const Options& options, const View& dlogits, float beta,
              const ClassWeights& weights = {}) {
    device.run(
        [&](auto& s) { cross_entropy_backward(s, in[0], in[1], weights, options, in[2], in[3], dlogits, beta); });
}

/// log(sum(exp(x))) of a row as kernels keep it.
struct Lse {
    Lse(const TestArray& logits, std::int64_t row, std::int64_t classes) {
        for (std::int64_t c = 0; c < classes; ++c) largest = std::max(largest, logits.get(row * classes + c));
        double sum = 0;
        for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(logits.get(row * classes + c) - largest);
        logarithm = std::log(sum);
    }
    /// lse - x.
    double above(double x) const { return largest - x + logarithm; }

    double largest = -kInfinity, logarithm = 0;
};

/// What a case adds to its shape.
struct Kind {
    double smoothing = 0;
    bool weighted = false;
    double offset = 0;  ///< of all logits
};

/// The trial's first four inputs: logits, targets, weights and their sum.
struct Inputs {
    Inputs(Trial& trial, const Variant& v, Random& random, const Shape& shape, std::int64_t classes, const Kind& kind_)
        : kind(kind_),
          logits(trial.input(v, with(shape, classes), normal(random, 1 + kind_.offset, 3))),
          targets(trial.input(v.in == Layout::gaps ? Dtype::i32 : Dtype::i64, shape, v.in, indices(random, classes))),
          weights(trial.input(v, {classes}, normal(random, 1, 0.25))) {
        double sum = 0;
        for (std::int64_t c = 0; c < classes; ++c) sum += weight(c);
        total = trial.input(compute_dtype(v.dtype), {}, Layout::contiguous, all(sum)).get(0);
    }
    static Shape with(Shape shape, std::int64_t classes) {
        shape.push_back(classes);
        return shape;
    }
    double weight(std::int64_t c) const { return kind.weighted ? weights.get(c) : 1; }
    /// As the kernels take them; null where the case has none.
    static ClassWeights given(const Kind& kind, const Views& in) {
        return kind.weighted ? ClassWeights{in[2], in[3]} : ClassWeights{};
    }

    Kind kind;
    const TestArray &logits, &targets, &weights;
    double total = 0;
};

/// The loss, and the loss added to 10 in f32.
Trial forward_trial(const Variant& v, Random& random, const Shape& shape, std::int64_t classes, Kind kind) {
    Trial trial;
    const double smoothing = kind.smoothing;
    const Inputs in(trial, v, random, shape, classes, kind);
    const Options options{.ignore_index = classes > 1 ? 1 : -100, .label_smoothing = smoothing};
    Output& lse = trial.output(compute_dtype(v.dtype), Inputs::with(shape, 2), Layout::contiguous);
    const double unit = epsilon(compute_dtype(v.dtype)), n = static_cast<double>(classes);
    double loss = 0, bound = 0, terms = 0;
    for (std::int64_t i = 0; i < shape.numel(); ++i) {
        const Lse exact(in.logits, i, classes);
        // Additions of the sum, exponentials of arguments up to 30, the logarithm.
        const double error = unit * (n / 16 + 32 + 4 * std::abs(exact.logarithm));
        lse.expect(exact.largest, 0), lse.expect(exact.logarithm, error);
        const std::int64_t target = in.targets.get_integer(i);
        if (target == options.ignore_index) continue;
        double even = 0, sizes = 0;  // the even distribution's part
        for (std::int64_t c = 0; c < classes; ++c) {
            const double above = exact.above(in.logits.get(i * classes + c));
            even += in.weight(c) * above / n;
            // The sum is relative to the largest logit, or to the first one.
            sizes += std::abs(in.weight(c)) * (above + exact.above(in.logits.get(i * classes))) / n;
        }
        const double own = std::abs(in.weight(target));
        const double above = exact.above(in.logits.get(i * classes + target));
        loss += (1 - smoothing) * in.weight(target) * above + smoothing * even;
        bound +=
            (own + std::abs(in.total) / n + 1) * error + unit * (16 * (own + 1) + smoothing * (n / 16 + 8) * sizes);
        terms += in.weight(target);
    }
    trial.output(Dtype::f64, {}, v.out).expect(loss, bound);
    const double rounding = kind.weighted ? 16 * epsilon(Dtype::f64) * (1 + static_cast<double>(shape.numel())) : 0;
    trial.output(Dtype::f64, {}, v.out).expect(terms, rounding);
    trial.output(Dtype::f32, {1}, v.out, all(10)).expect(10 + loss, bound + 10 * epsilon(Dtype::f32));
    trial.output(Dtype::f64, {1}, v.out, all(5)).expect(5 + terms, rounding);
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        const ClassWeights weights = Inputs::given(kind, in);
        forward(device, in[0], in[1], options, out[1], out[2], 0, out[0], weights);
        forward(device, in[0], in[1], options, out[3], out[4], 1, out[0], weights);
    };
    return trial;
}

/// The gradient, and the gradient added to 2 in f32.
Trial backward_trial(const Variant& v, Random& random, const Shape& shape, std::int64_t classes, Kind kind) {
    Trial trial;
    const double smoothing = kind.smoothing;
    const Inputs in(trial, v, random, shape, classes, kind);
    const Options options{.ignore_index = classes > 1 ? 1 : -100, .label_smoothing = smoothing};
    trial.input(compute_dtype(v.dtype), Inputs::with(shape, 2), Layout::contiguous, [&](TestArray& x) {
        for (std::int64_t i = 0; i < shape.numel(); ++i) {
            const Lse exact(in.logits, i, classes);
            x.set(2 * i, exact.largest), x.set(2 * i + 1, exact.logarithm);
        }
    });
    trial.input(v.dtype, {}, v.in, all(3));
    const Shape all_logits = in.logits.view().shape;
    Output &gradient = trial.output(v, all_logits), &sum = trial.output(Dtype::f32, all_logits, v.out, all(2));
    gradient.over = 0;
    const double unit = epsilon(compute_dtype(v.dtype)), n = static_cast<double>(classes);
    for (std::int64_t row = 0; row < shape.numel(); ++row) {
        const Lse lse(in.logits, row, classes);
        const std::int64_t target = in.targets.get_integer(row);
        const bool ignored = target == options.ignore_index;
        const double factor = (1 - smoothing) * in.weight(target) + smoothing * in.total / n;
        for (std::int64_t c = 0; c < classes; ++c) {
            const double p = std::exp(-lse.above(in.logits.get(row * classes + c)));
            const double own = c == target ? 1 - smoothing : 0;
            const double value =
                ignored ? 0 : 3 * (factor * p - own * in.weight(target) - smoothing / n * in.weight(c));
            const double size = 1 + std::abs(in.weight(target)) + std::abs(in.weight(c));
            const double error = 3 * unit * size * ((n / 16 + 128) * (1 + std::abs(factor)) * p + 4);
            gradient.expect(value, error), sum.expect(2 + value, error + 8 * epsilon(Dtype::f32));
        }
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        const ClassWeights weights = Inputs::given(kind, in);
        const Views used{in[0], in[1], in[4], in[5]};
        backward(device, used, options, out[1], 1, weights);
        backward(device, used, options, out[0], 0, weights);
    };
    return trial;
}

Cases cases() {
    struct Size {
        Shape rows;
        std::int64_t classes;
    };
    Cases result;
    // A lane, part of a warp, rows that begin anywhere, several axes, a block for a row; none.
    for (const auto& [rows, classes] :
         {Size{{1}, 1}, Size{{5}, 3}, Size{{40}, 65}, Size{{7}, 31}, Size{{2, 3}, 40}, Size{{3}, 1025}, Size{{0}, 5}}) {
        for (const Kind kind : {Kind{}, Kind{0.1}, Kind{0, true}, Kind{0.1, true}}) {
            const std::string name = to_name(rows) + "x" + std::to_string(classes) +
                                     (kind.smoothing == 0 ? "" : "/smooth") + (kind.weighted ? "/weighted" : "");
            // The plain loss in every layout; with neither or both of the options also where no vector may begin.
            std::span<const Layouts> layouts = kFewLayouts;
            if (kind.smoothing == 0 && !kind.weighted) layouts = kAllLayouts;
            const bool moves = (kind.smoothing != 0) == kind.weighted;
            result.add("forward/" + name, forward_trial, rows, classes, kind).only(kFloating, layouts).moves = moves;
            result.add("backward/" + name, backward_trial, rows, classes, kind).only(kFloating, layouts).moves = moves;
        }
    }
    // More than a batch for each of a block's threads, halves beside f32 that begin aligned, rows for several threads.
    for (const auto& [rows, classes] : {Size{{2}, 9001}, Size{{3}, 2056}, Size{{1500}, 5}, Size{{768}, 65}}) {
        const std::string name = to_name(rows) + "x" + std::to_string(classes);
        const Kind kind{0.1, rows[0] == 3};
        result.add("forward/" + name, forward_trial, rows, classes, kind).only(kFloating).large = rows[0] >= 100;
        result.add("backward/" + name, backward_trial, rows, classes, kind).only(kFloating).large = rows[0] >= 100;
    }
    // Logits that share an offset, of which neither the loss nor the gradient depends.
    for (const double offset : {1e4, -1e4, 1e8}) {
        for (const Kind kind : {Kind{0, false, offset}, Kind{0.1, true, offset}}) {
            const std::string name = fmt::format("{}{}", offset, kind.weighted ? "/smooth/weighted" : "");
            const auto dtypes = offset == 1e8 ? std::span<const Dtype>(kWide) : kFloating;  // too large for f16
            result.add("forward/offset " + name, forward_trial, Shape{6}, 65, kind).only(dtypes);
            result.add("backward/offset " + name, backward_trial, Shape{6}, 65, kind).only(dtypes);
        }
    }
    return result;
}

const bool rows = add_rows("CrossEntropyRows", cases());

/// Logits and their loss, which is looked at by hand.
class CrossEntropy : public DeviceTest {
  protected:
    void draw(Dtype dtype, std::int64_t count, std::int64_t classes) {
        logits.emplace(dtype, Shape{count, classes}), lse.emplace(compute_dtype(dtype), Shape{count, 2});
        targets.emplace(Dtype::i64, Shape{count});
        logits->fill(random), targets->fill_indices(random, classes);
    }
    double loss(const Options& options = {}) {
        TestArray result(Dtype::f64, {});
        const View to_lse = device().put(*lse), to = device().put(result), terms = device().put(result);
        forward(device(), device().put(*logits), device().put(*targets), options, to, terms, 0, to_lse);
        device().get(to, result), device().get(to_lse, *lse);
        return result.get(0);
    }
    TestArray gradient() {
        TestArray one(Dtype::f32, {}), result(*logits);
        one.set(0, 1);
        const View to = device().put(result);
        backward(device(), {device().put(*logits), device().put(*targets), device().put(*lse), device().put(one)}, {},
                 to, 0);
        device().get(to, result);
        return result;
    }

    std::optional<TestArray> logits, targets, lse;
};

TEST_P(CrossEntropy, StandsMaskedLogitsWhateverTheirPlaceButNoNan) {
    for (const Dtype dtype : kWide) {
        draw(dtype, 2, 5000);
        for (std::int64_t c = 0; c < 4500; ++c) logits->set(c, -kInfinity), logits->set(9999 - c, -kInfinity);
        targets->set(0, 4999), targets->set(1, 0);
        const double expected =
            Lse(*logits, 0, 5000).above(logits->get(4999)) + Lse(*logits, 1, 5000).above(logits->get(5000));
        EXPECT_NEAR(loss(), expected, 200 * epsilon(dtype));
        const TestArray dlogits = gradient();
        EXPECT_EQ(dlogits.get(0), 0);
        EXPECT_EQ(dlogits.get(9999), 0);
        for (const double value : {std::nan(""), kInfinity}) {
            logits->set(4700, value);
            EXPECT_TRUE(std::isnan(loss()));
        }
    }
}

TEST_P(CrossEntropy, GivesARowOfNothingButMaskTheLogarithmOfZero) {
    for (const std::int64_t classes : {5, 3000}) {
        draw(Dtype::f32, 1, classes);
        all(-kInfinity)(*logits);
        EXPECT_EQ(loss({.ignore_index = targets->get_integer(0)}), 0);
        EXPECT_EQ(lse->get(0), -kInfinity);
    }
}

TEST_P(CrossEntropy, RefusesTargetsThatAreNoClass) {
    for (const std::int64_t wrong : {5, -1}) {
        draw(Dtype::f32, 4, 5);
        loss();
        targets->set(2, static_cast<double>(wrong));
        TestArray total(Dtype::f64, {}), dlogits(Dtype::f32, {4, 5}), one(Dtype::f32, {});
        one.set(0, 1);
        const View x = device().put(*logits), target = device().put(*targets), lses = device().put(*lse);
        const View to = device().put(total), terms = device().put(total), to_logits = device().put(dlogits);
        device().expect_index_error("cross_entropy: target", wrong, 2, 5,
                                    [&] { forward(device(), x, target, {}, to, terms, 0, lses); });
        device().expect_index_error("cross_entropy: target", wrong, 2, 5, [&] {
            backward(device(), {x, target, lses, device().put(one)}, {}, to_logits, 0);
        });
        device().get(to, total), device().get(to_logits, dlogits);
        if (on_gpu()) {  // it goes on with class 0
            targets->set(2, 0);
            EXPECT_EQ(total.get(0), loss());
            EXPECT_EQ(dlogits.memory(), gradient().memory());
        } else {
            EXPECT_TRUE(std::isnan(total.get(0)) && std::isnan(dlogits.get(0)));
        }
    }
}

TEST_P(CrossEntropy, OverChunksOfRowsIsThatOverAll) {
    draw(Dtype::f32, 24, 33);
    const double whole = loss();
    const TestArray expected = gradient();
    TestArray total(Dtype::f64, {}), one(Dtype::f32, {});
    one.set(0, 1);
    const View x = device().put(*logits), target = device().put(*targets), dloss = device().put(one);
    const View to = device().put(total), terms = device().put(total);
    for (std::int64_t begin = 0; begin < 24; begin += 10) {
        const std::int64_t count = std::min<std::int64_t>(10, 24 - begin);
        const View part = contiguous_view(x.at(begin * 33), Dtype::f32, {count, 33});
        const View of = contiguous_view(target.at(begin), Dtype::i64, {count});
        const View lses = device().put(TestArray(Dtype::f32, {count, 2}));
        forward(device(), part, of, {}, to, terms, begin == 0 ? 0.0f : 1.0f, lses);
        backward(device(), {part, of, lses, dloss}, {}, part, 0);
    }
    device().get(to, total), device().get(x, *logits);
    EXPECT_NEAR(total.get(0), whole, 1e-12 * whole);
    EXPECT_EQ(logits->memory(), expected.memory());
}

INSTANTIATE_TEST_SUITE_P(Devices, CrossEntropy, testing::ValuesIn(kPlaces), place_name);

TEST(CrossEntropyScratch, IsALossForEachRow) {
    Stream cuda = DryStream{.capability = 90}, cpu = CpuStream{};
    const View targets = contiguous_view(nullptr, Dtype::i64, {16, 256});
    const auto bytes = [&](const Stream& stream) {
        return CrossEntropyPlan(stream, View{}, targets, {}, {}, {}, {}, 0, {}).scratch();
    };
    EXPECT_EQ(bytes(cuda), 16u * 256 * 8);
    EXPECT_EQ(bytes(cpu), 0u);
}

}  // namespace cross_entropy_devices_test
}  // namespace headroom::kernels
