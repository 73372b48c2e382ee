#pragma once
// The processes that train one model together, as seen by the libraries below `dist`: they exchange bytes and nothing
// else. Sums are computed here, in rank order, so they have the same bits on every rank, in every run and with every
// engine. A context created with a group (`ContextOptions::group`) is one of its ranks; all ranks run the same work in
// the same order. A dry context rehearses one of them (`Profile::ranks`).
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
    /// A byte range of a buffer.
    struct Extent {
        std::size_t offset = 0, bytes = 0;
    };
    /// This rank's totals so far.
    struct Traffic {
        std::uint64_t sent_bytes = 0;  ///< to other ranks
        std::uint64_t exchanges = 0;
        double seconds_waited = 0;  ///< by the host, in exchanges
    };

    virtual ~Group() = default;
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

    int rank() const { return rank_; }
    int ranks() const { return ranks_; }
    const Traffic& traffic() const { return traffic_; }

    /// Sends extent `sends[q]` of `send` to each rank q and receives extent `receives[q]` of `receive` from it, this
    /// rank included. All ranks must call it in the same order, with matching sizes. `send` and `receive` may be one
    /// buffer if no extent is used for both. Blocks until done. Errors: Error if the number of extents is not the
    /// number of ranks; the engine's errors.
    void all_to_all(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                    std::span<const Extent> receives);
    /// The same in GPU memory, in the order of the exchange queue (`kernels::CudaQueue`). Errors: also DeviceError;
    /// Error if the engine reaches only host memory.
    void all_to_all(CudaStream& stream, const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                    std::span<const Extent> receives);
    /// Counts an exchange that a rehearsal skips.
    void count(std::span<const Extent> sends);

    /// Data is cut into this many parts by size alone; each rank owns a run of consecutive parts. With more ranks than
    /// parts, some ranks own none.
    static constexpr int kParts = 64;
    /// First element of a part of `count` elements; `count` for part `kParts`.
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

/// One of several ranks in a dry context: every other rank is assumed to send the same bytes.
class RehearsedGroup final : public Group {
  public:
    RehearsedGroup(int rank, int ranks) : Group(rank, ranks) {}

  private:
    void do_all_to_all(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                       std::span<const Extent> receives) override;
};

/// A rank's run of consecutive elements of an array.
struct ShardRange {
    std::int64_t first = 0, count = 0;
};
/// The range of each rank. The first form takes the start of each part and the end of the last; the second divides
/// `count` elements.
std::vector<ShardRange> shard_ranges(std::span<const std::int64_t> begins, int ranks);
std::vector<ShardRange> shard_ranges(std::int64_t count, int ranks);

/// All arrays below must be without gaps. Errors: OutOfMemory; errors of the group. On a GPU, an exchange started by
/// `begin_...` overlaps with the work queued after it. Until it is finished or awaited, the arrays that it sends and
/// receives must not change.
///
/// A reduce-scatter in progress.
struct PendingReduceScatter {
    int present = 0;
    Scratch received;                             ///< from the participating ranks, one after another
    std::shared_ptr<kernels::CudaEvent> arrived;  ///< null except on a GPU
};
/// Starts receiving this rank's share of the `values` of ranks 0 to `present` - 1. `values` is undefined on ranks from
/// `present` on.
PendingReduceScatter begin_reduce_scatter(const Exec& exec, Group& group, const Array& values,
                                          std::span<const ShardRange> shares, int present, Dtype dtype);
/// own = beta * own + sum, in rank order. `own` may be this rank's share of `values`.
void finish_reduce_scatter(const Exec& exec, const PendingReduceScatter& sum, const Array& own, float beta);
/// All-gathers the shards of `values`: each rank sends its own share to all others.
void begin_all_gather(const Exec& exec, Group& group, const Array& values, std::span<const ShardRange> shares);
void all_gather(const Exec& exec, Group& group, const Array& values, std::span<const ShardRange> shares);
/// Makes later work wait for all exchanges queued so far.
void await_exchanges(const Exec& exec);
/// values = sum of all ranks' values, in rank order, with the same bits on every rank.
void all_reduce(const Exec& exec, Group& group, const Array& values);
/// All-gathers the rows of `rows`, [ranks, ...]: rank r sends row r to all others.
void all_gather_rows(const Exec& exec, Group& group, const Array& rows);

/// Every rank's `text` or `number`, in rank order.
std::vector<std::string> all_gather(Group& group, const std::string& text);
std::vector<double> all_gather(Group& group, double number);
/// Every rank's `bytes`, concatenated in rank order.
std::vector<std::byte> all_gather(Group& group, std::span<const std::byte> bytes);
/// Bitwise OR over all ranks.
std::uint64_t any(Group& group, std::uint64_t bits);

}  // namespace headroom
