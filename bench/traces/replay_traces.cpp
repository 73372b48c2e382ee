// Replays traces on `DeviceMemory` over a simulated GPU: how much it reserves for what is live, and what it asks of the
// driver. Decides nothing by time, so figures are the same on every machine.
//   replay_traces [--json FILE] [--event-latency CALLS] TRACE...
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <headroom/bench/traces/replay.hpp>
#include <headroom/memory/error.hpp>

namespace {

using namespace headroom;
using namespace headroom::traces;

constexpr std::string_view kUsage = "usage: replay_traces [--json FILE] [--event-latency CALLS] TRACE...";

struct Arguments {
    std::string json;
    std::int64_t event_latency = ReplayOptions{}.event_latency;
    std::vector<std::string> traces;
};

struct Row {
    std::string trace;
    std::size_t steps = 0;
    ReplayResult result;
};

Arguments parse(int argc, char** argv) {
    Arguments arguments;
    const std::vector<std::string> words(argv + 1, argv + argc);
    for (std::size_t i = 0; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (!word.starts_with("--")) {
            arguments.traces.push_back(word);
            continue;
        }
        const std::string value = i + 1 < words.size() ? words[++i] : "";
        const char* const end = value.data() + value.size();
        if (word == "--json" && !value.empty()) {
            arguments.json = value;
        } else if (word != "--event-latency" || value.empty() ||
                   std::from_chars(value.data(), end, arguments.event_latency).ptr != end) {
            throw Error(fmt::format("'{}' is unknown or lacks its value; {}", word, kUsage));
        }
    }
    if (arguments.traces.empty()) throw Error(std::string(kUsage));
    return arguments;
}

double megabytes(std::size_t bytes) { return static_cast<double>(bytes) / 1e6; }

void print_header() {
    fmt::print(
        "live, reserved: the most at a time, MB. Steady: the second half of the steps. Pages are of 2 MiB. Syncs: of "
        "the\n"
        "host. Waits: of one stream for another. Stretch: how much longer streams that run side by side take for "
        "these.\n");
    fmt::print("{:<13} |{:^25} |{:^25} |{:^27} |{:^32} |\n", "", "whole run", "steady state", "warm-up: pages",
               "steady state, per step: pages");
    fmt::print("{:<13} |{:>9}{:>9}{:>7} |{:>9}{:>9}{:>7} |{:>7}{:>7}{:>7}{:>6} |{:>7}{:>6}{:>6}{:>6}{:>7} |{:>8}\n",
               "trace", "live", "reserved", "ratio", "live", "reserved", "ratio", "create", "map", "unmap", "syncs",
               "create", "map", "unmap", "syncs", "waits", "stretch");
}

void print(const Row& row) {
    const ReplayResult& r = row.result;
    const auto per_step = [&](std::uint64_t count) {
        return static_cast<double>(count) / static_cast<double>(r.steady_steps);
    };
    fmt::print("{:<13} |{:>9.1f}{:>9.1f}{:>7.4f} |{:>9.1f}{:>9.1f}{:>7.4f} |{:>7}{:>7}{:>7}{:>6} |", row.trace,
               megabytes(r.whole.live), megabytes(r.whole.reserved), r.whole.ratio(), megabytes(r.steady.live),
               megabytes(r.steady.reserved), r.steady.ratio(), r.warm_up.create, r.warm_up.map, r.warm_up.unmap,
               r.warm_up.synchronize);
    fmt::print("{:>7.1f}{:>6.1f}{:>6.1f}{:>6.1f}{:>7.1f} |{:>8.3f}\n", per_step(r.in_steady.create),
               per_step(r.in_steady.map), per_step(r.in_steady.unmap), per_step(r.in_steady.synchronize),
               per_step(r.in_steady.wait), r.stretch);
}

std::string json(const Peak& peak) {
    return fmt::format(R"({{"live": {}, "live_rounded": {}, "reserved": {}, "ratio": {:.6f}}})", peak.live,
                       peak.rounded, peak.reserved, peak.ratio());
}

std::string json(const DriverCalls& calls) {
    return fmt::format(
        R"({{"create": {}, "destroy": {}, "map": {}, "unmap": {}, "reserve": {}, "record": {}, "passed": {}, "wait": {}, "synchronize": {}}})",
        calls.create, calls.destroy, calls.map, calls.unmap, calls.reserve, calls.record, calls.passed, calls.wait,
        calls.synchronize);
}

void write_json(const std::vector<Row>& rows, const std::string& file) {
    std::ofstream out(file);
    out << "{\n  \"allocator\": \"headroom, simulated GPU, pages of 2 MiB\",\n  \"bytes\": \"peaks\",\n  \"rows\": [";
    std::string_view separator = "\n";
    for (const Row& row : rows) {
        out << separator
            << fmt::format(
                   "    {{\"trace\": \"{}\", \"steps\": {}, \"steady_steps\": {}, "
                   "\"steady_allocations\": {}, \"stretch\": {:.4f},\n     \"whole\": {},\n"
                   "     \"steady\": {},\n     \"warm_up_calls\": {},\n     \"steady_calls\": {}}}",
                   row.trace, row.steps, row.result.steady_steps, row.result.steady_allocations, row.result.stretch,
                   json(row.result.whole), json(row.result.steady), json(row.result.warm_up),
                   json(row.result.in_steady));
        separator = ",\n";
    }
    out << "\n  ]\n}\n";
    out.close();
    if (!out) throw FileError(fmt::format("{}: writing failed", file));
}

void run(const Arguments& arguments) {
    std::vector<Row> rows;
    print_header();
    for (const std::string& file : arguments.traces) {
        const Trace trace = read_trace(file);
        rows.push_back({trace.name, steps(trace), replay(trace, {.event_latency = arguments.event_latency})});
        print(rows.back());
    }
    if (!arguments.json.empty()) write_json(rows, arguments.json);
}

}  // namespace

int main(int argc, char** argv) {
    try {
        run(parse(argc, argv));
    } catch (const std::exception& error) {
        std::fputs(fmt::format("replay_traces: {}\n", error.what()).c_str(), stderr);  // fmt::print would throw
        return 1;
    }
    return 0;
}
