#include <headroom/memory/history/chrome_trace.hpp>

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <headroom/memory/history/internal/file_writer.hpp>
#include <headroom/memory/history/internal/timeline.hpp>

namespace headroom::memory {

namespace {

using Kind = MemoryEvent::Kind;

constexpr int kStepsThread = 1;
constexpr int kFailuresThread = 2;

class TraceWriter {
  public:
    TraceWriter(const MemorySnapshot& snapshot, const std::filesystem::path& path)
        : snapshot_(snapshot),
          origin_(snapshot.events.empty() ? snapshot.time : snapshot.events.front().time),
          level_(make_timeline(snapshot).start),
          file_(path) {
        const std::size_t named = snapshot.categories.size();
        std::array<bool, kCategoryCount> occurs{};
        for (std::size_t i = 0; i < kCategoryCount; ++i) occurs[i] = level_.live[i] != 0;
        for (const MemoryEvent& event : snapshot.events) {
            if (event.kind == Kind::allocate) occurs[event.category] = true;
        }
        for (std::size_t i = 0; i < named; ++i) {
            if (occurs[i]) series_.push_back({snapshot.categories[i].name, i, i + 1});
        }
        if (std::find(occurs.begin() + named, occurs.end(), true) != occurs.end()) {
            series_.push_back({named == 0 ? "live" : "(no category)", named, kCategoryCount});
        }
    }

    void write() {
        file_.text += "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
        metadata();
        live(origin_);
        counter(origin_, "reserved bytes", "reserved", level_.reserved);
        for (std::size_t i = 0; i < snapshot_.events.size(); ++i) {
            const MemoryEvent& event = snapshot_.events[i];
            // The level before the first event belongs to an earlier step or to none.
            if (i == 0 || event.step != snapshot_.events[i - 1].step) step(event);
            level_.apply(event);
            after(event);
            file_.flush_if_full();
        }
        live(snapshot_.time);
        counter(snapshot_.time, "reserved bytes", "reserved", level_.reserved);
        if (snapshot_.limit != 0) {
            counter(origin_, "budget bytes", "budget", snapshot_.limit);
            counter(snapshot_.time, "budget bytes", "budget", snapshot_.limit);
        }
        file_.text += "\n]}\n";
        file_.finish();
    }

  private:
    auto out() { return std::back_inserter(file_.text); }

    /// Everything of an event but what is particular to its phase.
    void open(std::string_view phase, std::uint64_t time, std::string_view name, int thread = 0) {
        file_.text += first_ ? "" : ",\n";
        first_ = false;
        const std::uint64_t since = time - std::min(time, origin_);
        fmt::format_to(out(), R"({{"ph":"{}","pid":1,"tid":{},"ts":{}.{:03},"name":)", phase, thread, since / 1000,
                       since % 1000);
        append_json(file_.text, name);
    }

    void metadata() {
        const auto label = [&](std::string_view kind, std::string_view name, int thread) {
            open("M", origin_, kind, thread);
            file_.text += R"(,"args":{"name":)";
            append_json(file_.text, name);
            file_.text += "}}";
        };
        label("process_name", fmt::format("Headroom: memory of {}", snapshot_.device), 0);
        label("thread_name", "steps", kStepsThread);
        label("thread_name", "out of memory", kFailuresThread);
    }

    void live(std::uint64_t time) {
        open("C", time, "live bytes");
        file_.text += R"(,"args":{)";
        std::string_view separator;
        for (const Series& series : series_) {
            file_.text += separator;
            append_json(file_.text, series.name);
            const auto first = level_.live.begin();
            fmt::format_to(out(), ":{}", std::accumulate(first + series.begin, first + series.end, std::size_t{0}));
            separator = ",";
        }
        file_.text += "}}";
    }

    void counter(std::uint64_t time, std::string_view name, std::string_view series, std::size_t bytes) {
        open("C", time, name);
        fmt::format_to(out(), R"(,"args":{{"{}":{}}}}})", series, bytes);
    }

    void step(const MemoryEvent& event) {
        open("i", event.time, fmt::format("step {}", event.step), kStepsThread);
        file_.text += R"(,"s":"p"})";
    }

    void after(const MemoryEvent& event) {
        switch (event.kind) {
            case Kind::allocate:
            case Kind::free:
                return live(event.time);
            case Kind::map:
            case Kind::unmap:
                return counter(event.time, "reserved bytes", "reserved", level_.reserved);
            case Kind::out_of_memory:
                return out_of_memory(event);
        }
    }

    void out_of_memory(const MemoryEvent& event) {
        open("i", event.time, "out of memory", kFailuresThread);
        fmt::format_to(out(), R"(,"s":"g","args":{{"requested":{},"live":{},"reserved":{},"step":{})", event.requested,
                       level_.allocated(), level_.reserved, event.step);
        if (const std::string_view category = name_of(event.category, snapshot_.categories); !category.empty()) {
            file_.text += R"(,"category":)";
            append_json(file_.text, category);
        }
        file_.text += R"(,"module":)";
        append_json(file_.text, path_of(snapshot_, event.path));
        file_.text += "}}";
    }

    /// Of the categories from `begin` to `end`.
    struct Series {
        std::string name;
        std::size_t begin;
        std::size_t end;
    };

    const MemorySnapshot& snapshot_;
    std::uint64_t origin_;
    MemoryLevel level_;
    FileWriter file_;
    std::vector<Series> series_;
    bool first_ = true;
};

}  // namespace

void write_chrome_trace(const MemorySnapshot& snapshot, const std::filesystem::path& path) {
    TraceWriter(snapshot, path).write();
}

}  // namespace headroom::memory
