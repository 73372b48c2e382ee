// The order in which the emulated GPU's queues get their work done.
#include <headroom/tests/simt/gpu/emulated_queues.hpp>

#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace headroom::kernels {
namespace emulated_queues_test {

constexpr CudaQueue kernels = CudaQueue::compute, uploads = CudaQueue::uploads, downloads = CudaQueue::downloads,
                    exchanges = CudaQueue::exchanges;

struct Queues : EmulatedQueues {
    explicit Queues(EmulatedOrder order) { set_order(order); }
    void note(CudaQueue queue, char name) {
        give(queue, [this, name] { done += name; });
    }
    std::string done;
};

TEST(EmulatedQueues, DoEverythingWhenItIsGiven) {
    Queues queues(EmulatedOrder::at_once);
    queues.note(kernels, 'k');
    EXPECT_EQ(queues.done, "k");
    queues.note(uploads, 'u');
    queues.wait(kernels, queues.end(uploads));
    queues.note(kernels, 'l');
    queues.note(exchanges, 'e');
    EXPECT_EQ(queues.done, "kule");
    EXPECT_TRUE(queues.idle());
}

TEST(EmulatedQueues, CopiesFirstRunAheadOfKernelsAsFarAsEventsAllow) {
    Queues queues(EmulatedOrder::copies_first);
    queues.note(kernels, 'a');
    queues.note(uploads, 'u');
    EXPECT_EQ(queues.done, "u");
    const auto after_a = queues.end(kernels);
    queues.note(kernels, 'b');
    queues.wait(uploads, after_a);
    queues.note(uploads, 'v');
    queues.wait(kernels, queues.end(uploads));
    queues.note(kernels, 'c');
    EXPECT_EQ(queues.done, "u");
    queues.reach(after_a);
    EXPECT_EQ(queues.done, "uav");
    queues.reach(queues.end(kernels));
    EXPECT_EQ(queues.done, "uavbc");
    EXPECT_TRUE(queues.idle());
}

TEST(EmulatedQueues, CopiesFirstGoOnBetweenTwoKernels) {
    Queues queues(EmulatedOrder::copies_first);
    for (const char name : {'a', 'b', 'c'}) {
        queues.note(kernels, name);
        queues.wait(uploads, queues.end(kernels));
        queues.note(uploads, static_cast<char>(name - 'a' + 'A'));
    }
    queues.wait(downloads, queues.end(uploads));
    queues.note(downloads, 'd');
    EXPECT_EQ(queues.done, "");
    queues.reach(queues.end(kernels));
    EXPECT_EQ(queues.done, "aAbBcCd");
    EXPECT_TRUE(queues.idle());
}

TEST(EmulatedQueues, KernelsFirstLeaveCopiesUntilSomebodyWaits) {
    Queues queues(EmulatedOrder::kernels_first);
    queues.note(uploads, 'u');
    queues.note(uploads, 'v');
    const auto uploaded = queues.end(uploads);
    queues.note(uploads, 'w');
    queues.note(kernels, 'a');
    EXPECT_EQ(queues.done, "a");
    queues.wait(kernels, uploaded);
    EXPECT_EQ(queues.done, "auv");
    queues.wait(downloads, queues.end(uploads));
    queues.note(downloads, 'd');
    EXPECT_EQ(queues.done, "auv");
    queues.reach(queues.end(downloads));
    EXPECT_EQ(queues.done, "auvwd");
}

TEST(EmulatedQueues, ExchangesAreAsEarlyOrAsLateAsCopies) {
    for (const EmulatedOrder order : {EmulatedOrder::copies_first, EmulatedOrder::kernels_first}) {
        Queues queues(order);
        queues.note(kernels, 'a');
        queues.wait(exchanges, queues.end(kernels));
        queues.note(exchanges, 'e');
        queues.note(kernels, 'b');
        const auto exchanged = queues.end(exchanges);
        queues.note(exchanges, 'f');
        queues.wait(kernels, exchanged);
        queues.note(kernels, 'c');
        queues.reach(queues.end(kernels));
        EXPECT_EQ(queues.done, order == EmulatedOrder::copies_first ? "aefbc" : "abec");
        queues.set_order(EmulatedOrder::at_once);
        EXPECT_EQ(queues.done.size(), 5u);
        EXPECT_TRUE(queues.idle());
    }
}

TEST(EmulatedQueues, ForgetTheRestWhenWorkFails) {
    Queues queues(EmulatedOrder::copies_first);
    queues.give(kernels, [] { throw std::runtime_error("broken"); });
    queues.note(kernels, 'a');
    queues.wait(uploads, queues.end(kernels));
    queues.note(uploads, 'u');
    EXPECT_THROW(queues.reach(queues.end(uploads)), std::runtime_error);
    EXPECT_TRUE(queues.idle());
    EXPECT_EQ(queues.done, "");
    queues.note(uploads, 'v');
    EXPECT_EQ(queues.done, "v");
}

}  // namespace emulated_queues_test
}  // namespace headroom::kernels
