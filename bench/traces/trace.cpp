#include <headroom/bench/traces/trace.hpp>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::traces {

namespace {

using Kind = Operation::Kind;

/// What is wrong with the operation where `live` tells which ids are; empty if nothing.
std::string mistake(const Trace& trace, const Operation& operation, const std::vector<bool>& live) {
    switch (operation.kind) {
        case Kind::allocate:
            if (live[operation.id]) return fmt::format("block {} is live already", operation.id);
            if (operation.path >= trace.paths.size()) return fmt::format("there is no path {}", operation.path);
            if (operation.category >= memory::kCategoryCount) return "there is no such category";
            return {};
        case Kind::free:
        case Kind::record_use:
            return live[operation.id] ? std::string() : fmt::format("block {} is not live", operation.id);
        case Kind::wait:
            return operation.stream == operation.awaited ? "a stream waits for itself" : std::string();
        case Kind::step:
            return {};
    }
    return "there is no such operation";
}

}  // namespace

void check(const Trace& trace) {
    if (trace.paths.empty() || !trace.paths.front().empty()) {
        throw Error(fmt::format("trace {}: its first path must be the empty one", trace.name));
    }
    if (id_count(trace) > trace.operations.size()) {
        throw Error(fmt::format("trace {}: an id is larger than the number of operations", trace.name));
    }
    std::vector<bool> live(id_count(trace));
    for (std::size_t i = 0; i < trace.operations.size(); ++i) {
        const Operation& operation = trace.operations[i];
        const std::string wrong = mistake(trace, operation, live);
        if (!wrong.empty()) throw Error(fmt::format("trace {}: operation {}: {}", trace.name, i, wrong));
        if (operation.kind == Kind::allocate) live[operation.id] = true;
        if (operation.kind == Kind::free) live[operation.id] = false;
    }
}

std::size_t steps(const Trace& trace) {
    return static_cast<std::size_t>(
        std::ranges::count(trace.operations, Kind::step, [](const Operation& o) { return o.kind; }));
}

std::size_t id_count(const Trace& trace) {
    std::size_t count = 0;
    for (const Operation& operation : trace.operations) {
        const bool has_id = operation.kind != Kind::wait && operation.kind != Kind::step;
        if (has_id) count = std::max<std::size_t>(count, operation.id + std::size_t{1});
    }
    return count;
}

memory::StreamId stream_count(const Trace& trace) {
    memory::StreamId last = 0;
    for (const Operation& operation : trace.operations) last = std::max({last, operation.stream, operation.awaited});
    return last + 1;
}

std::size_t peak_live(const Trace& trace, std::size_t from_step) {
    std::vector<std::size_t> bytes(id_count(trace));
    std::size_t live = 0;
    std::size_t peak = 0;
    std::size_t step = 0;
    for (const Operation& operation : trace.operations) {
        if (operation.kind == Kind::step) ++step;
        if (operation.kind == Kind::allocate) live += bytes[operation.id] = operation.bytes;
        if (operation.kind == Kind::free) live -= bytes[operation.id];
        if (step >= from_step) peak = std::max(peak, live);
    }
    return peak;
}

Trace trace_of(const memory::MemorySnapshot& snapshot, std::string name, std::string origin) {
    if (snapshot.events_dropped > 0) {
        throw Error(fmt::format("trace {}: the history lost its first {} events; let it keep more", name,
                                snapshot.events_dropped));
    }
    Trace trace{std::move(name), std::move(origin), snapshot.paths, {}};
    if (trace.paths.empty()) trace.paths.emplace_back();
    std::unordered_map<std::uintptr_t, std::uint32_t> live;
    std::vector<std::uint32_t> unused;
    std::uint32_t ids = 0;
    std::uint32_t step = 0;
    for (const memory::MemoryEvent& event : snapshot.events) {
        for (; step < event.step; ++step) trace.operations.push_back({.kind = Kind::step});
        if (event.kind == memory::MemoryEvent::Kind::allocate) {
            if (unused.empty()) unused.push_back(ids++);
            live[event.address] = unused.back();
            trace.operations.push_back({.kind = Kind::allocate,
                                        .category = event.category,
                                        .stream = event.stream,
                                        .id = unused.back(),
                                        .path = event.path,
                                        .bytes = event.requested});
            unused.pop_back();
        } else if (event.kind == memory::MemoryEvent::Kind::free) {
            const auto found = live.find(event.address);
            if (found == live.end()) {
                throw Error(
                    fmt::format("trace {}: a block is freed that was allocated before the history began", trace.name));
            }
            trace.operations.push_back({.kind = Kind::free, .id = found->second});
            unused.push_back(found->second);
            live.erase(found);
        }
    }
    check(trace);
    return trace;
}

}  // namespace headroom::traces
