#pragma once
// The error of a request that the device or the limit can't grant, with the figures of that moment. A program may catch
// it, make the batch smaller and go on: nothing was allocated.
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

/// Modules whose paths differ in a number, such as "blocks.*": a policy on that pattern reaches all of them.
struct RepeatedModules {
    std::string pattern;
    std::size_t count = 0;  ///< of different numbers
    std::size_t bytes = 0;  ///< live, in and below these modules
};

/// All sizes in bytes. device_total = device_free + others() + reserved;
/// reserved = live + cached + pending + held_for_graphs, live being `statistics.allocated`.
struct MemoryReport {
    std::string device;
    bool rehearsal = false;                 ///< the device exists as figures only
    std::size_t requested = 0;              ///< by the call that failed
    std::size_t rounded = 0;                ///< the same, rounded to the allocator's size
    Tag tag{};                              ///< its purpose
    std::vector<NamedCategory> categories;  ///< `MemoryOptions::categories`
    std::string path;                       ///< module path of the request
    std::size_t limit = 0;                  ///< the bytes that may be reserved, if a limit was set; else 0
    std::size_t reserve = 0;                ///< `MemoryOptions::reserve`
    std::size_t page_bytes = 1;             ///< reserved bytes are a multiple of it
    std::size_t device_total = 0;
    std::size_t device_free = 0;
    MemoryStatistics statistics;
    std::size_t cached = 0;              ///< free for the request's stream, but in pieces or too little
    std::size_t beside_live = 0;         ///< of `cached`: in pages that hold live blocks, too, and serve no other place
    std::size_t live_pages = 0;          ///< pages that hold live blocks, open private pools aside
    std::size_t pending = 0;             ///< given back, but work of other streams may still use it
    std::size_t held_for_graphs = 0;     ///< free, in open private pools
    std::size_t largest_obtainable = 0;  ///< largest request that would have been granted
    std::vector<std::pair<std::string, std::size_t>> largest_paths;  ///< live bytes, the ten largest, descending
    std::array<std::size_t, kCategoryCount> outside_modules{};       ///< live bytes of the empty path, by category
    std::vector<RepeatedModules> repeated;                           ///< descending by bytes
    /// The peak of the whole program without a limit; set by code that has rehearsed it.
    std::optional<MemoryPeak> whole;
    std::size_t whole_limit = 0;  ///< a limit with which a rehearsal of the whole program passed; 0: none is known
    std::string advice;           ///< what to do: by `MemoryOptions::advise`, or set by the program

    /// Bytes of the device that are used outside of this allocator.
    std::size_t others() const noexcept;
    /// Bytes of the device that this allocator could reserve without a limit: all but the reserve, or `others()` where
    /// they use more.
    std::size_t available() const noexcept;
    /// Bytes that may be live, in whole pages: what the limit or the device allows, less the memory held for graphs.
    std::size_t usable() const noexcept;
    /// A limit with which this request would have been granted; later requests may need more.
    std::size_t request_limit() const noexcept;
    /// Several lines, for a person.
    std::string to_string() const;
};

/// Advice for a user of the allocator, computed from the report's figures: request less, give memory back, raise the
/// limit.
std::string advise(const MemoryReport& report);

class OutOfMemory : public Error {
  public:
    /// The message is one line: request, limit, live, reserved.
    explicit OutOfMemory(MemoryReport report);
    /// With another message, for memory that is not a device's.
    OutOfMemory(const std::string& message, MemoryReport report);
    const MemoryReport& report() const noexcept { return report_; }

  private:
    MemoryReport report_;
};

/// "12.3 MB" with powers of 1000, for people; exact below 10,000 bytes.
std::string format_bytes(std::size_t bytes);

}  // namespace headroom::memory
