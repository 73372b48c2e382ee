#pragma once
// What the groups of kernels are measured with: arrays on the device, the ceilings of the device, and rows of results.
//
//     void pointwise(Bench& bench) {
//         const View x = bench.array(Dtype::bf16, {rows, width}), y = bench.array(Dtype::bf16, {rows, width});
//         bench.measure("gelu bf16", bytes_of(x, y), 0, [&] { map(bench.stream(), GeluTanh{}, x, y); });
//         bench.forget();
//     }
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>
#include <headroom/memory/buffer.hpp>
#include <headroom/memory/device_memory.hpp>

namespace headroom::shares {

/// GPT-2 124M at 64 x 1024 tokens, ResNet-50 at 256 images of 224 x 224, a U-Net of base width 64 on an image of
/// 1400 x 2100, an LSTM of 512 units on 64 sequences. `small`: shapes that the emulator computes in a moment.
struct Sizes {
    explicit Sizes(bool small);
    std::int64_t rows, width, classes, parameters;  ///< tokens, channels, words, and elements of an update
    std::int64_t batch, time, heads, head_width;    ///< of attention
    std::int64_t images, side;                      ///< batch, and height and width of the first feature maps
    std::int64_t height, image_width, channels;     ///< of the U-Net's first level
    std::int64_t sequences, units, steps;           ///< of the LSTM
    std::int64_t side_of_product, bytes_of_copy;    ///< of the ceilings
};

/// What the GPU reaches, per millisecond.
struct Ceilings {
    double bytes = 1, operations = 1;
};

class Bench {
  public:
    /// Measures kernels whose names contain `pattern`. `quick`: each once, which is no figure.
    Bench(std::string pattern, bool quick);

    kernels::CudaStream& stream() { return stream_; }
    kernels::Stream& any() { return any_; }
    kernels::CudaDevice& device() { return *device_; }

    /// Normal values; of integers, in [0, bound). Lives until `forget`.
    kernels::View array(kernels::Dtype dtype, const kernels::Shape& shape, std::int64_t bound = 0);
    /// [n, c, h, w], whose channels are neighbours in memory.
    kernels::View images(kernels::Dtype dtype, const kernels::Shape& shape);
    std::byte* bytes(std::size_t count);
    void forget();

    /// Prints a row, if it is wanted. `bytes`: the fewest that the work must move; `operations`: additions and
    /// multiplications.
    void measure(const std::string& name, double bytes, double operations, const std::function<void()>& work);
    /// What the others are measured by: `amount` per millisecond.
    double ceiling(const std::string& name, double amount, const std::function<void()>& work);
    /// Before the first row.
    void begin(const Ceilings& ceilings);
    /// After the last one: only then is it known who computed all of the attention, products and convolutions.
    void end();

  private:
    double milliseconds_of(const std::function<void()>& work);

    std::string pattern_;
    bool quick_;
    std::unique_ptr<kernels::CudaDevice> device_;
    memory::DeviceMemory memory_;
    kernels::StreamState state_;
    kernels::CudaStream stream_;
    kernels::Stream any_;
    std::deque<memory::Buffer> buffers_;
    Ceilings ceilings_;
    const char* separator_ = "";
};

double bytes_of(const kernels::View& view);
template <class... Views>
double bytes_of(const kernels::View& first, const Views&... others) {
    return bytes_of(first) + bytes_of(others...);
}

/// Planned for each run, as an op does.
template <class Plan, class... Call>
auto planned(Bench& bench, const Call&... call) {
    return [&bench, call..., scratch = bench.bytes(Plan(bench.any(), call...).scratch())] {
        Plan(bench.any(), call...).run(bench.stream(), scratch);
    };
}

// The groups. Names of rows end in the dtype.
void products(Bench& bench, const Sizes& sizes);
void convolutions(Bench& bench, const Sizes& sizes, kernels::Dtype dtype);
void channel_norms(Bench& bench, const Sizes& sizes, kernels::Dtype dtype);
void attention(Bench& bench, const Sizes& sizes, kernels::Dtype dtype);
void recurrent(Bench& bench, const Sizes& sizes, kernels::Dtype dtype);
/// Elementwise kernels, norms of rows, reductions and losses.
void passes(Bench& bench, const Sizes& sizes, kernels::Dtype dtype);
void casts(Bench& bench, const Sizes& sizes);
void embeddings(Bench& bench, const Sizes& sizes);
void optimizer(Bench& bench, const Sizes& sizes);

}  // namespace headroom::shares
