#pragma once
// Copies batches to a GPU while it computes. A feed has room for two batches in GPU memory: while one is in use, a
// separate stream overwrites the other with the next batch. The host waits for neither (with batches above 8 MiB it
// waits for the one before the last). On a CPU it calls `Context::from_host`. Not for arrays that are uploaded once.
//
//     data::Feed feed(context);
//     accumulator.accumulate([&] {
//         const data::TokenBatch& batch = *loader.next();
//         const Shape shape{batch.rows, batch.length};
//         const auto [inputs, targets] = feed.upload({{batch.inputs, shape}, {batch.targets, shape}});
//         return model.loss(inputs, targets);
//     });
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <headroom/core/context.hpp>

namespace headroom::data {

/// A non-owning view of a host array in row-major order.
class HostArray {
  public:
    /// T is float, double, int32_t, int64_t or uint8_t. Errors: ShapeError unless there are shape.numel() values.
    template <class T>
    HostArray(std::span<const T> values, const Shape& shape);
    template <class T>
    HostArray(const std::vector<T>& values, const Shape& shape) : HostArray(std::span<const T>(values), shape) {}

    const View& view() const { return view_; }

  private:
    View view_;
};

/// For use by its context's thread. The context must outlive it.
class Feed {
  public:
    explicit Feed(Context& context);
    ~Feed();
    Feed(const Feed&) = delete;
    Feed& operator=(const Feed&) = delete;

    /// Uploads a batch's arrays as tensors. The host arrays may be overwritten once the call returns. Each tensor keeps
    /// its values while it lives. If all tensors of a batch are gone before the next call, as in a loop, the call after
    /// that reuses their memory. Errors: OutOfMemory, DeviceError.
    template <std::size_t N>
    std::array<Tensor, N> upload(const HostArray (&arrays)[N]) {
        std::array<Tensor, N> tensors;
        place(arrays, tensors);
        return tensors;
    }

    /// As above for a number of arrays known at run time.
    std::vector<Tensor> upload(std::span<const HostArray> arrays) {
        std::vector<Tensor> tensors(arrays.size());
        place(arrays, tensors);
        return tensors;
    }

  private:
    struct Slot;
    void place(std::span<const HostArray> arrays, std::span<Tensor> tensors);
    void fill(Slot& slot, std::span<const HostArray> arrays);
    void close(Slot& slot);

    Context& context_;
    std::array<std::unique_ptr<Slot>, 2> slots_;  ///< the next one to fill, and the one in use
};

}  // namespace headroom::data
