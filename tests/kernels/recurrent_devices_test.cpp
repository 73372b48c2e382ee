#include <headroom/kernels/recurrent/recurrent.hpp>

#include <cmath>

#include <headroom/kernels/recurrent/gru.hpp>
#include <headroom/kernels/recurrent/lstm.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels {
namespace recurrent_devices_test {

using namespace test;

constexpr std::int64_t kTime = 2;  // of the step: sequences whose last element is 0 or 1 have ended

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// 0, 1, 2, 0, ...
Fill last_elements() {
    return [](TestArray& x) {
        for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, static_cast<double>(i % 3));
    };
}
bool ended(bool packed, std::int64_t row) { return packed && row % 3 < kTime; }

/// A number and how far the computed one may be off.
struct Bounded {
    double value, error;

    /// A function with a slope of at most `slope` there, itself within 4 ulp of f32 or f64.
    Bounded through(double result, double slope, double eps) const {
        return {result, slope * error + 4 * eps * (std::abs(result) + 1)};
    }
};
Bounded operator+(Bounded a, Bounded b) { return {a.value + b.value, a.error + b.error}; }
Bounded operator-(Bounded a, Bounded b) { return {a.value - b.value, a.error + b.error}; }
Bounded operator*(Bounded a, Bounded b) {
    return {a.value * b.value, a.error * std::abs(b.value) + b.error * std::abs(a.value) + a.error * b.error};
}
Bounded squashed(Bounded x, double eps) { return x.through(sigmoid(x.value), 0.25, eps); }
Bounded tangent(Bounded x, double eps) { return x.through(std::tanh(x.value), 1, eps); }

/// A test's numbers: each operand is exact, and each operation rounds by epsilon of what it yields; ten such for all
/// that an element goes through.
struct Numbers {
    double eps;
    Bounded operator()(double x) const { return {x, 10 * eps * std::abs(x)}; }
};

void expect(Output& out, Bounded x) { out.expect(x.value, x.error); }

struct Sizes {
    std::int64_t batch, width;
};

Trial lstm_trial(const Variant& v, Random& random, Sizes size, bool packed) {
    Trial trial;
    const auto [batch, width] = size;
    const Dtype wide = compute_dtype(v.dtype);
    const Numbers exact{epsilon(wide)};
    const Shape state{batch, width}, all_gates{batch, 4 * width};
    const TestArray& hidden = trial.input(wide, all_gates, v.in, normal(random));
    const TestArray& before = trial.input(wide, state, v.in, normal(random));
    trial.input(Dtype::i64, {batch}, v.in, last_elements());
    Output &gates = trial.output(v, all_gates, normal(random)), &c = trial.output(wide, state, v.out),
           &h = trial.output(v, state, normal(random)), &y = trial.output(v, state);
    for (std::int64_t row = 0; row < batch; ++row) {
        for (std::int64_t k = 0; k < 4 * width; ++k) {
            const std::int64_t i = row * 4 * width + k;
            const Bounded x = exact(gates.array.get(i)) + exact(hidden.get(i));
            const Bounded gate = k / width == 2 ? tangent(x, exact.eps) : squashed(x, exact.eps);
            ended(packed, row) ? gates.expect(gates.array.get(i), 0) : expect(gates, gate);
        }
        for (std::int64_t j = 0; j < width; ++j) {
            const std::int64_t i = row * width + j;
            const auto argument = [&](std::int64_t gate) {
                const std::int64_t k = (row * 4 + gate) * width + j;
                return exact(gates.array.get(k)) + exact(hidden.get(k));
            };
            if (ended(packed, row)) {
                c.expect(before.get(i), 0), h.expect(h.array.get(i), 0), y.expect(0, 0);
                continue;
            }
            const Bounded in = squashed(argument(0), exact.eps), forget = squashed(argument(1), exact.eps),
                          g = tangent(argument(2), exact.eps), o = squashed(argument(3), exact.eps);
            const Bounded cell = forget * exact(before.get(i)) + in * g, result = o * tangent(cell, exact.eps);
            expect(c, cell), expect(h, result), expect(y, result);
        }
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            lstm_step(stream, {.gates = out[0],
                               .hidden = in[0],
                               .before = in[1],
                               .c = out[1],
                               .h = out[2],
                               .y = out[3],
                               .last = packed ? in[2] : View{},
                               .time = kTime});
        });
    };
    return trial;
}

/// Gates lie in (0, 1), as they do after their functions.
Fill gate_values(Random& random) {
    return [&random](TestArray& x) {
        std::uniform_real_distribution<double> uniform(0.05, 0.95);
        for (std::int64_t i = 0; i < x.numel(); ++i) x.set(i, uniform(random));
    };
}

Trial lstm_gradient_trial(const Variant& v, Random& random, Sizes size, bool packed) {
    Trial trial;
    const auto [batch, width] = size;
    const Dtype wide = compute_dtype(v.dtype);
    const Numbers exact{epsilon(wide)};
    const Shape state{batch, width}, all_gates{batch, 4 * width};
    const TestArray& before = trial.input(wide, state, v.in, normal(random));
    const TestArray& c = trial.input(wide, state, v.in, normal(random));
    const TestArray& dy = trial.input(v, state, normal(random));
    trial.input(Dtype::i32, {batch}, v.in, last_elements());
    Output &gates = trial.output(v, all_gates, gate_values(random)),
           &dh = trial.output(wide, state, v.out, normal(random)),
           &dc = trial.output(wide, state, v.out, normal(random));
    std::vector<Bounded> gradients(static_cast<std::size_t>(batch * 4 * width));
    for (std::int64_t row = 0; row < batch; ++row) {
        for (std::int64_t j = 0; j < width; ++j) {
            const std::int64_t at = row * width + j, first = row * 4 * width + j;
            if (ended(packed, row)) {
                dh.expect(dh.array.get(at), 0), dc.expect(dc.array.get(at), 0);
                continue;
            }
            const auto gate = [&](std::int64_t k) { return exact(gates.array.get(first + k * width)); };
            const Bounded i = gate(0), f = gate(1), g = gate(2), o = gate(3), one = exact(1);
            const Bounded t = tangent(exact(c.get(at)), exact.eps), old = exact(before.get(at));
            const Bounded out = exact(dh.array.get(at)) + exact(dy.get(at));
            const Bounded all = exact(dc.array.get(at)) + out * o * (one - t * t);
            const Bounded four[] = {all * g * i * (one - i), all * old * f * (one - f), all * i * (one - g * g),
                                    out * t * o * (one - o)};
            for (std::int64_t k = 0; k < 4; ++k) gradients[static_cast<std::size_t>(first + k * width)] = four[k];
            dh.expect(0, 0), expect(dc, all * f);
        }
    }
    for (const Bounded& gradient : gradients) expect(gates, gradient);
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            lstm_step_gradient(stream, {.gates = out[0],
                                        .before = in[0],
                                        .c = in[1],
                                        .dy = in[2],
                                        .dh = out[1],
                                        .dc = out[2],
                                        .last = packed ? in[3] : View{},
                                        .time = kTime});
        });
    };
    return trial;
}

Trial gru_trial(const Variant& v, Random& random, Sizes size, bool packed) {
    Trial trial;
    const auto [batch, width] = size;
    const Dtype wide = compute_dtype(v.dtype);
    const Numbers exact{epsilon(wide)};
    const TestArray& hidden = trial.input(wide, {batch, 3 * width}, v.in, normal(random));
    trial.input(Dtype::i64, {batch}, v.in, last_elements());
    const TestArray& of_x = trial.input(v, {batch, width}, normal(random));
    Output &gates = trial.output(v, {batch, 2 * width}, normal(random)),
           &h = trial.output(v, {batch, width}, normal(random)), &y = trial.output(v, {batch, width});
    std::vector<Bounded> values(static_cast<std::size_t>(batch * 2 * width));
    for (std::int64_t row = 0; row < batch; ++row) {
        for (std::int64_t j = 0; j < width; ++j) {
            const std::int64_t first = row * 2 * width + j, at = row * width + j;
            const auto x = [&](std::int64_t k) { return exact(gates.array.get(first + k * width)); };
            const auto part = [&](std::int64_t k) { return exact(hidden.get(row * 3 * width + k * width + j)); };
            const Bounded r = squashed(x(0) + part(0), exact.eps), z = squashed(x(1) + part(1), exact.eps),
                          n = tangent(exact(of_x.get(at)) + r * part(2), exact.eps), old = exact(h.array.get(at));
            const Bounded two[] = {r, z};
            for (std::int64_t k = 0; k < 2; ++k) {
                const double untouched = gates.array.get(first + k * width);
                values[static_cast<std::size_t>(first + k * width)] =
                    ended(packed, row) ? Bounded{untouched, 0} : two[k];
            }
            const Bounded state = n + z * (old - n);
            ended(packed, row) ? h.expect(old.value, 0) : expect(h, state);
            ended(packed, row) ? y.expect(0, 0) : expect(y, state);
        }
    }
    for (const Bounded& value : values) expect(gates, value);
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            gru_step(stream, {.gates = out[0],
                              .n = in[2],
                              .hidden = in[0],
                              .h = out[1],
                              .y = out[2],
                              .last = packed ? in[1] : View{},
                              .time = kTime});
        });
    };
    return trial;
}

Trial gru_gradient_trial(const Variant& v, Random& random, Sizes size, bool packed) {
    Trial trial;
    const auto [batch, width] = size;
    const Dtype wide = compute_dtype(v.dtype);
    const Numbers exact{epsilon(wide)};
    const TestArray& before = trial.input(v, {batch, width}, normal(random));
    const TestArray& dy = trial.input(v, {batch, width}, normal(random));
    trial.input(Dtype::i64, {batch}, v.in, last_elements());
    Output &gates = trial.output(v, {batch, 2 * width}, gate_values(random)),
           &of_x = trial.output(v, {batch, width}, normal(random)),
           &hidden = trial.output(v, {batch, width}, normal(random)),
           &dh = trial.output(wide, {batch, width}, v.out, normal(random)),
           &dhidden = trial.output(v, {batch, 3 * width});
    std::vector<Bounded> gradients(static_cast<std::size_t>(batch * 2 * width)),
        of_state(static_cast<std::size_t>(batch * 3 * width));
    for (std::int64_t row = 0; row < batch; ++row) {
        for (std::int64_t j = 0; j < width; ++j) {
            const std::int64_t first = row * 2 * width + j, at = row * width + j;
            const Bounded r = exact(gates.array.get(first)), z = exact(gates.array.get(first + width)),
                          part = exact(hidden.array.get(at)), one = exact(1);
            const Bounded n = tangent(exact(of_x.array.get(at)) + r * part, exact.eps);
            const Bounded out = exact(dh.array.get(at)) + exact(dy.get(at)), dn = out * (one - z) * (one - n * n);
            const Bounded dr = dn * part * r * (one - r), dz = out * (exact(before.get(at)) - n) * z * (one - z);
            const Bounded none{0, 0};
            const bool over = ended(packed, row);
            const Bounded three[] = {dr, dz, dn * r};
            for (std::int64_t k = 0; k < 3; ++k) {
                const Bounded gradient = over ? none : three[k];
                if (k < 2) gradients[static_cast<std::size_t>(first + k * width)] = gradient;
                of_state[static_cast<std::size_t>((row * 3 + k) * width + j)] = gradient;
            }
            expect(of_x, over ? none : dn), expect(hidden, over ? none : dn * r);
            over ? dh.expect(dh.array.get(at), 0) : expect(dh, out * z);
        }
    }
    for (const Bounded& value : gradients) expect(gates, value);
    for (const Bounded& value : of_state) expect(dhidden, value);
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            gru_step_gradient(stream, {.gates = out[0],
                                       .n = out[1],
                                       .hidden = out[2],
                                       .dhidden = out[4],
                                       .before = in[0],
                                       .dy = in[1],
                                       .dh = out[3],
                                       .last = packed ? in[2] : View{},
                                       .time = kTime});
        });
    };
    return trial;
}

/// The states before all steps but the first and the last, and before the first and the last.
Trial before_trial(const Variant& v, Random& random, Shape shape, bool reverse, bool packed, bool begins) {
    Trial trial;
    const std::int64_t time = shape[0], batch = shape[1], width = shape[2], inner = std::max<std::int64_t>(time - 2, 0);
    const TestArray& y = trial.input(v, shape, normal(random));
    const TestArray& h0 = trial.input(v, {batch, width}, normal(random));
    trial.input(Dtype::i64, {batch}, v.in, last_elements());
    Output &all = trial.output(v, shape), &part = trial.output(v, {inner, batch, width});
    for (std::int64_t i = 0; i < y.numel(); ++i) {
        const std::int64_t t = i / width / batch, b = i / width % batch, before = reverse ? t + 1 : t - 1;
        const bool first = before < 0 || before >= time || (reverse && packed && before > b % 3);
        const double start = begins ? h0.get(i % (batch * width)) : 0;
        const double value = first ? start : y.get(i + (reverse ? 1 : -1) * batch * width);
        all.expect(value, 0);
        if (t > 0 && t <= inner) part.expect(value, 0);
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        const Passage passage{packed ? in[2] : View{}, reverse};
        const View start = begins ? in[1] : View{};
        device.run([&](auto& stream) {
            states_before(stream, in[0], start, passage, 0, out[0]);
            states_before(stream, in[0], start, passage, 1, out[1]);
        });
    };
    return trial;
}

using Make = Trial (*)(const Variant&, Random&, Sizes, bool);

Cases steps(Make make) {
    Cases result;
    for (const bool packed : {false, true}) {
        // One run and more, of the processor; one block and more, of a GPU.
        for (const Sizes size : {Sizes{1, 1}, Sizes{3, 5}, Sizes{4, 33}, Sizes{2, 300}, Sizes{0, 4}}) {
            result.add(to_name({size.batch, size.width}) + (packed ? "/packed" : ""), make, size, packed);
        }
    }
    return result;
}

Cases befores() {
    Cases result;
    for (const bool reverse : {false, true}) {
        for (const bool packed : {false, true}) {
            for (const bool begins : {false, true}) {
                const std::string name =
                    std::string(reverse ? "/reverse" : "") + (packed ? "/packed" : "") + (begins ? "/begins" : "");
                for (const Shape& shape : {Shape{1, 1, 1}, Shape{4, 3, 5}, Shape{3, 2, 1030}, Shape{2, 0, 3}})
                    result.add(to_name(shape) + name, before_trial, shape, reverse, packed, begins);
            }
        }
    }
    return result;
}

const bool rows = add_rows("LstmStep", steps(lstm_trial)) && add_rows("LstmStepGradient", steps(lstm_gradient_trial)) &&
                  add_rows("GruStep", steps(gru_trial)) && add_rows("GruStepGradient", steps(gru_gradient_trial)) &&
                  add_rows("StatesBefore", befores());

using LastElements = DeviceTest;

TEST_P(LastElements, OutsideOfTheSequencesAreRefused) {
    for (const Dtype dtype : {Dtype::i32, Dtype::i64}) {
        for (const std::int64_t wrong : {5, -1}) {
            TestArray last(dtype, {4});
            for (int i = 0; i < 4; ++i) last.set(i, i == 2 ? static_cast<double>(wrong) : i + 1);
            const auto check = [&] {
                const View view = device().put(last);
                device().run([&](auto& stream) { check_last(stream, "lstm: length", view, 5); });
            };
            device().expect_index_error("lstm: length", wrong + 1, 2, 6, check, 1);
        }
        TestArray fine(dtype, {5});
        for (int i = 0; i < 5; ++i) fine.set(i, i);
        const View view = device().put(fine);
        device().run([&](auto& stream) { check_last(stream, "lstm: length", view, 5); });
    }
}

INSTANTIATE_TEST_SUITE_P(Devices, LastElements, testing::ValuesIn(kPlaces), place_name);

}  // namespace recurrent_devices_test
}  // namespace headroom::kernels
