#pragma once
// Runs CUDA kernels that are written against `Block` on this machine, one fiber per CUDA thread, and refuses what CUDA
// leaves undefined: divergent barriers, misaligned vectors, reads of shared memory that nobody wrote, accesses outside
// of it. With AddressSanitizer, accesses outside of global memory are found as well; with ThreadSanitizer, races. Not
// for speed: a barrier or a shuffle costs 50 to 100 ns per thread.
//
//     simt::Emulator gpu;                                     // seeded as tests/support/seed.hpp says
//     simt::Array<float> x(1025, 1.0f);                       // aligned as CUDA aligns, its end is watched
//     kernels::device::launch(gpu, {.x = 5, .threads = 256}, Scale{}, x.data(), 2.0f, x.size());
//     EXPECT_EQ(x[0], 2.0f);
//
// Blocks run one after the other, in an order drawn from the seed; within a block, whichever thread is drawn next runs
// until it waits for others. In half of the blocks one warp goes first whenever it can, and so runs as far ahead as
// barriers let it. The same seed and the same launches give the same order.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include <headroom/kernels/device/internal/emulated_thread.hpp>
#include <headroom/kernels/dtype.hpp>
#include <headroom/tests/simt/fiber.hpp>

namespace headroom::simt {

using kernels::bf16;
using kernels::f16;

/// A kernel broke a rule. The text names kernel, block, thread, place in the source, and the seed.
class KernelError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

class Emulator final : public kernels::device::EmulatedDevice {
  public:
    Emulator();
    explicit Emulator(std::uint64_t seed);
    ~Emulator() override;

    /// Throws KernelError. What the kernel had written by then stays.
    void run(const kernels::device::LaunchShape& shape, const char* kernel,
             const std::function<void(kernels::device::EmulatedThread&)>& body) override;

    std::uint64_t seed() const { return seed_; }
    /// As if newly constructed with this seed; the fibers stay.
    void reseed(std::uint64_t seed);
    /// The blocks at either end of a grid that are run in any case.
    static constexpr std::uint64_t kEnds = 8;
    /// From now on, a launch of more blocks than this runs the first and the last eight and others in between, drawn
    /// from the seed: for arrays that nobody could touch whole. At least 2 * kEnds.
    void run_at_most(std::uint64_t blocks) { most_blocks_ = std::max(blocks, 2 * kEnds); }

  private:
    std::vector<Fiber*> fibers_for_block(unsigned threads);
    std::vector<std::uint64_t> draw_blocks(std::uint64_t grid);

    std::uint64_t seed_, launches_ = 0, most_blocks_ = ~std::uint64_t{0};
    std::mt19937_64 random_;
    // Several sets of fibers in turn under ThreadSanitizer: a fiber remembers what it saw, and blocks must not.
    std::vector<std::vector<std::unique_ptr<Fiber>>> fibers_;
    std::size_t next_set_ = 0;
    std::uint64_t begin_token_ = 0, end_token_ = 0;  // addresses for ThreadSanitizer
};

/// Global memory: aligned to 256 bytes as CUDA's is, and ending exactly where it ends.
template <class T>
class Array {
  public:
    using value_type = T;
    using const_iterator = const T*;
    explicit Array(std::size_t size, T value = T{})
        : size_(size), data_(static_cast<T*>(::operator new (size * sizeof(T), std::align_val_t{256}))) {
        std::uninitialized_fill_n(data_.get(), size, value);
    }
    T* data() { return data_.get(); }
    const T* data() const { return data_.get(); }
    std::size_t size() const { return size_; }
    T& operator[](std::size_t i) { return data_.get()[i]; }
    const T& operator[](std::size_t i) const { return data_.get()[i]; }
    T* begin() { return data(); }
    T* end() { return data() + size_; }
    const T* begin() const { return data(); }
    const T* end() const { return data() + size_; }

  private:
    struct Free {
        void operator()(T* p) const { ::operator delete (p, std::align_val_t{256}); }
    };
    std::size_t size_;
    std::unique_ptr<T, Free> data_;
};

}  // namespace headroom::simt
