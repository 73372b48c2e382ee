#pragma once
// Rows of a table by index, and the gradient of the table. For indices along other axes see gather/.
//
//     embedding(stream, table, ids, y);                             // table [V, D], ids [12, 64], y [12, 64, D]
//     const EmbeddingGradientPlan plan(stream, ids, dy, dtable, 1); // dtable [V, D] += rows of dy
//     plan.run(stream, scratch);                                    // plan.scratch() bytes
//
// Indices are i32 or i64 with any strides. An index outside [0, V) throws ShapeError with its value and position,
// before anything is written; on a GPU the host throws when it next waits.
#include <cstddef>
#include <cstdint>

#include <headroom/kernels/gather/internal/sort_plan.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/kernels/view.hpp>

namespace headroom::kernels {

/// y[..., :] = table[ids[...], :]. The table has any dtype; y may have another.
void embedding(CpuStream& stream, const View& table, const View& ids, const View& y);
void embedding(CudaStream& stream, const View& table, const View& ids, const View& y);

/// dtable[v, :] = beta * dtable[v, :] + sum of dy[p, :] over the positions p with ids[p] = v. The sum runs in the order
/// of positions; on a GPU, in parts determined by shapes and ids. Summed in f32 (f64 for f64) and rounded once. Nothing
/// is added to row `padding`; -1: no such row. Errors: ShapeError unless there are fewer than 2^31 positions and rows.
class EmbeddingGradientPlan {
  public:
    EmbeddingGradientPlan(const Stream& stream, const View& ids, const View& dy, const View& dtable, float beta,
                          std::int64_t padding = -1);

    /// Bytes: the positions sorted by index; on a GPU also the sums of rows with many positions.
    std::size_t scratch() const { return scratch_; }
    void run(CpuStream& stream, std::byte* scratch) const;
    void run(CudaStream& stream, std::byte* scratch) const;

  private:
    View ids_, dy_, dtable_;
    float beta_;
    std::int64_t padding_;
    SelectPlan plan_;  ///< used on a GPU
    std::size_t scratch_;
};

}  // namespace headroom::kernels
