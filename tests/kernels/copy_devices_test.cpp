// copy and accumulate.
#include <headroom/kernels/copy/copy.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <headroom/tests/kernels/kernel_table.hpp>
#include <headroom/tests/kernels/sample.hpp>
#if HEADROOM_CUDA_KERNELS
#include <headroom/tests/kernels/gpu.hpp>
#endif

namespace headroom::kernels {
namespace copy_devices_test {

using namespace test;

constexpr Layout kEach[] = {Layout::contiguous, Layout::gaps,  Layout::transposed,
                            Layout::shifted,    Layout::slice, Layout::ragged};
constexpr Layouts kPairs[] = {{kEach[0], kEach[0]}, {kEach[0], kEach[1]}, {kEach[0], kEach[2]}, {kEach[0], kEach[3]},
                              {kEach[0], kEach[4]}, {kEach[0], kEach[5]}, {kEach[1], kEach[0]}, {kEach[1], kEach[1]},
                              {kEach[1], kEach[2]}, {kEach[2], kEach[0]}, {kEach[2], kEach[1]}, {kEach[2], kEach[2]},
                              {kEach[3], kEach[0]}, {kEach[3], kEach[3]}, {kEach[4], kEach[0]}, {kEach[4], kEach[4]},
                              {kEach[5], kEach[0]}, {kEach[5], kEach[4]}, {kEach[5], kEach[5]}};

double stored_element(Dtype dtype, const TestArray& x, std::int64_t i) {
    if (is_floating(x.view().dtype)) return stored(dtype, x.get(i));
    TestArray one(dtype, {});
    store_one(x.get_integer(i), one.view().data, dtype);
    return one.get(0);
}

/// Integers, or fractions and negative numbers, which are rounded, truncated or saturated.
void mixed(TestArray& x) {
    for (std::int64_t i = 0; i < x.numel(); ++i) {
        x.set(i, is_floating(x.view().dtype) ? static_cast<double>(i % 3001) / 13 - 10 : static_cast<double>(i % 200));
    }
}

/// For each element of y the one of x that is broadcast to it.
std::vector<std::int64_t> sources(const Shape& x, const Shape& y) {
    return offsets_of(broadcast_to(contiguous_view(nullptr, Dtype::u8, x), y));
}

Trial copy_trial(const Variant& v, Random&, const Shape& from, const Shape& to, Dtype target) {
    Trial trial;
    const TestArray& x = trial.input(v.dtype, from, v.in, mixed);
    Output& y = trial.output(target, to, v.out);
    for (const std::int64_t i : sources(from, to)) y.expect(stored_element(target, x, i), 0);
    trial.call = [](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) { copy(stream, in[0], out[0]); });
    };
    return trial;
}

/// alpha x + beta y for betas of 0, 1 and 0.5; factors of integers are truncated.
Trial accumulate_trial(const Variant& v, Random& random, const Shape& from, const Shape& to, Dtype target,
                       float alpha) {
    Trial trial;
    const bool exact = !is_floating(v.dtype) && !is_floating(target);
    const auto fill = [&](Dtype dtype) { return is_floating(dtype) ? normal(random, 3, 1) : indices(random, 20); };
    const TestArray& x = trial.input(v, from, fill(v.dtype));
    const auto source = sources(from, to);
    const bool wide = v.dtype == Dtype::f64 || target == Dtype::f64;
    for (const float beta : {0.0f, 1.0f, 0.5f}) {
        Output& y = trial.output(target, to, v.out, beta == 0 ? Fill() : fill(target));
        for (const std::int64_t i : source) {
            const double a = exact ? std::trunc(alpha) : alpha, b = exact ? std::trunc(beta) : beta;
            const double old = beta == 0 ? 0 : b * y.before(), sum = a * x.get(i) + old;
            const double error = 2 * epsilon(wide ? Dtype::f64 : Dtype::f32) * (std::abs(a * x.get(i)) + std::abs(old));
            if (is_floating(target)) {
                y.expect(sum, error + 0x1p-1000);
            } else {  // truncated, unless the sum is next to an integer
                y.expect(stored(target, sum), exact || std::abs(sum - std::nearbyint(sum)) > error ? 0 : 1);
            }
        }
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        device.run([&](auto& stream) {
            accumulate(stream, in[0], out[0], alpha, 0.0f);
            accumulate(stream, in[0], out[1], alpha, 1.0f);
            accumulate(stream, in[0], out[2], alpha, 0.5f);
        });
    };
    return trial;
}

Cases cases() {
    Cases result;
    for (const Shape& shape : {Shape{}, Shape{9}, Shape{1023}, Shape{5, 37}, Shape{65, 33}, Shape{34, 66},
                               Shape{3, 20, 70}, Shape{2, 3, 4, 5, 6}, Shape{2, 1000}, Shape{0, 4}}) {
        for (const Dtype dtype : kAllDtypes) {
            const Dtype* same = std::find(std::begin(kAllDtypes), std::end(kAllDtypes), dtype);
            result.add("copy/" + to_name(shape), copy_trial, shape, shape, dtype).only({same, 1}, kPairs);
        }
    }
    for (const Dtype target : kAllDtypes) {
        const std::string name = std::string("_to_") + std::string(kernels::name(target));
        result.add("copy/9x67" + name, copy_trial, Shape{9, 67}, Shape{9, 67}, target).only(kAllDtypes, kPairs);
        result.add("expand/5x1_to_5x67_apart" + name, copy_trial, Shape{5, 1}, Shape{5, 67}, target)
            .only(kWide, kPairs);
        result.add("copy/700x130" + name, copy_trial, Shape{700, 130}, Shape{700, 130}, target).only(kF32).large = true;
        for (const Shape& to : {Shape{3, 5, 32}, Shape{3, 5, 33}, Shape{3, 5, 18}, Shape{3, 32, 5}}) {
            for (const Shape& from :
                 {Shape{}, Shape{1}, Shape{to[2]}, Shape{to[1], 1}, Shape{3, 1, 1}, Shape{3, 1, to[2]}}) {
                result.add("expand/" + to_name(from) + "_to_" + to_name(to) + name, copy_trial, from, to, target)
                    .only(kAllDtypes, kContiguous);
            }
        }
        if (target == Dtype::boolean) continue;
        for (const Shape& shape : {Shape{11, 67}, Shape{70, 66}, Shape{9003}}) {
            if (!is_floating(target)) continue;
            result.add("accumulate/" + to_name(shape) + name, accumulate_trial, shape, shape, target, 3.0f)
                .only(kFloating, shape[0] == 9003 ? std::span<const Layouts>(kContiguous) : kPairs);
        }
        for (const Shape& from : {Shape{}, Shape{33}, Shape{5, 1}, Shape{3, 1, 1}}) {
            const Shape to{3, 5, from.rank() == 1 ? 33 : 32};
            result
                .add("accumulate/" + to_name(from) + "_to_" + to_name(to) + name, accumulate_trial, from, to, target,
                     2.0f)
                .only(kFloating, kContiguous);
        }
        for (const float alpha : {2.0f, 0.5f}) {
            result
                .add("accumulate/100" + name + (alpha == 2 ? "_twice" : "_half"), accumulate_trial, Shape{100},
                     Shape{100}, target, alpha)
                .only(kAllDtypes, kContiguous);
        }
    }
    return result;
}

const bool rows = add_rows("CopyRows", cases());

constexpr Dtype kSizes[] = {Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::i64};  // one dtype for each size of elements

/// Parts of arrays, which begin anywhere, against a loop over all elements.
class Copy : public DeviceTest {
  protected:
    using Part = std::function<View(const View&)>;
    static View whole(const View& view) { return view; }

    void expect_copied(TestArray x, const Part& of_x, const TestArray& y, const Part& of_y) {
        if (!sample_.takes_next()) return;
        number(x);
        TestArray expected(y), result(y);
        const View from = of_x(x), to = of_y(expected);
        for (std::int64_t i = 0; i < from.numel(); ++i) {
            store_one(load_one<double>(from.at(offset_of(from, i)), from.dtype), to.at(offset_of(to, i)), to.dtype);
        }
        const View in = device().put(x), out = device().put(y);
        device().run([&](auto& stream) { copy(stream, of_x(in), of_y(out)); });
        device().get(out, result);
        EXPECT_EQ(result.memory(), expected.memory()) << describe(from) << " to " << describe(to);
    }

    Sample sample_;
};

TEST_P(Copy, BeginsAndEndsAnywhere) {
    const auto run_of = [](std::int64_t begin, std::int64_t count) {
        return [=](const View& view) { return contiguous_view(view.at(begin), view.dtype, {count}); };
    };
    for (const Dtype dtype : kSizes) {
        for (std::int64_t from = 0; from < 17; ++from) {
            for (const std::int64_t to : {0, 1, 2, 4, 8, 15, 16}) {
                for (const std::int64_t count : {1, 15, 16, 33, 60}) {
                    expect_copied({dtype, {80}}, run_of(from, count), {dtype, {80}}, run_of(to, count));
                }
            }
        }
    }
    for (const Dtype source : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
        for (const Dtype target : kFloating) {
            for (const std::int64_t from : {0, 1, 4, 8}) {
                for (const std::int64_t to : {0, 1, 4, 8}) {
                    for (const std::int64_t count : {1, 7, 8, 16, 33}) {
                        expect_copied({source, {60}}, run_of(from, count), {target, {60}}, run_of(to, count));
                    }
                }
            }
        }
    }
}

TEST_P(Copy, MovesSlicesInUnitsOfAnySize) {
    for (const Dtype dtype : kSizes) {
        for (const std::int64_t pitch : {64, 72, 68, 66, 65}) {
            for (const std::int64_t columns : {16, 24, 12, 6, 5}) {
                for (const std::int64_t start : {0, 8, 4, 2, 1}) {
                    const auto part = [&](const View& view) {
                        return View{view.at(start), view.dtype, {3, 4, columns}, view.strides};
                    };
                    expect_copied({dtype, {3, 4, pitch}}, part, {dtype, {3, 4, columns}}, whole);
                    expect_copied({dtype, {3, 4, pitch}}, part, {dtype, {3, 4, 48}}, part);
                    if (dtype == Dtype::f32)
                        expect_copied({dtype, {3, 4, pitch}}, part, {Dtype::bf16, {3, 4, columns}}, whole);
                }
            }
        }
        const auto part = [](const View& view) { return View{view.at(1), view.dtype, {700, 128}, view.strides}; };
        expect_copied({dtype, {700, 130}}, part, {dtype, {700, 128}}, whole);
    }
}

TEST_P(Copy, TransposesInEveryOrderOfAxes) {
    const auto permuted = [](std::initializer_list<int> axes) {
        return [axes = std::vector(axes)](const View& x) {
            View result{x.data, x.dtype, {}, {}};
            for (const int axis : axes) result.shape.push_back(x.size(axis)), result.strides.push_back(x.stride(axis));
            return result;
        };
    };
    for (const Dtype dtype : kSizes) {
        for (const Shape& shape :
             {Shape{3, 33, 65}, Shape{2, 64, 66}, Shape{40, 3, 72}, Shape{70, 8, 7}, Shape{9, 31, 32}}) {
            for (const auto& axes : {permuted({0, 2, 1}), permuted({1, 0, 2}), permuted({1, 2, 0}), permuted({2, 0, 1}),
                                     permuted({2, 1, 0})}) {
                const TestArray x(dtype, shape), turned(dtype, axes(x).shape);
                expect_copied(x, axes, turned, whole);
                expect_copied(turned, whole, x, axes);  // and into an array that is permuted
            }
        }
    }
    for (const Dtype source : kFloating) {
        for (const Dtype target : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64, Dtype::i32}) {
            for (const Shape& shape : {Shape{33, 65}, Shape{64, 32}, Shape{1000, 9}, Shape{7, 40}}) {
                expect_copied({source, shape}, permuted({1, 0}), {target, {shape[1], shape[0]}}, whole);
            }
        }
    }
}

TEST_P(Copy, TransposesPairsWhereverTheyBegin) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        for (const std::int64_t start : {0, 1, 2}) {
            for (const std::int64_t rows : {66, 65}) {
                for (const std::int64_t columns : {130, 31}) {
                    for (const std::int64_t pitch : {134, 133}) {
                        const Shape shape{columns, rows};
                        expect_copied(
                            {dtype, {rows, pitch}},
                            [&](const View& x) {
                                return View{x.at(start), dtype, shape, {1, pitch}};
                            },
                            {dtype, {columns, rows + rows % 2}},
                            [&](const View& y) {
                                return View{y.data, dtype, shape, y.strides};
                            });
                    }
                }
            }
        }
    }
}

TEST_P(Copy, ConvertsWhatIsHard) {
    const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
    std::vector<double> hard = {0.0,     -0.0,      nan,      infinity, -infinity, 0x1p62,    -0x1p63, 0x1p64,
                                255.5,   256,       -0.5,     3e9,      -3e9,      65519.996, 65520,   0x1p-24,
                                0x1p-25, 0x1.8p-25, 0x1p-149, 0x1p-130, 1e-40,     1e300};
    for (const double tie : {1 + 0x1p-11, 1 + 0x1.8p-10, 1 + 0x1p-8, 1 + 0x1.8p-7}) {  // of f16 and of bf16
        for (const double off : {0.0, 0x1p-30, -0x1p-30, 0x1p-50, -0x1p-50}) hard.push_back(tie + off);
    }
    const auto n = static_cast<std::int64_t>(hard.size());
    for (const Dtype source : kAllDtypes) {
        for (const Dtype target : kAllDtypes) {
            for (const Layout layout : {Layout::contiguous, Layout::gaps}) {
                TestArray x(source, {n}), y(target, {n}, layout);
                for (std::int64_t i = 0; i < n; ++i) x.set(i, hard[static_cast<std::size_t>(i)]);
                const View in = device().put(x), out = device().put(y);
                device().run([&](auto& stream) { copy(stream, in, out); });
                device().get(out, y);
                for (std::int64_t i = 0; i < n; ++i) {
                    const double want = stored_element(target, x, i), got = y.get(i);
                    if (std::isnan(want) && std::isnan(got)) continue;
                    ASSERT_EQ(got, want) << name(source) << " to " << name(target) << ": " << x.get(i);
                    ASSERT_EQ(std::signbit(got), std::signbit(want)) << x.get(i);
                }
            }
        }
    }
}

TEST_P(Copy, KeepsLargeIntegers) {
    TestArray x(Dtype::i64, {3}), wide(Dtype::i64, {3}), narrow(Dtype::i32, {3}), half(Dtype::bf16, {3});
    const std::int64_t values[] = {(1LL << 61) + 1, -3, (1LL << 60) + (1LL << 52) + 1};  // the last: just above a tie
    std::copy_n(values, 3, x.view().as<std::int64_t>());
    TestArray sum(x);
    const View in = device().put(x), a = device().put(wide), b = device().put(narrow), c = device().put(half);
    const View d = device().put(sum);
    device().run([&](auto& stream) {
        copy(stream, in, a), copy(stream, in, b), copy(stream, in, c);
        accumulate(stream, in, d, 1.0f, 1.0f);
    });
    device().get(a, wide), device().get(b, narrow), device().get(c, half), device().get(d, sum);
    EXPECT_EQ(wide.memory(), x.memory());
    EXPECT_EQ(narrow.get_integer(0), 1);
    EXPECT_EQ(narrow.get_integer(1), -3);
    EXPECT_EQ(half.get(2), 0x1p60 + 0x1p53);
    EXPECT_EQ(sum.get_integer(1), -6);
    EXPECT_EQ(sum.get_integer(2), 2 * values[2]);
}

TEST_P(Copy, AccumulatesOntoItsSource) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::f64, Dtype::i64}) {
        for (const Layout layout : kLayouts) {
            TestArray x(dtype, {3, 701}, layout);
            number(x);
            const std::vector<double> before = x.values();
            const View view = device().put(x);
            device().run([&](auto& stream) { accumulate(stream, view, view, 3.0f, 1.0f); });
            device().get(view, x);
            for (std::size_t i = 0; i < before.size(); ++i) {
                ASSERT_EQ(x.get(static_cast<std::int64_t>(i)), 4 * before[i]);
            }
        }
    }
}

TEST_P(Copy, LeavesEmptyArraysAlone) {
    const View empty = contiguous_view(nullptr, Dtype::f32, {0, 3});
    device().run([&](auto& stream) { copy(stream, empty, empty), accumulate(stream, empty, empty, 1.0f, 1.0f); });
}

INSTANTIATE_TEST_SUITE_P(Devices, Copy, testing::ValuesIn(kPlaces), place_name);

#if HEADROOM_CUDA_KERNELS
using CopyCuda = CudaTest;

TEST_F(CopyCuda, ReachesElementsFarApart) {
    constexpr std::int64_t apart = (std::int64_t{1} << 31) + 64;
    const memory::Buffer memory = memory::Buffer::allocate(gpu->memory, apart + 3, 0, {});
    const View far{memory.data(), Dtype::u8, {2, 3}, {apart, 1}};
    TestArray x(Dtype::f32, {2, 3}), y(Dtype::f32, {2, 3});
    number(x);
    const View result = gpu->put(y);
    accumulate(gpu->stream, gpu->put(x), far, 1.0f, 0.0f);
    accumulate(gpu->stream, far, result, 1.0f, 0.0f);
    gpu->get(result, y);
    EXPECT_EQ(y.values(), x.values());
}
#endif

}  // namespace copy_devices_test
}  // namespace headroom::kernels
