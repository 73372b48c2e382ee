#pragma once
// The table of kernels' tests: what a kernel gets and what must come out, written once and run in each dtype and layout
// on each device. A family lists its cases; each row of the table (case, dtype, layouts, device) is one test that
// demands
//   values        within bounds of f64, derived from epsilon and length; a bound of 0 means equal,
//   memory        between the elements and of the inputs as it was, scratch of exactly the size that a rehearsal is
//   told, the same bits by other numbers of threads, and by another order of a GPU's threads and another number of its
//   multiprocessors, the same bits in place of an input, where the kernel promises that,
//   vectors        in the emulator, with each array's address and each of its outer strides alone such that no vector
//   may begin there ("moved"), and with rows beyond 32 bits ("far").
// Contiguous rows run on two GPUs, and of the others every second one on the second GPU, which is the emulator's of
// compute capability 7.5 (of 8.6 for bf16).
// What holds for one family only, such as NaN, masks or bad indices, is a DeviceTest in the family's file.
//
//     Trial scaled(const Variant& v, Random& random, const Shape& shape) {
//         Trial trial;
//         const TestArray& x = trial.input(v, shape, normal(random));
//         Output& y = trial.output(v, shape);
//         for (std::int64_t i = 0; i < x.numel(); ++i) y.expect(3 * x.get(i), epsilon(x.dtype()));
//         trial.call = [](Device& device, const Views& in, const Views& out) {
//             device.run([&](auto& stream) { scale(stream, 3, in[0], out[0]); });
//         };
//         return trial;
//     }
//     Cases cases() {
//         Cases result;
//         for (const Shape& shape : {Shape{7}, Shape{3, 1025}}) result.add(to_name(shape), scaled, shape);
//         return result;
//     }
//     const bool rows = add_rows("Scale", cases());
#include <deque>
#include <functional>
#include <initializer_list>
#include <random>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include <headroom/tests/kernels/device.hpp>

namespace headroom::kernels::test {

using Random = std::mt19937_64;
using Views = std::vector<View>;
using Fill = std::function<void(TestArray&)>;

Fill normal(Random& random, double mean = 0, double deviation = 1);
/// Integers in [0, bound).
Fill indices(Random& random, std::int64_t bound);
Fill all(double value);
/// Distinct values that every dtype holds.
void number(TestArray& x);

/// What a row of the table adds to its case.
struct Variant {
    Dtype dtype = Dtype::f32;
    Layout in = Layout::contiguous, out = Layout::contiguous;
};

struct Output {
    TestArray array;     ///< before the call: NaN, or what the result is added to
    int over = -1;       ///< the input whose memory the kernel may write this to
    bool rounds = true;  ///< may be off by its own rounding, too; false: by that of halves only
    std::vector<double> value, error;

    /// The next element, and by how much it may be off; 0: not at all.
    void expect(double next, double bound) {
        value.push_back(next);
        error.push_back(bound);
    }
    double before() const { return array.get(static_cast<std::int64_t>(value.size())); }
};

struct Trial {
    std::deque<TestArray> in;
    std::deque<Output> out;
    std::function<void(Device&, const Views& in, const Views& out)> call;

    const TestArray& input(Dtype dtype, const Shape& shape, Layout layout, const Fill& fill);
    const TestArray& input(const Variant& v, const Shape& shape, const Fill& fill) {
        return input(v.dtype, shape, v.in, fill);
    }
    /// Without `fill`, NaN that must not be read.
    Output& output(Dtype dtype, const Shape& shape, Layout layout, const Fill& fill = nullptr);
    Output& output(const Variant& v, const Shape& shape, const Fill& fill = nullptr) {
        return output(v.dtype, shape, v.out, fill);
    }
};

struct Layouts {
    Layout in, out;
};

/// Each layout, and some whose inputs and outputs differ.
inline constexpr Layouts kAllLayouts[] = {
    {Layout::contiguous, Layout::contiguous}, {Layout::gaps, Layout::gaps},
    {Layout::transposed, Layout::transposed}, {Layout::shifted, Layout::shifted},
    {Layout::slice, Layout::slice},           {Layout::ragged, Layout::ragged},
    {Layout::contiguous, Layout::shifted},    {Layout::transposed, Layout::contiguous}};
/// For large arrays.
inline constexpr Layouts kFewLayouts[] = {
    {Layout::contiguous, Layout::contiguous}, {Layout::gaps, Layout::gaps}, {Layout::ragged, Layout::ragged}};
constexpr std::span<const Layouts> layouts_for(const Shape& shape) {
    if (shape.numel() > 1000) return kFewLayouts;
    return kAllLayouts;
}
inline constexpr Layouts kContiguous[] = {{Layout::contiguous, Layout::contiguous}};
inline constexpr Dtype kWide[] = {Dtype::f32, Dtype::f64};
inline constexpr Dtype kF32[] = {Dtype::f32};
inline constexpr Dtype kAllDtypes[] = {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::f64,
                                       Dtype::i32, Dtype::i64, Dtype::u8,   Dtype::boolean};

struct Case {
    std::string name;
    std::function<Trial(const Variant&, Random&)> make;
    std::span<const Dtype> dtypes = kFloating;
    std::span<const Layouts> layouts = kAllLayouts;
    std::span<const Place> places = kPlaces;
    bool large = false;         ///< run once only in the emulator, and never under ThreadSanitizer
    bool moves = true;          ///< also with arrays that lie elsewhere: see kernel_table.cpp
    bool large_blocks = false;  ///< compute capability 7.5 lacks their shared memory, and computes in another order

    Case& only(std::span<const Dtype> these, std::span<const Layouts> those = kContiguous) {
        dtypes = these, layouts = those;
        return *this;
    }
    Case& only_on(const Place& place) {
        places = {&place, 1};
        return *this;
    }
};

struct Cases : std::deque<Case> {
    /// A case that is made by `make(variant, random, arguments...)`.
    template <class... Parameters, class... Arguments>
    Case& add(const std::string& name, Trial (*make)(const Variant&, Random&, Parameters...),
              const Arguments&... arguments) {
        return emplace_back(Case{
            .name = name, .make = [=](const Variant& v, Random& random) { return make(v, random, arguments...); }});
    }
};

/// "3x1025"; a scalar is "scalar".
std::string to_name(const Shape& shape);

/// Registers a test for each row of the table, named "Softmax.3x1025/bf16/gaps/gpu". To be called before main, by the
/// source whose tests they are.
bool add_rows(const std::string& kernel, const Cases& cases,
              std::source_location source = std::source_location::current());

/// The call's results on `device` are as expected, and nothing else was written. Returns them.
std::vector<TestArray> expect_values(Device& device, const Trial& trial);

}  // namespace headroom::kernels::test
