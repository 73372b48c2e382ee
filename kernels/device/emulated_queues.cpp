#include <headroom/kernels/device/emulated_queues.hpp>

#include <utility>

namespace headroom {

void EmulatedQueues::add(CudaQueue queue, Entry entry) {
    of(queue).waiting.push_back(std::move(entry));
    settle();
}

void EmulatedQueues::do_next(Queue& queue) {
    const Entry entry = std::move(queue.waiting.front());
    try {
        entry.after ? do_until(*entry.after) : entry.work();
    } catch (...) {
        forget();
        throw;
    }
    queue.waiting.pop_front();
    ++queue.done;
}

void EmulatedQueues::do_until(Point point) {
    while (!passed(point)) do_next(of(point.queue));
}

void EmulatedQueues::reach(Point point) {
    do_until(point);
    settle();
}

bool EmulatedQueues::advance(Queue& queue) {
    const std::uint64_t before = queue.done;
    while (!queue.waiting.empty()) {
        const Entry& next = queue.waiting.front();
        if (next.after && !passed(*next.after)) break;
        do_next(queue);
    }
    return queue.done > before;
}

void EmulatedQueues::settle() {
    if (order_ == EmulatedOrder::copies_first) {
        while (advance(of(CudaQueue::uploads)) || advance(of(CudaQueue::downloads))) {
        }
        return;
    }
    while (!of(CudaQueue::compute).waiting.empty()) do_next(of(CudaQueue::compute));
    if (order_ == EmulatedOrder::kernels_first) return;
    while (!of(CudaQueue::uploads).waiting.empty()) do_next(of(CudaQueue::uploads));
    while (!of(CudaQueue::downloads).waiting.empty()) do_next(of(CudaQueue::downloads));
}

void EmulatedQueues::set_order(EmulatedOrder order) {
    for (const CudaQueue queue : {CudaQueue::compute, CudaQueue::uploads, CudaQueue::downloads}) reach(end(queue));
    order_ = order;
}

void EmulatedQueues::forget() noexcept {
    for (Queue& queue : queues_) {
        queue.done += queue.waiting.size();
        queue.waiting.clear();
    }
}

}  // namespace headroom
