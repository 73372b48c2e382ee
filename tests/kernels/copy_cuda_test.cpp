#include <headroom/kernels/copy/copy.hpp>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/tests/kernels/copy_cuda.hpp>

namespace headroom::kernels {
namespace {

using test::describe;
using test::kLayouts;
using test::Layout;
using test::number;
using test::permuted;
using test::TestArray;

constexpr Dtype kSizes[] = {Dtype::u8, Dtype::bf16, Dtype::f32, Dtype::i64};  // one dtype for each size of elements

/// Runs both devices on the same memory and demands the same, gaps included.
class CopyCuda : public test::CopyCudaTest {
  protected:
    static View whole(const View& view) { return view; }

    /// Copies `of_x(x)` to `of_y(y)`, views of the arrays.
    template <class OfX, class OfY>
    void expect_same_bits(const TestArray& x, OfX&& of_x, const TestArray& y, OfY&& of_y) {
        if (!sample_.takes_next()) return;
        TestArray expected(y), result(y);
        copy(cpu_, of_x(x.view()), of_y(expected.view()));
        const View gpu_x = gpu->put(x), gpu_y = gpu->put(y);
        copy(gpu->stream, of_x(gpu_x), of_y(gpu_y));
        gpu->get(gpu_y, result);
        EXPECT_EQ(result.memory(), expected.memory())
            << describe(of_x(x.view())) << " to " << describe(of_y(expected.view()));
    }
    void expect_same_bits(const TestArray& x, const TestArray& y) { expect_same_bits(x, whole, y, whole); }
};

TEST_F(CopyCuda, MovesEveryDtypeBetweenAllLayouts) {
    for (int d = 0; d < kDtypeCount; ++d) {
        const auto dtype = static_cast<Dtype>(d);
        for (const Shape& shape : {Shape{}, Shape{9}, Shape{1023}, Shape{5, 37}, Shape{65, 33}, Shape{34, 66},
                                   Shape{3, 20, 70}, Shape{2, 3, 4, 5, 6}, Shape{2, 1000}}) {
            for (const Layout from : kLayouts) {
                for (const Layout to : kLayouts) {
                    TestArray x(dtype, shape, from);
                    number(x);
                    expect_same_bits(x, TestArray(dtype, shape, to));
                }
            }
        }
    }
}

TEST_F(CopyCuda, ConvertsBetweenAllDtypesAndLayouts) {
    for (int s = 0; s < kDtypeCount; ++s) {
        for (int t = 0; t < kDtypeCount; ++t) {
            for (const Layout from : kLayouts) {
                for (const Layout to : kLayouts) {
                    const auto source = static_cast<Dtype>(s), target = static_cast<Dtype>(t);
                    TestArray x(source, {9, 67}, from);
                    for (std::int64_t i = 0; i < x.numel(); ++i) {
                        x.set(i, is_floating(source) ? static_cast<double>(i) / 13 - 10 : static_cast<double>(i % 200));
                    }
                    expect_same_bits(x, TestArray(target, {9, 67}, to));
                }
            }
        }
    }
}

TEST_F(CopyCuda, ConvertsWhatIsHardAsTheCpuDoes) {
    const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
    std::vector<double> hard = {0.0,     -0.0,      nan,      infinity, -infinity, 0x1p62,    -0x1p63, 0x1p64,
                                255.5,   256,       -0.5,     3e9,      -3e9,      65519.996, 65520,   0x1p-24,
                                0x1p-25, 0x1.8p-25, 0x1p-149, 0x1p-130, 1e-40,     1e300};
    for (const double tie : {1 + 0x1p-11, 1 + 0x1.8p-10, 1 + 0x1p-8, 1 + 0x1.8p-7}) {  // of f16 and of bf16
        for (const double off : {0.0, 0x1p-30, -0x1p-30, 0x1p-50, -0x1p-50}) hard.push_back(tie + off);
    }
    const auto n = static_cast<std::int64_t>(hard.size());
    for (int s = 0; s < kDtypeCount; ++s) {
        for (int t = 0; t < kDtypeCount; ++t) {
            for (const Layout layout : {Layout::contiguous, Layout::gaps}) {
                TestArray x(static_cast<Dtype>(s), {n}), expected(static_cast<Dtype>(t), {n}, layout), y(expected);
                for (std::int64_t i = 0; i < n; ++i) x.set(i, hard[static_cast<std::size_t>(i)]);
                copy(cpu_, x, expected);
                const View gpu_y = gpu->put(y);
                copy(gpu->stream, gpu->put(x), gpu_y);
                gpu->get(gpu_y, y);
                for (std::int64_t i = 0; i < n; ++i) {
                    const double want = expected.get(i), got = y.get(i);
                    if (std::isnan(want) && std::isnan(got)) continue;
                    ASSERT_EQ(got, want) << name(x.view().dtype) << " to " << name(y.view().dtype) << ": " << x.get(i);
                    ASSERT_EQ(std::signbit(got), std::signbit(want)) << x.get(i);
                }
            }
        }
    }
}

TEST_F(CopyCuda, KeepsLargeIntegers) {
    TestArray x(Dtype::i64, {3}), wide(Dtype::i64, {3}), narrow(Dtype::i32, {3}), half(Dtype::bf16, {3});
    const std::int64_t values[] = {(1LL << 62) + 1, -3, (1LL << 60) + (1LL << 52) + 1};  // the last: just above a tie
    std::copy_n(values, 3, x.view().as<std::int64_t>());
    for (const TestArray* y : {&wide, &narrow, &half}) expect_same_bits(x, *y);
}

TEST_F(CopyCuda, BeginsAndEndsAnywhere) {
    for (const Dtype dtype : kSizes) {
        for (std::int64_t from = 0; from < 17; ++from) {
            for (const std::int64_t to : {0, 1, 2, 4, 8, 15, 16}) {
                for (const std::int64_t count : {1, 15, 16, 33, 60}) {
                    TestArray x(dtype, {80});
                    number(x);
                    expect_same_bits(
                        x, [&](const View& view) { return contiguous_view(view.at(from), dtype, {count}); },
                        TestArray(dtype, {80}),
                        [&](const View& view) { return contiguous_view(view.at(to), dtype, {count}); });
                }
            }
        }
    }
}

TEST_F(CopyCuda, ConversionsBeginAndEndAnywhere) {
    for (const Dtype source : {Dtype::f32, Dtype::f16, Dtype::bf16}) {
        for (const Dtype target : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64}) {
            for (const std::int64_t from : {0, 1, 4, 8}) {
                for (const std::int64_t to : {0, 1, 4, 8}) {
                    for (const std::int64_t count : {1, 7, 8, 16, 33}) {
                        TestArray x(source, {60});
                        number(x);
                        expect_same_bits(
                            x, [&](const View& view) { return contiguous_view(view.at(from), source, {count}); },
                            TestArray(target, {60}),
                            [&](const View& view) { return contiguous_view(view.at(to), target, {count}); });
                    }
                }
            }
        }
    }
}

TEST_F(CopyCuda, SlicesAreMovedInUnitsOfAnySize) {
    for (const Dtype dtype : kSizes) {
        for (const std::int64_t pitch : {64, 72, 68, 66, 65}) {
            for (const std::int64_t columns : {16, 24, 12, 6, 5}) {
                for (const std::int64_t start : {0, 8, 4, 2, 1}) {
                    TestArray x(dtype, {3, 4, pitch});
                    number(x);
                    const auto part = [&](const View& view) {
                        return View{view.at(start), dtype, {3, 4, columns}, view.strides};
                    };
                    expect_same_bits(x, part, TestArray(dtype, {3, 4, columns}), whole);
                    expect_same_bits(x, part, TestArray(dtype, {3, 4, 48}), part);
                }
            }
        }
    }
}

TEST_F(CopyCuda, SlicesAreConverted) {
    for (const std::int64_t columns : {8, 16, 12}) {
        for (const std::int64_t start : {0, 8, 4}) {
            TestArray x(Dtype::f32, {5, 40});
            number(x);
            expect_same_bits(
                x,
                [&](const View& view) {
                    return View{view.at(start), Dtype::f32, {5, columns}, view.strides};
                },
                TestArray(Dtype::bf16, {5, columns}), whole);
        }
    }
}

TEST_F(CopyCuda, TransposesInEveryOrderOfAxes) {
    for (const Dtype dtype : kSizes) {
        for (const Shape& shape :
             {Shape{3, 33, 65}, Shape{2, 64, 66}, Shape{40, 3, 72}, Shape{70, 8, 7}, Shape{9, 31, 32}}) {
            TestArray x(dtype, shape);
            number(x);
            const auto expect = [&](std::initializer_list<int> axes) {
                expect_same_bits(
                    x, [&](const View& view) { return permuted(view, axes); },
                    TestArray(dtype, permuted(x, axes).shape), whole);
                // and into an array that is permuted, from one that is not
                expect_same_bits(TestArray(x), whole, TestArray(dtype, permuted(x, axes).shape), [&](const View& view) {
                    View back{view.data, dtype, shape, {0, 0, 0}};
                    int i = 0;
                    for (const int axis : axes) back.strides[axis] = view.stride(i++);
                    return back;
                });
            };
            for (const auto& axes : {std::initializer_list<int>{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}})
                expect(axes);
        }
    }
}

TEST_F(CopyCuda, TransposesPairsWhereverTheyBegin) {
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16}) {
        for (const std::int64_t start : {0, 1, 2}) {
            for (const std::int64_t rows : {66, 65}) {
                for (const std::int64_t columns : {130, 31}) {
                    for (const std::int64_t pitch : {134, 133}) {
                        TestArray x(dtype, {rows, pitch});
                        number(x);
                        expect_same_bits(
                            x,
                            [&](const View& view) {
                                return View{view.at(start), dtype, {columns, rows}, {1, pitch}};
                            },
                            TestArray(dtype, {columns, rows + rows % 2}),
                            [&](const View& view) {
                                return View{view.data, dtype, {columns, rows}, view.strides};
                            });
                    }
                }
            }
        }
    }
}

TEST_F(CopyCuda, TransposesAndConverts) {
    for (const Dtype source : test::kFloating) {
        for (const Dtype target : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64, Dtype::i32}) {
            for (const Shape& shape : {Shape{33, 65}, Shape{64, 32}, Shape{1000, 9}, Shape{7, 40}}) {
                TestArray x(source, shape);
                number(x);
                expect_same_bits(
                    x,
                    [&](const View& view) {
                        return permuted(view, {1, 0});
                    },
                    TestArray(target, {shape[1], shape[0]}), whole);
            }
        }
    }
}

TEST_F(CopyCuda, WritesExpansionsOut) {
    for (int s = 0; s < kDtypeCount; ++s) {
        for (int t = 0; t < kDtypeCount; ++t) {
            const auto source = static_cast<Dtype>(s), target = static_cast<Dtype>(t);
            for (const Shape& to : {Shape{3, 5, 32}, Shape{3, 5, 33}, Shape{3, 5, 18}, Shape{3, 32, 5}}) {
                for (const Shape& from :
                     {Shape{}, Shape{1}, Shape{to[2]}, Shape{to[1], 1}, Shape{3, 1, 1}, Shape{3, 1, to[2]}}) {
                    TestArray x(source, from);
                    number(x);
                    expect_same_bits(x, TestArray(target, to));
                }
            }
        }
    }
}

TEST_F(CopyCuda, LargeArraysTakeManyRounds) {
    for (const Dtype dtype : kSizes) {
        TestArray x(dtype, {700, 130});
        number(x);
        expect_same_bits(x, TestArray(dtype, {700, 130}));
        expect_same_bits(x, TestArray(Dtype::f16, {700, 130}));
        const auto part = [&](const View& view) { return View{view.at(1), dtype, {700, 128}, view.strides}; };
        expect_same_bits(x, part, TestArray(dtype, {700, 128}), whole);
        TestArray column(dtype, {700, 1});
        number(column);
        expect_same_bits(column, TestArray(dtype, {700, 128}));
    }
}

TEST_F(CopyCuda, EmptyArraysAreLeftAlone) {
    const View empty = contiguous_view(nullptr, Dtype::f32, {0, 3});
    copy(gpu->stream, empty, empty);
    accumulate(gpu->stream, empty, empty, 1.0f, 1.0f);
}

}  // namespace
}  // namespace headroom::kernels
