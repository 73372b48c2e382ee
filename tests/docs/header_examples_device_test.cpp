// The examples of the headers that GPU kernels are written with: each is compiled as the header shows it, by the
// compiler of the tests, and what takes a `Stream` runs in the emulator.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <headroom/kernels/device/block.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/cuda_uuid.hpp>
#include <headroom/kernels/device/cudnn.hpp>
#include <headroom/kernels/device/eights.hpp>
#include <headroom/kernels/device/elements.hpp>
#include <headroom/kernels/device/images.hpp>
#include <headroom/kernels/device/index_check.hpp>
#include <headroom/kernels/device/launch.hpp>
#include <headroom/kernels/device/plan_choices.hpp>
#include <headroom/kernels/device/probe.hpp>
#include <headroom/kernels/device/row_access.hpp>
#include <headroom/kernels/device/shape.hpp>
#include <headroom/kernels/device/site.hpp>
#include <headroom/kernels/device/strided.hpp>
#include <headroom/kernels/device/team.hpp>
#include <headroom/kernels/device/values.hpp>
#include <headroom/kernels/softmax/softmax.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>
#include <headroom/tests/simt/emulator.hpp>
#if __has_include(<cuda_runtime_api.h>)  // a GPU's runtime, which none of the tests needs
#include <headroom/kernels/device/cuda_error.hpp>
#include <headroom/kernels/device/cuda_kernels.hpp>
#endif

namespace headroom::kernels::device {
namespace {  // nothing calls these, so that nothing of them is linked

using Numbers = std::vector<float>;

struct Scale {
    HEADROOM_DEVICE void operator()(Block& block, float* x, float factor, std::int64_t n) const {
        for (std::int64_t i = block.global_thread(); i < n; i += block.global_threads()) x[i] *= factor;
    }
};
void block_example(Stream stream, float* x, std::int64_t n) {  // not shown
    launch(stream, {.x = blocks_for(n, 256), .threads = 256}, Scale{}, x, 2.0f, n);
}

void tile_example(Block& block, const f16* x, const f16* w, float* y, unsigned k, unsigned n) {
    Tile<Operand::a, f16> a;
    Tile<Operand::b, f16, Layout::column> b;
    Accumulator sum;
    block.fill(sum, 0.0f);
    block.load_tile(a, x, k);
    block.load_tile(b, w, k);
    block.multiply_add(sum, a, b);
    block.store_tile(y, sum, n);
}

void cuda_device_example(StreamState& state, const View& x, const View& y, std::vector<float>& result) {
    const std::size_t bytes = result.size() * sizeof(float);
    std::unique_ptr<CudaDevice> device = kernels::open_cuda_device(0);
    CudaStream stream{.state = &state, .device = device.get()};
    kernels::softmax(stream, x, y);
    device->copy_to_host(y.data, result.data(), bytes);
}

#if __has_include(<cuda_runtime_api.h>)
void cuda_error_example(CudaDevice& device, cudaEvent_t event, cudaStream_t stream) {
    check_cuda(&device, "cudaEventRecord", cudaEventRecord(event, stream));
}

void cuda_kernels_example(CudaDevice& device, CudaStream& stream, const void* function, int multiprocessors,
                          LaunchShape& shape) {
    CudaKernels& kernels = stream.state->get<CudaKernels>();
    check_cuda(&device, "launch", kernels.prepare(function, multiprocessors, shape));
}
#endif

void cuda_uuid_example() { const std::string uuid = kernels::cuda_uuid(0); }

void cudnn_example(void* stream) {
    const std::shared_ptr<const CudnnSession> cudnn = open_cudnn({.capability = 90, .stream = stream});
}

HEADROOM_DEVICE Floats<8> twice(Floats<8> x) {
    for (float& value : x.at) value *= 2;
    return x;
}
struct Twice {
    HEADROOM_DEVICE void operator()(Block& block, const Eights<2>& at) const;
};
void eights_example(Stream stream, const View& x, const View& y) {  // not shown
    const Eights<2> at({&y, &x});
    if (at.possible()) launch(stream, {.threads = 32}, Twice{}, at);
}  // not shown
void Twice::operator()(Block& block, const Eights<2>& at) const {  // not shown
    for (std::int64_t g = block.global_thread(); g < at.groups(); g += block.global_threads()) {
        const auto offsets = at.offsets(g);
        at.store(block, 0, offsets, twice(at.load(block, 1, offsets)));
    }
    const std::int64_t i = at.rest(block.global_thread());
    if (i >= 0) at.store_one(0, i, 2 * at.load_one(1, i));
}

void elements_example(const void* p, void* q, Dtype dtype, std::int64_t i) {
    const float x = load_as<float>(p, dtype, i);
    store_as<float>(q, dtype, i, 2 * x);
}

template <class C, int W>
struct EverySecond {
    HEADROOM_DEVICE void operator()(Block& block, const Images<2>& images, float beta) const;
};
void images_example(Stream stream, const View& x, const View& y, std::int64_t width) {  // not shown
    const Images<2> images({&y, &x}, width);
    launch(stream, {.threads = 32}, EverySecond<float, 1>{}, images, 0.5f);  // not shown
}  // not shown
template <class C, int W>                                                                      // not shown
void EverySecond<C, W>::operator()(Block& block, const Images<2>& images, float beta) const {  // not shown
    for (std::int64_t i = block.global_thread(); i < images.numel(); i += block.global_threads()) {
        const auto at = images.at(i);
        images.store<C, W>(block, at, beta, images.load<C, W>(block, 1, at, 2 * at.h, 2 * at.w));
    }
}

void index_check_example(const CudaStream& stream, Block& block, const std::int64_t* ids, std::int64_t i,
                         std::int64_t rows) {
    const IndexCheck check = index_check(stream, "embedding: index", rows);
    const std::int64_t row = check(block, ids[i], i);
}

void scale(CudaStream& stream, float* x, float factor, std::int64_t n) {
    device::launch(stream, {.x = grid_for(stream, n, 256), .loops = true, .threads = 256}, Scale{}, x, factor, n);
}

struct Problem {
    static constexpr std::string_view kind = "attention";
    std::string text() const;
};
std::string Problem::text() const { return "64 x 64"; }                                            // not shown
bool plan_choices_example(const Problem& problem, CudaStream& stream, const std::string& place) {  // not shown
    const std::string* plan = stream.state->get<PlanChoices<Problem>>().find(problem, place);
    return plan != nullptr;
}

void probe_example(CudaStream& stream) { kernels::probe(stream); }

template <class Way>
struct CopyRow {
    HEADROOM_DEVICE void operator()(Block& block, typename Way::Rows x, typename Way::Target y, std::int64_t i) const {
        const unsigned thread = block.thread(), threads = block.threads();  // not shown
        const auto in = x.row(i, true);
        const auto out = y.row(i, true);
        for (auto v = in.index(thread); v < in.vectors(); v += threads) out.store(block, v, 0, in.load(block, v, 0));
    }
};

LaunchShape shape_example(std::int64_t rows) {
    LaunchShape shape{.x = blocks_for(rows, 4), .threads = 128, .shared_bytes = shared_size<float>(128)};
    return shape;
}

namespace site_example {
template <int N, class T>
HEADROOM_DEVICE Vector<T, N> load(const T* p, Site site = Site::current());
}

struct Neg {
    HEADROOM_DEVICE void operator()(Block& block, const Strided<2>& at) const;
};
void strided_example(Stream stream, const View& x, const View& y) {  // not shown
    const Strided<2> at({&y, &x});
    launch(stream, {.threads = 32}, Neg{}, at);
}  // not shown
void Neg::operator()(Block& block, const Strided<2>& at) const {  // not shown
    for (std::int64_t i = block.global_thread(); i < at.numel(); i += block.global_threads()) {
        const auto offsets = at.offsets(i);
        at.store<float>(0, offsets, -at.load<float>(1, offsets));
    }
}

float rows_example(Block& block, const View& view, std::int64_t i) {
    const Rows x(view);
    const std::int64_t row = x.offset(block.x());
    float value = x.load<float>(row, i);
    return value;
}

struct Kernel {
    HEADROOM_DEVICE void operator()(Block& block, std::int64_t rows, unsigned warps, float* sums) const;
};
void team_example(Stream stream, std::int64_t rows, unsigned warps, float* sums) {  // not shown
    launch(stream, team_launch<float>(rows, warps), Kernel{}, rows, warps, sums);
}  // not shown
void Kernel::operator()(Block& block, std::int64_t rows, unsigned warps, float* sums) const {  // not shown
    Team<float> team(block, warps);
    for (std::int64_t base = team.first_row(); base < rows; base += team.row_step()) {
        const std::int64_t row = base + team.index();
        float sum = team.sum(static_cast<float>(row));
        if (row < rows && team.thread() == 0) sums[row] = sum;  // not shown
    }
}

void values_example(Block& block, float* row, std::int64_t i, float scale) {
    Floats<8> x = block.load_floats<8>(row + i);
    for (int k = 0; k < 8; ++k) x[k] *= scale;
    block.store_floats(row + i, x);
}

Numbers numbers(const simt::Array<float>& x) { return {x.begin(), x.end()}; }

/// 0, 1, 2, ...
simt::Array<float> counted(std::size_t size) {
    simt::Array<float> x(size);
    for (std::size_t i = 0; i < size; ++i) x[i] = static_cast<float>(i);
    return x;
}

TEST(HeaderExamples, OfKernelsThatMapElementsRun) {
    simt::Emulator gpu;
    simt::Array<float> x = counted(11), y(11, -1.0f);
    const View in = contiguous_view(x.data(), Dtype::f32, {11}), out = contiguous_view(y.data(), Dtype::f32, {11});
    eights_example(gpu, in, out);
    EXPECT_EQ(numbers(y), (Numbers{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20}));
    strided_example(gpu, in, out);
    EXPECT_EQ(numbers(y), (Numbers{0, -1, -2, -3, -4, -5, -6, -7, -8, -9, -10}));
    block_example(gpu, y.data(), 11);
    EXPECT_EQ(y[10], -20);
    launch(
        gpu, {.threads = 32},
        [](Block& block, float* p) {
            if (block.thread() == 0) values_example(block, p, 0, 0.5f);
        },
        y.data());
    EXPECT_EQ(numbers(y), (Numbers{0, -1, -2, -3, -4, -5, -6, -7, -16, -18, -20}));
    elements_example(x.data(), y.data(), Dtype::f32, 3);
    EXPECT_EQ(y[3], 6);
}

TEST(HeaderExamples, OfKernelsForRowsAndImagesRun) {
    simt::Emulator gpu;
    simt::Array<float> x = counted(16), y(16, 2.0f), sums(5, -1.0f);
    const View in = contiguous_view(x.data(), Dtype::f32, {2, 8}), out = contiguous_view(y.data(), Dtype::f32, {2, 8});
    using Way = Wide<float>;
    launch(gpu, {.threads = 32}, CopyRow<Way>{}, Way::Rows(in), Way::Target(out), std::int64_t{1});
    EXPECT_EQ(numbers(y), (Numbers{2, 2, 2, 2, 2, 2, 2, 2, 8, 9, 10, 11, 12, 13, 14, 15}));
    launch(
        gpu, {.x = 2, .threads = 32},
        [=](Block& block, float* p) {
            if (block.thread() == 0) p[block.x()] = rows_example(block, in, 3);
        },
        y.data());
    EXPECT_EQ(y[0], 3);
    EXPECT_EQ(y[1], 11);

    team_example(gpu, 5, 1, sums.data());
    EXPECT_EQ(numbers(sums), (Numbers{0, 32, 64, 96, 128}));

    simt::Array<float> small(4, 2.0f);
    images_example(gpu, contiguous_view(x.data(), Dtype::f32, {1, 1, 4, 4}),
                   contiguous_view(small.data(), Dtype::f32, {1, 1, 2, 2}), 1);
    EXPECT_EQ(numbers(small), (Numbers{1, 3, 9, 11}));
}

TEST(HeaderExamples, OfTilesAndLaunchesRun) {
    simt::Emulator gpu;
    simt::Array<f16> x(256, f16_from_float(2)), w(256, f16_from_float(3));
    simt::Array<float> y(256, -1.0f);
    launch(
        gpu, {.threads = 32},
        [](Block& block, const f16* a, const f16* b, float* c) { tile_example(block, a, b, c, 16, 16); }, x.data(),
        w.data(), y.data());
    EXPECT_EQ(numbers(y), Numbers(256, 96));

    EXPECT_EQ(shape_example(9).x, 3u);
    EXPECT_EQ(shape_example(9).shared_bytes, 512u);
    StreamState state;
    CudaStream stream{.state = &state};
    EXPECT_FALSE(plan_choices_example({}, stream, "a GPU"));
}

}  // namespace
}  // namespace headroom::kernels::device
