#pragma once
// The queues of the emulated GPU, and the order in which their work is done. A GPU may do work in any order that
// events leave open. The emulator does it at once, unless a test asks for one of the extreme orders, in which a
// missing wait gives wrong data. Only in tests of builds without CUDA.
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
    at_once,       ///< all work when it is queued
    copies_first,  ///< copies and exchanges as soon as events allow, kernels when they are waited for
    kernels_first  ///< kernels when they are queued, copies and exchanges when they are waited for
};

/// Controls of the device for tests in such a build.
class EmulatedControls {
  public:
    /// Does all earlier work first. Errors: DeviceError if that fails.
    virtual void set_order(EmulatedOrder order) = 0;
    /// For arrays that are too large to be touched whole. From now on, a launch of more blocks than this runs those at
    /// its ends and some in between; and there are so many multiprocessors that each element has a thread.
    virtual void run_at_most(std::uint64_t blocks) = 0;
    /// True if no queued work is left.
    virtual bool idle() const = 0;
    /// That were made so far.
    virtual std::int64_t events() const = 0;
    /// How often the host gave work: kernels, copies, graphs.
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
    /// The queue's next work comes after the point.
    void wait(CudaQueue queue, Point point) { add(queue, {{}, point}); }
    /// Does what must be done for the point to be passed.
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
        std::optional<Point> after;  ///< to wait for, instead of work
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
    /// As far as the queue can go without others doing anything; false if it did nothing.
    bool advance(CudaQueue queue);
    void advance_copies();
    void settle();
    void forget() noexcept;

    EmulatedOrder order_ = EmulatedOrder::at_once;
    std::array<Queue, kCudaQueues> queues_;
};

}  // namespace headroom::kernels
