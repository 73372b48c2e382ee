#pragma once
// The environment an op runs in: a stream and an allocator, nothing else. Scratch and outputs are allocated here,
// before the launch, so that a dry run allocates the same bytes. Ops receive one; users don't need it.
//
//     Array y = exec.output(x.shape(), x.dtype);         // with the geometry of x, perhaps in its storage
//     exec.launch([&](auto& stream) { kernels::softmax(stream, x.view(), y.view()); });
//     exec.run<kernels::MatmulPlan>(matmul);   // with scratch
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <headroom/core/array.hpp>
#include <headroom/kernels/stream.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/progress.hpp>

namespace headroom {

/// Workspace that is freed at the end of its scope; empty for 0 bytes.
using Scratch = Buffer;

class Exec {
  public:
    Exec(Stream& stream, DeviceMemory& memory) : stream_(&stream), memory_(&memory) {}

    Stream& stream() const { return *stream_; }
    const DeviceMemory& memory() const { return *memory_; }
    bool dry() const { return is_dry(*stream_); }
    /// See `ContextOptions::fill_uninitialized_memory`.
    void fill_uninitialized_memory(bool on) { fills_memory_ = on; }

    /// A row-major array with indeterminate contents. Errors: OutOfMemory; ShapeError for a negative size, or if bytes
    /// or strides don't fit in 63 bits; DtypeError as `check_dtype`, except for workspace, which may hold a file's
    /// values before they are converted.
    Array empty(const Shape& shape, Dtype dtype, Category category = Category::activations) const;
    /// The same, with the memory order of axes taken from the strides `like` (see kernels::dense_strides).
    Array empty_like(const Shape& shape, const Strides& like, Dtype dtype,
                     Category category = Category::activations) const;
    Array empty_like(const Array& like, Dtype dtype, Category category = Category::activations) const {
        return empty_like(like.shape(), like.strides(), dtype, category);
    }
    /// As `empty`, for arrays that belong to no module: parameters, their gradients, optimizer state.
    Array empty_for_model(const Shape& shape, Dtype dtype, Category category) const;
    /// A new array with the geometry that elementwise results inherit: that of the first input (in backward, the first
    /// gradient dy) of this shape without gaps; if all have gaps, of the first one; row-major if no input has this
    /// shape.
    Array fresh_output(const Shape& shape, Dtype dtype, Category category = Category::activations) const;
    /// As `fresh_output`, for an output whose elements depend only on the same elements of the inputs in
    /// `OpInfo::in_place`. Reuses the storage of the first of these inputs that nothing else needs and that has this
    /// shape, dtype and geometry. Bit i of `kept` excludes input i, which the op is about to save.
    Array output(const Shape& shape, Dtype dtype, unsigned kept = 0);
    Scratch scratch(std::size_t bytes) const;

    /// False while backward replays an op only for its saved arrays: the op may then leave its outputs undefined and
    /// skip computing them.
    bool output_wanted() const { return wanted_.output; }
    /// False if backward will not run: arrays in `Saved` that only this op computes may stay undefined. A replay sees
    /// the same value as the recording.
    bool saved_wanted() const { return wanted_.saved; }
    /// False if backward will not ask for the gradient of input `i` (one of the first 32), so forward need not prepare
    /// for it. A replay sees the same value as the recording.
    bool gradient_wanted(int i) const { return (wanted_.gradients >> i & 1u) != 0; }

    template <class Work>
    void launch(Work&& work) const {
        if constexpr (kernels::kTakesCuda<Work>) {
            if (auto* cuda = std::get_if<CudaStream>(stream_)) return launch_cuda(*cuda, std::forward<Work>(work));
        } else if (kernels::on_cuda(*stream_)) {
            kernels::refuse_cuda(op_);
        }
        kernels::launch(*stream_, std::forward<Work>(work));
    }

    /// Plans a kernel call, allocates its scratch and launches it.
    template <class Plan, class... Call>
    void run(const Call&... call) const {
        const Plan plan(*stream_, call...);
        const Scratch memory = scratch(plan.scratch());
        launch([&](auto& stream) { plan.run(stream, memory.data()); });
    }

    struct Wanted {
        bool output = true;
        bool saved = true;
        unsigned gradients = ~0u;  ///< bit i % 32 for input i
    };
    /// For the tape, while an op runs: holds the names for an error on a GPU, and which results of forward are wanted.
    class Working {
      public:
        /// Bit i of `offered`: an output may reuse the storage of array i.
        Working(Exec& exec, const char* op, std::span<const Array> arrays, Wanted wanted = {true, true, ~0u},
                unsigned offered = 0)
            : exec_(exec) {
            exec.op_ = op;
            exec.arrays_ = arrays;
            exec.wanted_ = wanted;
            exec.offered_ = offered;
            memory::step_forward();
        }
        ~Working() {
            exec_.op_ = "";
            exec_.arrays_ = {};
            exec_.wanted_ = {};
            exec_.offered_ = 0;
        }
        Working(const Working&) = delete;
        Working& operator=(const Working&) = delete;

      private:
        Exec& exec_;
    };
    /// For graph capture (core/graph.hpp): allocations come from a private pool, keys of random ops are shifted, and
    /// the host must not wait.
    class CaptureScope {
      public:
        CaptureScope(Exec& exec, PoolId pool, const std::uint64_t* shift) : exec_(exec) {
            exec.pool_ = pool;
            exec.random_shift_ = shift;
            exec.random_drawn_ = false;
            exec.capturing_ = true;
        }
        ~CaptureScope() {
            exec_.pool_ = 0;
            exec_.random_shift_ = nullptr;
            exec_.capturing_ = false;
        }
        CaptureScope(const CaptureScope&) = delete;
        CaptureScope& operator=(const CaptureScope&) = delete;

      private:
        Exec& exec_;
    };
    /// For the keys of random ops.
    const std::uint64_t* random_shift() {
        random_drawn_ = true;
        return random_shift_;
    }
    /// Whether `random_shift` was called since the last capture scope began.
    bool random_drawn() const { return random_drawn_; }
    /// Errors: DtypeError for bf16 on a GPU whose tensor cores lack it, also in a dry run; the message begins with
    /// `what`.
    void check_dtype(const char* what, Dtype dtype) const;
    /// Errors: CaptureError inside a capture scope, because `what` needs the host.
    void check_not_captured(const char* what) const;
    /// For the tape: runs an op's work and adds the module path to errors.
    template <class Work>
    void located(Work&& work) const {
        try {
            work();
        } catch (Error& error) {
            error.add_path(path_text(path_));
            throw;
        }
    }
    /// For the tape: the module path that allocations are assigned to.
    void set_path(PathId path) { path_ = path; }
    std::string path_text(PathId path) const { return memory_->path(path); }
    /// Whether a profiler is attached to a GPU's stream. If so, `mark` adds a marker to its timeline.
    bool profiled() const;
    void mark(const std::string& text) const;

  private:
    template <class Work>
    void launch_cuda(CudaStream& stream, Work&& work) const {
        stream.path = path_;
        const RangeScope range(*this, stream);
        const memory::WaitScope waits;  // a launch waits while the GPU's queue is full
        try {
            work(stream);
        } catch (const DeviceError& error) {
            fail(error);
        }
    }
    /// Reports the op and its path to a profiler, if one is attached.
    class RangeScope {
      public:
        RangeScope(const Exec& exec, const CudaStream& stream);
        ~RangeScope();
        RangeScope(const RangeScope&) = delete;
        RangeScope& operator=(const RangeScope&) = delete;

      private:
        CudaDevice* device_ = nullptr;
    };
    /// Rethrows the error with the op and its arrays' shapes before the message and the path after it.
    [[noreturn]] void fail(const DeviceError& error) const;
    /// `like` null: row-major.
    Array allocate(const Shape& shape, const Strides* like, Dtype dtype, memory::Tag tag) const;
    const Strides* handed_on(const Shape& shape) const;
    Buffer allocate(std::size_t bytes, memory::Tag tag) const;
    memory::Tag tag(Category category) const;

    Stream* stream_;
    DeviceMemory* memory_;
    const char* op_ = "";
    std::span<const Array> arrays_;
    Wanted wanted_;
    PathId path_ = 0;
    unsigned offered_ = 0;
    bool fills_memory_ = false;
    PoolId pool_ = 0;
    const std::uint64_t* random_shift_ = nullptr;
    bool random_drawn_ = false;
    bool capturing_ = false;
};

}  // namespace headroom
