// adamw and sgd: PyTorch's steps, line by line.
#include <cmath>

#include <headroom/kernels/optimizer/adamw.hpp>
#include <headroom/kernels/optimizer/sgd.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace optimizer_devices_test {

using namespace test;

/// `size` elements of an array from `begin` on.
View part(const View& x, std::int64_t begin, std::int64_t size) { return {x.at(begin), x.dtype, {size}, {1}}; }

/// Where ranges begin: of p, g, m and v, as f32: alike, with heads of 0 and 3 elements, and each elsewhere.
struct Begins {
    std::int64_t p, g, m, v;
};
constexpr double kRate = 0.03;
constexpr Begins kBegins[] = {{0, 0, 0, 0}, {1, 1, 1, 1}, {1, 2, 3, 0}};

/// in: g, the multiplier, the count of steps, the learning rate. out: p, m, v, which begin some elements into their
/// arrays, whose other elements show what is written beside the range.
struct Ranges : Trial {
    Ranges(const Variant& v, Random& random, std::int64_t size, double multiplier) {
        input(v, {size + 8}, std::isfinite(1 / multiplier) ? normal(random, 0.1, 1) : all(std::nan("")));
        input(Dtype::f64, {}, Layout::contiguous, all(multiplier));
        input(Dtype::f64, {}, Layout::contiguous, all(2));
        input(Dtype::f64, {}, Layout::contiguous, all(kRate));
        for (int i = 0; i < 3; ++i) {
            output(v, {size + 8}, [&](TestArray& x) {
                x.fill(random);
                for (std::int64_t k = 0; i == 2 && k < x.numel(); ++k) x.set(k, std::abs(x.get(k)));
            });
        }
    }
    /// Expects `values` of output i from `begin` on, and all else as it was. A step has a few operations on numbers
    /// around 1, where what they cancel may be as large as `scale`.
    void expect(std::size_t i, std::int64_t begin, const std::vector<double>& values, double scale, bool moves) {
        Output& y = out[i];
        for (std::int64_t k = 0; k < y.array.numel(); ++k) {
            const bool inside = moves && k >= begin && k < begin + static_cast<std::int64_t>(values.size());
            const double value = inside ? values[static_cast<std::size_t>(k - begin)] : y.before();
            y.expect(value, inside ? 8 * epsilon(y.array.view().dtype) * (std::abs(value) + scale) : 0);
        }
    }
};

Trial adamw_trial(const Variant& v, Random& random, std::int64_t size, const Begins& begin, double multiplier) {
    Ranges trial(v, random, size, multiplier);
    const AdamWStep s{.beta2 = 0.99, .weight_decay = 0.1};
    std::vector<double> p, m, w;
    for (std::int64_t i = 0; i < size; ++i) {
        const double g = multiplier * trial.in[0].get(begin.g + i);
        m.push_back(s.beta1 * trial.out[1].array.get(begin.m + i) + (1 - s.beta1) * g);
        w.push_back(s.beta2 * trial.out[2].array.get(begin.v + i) + (1 - s.beta2) * g * g);
        const double correction1 = 1 - std::pow(s.beta1, 3), correction2 = std::sqrt(1 - std::pow(s.beta2, 3));
        p.push_back(trial.out[0].array.get(begin.p + i) * (1 - kRate * s.weight_decay) -
                    kRate / correction1 * m.back() / (std::sqrt(w.back()) / correction2 + s.epsilon));
    }
    const bool moves = std::isfinite(1 / multiplier);
    trial.expect(0, begin.p, p, 1, moves), trial.expect(1, begin.m, m, 1, moves), trial.expect(2, begin.v, w, 1, moves);
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            adamw(stream, s, in[3], in[1], in[2], part(in[0], begin.g, size), part(out[0], begin.p, size),
                  part(out[1], begin.m, size), part(out[2], begin.v, size));
        });
    };
    return trial;
}

Trial sgd_trial(const Variant& v, Random& random, std::int64_t size, const Begins& begin, double multiplier,
                const SgdStep& s) {
    Ranges trial(v, random, size, multiplier);
    std::vector<double> p, w;
    for (std::int64_t i = 0; i < size; ++i) {
        const double old = trial.out[0].array.get(begin.p + i);
        double g = multiplier * trial.in[0].get(begin.g + i) + s.weight_decay * old;
        w.push_back(s.momentum * trial.out[2].array.get(begin.v + i) + g);
        if (s.momentum != 0) g = s.nesterov ? g + s.momentum * w.back() : w.back();
        p.push_back(old - kRate * g);
    }
    const bool moves = std::isfinite(1 / multiplier), momentum = s.momentum != 0;
    trial.expect(0, begin.p, p, 4, moves), trial.expect(1, 0, {}, 0, false),
        trial.expect(2, begin.v, w, 4, moves && momentum);
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        const View velocity = part(out[2], begin.v, size);
        device.run([&](auto& stream) {
            sgd(stream, s, in[3], in[1], part(in[0], begin.g, size), part(out[0], begin.p, size),
                momentum ? &velocity : nullptr);
        });
    };
    return trial;
}

Cases cases() {
    Cases result;
    const SgdStep kinds[] = {{},
                             {.weight_decay = 0.01},
                             {.momentum = 0.9, .weight_decay = 0.01},
                             {.momentum = 0.9, .weight_decay = 0.01, .nesterov = true}};
    const auto add = [&](std::int64_t size, const Begins& begin, double multiplier) {
        const std::string name = std::to_string(size) + "_from_" + std::to_string(begin.p) + std::to_string(begin.v) +
                                 "_times_" + std::to_string(multiplier);
        result.add("adamw/" + name, adamw_trial, size, begin, multiplier).only(kWide);
        for (const SgdStep& kind : kinds) {
            result
                .add("sgd/" + name + "_kind_" + std::to_string(&kind - kinds), sgd_trial, size, begin, multiplier, kind)
                .only(kWide);
        }
    };
    // Below, at and above vectors, blocks and the emulator's whole grid (16 blocks of 256 threads); several threads.
    for (const std::int64_t size : {0, 1, 3, 4, 5, 31, 33, 1023, 1025, 16500, 40000}) {
        for (const Begins& begin : kBegins) add(size, begin, 0.25);
    }
    // No step, whatever the gradient is: not even what is not finite.
    for (const double multiplier : {0.0, -0.0, std::nan("")}) add(1025, kBegins[1], multiplier);
    return result;
}

const bool rows = add_rows("OptimizerRows", cases());

}  // namespace optimizer_devices_test
}  // namespace headroom::kernels
