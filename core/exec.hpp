#pragma once
// What an op runs on: a stream and an allocator, nothing else. Scratch and outputs are allocated here, before the
// launch, so that a dry run allocates the same bytes. Not for users; ops receive one.
//
//     Array y = exec.output(x.shape(), x.dtype);
//     Scratch scratch = exec.scratch(kernels::softmax_scratch(exec.stream(), x.view()));
//     exec.launch([&](auto& stream) { kernels::softmax(stream, x.view(), y.view(), scratch.data()); });
#include <cstddef>
#include <string>
#include <utility>

#include <headroom/core/array.hpp>
#include <headroom/memory/stream.hpp>

namespace headroom {

/// Workspace that ends with its scope; empty if 0 bytes were asked for.
using Scratch = Buffer;

class Exec {
  public:
    Exec(Stream& stream, DeviceMemory& memory) : stream_(&stream), memory_(&memory) {}

    Stream& stream() const { return *stream_; }
    bool dry() const { return is_dry(*stream_); }

    /// A row-major array with indeterminate contents. Errors: OutOfMemory.
    Array empty(const Shape& shape, Dtype dtype, Category category = Category::activations) const;
    /// As `empty`, for an output whose elements depend only on the same elements of input 0 (`OpInfo::in_place`): takes
    /// over that input's storage where nothing else needs it and the bytes are as many.
    Array output(const Shape& shape, Dtype dtype);
    Scratch scratch(std::size_t bytes) const;

    template <class Work>
    void launch(Work&& work) const {
#if HEADROOM_CUDA_KERNELS
        if (auto* cuda = std::get_if<CudaStream>(stream_)) cuda->path = path_;
#endif
        headroom::launch(*stream_, std::forward<Work>(work));
    }

    /// For the tape: the module path that allocations belong to, and the storage that an output may take over.
    void set_path(PathId path) { path_ = path; }
    PathId path() const { return path_; }
    std::string path_text(PathId path) const { return memory_->path(path); }
    void offer(Buffer storage) { offered_ = std::move(storage); }

  private:
    Stream* stream_;
    DeviceMemory* memory_;
    PathId path_ = 0;
    Buffer offered_;
};

}  // namespace headroom
