#pragma once
// The sum of squares of a flat range, for gradient norms, and whether all elements are finite. For reductions over axes
// see reduce/.
//
//     const SumOfSquaresPlan plan(stream, gradients, result, 0);    // result: one f64
//     plan.run(stream, scratch);                                    // plan.scratch() bytes
//     if (!std::isfinite(value)) ...                            // some gradient was infinite or NaN: no second pass
//     bool fine = all_finite(stream, activations, scratch);     // if only that matters
//
// Squares are computed and summed in f64, in chunks that depend only on the size. Squares of f32, f16 and bf16 can't
// overflow in f64, so the sum is finite if and only if every element is. (For f64 this holds up to 1e150.)
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// result = beta * result + sum of x^2. x: contiguous, floating. result: one f64.
class SumOfSquaresPlan {
  public:
    SumOfSquaresPlan(const Stream& stream, const View& x, const View& result, float beta);

    /// Bytes: 8 for each part on a GPU, none on the CPU.
    std::size_t scratch() const { return cuda_parts_ > 1 ? static_cast<std::size_t>(cuda_parts_) * sizeof(double) : 0; }
    void run(CpuStream& stream, std::byte* scratch) const;
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    View x_, result_;
    float beta_;
    std::int64_t cuda_parts_;  ///< one block each, whose result goes to scratch; 0 on the CPU
};

/// Bytes of scratch that `all_finite` needs; none on the CPU.
std::size_t all_finite_scratch(const Stream& stream);
/// True if no element is infinite or NaN; true for no elements. x: floating, any strides. Waits for a GPU.
bool all_finite(CpuStream& stream, const View& x, std::byte* scratch = nullptr);
bool all_finite(CudaStream& stream, const View& x, std::byte* scratch);

}  // namespace headroom::kernels
