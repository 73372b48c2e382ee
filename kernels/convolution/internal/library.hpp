#pragma once
// Convolutions by oneDNN: compiled once per geometry, kept in the stream's state, run on the caller's scratch. Images,
// or rows of an image, are distributed over threads here, and each thread runs a single-threaded primitive.
//
//     LibraryConvolution* library = stream.state->get<ConvolutionCache>().find(threads, problem);
//     if (library) library->run(stream, problem, scratch);   // null: oneDNN has no fast kernel for this
//
// Measured with oneDNN 2.6.3 on an AMD EPYC with AVX-512, one thread, layers of ResNet-50, VGG and U-Net, in GFLOP/s;
// images channels-last, weights in the order that oneDNN prefers:
//
//     pass                          f32                          bf16
//     forward                       240 - 317, brgconv           400 - 590, brgconv
//     data, as oneDNN has it        195 - 265, jit; 59 where     400 - 557, jit
//                                   1,024 channels meet 24 x 24
//     data, as a forward pass       260 - 310, brgconv           500 - 580, brgconv
//     data of 2 x 2 at stride 2     146 - 198, jit; ours 181 - 225
//     weight                        140 - 273, jit               330 - 511, jit
//
// So at stride 1 the data pass runs as a forward pass with the kernel rotated by 180 degrees. oneDNN silently falls
// back to its gemm for row-major images and some groups; at 12 GFLOP/s, that is not used. Images in blocks of 16
// channels would speed the f32 weight gradient up to 200 to 263, but both would have to be rewritten: our own kernel
// computes it.
//
// brgconv sums up to 3,000 f32 products in sequence, as PyTorch does for channels-last images: at 3 x 3 x 1,024 the
// root mean square of the error is 9.7e-7 of the result's; for jit on images in blocks of 16 channels it is 2.6e-7. Our
// own kernel, which sums 128 at a time, has 2.5e-7 and computes sums of more than 1,000: on a Zen 4, one thread, in
// 0.82 to 1.06 of brgconv's time, below 1 in the mean of ResNet-50's, VGG-16's and U-Net's layers. For a sum of 576 the
// errors are 4.2e-7 and 2.1e-7, and our kernel takes 1.05 to 1.15 of the time: brgconv computes it. The figures are in
// bench/results/convolution_errors.json.
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include <headroom/kernels/convolution/internal/problem.hpp>
#include <headroom/kernels/stream.hpp>

namespace headroom::kernels {

/// The primitives of one geometry.
class LibraryConvolution {
  public:
    virtual ~LibraryConvolution() = default;
    /// Bytes of scratch for all threads.
    virtual std::size_t scratch() const = 0;
    /// The primitives are compiled at their first run, which takes some milliseconds.
    virtual void run(CpuStream& stream, const ConvolutionProblem& problem, std::byte* scratch) = 0;
};

/// State of a stream, real or dry. oneDNN does not count the memory of its primitives' code.
class ConvolutionCache {
  public:
    ConvolutionCache();
    ~ConvolutionCache();

    /// Null if oneDNN has no fast and correct primitive: for f64, f16, images that are not channels-last, bf16 without
    /// AVX-512, data passes at a stride without AVX-512. Also null in f32 if our own kernel is faster (gradients of
    /// weights, and of large images at 2 x 2, stride 2), or more accurate in the same time (long sums).
    LibraryConvolution* find(int threads, const ConvolutionProblem& problem);

  private:
    struct Engine;
    using Key = std::array<std::int64_t, 24>;
    static Key key_of(int threads, const ConvolutionProblem& problem);

    std::unique_ptr<Engine> engine_;
    std::map<Key, std::unique_ptr<LibraryConvolution>> convolutions_;
};

}  // namespace headroom::kernels
