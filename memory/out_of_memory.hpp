#pragma once
// The error of a request that the device or the limit can't grant, with the figures of that moment. A program may catch
// it, make the batch smaller and go on: nothing was allocated.
//
//     try { train(batch); } catch (const headroom::OutOfMemory& error) { fmt::print("{}", error.report().text()); }
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <headroom/memory/error.hpp>
#include <headroom/memory/statistics.hpp>

namespace headroom {

/// All sizes in bytes.
struct MemoryReport {
    std::string device;
    std::size_t requested = 0;  ///< by the call that failed
    std::size_t rounded = 0;    ///< the same, rounded to the allocator's size
    Tag tag{};                  ///< what it was for
    std::string path;           ///< module path of the request
    std::size_t limit = 0;      ///< the budget; 0 if none was set
    std::size_t device_total = 0;
    std::size_t device_free = 0;
    MemoryStatistics statistics;
    std::size_t largest_free_block = 0;
    std::vector<std::pair<std::string, std::size_t>> largest_paths;  ///< live bytes, the ten largest, descending
    std::string advice;  ///< what would fit, from somebody who knows the program; empty: general advice

    /// Several lines, for a person.
    std::string text() const;
};

class OutOfMemory : public Error {
  public:
    /// The message is one line: request, limit, live, reserved.
    explicit OutOfMemory(MemoryReport report);
    const MemoryReport& report() const noexcept { return report_; }

  private:
    MemoryReport report_;
};

/// "12.3 MB" with powers of 1000, for people; exact below 10,000 bytes.
std::string format_bytes(std::size_t bytes);

}  // namespace headroom
