#pragma once
// The queues of the emulated GPU, and the order in which their work runs. A GPU may run work in any order that events
// permit. The emulator runs it immediately, unless a test asks for one of the extreme orders, in which a missing wait
// gives wrong data. Only in tests of builds without CUDA.
//
//     auto* emulated = dynamic_cast<kernels::EmulatedControls*>(context.gpu());    // null for a real GPU
//     if (emulated) emulated->set_order(kernels::EmulatedOrder::copies_first);
//     train(context);    // must give the same results as in the usual order
#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include <headroom/kernels/device/cuda_device.hpp>

namespace headroom::kernels {

enum class EmulatedOrder {
    at_once,       ///< everything as soon as it is queued
    copies_first,  ///< copies and exchanges as soon as events allow, kernels only when waited for
    kernels_first  ///< kernels as soon as they are queued, copies and exchanges only when waited for
};

/// Controls of the emulated device for tests.
class EmulatedControls {
  public:
    /// Runs all earlier work first. Errors: DeviceError if that fails.
    virtual void set_order(EmulatedOrder order) = 0;
    /// For arrays too large to be touched entirely. From now on, a launch of more than `blocks` blocks runs only the
    /// first and last ones and some in between, and there are enough multiprocessors for a thread per element.
    virtual void run_at_most(std::uint64_t blocks) = 0;
    /// True if no queued work is left.
    virtual bool idle() const = 0;
    /// The number of events created so far.
    virtual std::int64_t events() const = 0;
    /// The number of pieces of work queued by the host: kernels, copies, graphs.
    virtual std::int64_t calls() const = 0;

  protected:
    ~EmulatedControls() = default;
};

class EmulatedQueues {
  public:
    using Work = std::function<void()>;
    /// The end of a queue's first `count` pieces of work.
    struct Point {
        CudaQueue queue = CudaQueue::compute;
        std::uint64_t count = 0;
    };

    // These throw the exceptions of the work; all queued work is then dropped.
    void give(CudaQueue queue, Work work) { add(queue, {std::move(work), {}}); }
    /// Makes the queue's next work wait for the point.
    void wait(CudaQueue queue, Point point) { add(queue, {{}, point}); }
    /// Runs whatever is needed to pass the point.
    void reach(Point point);
    void set_order(EmulatedOrder order);

    Point end(CudaQueue queue) const { return {queue, of(queue).done + of(queue).waiting.size()}; }
    bool idle() const {
        return std::all_of(queues_.begin(), queues_.end(), [](const Queue& queue) { return queue.waiting.empty(); });
    }
    bool passed(Point point) const { return of(point.queue).done >= point.count; }

  private:
    struct Entry {
        Work work;
        std::optional<Point> after;  ///< a point to wait for, instead of work
    };
    struct Queue {
        std::deque<Entry> waiting;
        std::uint64_t done = 0;
    };

    const Queue& of(CudaQueue queue) const { return queues_[static_cast<std::size_t>(queue)]; }
    Queue& of(CudaQueue queue) { return queues_[static_cast<std::size_t>(queue)]; }
    void add(CudaQueue queue, Entry entry);
    void do_next(Queue& queue);
    void do_until(Point point);
    /// Advances the queue as far as possible without progress of others; false if it could not advance.
    bool advance(CudaQueue queue);
    void advance_copies();
    void settle();
    void forget() noexcept;

    EmulatedOrder order_ = EmulatedOrder::at_once;
    std::array<Queue, kCudaQueues> queues_;
};

}  // namespace headroom::kernels
