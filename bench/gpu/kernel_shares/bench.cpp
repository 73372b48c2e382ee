#include <headroom/bench/gpu/kernel_shares/bench.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <headroom/bench/gpu/host_time.hpp>
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/convolution/convolution.hpp>
#include <headroom/kernels/matmul/matmul.hpp>
#include <headroom/kernels/random/random.hpp>

namespace headroom::shares {

using namespace kernels;

Sizes::Sizes(bool small)
    : rows(small ? 64 : 64 * 1024),
      width(small ? 32 : 768),
      classes(small ? 96 : 50304),
      parameters(small ? 1000 : 124'475'904),
      batch(small ? 1 : 16),
      time(small ? 64 : 1024),
      heads(small ? 2 : 12),
      head_width(small ? 16 : 64),
      images(small ? 2 : 256),
      side(small ? 8 : 56),
      height(small ? 14 : 1400),
      image_width(small ? 22 : 2100),
      channels(small ? 8 : 64),
      sequences(small ? 4 : 64),
      units(small ? 16 : 512),
      steps(small ? 2 : 128),
      side_of_product(small ? 64 : 8192),
      bytes_of_copy(small ? 1 << 12 : 1 << 30) {}

Bench::Bench(std::string pattern, bool quick)
    : pattern_(std::move(pattern)), quick_(quick), device_(open_cuda_device(0)), memory_(device_->make_driver()) {
    stream_ = CudaStream{.threads = 1, .state = &state_, .device = device_.get()};
    any_ = stream_;
}

View Bench::array(Dtype dtype, const Shape& shape, std::int64_t bound) {
    const View view = contiguous_view(bytes(static_cast<std::size_t>(shape.numel()) * size_of(dtype)), dtype, shape);
    const auto key = op_key(1, buffers_.size());
    if (bound > 0) {
        random_integers(stream_, key, 0, bound, view);
    } else {
        normal(stream_, key, 0.0f, 1.0f, view);
    }
    return view;
}

View Bench::images(Dtype dtype, const Shape& shape) {
    View view = array(dtype, shape);
    const std::int64_t channels = shape[1], width = shape[3];
    view.strides = {channels * shape[2] * width, 1, channels * width, channels};
    return view;
}

std::byte* Bench::bytes(std::size_t count) {
    if (count == 0) return nullptr;
    buffers_.push_back(memory::Buffer::allocate(memory_, count, 0, {}));
    return buffers_.back().data();
}

void Bench::forget() {
    device_->synchronize();
    buffers_.clear();
}

/// The median of several runs, each of some milliseconds: what the host adds by its wait at the end is some
/// microseconds. Work that launches faster than the host is measured at the host's pace, as in a step without graphs.
double Bench::milliseconds_of(const std::function<void()>& work) {
    const auto run = [&](int repeats) {
        device_->synchronize();
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < repeats; ++i) work();
        device_->synchronize();
        return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() / repeats;
    };
    if (quick_) return run(1);
    run(3);  // plans are made
    const int repeats = std::clamp(static_cast<int>(5 / run(5)), 2, 1000);
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) times.push_back(run(repeats));
    return median(std::move(times));
}

void Bench::measure(const std::string& name, double bytes, double operations, const std::function<void()>& work) {
    if (name.find(pattern_) == std::string::npos) return;
    const double milliseconds = milliseconds_of(work), gigabytes = bytes / milliseconds / 1e6,
                 teraflops = operations / milliseconds / 1e9;
    fmt::print(stderr, "{:56}{:10.4f} ms{:10.1f} GB/s{:10.1f} TFLOP/s\n", name, milliseconds, gigabytes, teraflops);
    const nlohmann::ordered_json row{{"name", name},
                                     {"milliseconds", milliseconds},
                                     {"share_of_copy", bytes / milliseconds / ceilings_.bytes},
                                     {"share_of_product", operations / milliseconds / ceilings_.operations}};
    fmt::print("{}\n  {}", separator_, row.dump());
    std::fflush(stdout);
    separator_ = ",";
}

double Bench::ceiling(const std::string& name, double amount, const std::function<void()>& work) {
    const double milliseconds = milliseconds_of(work);
    fmt::print(stderr, "{:56}{:10.4f} ms\n", name, milliseconds);
    return amount / milliseconds;
}

void Bench::begin(const Ceilings& ceilings) {
    ceilings_ = ceilings;
    const nlohmann::ordered_json head{{"gpu", device_->properties().name},
                                      {"copy_gigabytes_per_second", ceilings.bytes / 1e6},
                                      {"product_teraflops", ceilings.operations / 1e9}};
    std::string text = head.dump();
    text.pop_back();
    fmt::print("{},\"kernels\": [", text);
    std::fflush(stdout);
}

void Bench::end() {
    const nlohmann::ordered_json tail{{"attention", attention_library(stream_)},
                                      {"products", matmul_library(stream_)},
                                      {"convolutions", convolution_library(stream_)}};
    fmt::print("\n],{}\n", tail.dump().substr(1));
}

double bytes_of(const View& view) {
    return static_cast<double>(view.numel()) * static_cast<double>(size_of(view.dtype));
}

}  // namespace headroom::shares
