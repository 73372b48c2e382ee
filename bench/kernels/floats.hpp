#pragma once
// Arrays of floats for benchmarks of kernels, memory for other dtypes, and the number of threads: HEADROOM_THREADS,
// or 2.
//
//     Floats x({768, 128});
//     CpuStream stream{.threads = thread_count(), .state = &state};
//     kernels::softmax(stream, x, x);
#include <algorithm>
#include <cstdlib>
#include <vector>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::bench {

inline int thread_count() {
    const char* text = std::getenv("HEADROOM_THREADS");
    return text != nullptr ? std::max(1, std::atoi(text)) : 2;
}

class Floats {
  public:
    explicit Floats(const kernels::Shape& shape) : values_(static_cast<std::size_t>(shape.numel())), shape_(shape) {
        for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<float>(i * 7919 % 257) / 128 - 1;
    }
    kernels::View view() { return contiguous_view(values_.data(), kernels::Dtype::f32, shape_); }
    operator kernels::View() { return view(); }
    std::int64_t bytes() const { return shape_.numel() * static_cast<std::int64_t>(sizeof(float)); }

  private:
    std::vector<float> values_;
    kernels::Shape shape_;
};

/// Bytes, from a multiple of 64 on, which are numbers of any floating dtype: of f32 and bf16 from 2^-11 to 2^-4, of f16
/// from 0.7 to 1.4. Their products are far from denormal ones, which take some processors 60 times as long.
struct Memory {
    explicit Memory(std::int64_t bytes) : values(static_cast<std::size_t>(bytes) + 64) {
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::byte>(0x3a + i % 61 % 4);
    }
    std::byte* data() { return values.data() + (64 - reinterpret_cast<std::uintptr_t>(values.data()) % 64) % 64; }
    std::vector<std::byte> values;
};

}  // namespace headroom::bench
