// The examples of the headers that kernels are written with: each is compiled as the header shows it.
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <headroom/core/context.hpp>
#include <headroom/kernels/compute_options.hpp>
#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/device/gpu_model.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/dtype.hpp>
#include <headroom/kernels/element_conversion.hpp>
#include <headroom/kernels/indices.hpp>
#include <headroom/kernels/int_pair.hpp>
#include <headroom/kernels/math.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/pixels.hpp>
#include <headroom/kernels/power.hpp>
#include <headroom/kernels/round_up.hpp>
#include <headroom/kernels/rows.hpp>
#include <headroom/kernels/runs.hpp>
#include <headroom/kernels/shape.hpp>
#include <headroom/kernels/softmax/softmax.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/tuning.hpp>
#include <headroom/kernels/view.hpp>
#include <headroom/kernels/walk.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/docs/kernel_arrays.hpp>

namespace headroom::kernels {
namespace header_examples_kernels_test {

using test::array;
using test::TestArray;

using Numbers = std::vector<double>;
using Use = std::function<void(std::int64_t)>;

void compute_options_example(StreamState& state, CudaDevice* device) {
    Context context = Context::cuda(0, {.compute = {.tf32 = true, .scratch_budget = std::size_t{1} << 30}});
    const CudaStream stream{.state = &state, .device = device, .compute = {.own_kernels = true}};
}

void convert_example(const View& x, const View& y, std::int64_t i, std::int64_t n) {
    float buffer[kChunk];
    const float* row = borrow(x.at(i * x.stride(0)), x.dtype, x.stride(1), n, buffer);
    float result[kChunk];
    for (std::int64_t k = 0; k < n; ++k) result[k] = 2 * row[k];
    store(result, n, y.at(i * y.stride(0)), y.dtype, y.stride(1));
}

template <class Element>
void fill(Element* first, Element value) {
    *first = value;
}

void dispatch_example(const View& view) {
    dispatch(view.dtype, [&]<class Element>(TypeTag<Element>) { fill(view.as<Element>(), Element{}); });
}

float dtype_example(Dtype dtype) {
    static_assert(size_of(Dtype::bf16) == 2);
    float x = to_float(kernels::bf16_from_float(1.0f));
    DtypeError("softmax: dtype must be floating, got " + std::string(name(dtype)));
    return x;
}

void element_conversion_example() {
    to_integer<std::uint8_t>(300.7f);
    f16_from_float(to_float_odd(0.1));
}

Profile gpu_model_example() {
    const GpuModel& card = kernels::gpu_model("RTX 2080 Ti");
    Profile profile = Profile::gpu(card);
    return profile;
}

void indices_example(const View& ids, std::int64_t rows, const Use& use) {
    const Indices indices(ids);
    indices.check("embedding: index", rows);
    for (std::int64_t i = 0; i < indices.count(); ++i) use(indices[i]);
}

void int_pair_example() {
    IntPair kernel = 3;
    IntPair stride = {2, 1};
    EXPECT_EQ(kernel, IntPair(3, 3));
    EXPECT_EQ(stride[0], 2);
}

void math_example(const float* x, float* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = math::tanh(x[i]);
}

void parallel_example(CpuStream& stream, std::int64_t rows, std::int64_t columns, const Use& use) {
    parallel_for(stream, rows, rows * columns, [&](std::int64_t row) { use(row); });
}

void pixels_example(const View& x, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t begin,
                    std::int64_t count, float* sums) {
    const std::int64_t height = x.size(2), width = x.size(3);
    const Rows in(pixels_of(x));
    Taps<float> taps;
    taps.add(in, (n * height + h) * width + w, begin, count, 0.5f);
    add_taps(taps, true, count, sums);
}

void power_example(const float* x, float* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = math::pow(x[i], 0.75f);
}

void round_up_example() {
    quotient_up(100, 32);
    round_up(100, 32);
}

void rows_example(CpuStream& stream, const View& x, const View& y) {
    const std::int64_t n = x.shape.back();
    const Rows in(x), out(y);
    parallel_for(stream, in.count(), x.numel(), [&](std::int64_t row) {
        float buffer[kChunk];
        const float* values = in.read(row, 0, n, buffer);
        out.write(values, row, 0, n);
    });
}

float runs_example(const float* x, std::int64_t n) {
    const float largest = combine_run<Largest>(x, n);
    const float mean = combine_run<Sum>(x, n) / n;
    const float variance = combine_run<SquaredDeviation>(x, n, mean) / n;
    return largest + variance;
}

void shape_example() {
    Shape shape{8, 64, 128};
    shape.numel();
    shape.axis(-1);
    contiguous_strides(shape);
    dense_strides(shape, {1, 8, 512});
    fmt::print("{}", shape.to_string());
}

void stream_example(StreamState& state, const View& x, const View& y) {
    CpuStream stream{.threads = 2, .state = &state};
    kernels::softmax(stream, x, y);
}

void dry_stream_example(StreamState& state, const View& x, const View& y) {
    Stream any = DryStream{.threads = 2, .state = &state};
    launch(any, [&](auto& s) { kernels::softmax(s, x, y); });
}

void tuning_example(Stream& stream, const std::filesystem::path& path) {
    if (exists(path)) kernels::load_tuning(stream, path);
    kernels::save_tuning(stream, path);
}

float view_example(CpuStream& stream) {
    float values[6] = {0, 1, 2, 3, 4, 5};
    View x{values, Dtype::f32, {2, 3}, {3, 1}};
    kernels::softmax(stream, x, x);
    return values[0] + values[1] + values[2];
}

std::int64_t walk_example(const View& a, const View& b, const View& y) {
    std::int64_t rows = 0;
    const Walk walk({&y, &a, &b});
    for (Cursor cursor(walk, 0); cursor.row < walk.rows(); cursor.next()) {
        ++rows;  // not shown
        cursor.at(2);
    }
    return rows;
}

TEST(HeaderExamples, OfWhatKernelsAreWrittenWithRun) {
    CpuStream stream;
    const TestArray x = array({2, 3}, {1, 2, 3, 4, 5, 6}, Dtype::f16), y = array({2, 3}, {0}, Dtype::bf16);
    convert_example(x, y, 1, 3);
    EXPECT_EQ(y.values(), (Numbers{0, 0, 0, 8, 10, 12}));
    rows_example(stream, x, y);
    EXPECT_EQ(y.values(), x.values());
    const TestArray one = array({}, {7}, Dtype::i64);
    dispatch_example(one);
    EXPECT_EQ(one.get(0), 0);

    std::vector<std::int64_t> seen;
    const Use use = [&](std::int64_t i) { seen.push_back(i); };
    const TestArray ids = array({3}, {2, 0, 1}, Dtype::i32);
    indices_example(ids, 3, use);
    parallel_example(stream, 2, 3, use);
    EXPECT_EQ(seen, (std::vector<std::int64_t>{2, 0, 1, 0, 1}));
    EXPECT_THROW(indices_example(ids, 2, use), ShapeError);

    const TestArray image = array({1, 2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
    float sums[2];
    pixels_example(image, 0, 1, 0, 0, 2, sums);
    EXPECT_EQ(sums[0], 1);
    EXPECT_EQ(sums[1], 3);
    const TestArray bias = array({3}, {1});
    EXPECT_EQ(walk_example(x, broadcast_to(bias, {2, 3}), y), 2);
}

TEST(HeaderExamples, OfStreamsAndTuningRun) {
    CpuStream stream;
    StreamState state;
    const TestArray x = array({2, 2}, {1}), y = array({2, 2}, {7});
    dry_stream_example(state, x, y);
    EXPECT_EQ(y.values(), Numbers(4, 7));
    stream_example(state, x, y);
    EXPECT_EQ(y.values(), Numbers(4, 0.5));
    EXPECT_NEAR(view_example(stream), 1, 1e-6);

    Stream cpu = stream;
    tuning_example(cpu, "not there");  // nothing is tuned on a processor, and no file is written
    EXPECT_FALSE(std::filesystem::exists("not there"));
    EXPECT_EQ(gpu_model_example().model.capability, 75);
}

TEST(HeaderExamples, OfNumbersHaveTheValuesThatHeadersSay) {
    const float x[] = {1, 2, 3, 4};
    float y[4];
    math_example(x, y, 4);
    EXPECT_NEAR(y[0], std::tanh(1.0), 1e-6);
    power_example(x, y, 4);
    EXPECT_NEAR(y[3], std::pow(4.0, 0.75), 1e-6);
    EXPECT_EQ(runs_example(x, 4), 4 + 1.25f);
    EXPECT_EQ(dtype_example(Dtype::i32), 1);
    element_conversion_example();
    EXPECT_EQ(to_integer<std::uint8_t>(300.7f), 255);
    int_pair_example();
    round_up_example();
    EXPECT_EQ(quotient_up(100, 32), 4);
    EXPECT_EQ(round_up(100, 32), 128);
    shape_example();
    const Shape shape{8, 64, 128};
    EXPECT_EQ(shape.numel(), 65536);
    EXPECT_EQ(contiguous_strides(shape), (Strides{8192, 128, 1}));
    EXPECT_EQ(dense_strides(shape, {1, 8, 512}), (Strides{1, 8, 512}));
}

}  // namespace header_examples_kernels_test
}  // namespace headroom::kernels
