#pragma once
// What a program asked of an allocator, in order: the material on which allocators are compared. A trace knows sizes as
// requested, streams and order, nothing of addresses, so that each allocator rounds and places as it likes. Files are
// text, maybe packed by gzip, so that a replay in another language reads the very same ones. Not for timing a single
// call: see bench/memory/allocator_bench.cpp.
//
//     Trace trace = read_trace("bench/traces/recorded/fixed.trace.gz");
//     fmt::print("{}: {} steps, {} bytes at most\n", trace.name, steps(trace), peak_live(trace));
//     write_trace(trace, "copy.trace");  // readable; "copy.trace.gz" would be packed
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include <headroom/memory/history.hpp>
#include <headroom/memory/stream_id.hpp>
#include <headroom/memory/tag.hpp>

namespace headroom::traces {

struct Operation {
    enum class Kind : std::uint8_t {
        allocate,
        free,
        record_use,  ///< work queued on `stream` uses the block
        wait,        ///< `stream` waits for what was queued on `awaited` so far, as the program itself asked
        step,        ///< a training step begins
    };

    Kind kind = Kind::step;
    memory::CategoryId category = memory::kNoCategory;  ///< of allocate
    memory::StreamId stream = 0;                        ///< of allocate, record_use, wait
    memory::StreamId awaited = 0;                       ///< of wait
    std::uint32_t id = 0;     ///< of allocate, free, record_use; free to be used again after the free
    memory::PathId path = 0;  ///< of allocate: its place in `Trace::paths`
    std::size_t bytes = 0;    ///< of allocate, as requested

    bool operator==(const Operation&) const = default;
};

/// What comes before the first step is preparation; the last step ends with the trace. Blocks may be live at its end.
struct Trace {
    std::string name;                    ///< as of the file
    std::string origin;                  ///< one line: the program that it was taken from
    std::vector<std::string> paths{""};  ///< of modules; the first is empty
    std::vector<Operation> operations;

    bool operator==(const Trace&) const = default;
};

/// Errors: Error that names the first operation that can't be: an id that is live already or not live, a path or
/// category that isn't there, a stream that waits for itself.
void check(const Trace& trace);

std::size_t steps(const Trace& trace);
/// One more than the largest id, 0 without allocations.
std::size_t id_count(const Trace& trace);
/// One more than the largest stream.
memory::StreamId stream_count(const Trace& trace);
/// The most bytes that were live at a time, as requested, counted from the begin of step `from_step` on (0 being the
/// preparation), what is live then included.
std::size_t peak_live(const Trace& trace, std::size_t from_step = 0);

/// The trace of a run whose history is complete. Errors: Error if events were dropped, or a block is freed whose
/// allocation the history doesn't know.
Trace trace_of(const memory::MemorySnapshot& snapshot, std::string name, std::string origin);

/// Text, one operation per line; format.md says how. A file may be packed by gzip, and is written so if its name ends
/// in .gz. Errors: FileError with the file's name and line; what `check` finds is a FileError, too.
Trace read_trace(const std::string& file);
Trace read_trace(std::istream& in, const std::string& file);
void write_trace(const Trace& trace, const std::string& file);
void write_trace(const Trace& trace, std::ostream& out);

}  // namespace headroom::traces
