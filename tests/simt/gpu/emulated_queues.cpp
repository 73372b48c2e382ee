#include <headroom/tests/simt/gpu/emulated_queues.hpp>

#include <utility>

namespace headroom::kernels {

void EmulatedQueues::add(CudaQueue queue, Entry entry) {
    of(queue).waiting.push_back(std::move(entry));
    settle();
}

void EmulatedQueues::do_next(Queue& queue) {
    if (const std::optional<Point> after = queue.waiting.front().after) {
        const std::uint64_t before = queue.done;
        do_until(*after);
        if (queue.done > before) return;  // others went on meanwhile, this queue among them
    }
    const Entry entry = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    ++queue.done;
    if (entry.after) return;
    try {
        entry.work();
    } catch (...) {
        forget();
        throw;
    }
}

void EmulatedQueues::do_until(Point point) {
    while (!passed(point)) {
        do_next(of(point.queue));
        if (order_ == EmulatedOrder::copies_first) advance_copies();
    }
}

void EmulatedQueues::reach(Point point) {
    do_until(point);
    settle();
}

bool EmulatedQueues::advance(CudaQueue name) {
    Queue& queue = of(name);
    const std::uint64_t before = queue.done;
    while (!queue.waiting.empty()) {
        const Entry& next = queue.waiting.front();
        if (next.after && !passed(*next.after)) break;
        do_next(queue);
    }
    return queue.done > before;
}

void EmulatedQueues::advance_copies() {
    while (advance(CudaQueue::uploads) || advance(CudaQueue::downloads) || advance(CudaQueue::exchanges)) {
    }
}

void EmulatedQueues::settle() {
    if (order_ == EmulatedOrder::copies_first) return advance_copies();
    do_until(end(CudaQueue::compute));
    if (order_ == EmulatedOrder::kernels_first) return;
    do_until(end(CudaQueue::uploads));
    do_until(end(CudaQueue::downloads));
    do_until(end(CudaQueue::exchanges));
}

void EmulatedQueues::set_order(EmulatedOrder order) {
    for (const CudaQueue queue : {CudaQueue::compute, CudaQueue::uploads, CudaQueue::downloads, CudaQueue::exchanges})
        reach(end(queue));
    order_ = order;
}

void EmulatedQueues::forget() noexcept {
    for (Queue& queue : queues_) {
        queue.done += queue.waiting.size();
        queue.waiting.clear();
    }
}

}  // namespace headroom::kernels
