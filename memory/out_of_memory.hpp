#pragma once
// The error for a request that exceeds the limit or the device, with the figures at that moment. Nothing was allocated,
// so a program may catch it, make the batch smaller and go on.
//
//     try {
//         train(batch);
//     } catch (const OutOfMemory& error) {
//         fmt::print("{}", error.report().to_string());
//     }
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <headroom/memory/error.hpp>
#include <headroom/memory/statistics.hpp>

namespace headroom::memory {

/// Modules whose paths differ only in a number, such as "blocks.*". A policy on that pattern reaches all of them.
struct RepeatedModules {
    std::string pattern;
    std::size_t count = 0;  ///< number of such modules
    std::size_t bytes = 0;  ///< live bytes in and below them
};

/// All sizes in bytes. device_total = device_free + others() + reserved;
/// reserved = live + cached + pending + held_for_graphs, live being `statistics.allocated`.
struct MemoryReport {
    std::string device;
    bool rehearsal = false;                 ///< a dry run on a simulated device
    std::size_t requested = 0;              ///< bytes that the failed call asked for
    std::size_t rounded = 0;                ///< `requested`, rounded up to the size of a block
    Tag tag{};                              ///< purpose of the request
    std::vector<NamedCategory> categories;  ///< `MemoryOptions::categories`
    std::string path;                       ///< module path of the request
    std::size_t limit = 0;                  ///< the bytes that may be reserved if a limit was set, else 0
    std::size_t reserve = 0;                ///< `MemoryOptions::reserve`
    std::size_t page_bytes = 1;             ///< reserved bytes are a multiple of this
    std::size_t device_total = 0;
    std::size_t device_free = 0;
    MemoryStatistics statistics;
    std::size_t cached = 0;       ///< free for the request's stream, but fragmented or too small
    std::size_t beside_live = 0;  ///< part of `cached` on pages that also hold live blocks, so it can't move elsewhere
    std::size_t live_pages = 0;   ///< pages that hold live blocks, without open private pools
    std::size_t pending = 0;      ///< freed, but work on other streams may still use it
    std::size_t held_for_graphs = 0;                                 ///< free, in open private pools
    std::size_t largest_obtainable = 0;                              ///< the largest request that would have succeeded
    std::vector<std::pair<std::string, std::size_t>> largest_paths;  ///< live bytes, the ten largest, descending
    std::array<std::size_t, kCategoryCount> outside_modules{};       ///< live bytes of the empty path, by category
    std::vector<RepeatedModules> repeated;                           ///< descending by bytes
    /// Peak of the whole program without a limit; set by code that has rehearsed the program.
    std::optional<MemoryPeak> whole;
    std::size_t whole_limit = 0;  ///< a limit under which a dry run of the whole program passed; 0: none known
    std::string advice;           ///< what to do: from `MemoryOptions::advise`, or set by the program

    /// Bytes of the device in use outside this allocator.
    std::size_t others() const noexcept;
    /// Bytes that this allocator could reserve without a limit: the total minus the larger of `reserve` and `others()`.
    std::size_t available() const noexcept;
    /// Bytes that may be live, in whole pages: what the limit or the device allows, minus the memory held for graphs.
    std::size_t usable() const noexcept;
    /// A limit under which this request would have succeeded; later requests may need more.
    std::size_t request_limit() const noexcept;
    /// A human-readable report of several lines.
    std::string to_string() const;
};

/// Default advice, computed from the report: request less, free memory, or raise the limit.
std::string advise(const MemoryReport& report);

class OutOfMemory : public Error {
  public:
    /// The message is one line: request, limit, live and reserved bytes.
    explicit OutOfMemory(MemoryReport report);
    /// With a custom message, for memory that is not a device's.
    OutOfMemory(const std::string& message, MemoryReport report);
    const MemoryReport& report() const noexcept { return report_; }

  private:
    MemoryReport report_;
};

/// "12.3 MB": human-readable, in powers of 1000; exact below 10,000 bytes.
std::string format_bytes(std::size_t bytes);

}  // namespace headroom::memory
