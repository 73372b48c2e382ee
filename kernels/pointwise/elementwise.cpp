#include <headroom/kernels/pointwise/internal/elementwise.hpp>

#include <algorithm>
#include <array>
#include <cstddef>

#include <headroom/kernels/convert.hpp>
#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/rows.hpp>
#include <headroom/kernels/walk.hpp>

namespace headroom::kernels {

namespace {

constexpr int kMaxInputs = kMaxOperands - 1;

/// What stays the same for all runs of a launch. Operand 0 of the walk is the output.
template <class T>
struct Launch {
    const ElementLoop<T>& loop;
    const Walk& walk;
    std::array<Dtype, kMaxOperands> dtypes;
    int inputs;
    float beta;
    std::int64_t run_length;  ///< of the longest run with conversion
};

/// Inputs of one run as pointers, through the buffers where they must be converted.
template <class T>
class Sources {
  public:
    explicit Sources(const Launch<T>& launch) : launch_(launch) {}

    const T* const* at(const Cursor& cursor, std::int64_t first, std::int64_t count) {
        for (int i = 0; i < launch_.inputs; ++i) {
            const auto k = static_cast<std::size_t>(i);
            const std::int64_t stride = launch_.walk.stride(i + 1);
            const std::byte* source = cursor.at(i + 1, first);
            if (stride == 0 && repeated_[k] == source) continue;
            if (stride == 0) repeated_[k] = source;
            const std::int64_t filled = stride == 0 ? launch_.run_length : count;  // also for longer runs to come
            in_[k] = borrow(source, launch_.dtypes[k + 1], stride, filled, buffers_[k]);
        }
        return in_.data();
    }

  private:
    const Launch<T>& launch_;
    std::array<const T*, kMaxInputs> in_{};
    std::array<const std::byte*, kMaxInputs> repeated_{};  ///< the element that fills the buffer, where a stride is 0
    alignas(64) T buffers_[kMaxInputs][kChunk];
};

/// Arrays that need no conversion and no sum: nothing but pointers.
template <class T>
void run_direct(const CpuStream& stream, const Launch<T>& launch, std::int64_t cost) {
    for_each_run(stream, launch.walk, kShare, cost, [&](const Cursor& cursor, std::int64_t first, std::int64_t count) {
        std::array<const T*, kMaxInputs> in{};
        for (int i = 0; i < launch.inputs; ++i) {
            in[static_cast<std::size_t>(i)] = reinterpret_cast<const T*>(cursor.at(i + 1)) + first;
        }
        launch.loop.run(launch.loop.function, in.data(), reinterpret_cast<T*>(cursor.at(0)) + first, count);
    });
}

template <class T>
void run_converted(const CpuStream& stream, const Launch<T>& launch, std::int64_t cost) {
    const Dtype dtype = launch.dtypes[0];
    const std::int64_t stride = launch.walk.stride(0);
    for_each_share(stream, launch.walk, kChunk, cost, [&](auto&& each) {
        Sources<T> sources(launch);
        alignas(64) T values[kChunk];
        each([&](const Cursor& cursor, std::int64_t first, std::int64_t count) {
            const T* const* in = sources.at(cursor, first, count);
            std::byte* target = cursor.at(0, first);
            T* out = launch.beta == 0.0f ? borrow_target<T>(target, dtype, stride, count, values) : values;
            launch.loop.run(launch.loop.function, in, out, count);
            if (launch.beta == 0.0f) {
                settle(out, count, target, dtype, stride);
            } else {
                accumulate(out, count, launch.beta, target, dtype, stride);
            }
        });
    });
}

template <class T>
bool direct(const Walk& walk, const std::array<Dtype, kMaxOperands>& dtypes) {
    for (int i = 0; i < walk.operands(); ++i) {
        if (dtypes[static_cast<std::size_t>(i)] != dtype_of<T> || walk.stride(i) != 1) return false;
    }
    return true;
}

/// True if the view is contiguous in the way that the output is. By hand, since this is most of a small call.
inline bool alike(const View& view, const View& output) {
    const int rank = output.rank();
    if (view.dtype != output.dtype || view.rank() != rank) return false;
    for (int i = 0; i < rank; ++i) {
        if (view.shape[i] != output.shape[i] || view.strides[i] != output.strides[i]) return false;
    }
    return true;
}

}  // namespace

template <class T>
void run_elementwise(const CpuStream& stream, const ElementLoop<T>& loop, std::initializer_list<const View*> inputs,
                     const View& output, float beta) {
    const std::int64_t elements = output.numel();
    if (elements == 0) return;
    const int count = static_cast<int>(inputs.size());
    const std::int64_t cost = elements * loop.cost;
    if (beta == 0.0f && output.dtype == dtype_of<T> && elements <= kShare && cost < kParallelThreshold &&
        output.is_contiguous() &&
        std::all_of(inputs.begin(), inputs.end(), [&](const View* view) { return alike(*view, output); })) {
        std::array<const T*, kMaxInputs> in{};
        for (int i = 0; i < count; ++i) in[static_cast<std::size_t>(i)] = inputs.begin()[i]->as<const T>();
        return loop.run(loop.function, in.data(), output.as<T>(), elements);
    }

    std::array<const View*, kMaxOperands> views{&output};
    std::array<Dtype, kMaxOperands> dtypes{output.dtype};
    for (int i = 0; i < count; ++i) {
        views[static_cast<std::size_t>(i + 1)] = inputs.begin()[i];
        dtypes[static_cast<std::size_t>(i + 1)] = inputs.begin()[i]->dtype;
    }
    const Walk walk(views.data(), count + 1);
    const Launch<T> launch{loop, walk, dtypes, count, beta, std::min(kChunk, walk.row_size())};
    if (beta == 0.0f && direct<T>(walk, dtypes)) {
        run_direct(stream, launch, cost);
    } else {
        run_converted(stream, launch, cost);
    }
}

template void run_elementwise(const CpuStream&, const ElementLoop<float>&, std::initializer_list<const View*>,
                              const View&, float);
template void run_elementwise(const CpuStream&, const ElementLoop<double>&, std::initializer_list<const View*>,
                              const View&, float);
template void run_elementwise(const CpuStream&, const ElementLoop<std::int64_t>&, std::initializer_list<const View*>,
                              const View&, float);

}  // namespace headroom::kernels
