#pragma once
// The processes that train one model together, as the libraries below `dist` see them: they exchange bytes, and
// nothing else. Sums are computed here, in the order of ranks, so that a sum has the same bits on each of them, in each
// run, and with each engine. A context that was made with a group (`ContextOptions::group`) is one of its ranks, and
// all of them do the same work in the same order; a dry context rehearses one of them (`Profile::ranks`).
//
//     if (Group* group = context.group()) {
//         all_reduce(context.exec(), *group, gradients);
//         const std::vector<std::string> hosts = all_gather(*group, host_name);  // in the order of ranks, on each rank
//     }
//
// Engines derive from `Group`: MPI (dist/world.hpp), NCCL (dist/nccl.hpp), threads (dist/threads.hpp), and the
// rehearsed one below.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <headroom/core/exec.hpp>

namespace headroom::kernels {
class CudaEvent;  // kernels/device/cuda_device.hpp
}

namespace headroom {

class Group {
  public:
    /// Some bytes of a buffer.
    struct Extent {
        std::size_t offset = 0, bytes = 0;
    };
    /// So far, of this rank.
    struct Traffic {
        std::uint64_t sent_bytes = 0;  ///< to other ranks
        std::uint64_t exchanges = 0;
        double seconds_waited = 0;  ///< in exchanges, by the host
    };

    virtual ~Group() = default;
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

    int rank() const { return rank_; }
    int ranks() const { return ranks_; }
    const Traffic& traffic() const { return traffic_; }

    /// Sends `sends[q]` of `send` to each rank q and receives its answer to `receives[q]` of `receive`, own bytes
    /// included. All ranks call it, in the same order; what q sends has the size that is received from it. The two
    /// buffers may be one if no extent is sent and received to at once. Done when it returns. Errors: Error if the
    /// numbers of extents are not that of ranks, or those of the engine.
    void all_to_all(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                    std::span<const Extent> receives);
    /// The same in a GPU's memory, in the order of its queue of exchanges (`kernels::CudaQueue`). Errors: also
    /// DeviceError; Error of an engine that reaches the host's memory alone.
    void all_to_all(CudaStream& stream, const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                    std::span<const Extent> receives);
    /// Counts an exchange that a rehearsal leaves out.
    void count(std::span<const Extent> sends);

    /// What is shared out is cut into so many parts, by its size alone, and ranks take neighbouring parts. With more
    /// ranks than parts, some have none.
    static constexpr int kParts = 64;
    /// Of `count` elements, the first one of a part; `count` for `kParts`.
    static std::int64_t part_begin(std::int64_t count, int part);

  protected:
    /// Errors: Error unless 0 <= rank < ranks.
    Group(int rank, int ranks);

  private:
    virtual void do_all_to_all(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                               std::span<const Extent> receives) = 0;
    virtual void do_all_to_all_on(CudaStream& stream, const std::byte* send, std::span<const Extent> sends,
                                  std::byte* receive, std::span<const Extent> receives);
    void check(std::span<const Extent> sends, std::span<const Extent> receives);

    int rank_, ranks_;
    Traffic traffic_;
};

/// One of several ranks that a dry context stands for: the others say what this one says.
class RehearsedGroup final : public Group {
  public:
    RehearsedGroup(int rank, int ranks) : Group(rank, ranks) {}

  private:
    void do_all_to_all(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                       std::span<const Extent> receives) override;
};

/// Neighbouring elements of an array that belong to a rank.
struct ShardRange {
    std::int64_t first = 0, count = 0;
};
/// By rank: of parts with these beginnings, of which there is one more than parts; and of `count` elements.
std::vector<ShardRange> shard_ranges(std::span<const std::int64_t> begins, int ranks);
std::vector<ShardRange> shard_ranges(std::int64_t count, int ranks);

/// The arrays of all below lie without gaps. Errors: OutOfMemory; those of the group. What `begin_...` begins goes on,
/// on a GPU, beside the work that is queued behind it: until that is finished, or exchanges are awaited, what it sends
/// and receives must stay as it is.
///
/// A sum on its way.
struct PendingReduceScatter {
    int present = 0;
    Scratch received;                             ///< from the present ranks, one behind another
    std::shared_ptr<kernels::CudaEvent> arrived;  ///< null but on a GPU
};
/// Receives this rank's share of the `values` of the first `present` ranks. Undefined values: this rank is behind
/// those.
PendingReduceScatter begin_reduce_scatter(const Exec& exec, Group& group, const Array& values,
                                          std::span<const ShardRange> shares, int present, Dtype dtype);
/// own = beta * own + the sum, in the order of ranks. `own` may be this rank's share of `values`.
void finish_reduce_scatter(const Exec& exec, const PendingReduceScatter& sum, const Array& own, float beta);
/// Each rank's share of `values` is as that rank has it, on all ranks.
void begin_all_gather(const Exec& exec, Group& group, const Array& values, std::span<const ShardRange> shares);
void all_gather(const Exec& exec, Group& group, const Array& values, std::span<const ShardRange> shares);
/// Work from now on finds what exchanges have brought so far.
void await_exchanges(const Exec& exec);
/// values = the sum of all ranks' values, in the order of ranks, with the same bits on each.
void all_reduce(const Exec& exec, Group& group, const Array& values);
/// Row r of `rows`, [ranks, ...], is that of rank r on all ranks.
void all_gather_rows(const Exec& exec, Group& group, const Array& rows);

/// What each rank says, in the order of ranks.
std::vector<std::string> all_gather(Group& group, const std::string& text);
std::vector<double> all_gather(Group& group, double number);
/// One behind another.
std::vector<std::byte> all_gather(Group& group, std::span<const std::byte> bytes);
/// The bits that some rank says.
std::uint64_t any(Group& group, std::uint64_t bits);

}  // namespace headroom
