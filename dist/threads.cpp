#include <headroom/dist/threads.hpp>

#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::dist {

namespace {

/// Where the ranks of `run_ranks` meet.
class Meeting {
  public:
    struct Post {
        const std::byte* send = nullptr;
        std::span<const Group::Extent> sends;
    };

    explicit Meeting(int ranks) : posts_(static_cast<std::size_t>(ranks)) {}

    Post& post(int rank) { return posts_[static_cast<std::size_t>(rank)]; }
    /// Waits until all ranks have come. Errors: Error if one never will.
    void wait() {
        std::unique_lock lock(mutex_);
        const std::uint64_t meeting = meetings_;
        if (++arrived_ == posts_.size()) {
            arrived_ = 0;
            ++meetings_;
            changed_.notify_all();
        } else {
            changed_.wait(lock, [&] { return meetings_ != meeting || left_; });
        }
        if (meetings_ == meeting) throw Error("group: another rank has ended");
    }
    void leave() {
        const std::lock_guard lock(mutex_);
        left_ = true;
        changed_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<Post> posts_;
    std::size_t arrived_ = 0;
    std::uint64_t meetings_ = 0;
    bool left_ = false;
};

class ThreadGroup final : public Group {
  public:
    ThreadGroup(std::shared_ptr<Meeting> meeting, int rank, int ranks)
        : Group(rank, ranks), meeting_(std::move(meeting)) {}

  private:
    void do_all_to_all(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                       std::span<const Extent> receives) override {
        meeting_->post(rank()) = {send, sends};
        meeting_->wait();
        bool agree = true;
        for (int q = 0; q < ranks(); ++q) {
            const Meeting::Post& other = meeting_->post(q);
            const Extent& sent = other.sends[static_cast<std::size_t>(rank())];
            const Extent& expected = receives[static_cast<std::size_t>(q)];
            agree &= sent.bytes == expected.bytes;
            const std::byte* const from = other.send + sent.offset;
            std::byte* const to = receive + expected.offset;
            if (agree && sent.bytes > 0 && from != to) std::memcpy(to, from, sent.bytes);
        }
        meeting_->wait();  // what was sent may change from here on
        if (!agree) throw Error("group: a rank sent a different number of bytes than expected");
    }

    std::shared_ptr<Meeting> meeting_;
};

}  // namespace

void run_ranks(int ranks, const std::function<void(const std::shared_ptr<Group>&)>& work) {
    if (ranks < 1) throw Error(fmt::format("group: there must be at least 1 rank, got {}", ranks));
    const auto meeting = std::make_shared<Meeting>(ranks);
    std::mutex mutex;
    std::exception_ptr first;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
        threads.emplace_back([&, rank] {
            try {
                work(std::make_shared<ThreadGroup>(meeting, rank, ranks));
            } catch (...) {
                const std::lock_guard lock(mutex);
                if (!first) first = std::current_exception();
            }
            meeting->leave();
        });
    }
    for (std::thread& thread : threads) thread.join();
    if (first) std::rethrow_exception(first);
}

}  // namespace headroom::dist
