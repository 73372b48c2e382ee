#include <headroom/memory/history/html_report.hpp>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>
#include <headroom/memory/history/internal/file_writer.hpp>
#include <headroom/memory/history/internal/report_page.hpp>
#include <headroom/memory/history/internal/timeline.hpp>

namespace headroom::memory {

namespace {

using Kind = MemoryEvent::Kind;

/// Numbers of seven bits per byte, the lowest first; report/data.js reads them.
class Numbers {
  public:
    void add(std::uint64_t value) {
        while (value >= 128) {
            bytes_ += static_cast<char>(value | 128);
            value >>= 7;
        }
        bytes_ += static_cast<char>(value);
    }
    void add_signed(std::int64_t value) {
        add(static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63));
    }
    const std::string& bytes() const { return bytes_; }

  private:
    std::string bytes_;
};

/// One snapshot as a JSON object. Sizes and addresses in the data are multiples of a unit, addresses are relative.
class SnapshotData {
  public:
    SnapshotData(const NamedSnapshot& named, std::string& out)
        : title_(named.title),
          rehearsed_(named.rehearsed),
          snapshot_(*named.snapshot),
          timeline_(make_timeline(snapshot_)),
          out_(out) {
        find_unit();
    }

    void write() {
        const MemoryStatistics& s = snapshot_.statistics;
        const std::uint64_t origin = snapshot_.events.empty() ? snapshot_.time : snapshot_.events.front().time;
        out_ += "{\"title\":";
        append_json(out_, title_);
        fmt::format_to(std::back_inserter(out_), ",\"rehearsed\":{},\"device\":", rehearsed_);
        append_json(out_, snapshot_.device);
        categories();
        fmt::format_to(std::back_inserter(out_),
                       ",\"limit\":{},\"askedLimit\":{},\"page\":{},\"allocated\":{},\"peak\":{},\"reserved\":{},"
                       "\"peakReserved\":{},\"dropped\":{},"
                       "\"start\":[{}],\"startReserved\":{}",
                       snapshot_.limit, snapshot_.asked_limit, snapshot_.page_bytes, s.allocated, s.peak_allocated,
                       s.reserved, s.peak_reserved, snapshot_.events_dropped, fmt::join(timeline_.start.live, ","),
                       timeline_.start.reserved);
        fmt::format_to(std::back_inserter(out_), ",\"unit\":{}", unit_);
        paths();
        segments();
        steps();
        older_blocks();
        events(origin);
        out_ += '}';
    }

  private:
    template <class Visit>
    void each_address(Visit&& visit) const {
        for (const MemoryEvent& event : snapshot_.events) {
            if (event.kind != Kind::out_of_memory) visit(event.address, event.bytes);
        }
        for (const BlockLife& block : timeline_.blocks) visit(block.address, block.bytes);
        for (const Segment& segment : snapshot_.segments) visit(segment.address, segment.bytes);
    }

    void find_unit() {
        bool first = true;
        each_address([&](std::uintptr_t address, std::size_t) {
            base_ = first ? address : std::min(base_, address);
            first = false;
        });
        std::uint64_t unit = 0;
        each_address([&](std::uintptr_t address, std::size_t bytes) {
            if (unit == 1) return;
            unit = std::gcd(unit, std::gcd<std::uint64_t>(address - base_, bytes));
        });
        unit_ = std::max<std::uint64_t>(unit, 1);
    }

    /// Name and layer of each.
    void categories() {
        out_ += ",\"categories\":[";
        std::string_view separator;
        for (const NamedCategory& category : snapshot_.categories) {
            out_ += separator;
            out_ += '[';
            append_json(out_, category.name);
            fmt::format_to(std::back_inserter(out_), ",{}]", category.layer);
            separator = ",";
        }
        out_ += ']';
    }

    void paths() {
        out_ += ",\"paths\":[";
        for (std::size_t i = 0; i < snapshot_.paths.size(); ++i) {
            if (i != 0) out_ += ',';
            append_json(out_, snapshot_.paths[i]);
        }
        out_ += ']';
    }

    /// Address and size in turn.
    void segments() {
        std::vector<std::uint64_t> numbers;
        for (const Segment& segment : snapshot_.segments) {
            numbers.push_back((segment.address - base_) / unit_);
            numbers.push_back(segment.bytes / unit_);
        }
        fmt::format_to(std::back_inserter(out_), ",\"segments\":[{}]", fmt::join(numbers, ","));
    }

    /// Index of the first event and number of the step in turn.
    void steps() {
        std::vector<std::uint64_t> numbers;
        for (std::size_t i = 0; i < snapshot_.events.size(); ++i) {
            if (i != 0 && snapshot_.events[i].step == snapshot_.events[i - 1].step) continue;
            numbers.push_back(i);
            numbers.push_back(snapshot_.events[i].step);
        }
        fmt::format_to(std::back_inserter(out_), ",\"steps\":[{}]", fmt::join(numbers, ","));
    }

    void address(Numbers& numbers, std::uintptr_t address) {
        const auto place = static_cast<std::int64_t>((address - base_) / unit_);
        numbers.add_signed(place - last_place_);
        last_place_ = place;
    }

    void block(Numbers& numbers, const BlockLife& block) {
        numbers.add(block.tag.path);
        numbers.add(block.tag.op);
        numbers.add(block.bytes / unit_);
        numbers.add(block.bytes - std::min(block.bytes, block.requested));
        address(numbers, block.address);
    }

    void append(std::string_view key, std::size_t count, const Numbers& numbers) {
        fmt::format_to(std::back_inserter(out_), ",\"{0}Count\":{1},\"{0}\":\"", key, count);
        append_base64(out_, numbers.bytes());
        out_ += '"';
    }

    void older_blocks() {
        Numbers numbers;
        for (std::size_t i = 0; i < timeline_.older_blocks; ++i) {
            numbers.add(static_cast<std::uint64_t>(timeline_.blocks[i].tag.category));
            block(numbers, timeline_.blocks[i]);
        }
        append("older", timeline_.older_blocks, numbers);
    }

    /// Each event: kind + 8 * category, nanoseconds since the one before, and what its kind needs. A free tells how
    /// many blocks ago its block began.
    void events(std::uint64_t last_time) {
        Numbers numbers;
        std::uint64_t begun = timeline_.older_blocks;
        for (std::size_t i = 0; i < snapshot_.events.size(); ++i) {
            const MemoryEvent& event = snapshot_.events[i];
            numbers.add(static_cast<std::uint64_t>(event.kind) + 8 * static_cast<std::uint64_t>(event.category));
            // Threads may note their events out of order by a little.
            numbers.add(event.time - std::min(event.time, last_time));
            last_time = std::max(last_time, event.time);
            switch (event.kind) {
                case Kind::allocate:
                    block(numbers, timeline_.blocks[begun]);
                    ++begun;
                    break;
                case Kind::free:
                    numbers.add(begun - timeline_.block_of[i]);
                    break;
                case Kind::map:
                case Kind::unmap:
                    numbers.add(event.bytes / unit_);
                    address(numbers, event.address);
                    break;
                case Kind::out_of_memory:
                    numbers.add(event.path);
                    numbers.add(event.requested);
                    break;
            }
        }
        append("events", snapshot_.events.size(), numbers);
    }

    std::string_view title_;
    bool rehearsed_;
    const MemorySnapshot& snapshot_;
    Timeline timeline_;
    std::string& out_;
    std::uintptr_t base_ = 0;
    std::uint64_t unit_ = 1;
    std::int64_t last_place_ = 0;
};

void write_data(std::span<const NamedSnapshot> snapshots, FileWriter& file) {
    file.text += "{\"snapshots\":[";
    for (std::size_t i = 0; i < snapshots.size(); ++i) {
        if (i != 0) file.text += ",\n";
        SnapshotData(snapshots[i], file.text).write();
        file.flush_if_full();
    }
    file.text += "]}";
}

}  // namespace

void write_html_report(std::span<const NamedSnapshot> snapshots, const std::filesystem::path& path) {
    for (const NamedSnapshot& named : snapshots) {
        if (!named.snapshot) throw Error(fmt::format("memory history: there is no snapshot named {}", named.title));
    }
    FileWriter file(path);
    for (const std::string_view part : report_page()) {
        if (part == kReportData) {
            write_data(snapshots, file);
        } else {
            file.text += part;
        }
        file.flush_if_full();
    }
    file.finish();
}

}  // namespace headroom::memory
