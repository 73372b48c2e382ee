#include <headroom/core/graph.hpp>

#include <headroom/core/transfer.hpp>
#include <headroom/kernels/device/cuda_device.hpp>

namespace headroom {

GraphMemory::GraphMemory(Context& context)
    : context_(context),
      shift_(context.exec().empty_for_model({}, Dtype::i64, Category::workspace)),
      pool_(context.memory().open_pool()) {}

GraphMemory::~GraphMemory() {
    // A graph that is under way uses memory that the allocator takes for free.
    if (CudaDevice* gpu = context_.gpu()) {
        try {
            gpu->synchronize();
        } catch (const Error&) {  // nothing runs there any more
        }
    }
    context_.memory().close_pool(pool_);
}

WorkGraph::WorkGraph(GraphMemory& memory, const std::function<void()>& work)
    : memory_(memory), counter_(memory.context().random_counter()) {
    Context& context = memory.context();
    CudaDevice* const gpu = context.gpu();
    const Exec::CaptureScope scope(context.exec(), memory.pool_,
                                   static_cast<std::uint64_t*>(memory.shift_.view().data));
    // While work is captured nothing can be waited for, so that free pages could not move to the graph's pool.
    context.memory().trim();
    const auto forget = [&] {
        context.set_random_counter(counter_);
        if (gpu) gpu->abandon_capture();
    };
    try {
        if (gpu) gpu->begin_capture();
        work();
        advance_ = context.random_counter() - counter_;
        draws_ = context.exec().random_drawn();
        context.set_random_counter(counter_);
        if (gpu) graph_ = gpu->end_capture();
    } catch (const DeviceError& error) {  // a library refuses
        forget();
        if (gpu) gpu->check_usable();
        throw CaptureError(error.what());
    } catch (...) {
        forget();
        throw;
    }
}

WorkGraph::~WorkGraph() = default;

void WorkGraph::launch() const {
    Context& context = memory_.context();
    const std::uint64_t counter = context.random_counter();
    if (draws_) {
        std::uint64_t shift = counter - counter_;  // around zero, if need be
        upload(context.exec(), contiguous_view(&shift, Dtype::i64, {}), memory_.shift_);
    }
    if (graph_) context.gpu()->launch(*graph_);
    context.set_random_counter(counter + advance_);
}

}  // namespace headroom
