#include <headroom/core/group.hpp>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include <headroom/core/internal/exchange_count.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/memory/progress.hpp>

namespace headroom {

namespace {

using kernels::CudaEvent;
using kernels::CudaQueue;

/// Elements: parts begin where a cache line and a block of quantised state do.
constexpr std::int64_t kPartGrain = 256;

/// The same to and from each rank, one behind another.
std::vector<Group::Extent> side_by_side(const std::vector<std::size_t>& bytes) {
    std::vector<Group::Extent> extents;
    std::size_t offset = 0;
    for (const std::size_t size : bytes) {
        extents.push_back({offset, size});
        offset += size;
    }
    return extents;
}

std::vector<Group::Extent> to_all(const Group& group, const Group::Extent& extent) {
    return std::vector<Group::Extent>(static_cast<std::size_t>(group.ranks()), extent);
}

std::byte* start_of(const Array& array) { return static_cast<std::byte*>(array.view().data); }

/// The present end of a queue.
std::unique_ptr<CudaEvent> end_of(CudaDevice& device, CudaQueue queue) {
    std::unique_ptr<CudaEvent> event = device.make_event();
    device.record(*event, queue);
    return event;
}

/// Behind the work so far. On a GPU it is then on its way.
void begin_exchange(const Exec& exec, Group& group, std::byte* send, const std::vector<Group::Extent>& sends,
                    std::byte* receive, const std::vector<Group::Extent>& receives) {
    exec.check_not_captured("an exchange between ranks");
    if (exec.dry()) return group.count(sends);
    exec.launch([&](auto& stream) {
        if constexpr (std::is_same_v<decltype(stream), CudaStream&>) {
            stream.device->wait(CudaQueue::exchanges, *end_of(*stream.device, CudaQueue::compute));
            group.all_to_all(stream, send, sends, receive, receives);
        } else {
            group.all_to_all(send, sends, receive, receives);
        }
    });
}

}  // namespace

Group::Group(int rank, int ranks) : rank_(rank), ranks_(ranks) {
    if (rank < 0 || rank >= ranks) throw Error(fmt::format("group: rank {} is out of range for {} ranks", rank, ranks));
}

void Group::count(std::span<const Extent> sends) {
    if (sends.size() != static_cast<std::size_t>(ranks_)) {
        throw Error(fmt::format("group: got {} extents to send for {} ranks", sends.size(), ranks_));
    }
    ++traffic_.exchanges;
    for (std::size_t q = 0; q < sends.size(); ++q) {
        if (q != static_cast<std::size_t>(rank_)) traffic_.sent_bytes += sends[q].bytes;
    }
}

void Group::check(std::span<const Extent> sends, std::span<const Extent> receives) {
    memory::step_forward();
    exchanges_of_this_thread().fetch_add(1, std::memory_order_relaxed);
    count(sends);
    if (receives.size() != sends.size()) {
        throw Error(fmt::format("group: got {} extents to receive for {} ranks", receives.size(), ranks_));
    }
}

void Group::all_to_all(CudaStream& stream, const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                       std::span<const Extent> receives) {
    check(sends, receives);
    do_all_to_all_on(stream, send, sends, receive, receives);
}

void Group::do_all_to_all_on(CudaStream&, const std::byte*, std::span<const Extent>, std::byte*,
                             std::span<const Extent>) {
    throw Error("group: these ranks can exchange host memory only, not GPU memory; use dist::over_nccl");
}

void Group::all_to_all(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                       std::span<const Extent> receives) {
    check(sends, receives);
    const memory::WaitScope waits;
    const auto begin = std::chrono::steady_clock::now();
    do_all_to_all(send, sends, receive, receives);
    traffic_.seconds_waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::int64_t Group::part_begin(std::int64_t count, int part) {
    if (part >= kParts) return count;
    const std::int64_t element = count / kParts * part + count % kParts * part / kParts;  // count * part can overflow
    return element / kPartGrain * kPartGrain;
}

std::vector<ShardRange> shard_ranges(std::span<const std::int64_t> begins, int ranks) {
    const auto begin = [&](int rank) {
        return begins[static_cast<std::size_t>((std::int64_t{rank} * Group::kParts + ranks - 1) / ranks)];
    };
    std::vector<ShardRange> shares;
    for (int rank = 0; rank < ranks; ++rank) shares.push_back({begin(rank), begin(rank + 1) - begin(rank)});
    return shares;
}

std::vector<ShardRange> shard_ranges(std::int64_t count, int ranks) {
    std::vector<std::int64_t> begins;
    for (int part = 0; part <= Group::kParts; ++part) begins.push_back(Group::part_begin(count, part));
    return shard_ranges(begins, ranks);
}

void RehearsedGroup::do_all_to_all(const std::byte* send, std::span<const Extent> sends, std::byte* receive,
                                   std::span<const Extent> receives) {
    const Extent& own = sends[static_cast<std::size_t>(rank())];
    for (const Extent& extent : receives) {
        if (std::min(own.bytes, extent.bytes) > 0 && receive + extent.offset != send + own.offset)
            std::memcpy(receive + extent.offset, send + own.offset, std::min(own.bytes, extent.bytes));
    }
}

namespace {

/// Where the ranks' shares lie in an array.
std::vector<Group::Extent> extents_of(std::span<const ShardRange> shares, Dtype dtype) {
    const std::size_t size = kernels::size_of(dtype);
    std::vector<Group::Extent> extents;
    for (const ShardRange& share : shares)
        extents.push_back({static_cast<std::size_t>(share.first) * size, static_cast<std::size_t>(share.count) * size});
    return extents;
}

}  // namespace

void await_exchanges(const Exec& exec) {
    exec.launch([&]([[maybe_unused]] auto& stream) {
        if constexpr (std::is_same_v<decltype(stream), CudaStream&>)
            stream.device->wait(CudaQueue::compute, *end_of(*stream.device, CudaQueue::exchanges));
    });
}

PendingReduceScatter begin_reduce_scatter(const Exec& exec, Group& group, const Array& values,
                                          std::span<const ShardRange> shares, int present, Dtype dtype) {
    const auto ranks = static_cast<std::size_t>(group.ranks());
    const std::vector<Group::Extent> extents = extents_of(shares, dtype);
    const std::size_t bytes = extents[static_cast<std::size_t>(group.rank())].bytes;
    std::vector<std::size_t> received(ranks, 0);
    std::fill_n(received.begin(), present, bytes);
    PendingReduceScatter sum{present, exec.scratch(static_cast<std::size_t>(present) * bytes), nullptr};
    begin_exchange(exec, group, values.defined() ? start_of(values) : nullptr,
                   values.defined() ? extents : std::vector<Group::Extent>(ranks),
                   static_cast<std::byte*>(sum.received.data()), side_by_side(received));
    if (auto* cuda = std::get_if<CudaStream>(&exec.stream())) sum.arrived = end_of(*cuda->device, CudaQueue::exchanges);
    return sum;
}

void finish_reduce_scatter(const Exec& exec, const PendingReduceScatter& sum, const Array& own, float beta) {
    if (auto* cuda = std::get_if<CudaStream>(&exec.stream())) cuda->device->wait(CudaQueue::compute, *sum.arrived);
    const std::size_t bytes = static_cast<std::size_t>(own.numel()) * kernels::size_of(own.dtype);
    if (bytes == 0) return;
    auto* const parts = static_cast<std::byte*>(sum.received.data());
    for (int rank = 0; rank < sum.present; ++rank) {
        const View one =
            kernels::contiguous_view(parts + static_cast<std::size_t>(rank) * bytes, own.dtype, own.shape());
        exec.launch([&](auto& stream) { kernels::accumulate(stream, one, own.view(), 1.0f, rank == 0 ? beta : 1.0f); });
    }
}

void begin_all_gather(const Exec& exec, Group& group, const Array& values, std::span<const ShardRange> shares) {
    const std::vector<Group::Extent> extents = extents_of(shares, values.dtype);
    begin_exchange(exec, group, start_of(values), to_all(group, extents[static_cast<std::size_t>(group.rank())]),
                   start_of(values), extents);
}

void all_gather(const Exec& exec, Group& group, const Array& values, std::span<const ShardRange> shares) {
    begin_all_gather(exec, group, values, shares);
    await_exchanges(exec);
}

void all_reduce(const Exec& exec, Group& group, const Array& values) {
    const std::vector<ShardRange> shares = shard_ranges(values.numel(), group.ranks());
    const ShardRange& own = shares[static_cast<std::size_t>(group.rank())];
    finish_reduce_scatter(exec, begin_reduce_scatter(exec, group, values, shares, group.ranks(), values.dtype),
                          part(values, own.first, own.count), 0.0f);
    all_gather(exec, group, values, shares);
}

void all_gather_rows(const Exec& exec, Group& group, const Array& rows) {
    const auto ranks = static_cast<std::size_t>(group.ranks());
    const std::size_t bytes = static_cast<std::size_t>(rows.numel()) * kernels::size_of(rows.dtype) / ranks;
    const std::vector<Group::Extent> all = side_by_side(std::vector<std::size_t>(ranks, bytes));
    begin_exchange(exec, group, start_of(rows), to_all(group, all[static_cast<std::size_t>(group.rank())]),
                   start_of(rows), all);
    await_exchanges(exec);
}

namespace {

/// `bytes` of each rank, one behind another.
std::vector<std::byte> gather_bytes(Group& group, const void* own, const std::vector<std::size_t>& bytes) {
    const std::vector<Group::Extent> receives = side_by_side(bytes);
    std::vector<std::byte> all(receives.back().offset + receives.back().bytes);
    const std::size_t size = bytes[static_cast<std::size_t>(group.rank())];
    group.all_to_all(static_cast<const std::byte*>(own), to_all(group, {0, size}), all.data(), receives);
    return all;
}

template <class T>
std::vector<T> gather_numbers(Group& group, T number) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto ranks = static_cast<std::size_t>(group.ranks());
    const std::vector<std::byte> bytes = gather_bytes(group, &number, std::vector<std::size_t>(ranks, sizeof(T)));
    std::vector<T> numbers(ranks);
    std::memcpy(numbers.data(), bytes.data(), bytes.size());
    return numbers;
}

}  // namespace

std::vector<std::string> all_gather(Group& group, const std::string& text) {
    const std::vector<std::size_t> sizes = gather_numbers(group, text.size());
    const std::vector<std::byte> bytes = gather_bytes(group, text.data(), sizes);
    std::vector<std::string> texts;
    std::size_t offset = 0;
    for (const std::size_t size : sizes) {
        texts.emplace_back(reinterpret_cast<const char*>(bytes.data()) + offset, size);
        offset += size;
    }
    return texts;
}

std::vector<std::byte> all_gather(Group& group, std::span<const std::byte> bytes) {
    return gather_bytes(group, bytes.data(), gather_numbers(group, bytes.size()));
}

std::vector<double> all_gather(Group& group, double number) { return gather_numbers(group, number); }

std::uint64_t any(Group& group, std::uint64_t bits) {
    std::uint64_t all = 0;
    for (const std::uint64_t one : gather_numbers(group, bits)) all |= one;
    return all;
}

}  // namespace headroom
