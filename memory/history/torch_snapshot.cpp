#include <headroom/memory/history/torch_snapshot.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <headroom/memory/history/internal/file_writer.hpp>
#include <headroom/memory/history/internal/pickle_writer.hpp>
#include <headroom/memory/history/internal/timeline.hpp>

namespace headroom::memory {

namespace {

using Kind = MemoryEvent::Kind;

class SnapshotWriter {
  public:
    SnapshotWriter(const MemorySnapshot& snapshot, const std::filesystem::path& path)
        : snapshot_(snapshot), timeline_(make_timeline(snapshot)), file_(path), pickle_(file_.text) {}

    void write() {
        pickle_.begin();
        pickle_.dict([&] {
            pickle_.string("segments");
            segments();
            pickle_.string("device_traces");
            traces();
            pickle_.string("allocator_settings");
            pickle_.dict([&] {
                pickle_.string("expandable_segments");
                pickle_.boolean(true);
                pickle_.string("trace_alloc_overflowed");
                pickle_.boolean(snapshot_.events_dropped != 0);
            });
            pickle_.string("external_annotations");
            pickle_.begin_list();
            pickle_.end_list();
        });
        pickle_.end();
        file_.finish();
    }

  private:
    void field(std::string_view key, std::uint64_t value) {
        pickle_.string(key);
        pickle_.integer(static_cast<std::int64_t>(value));
    }
    void field(std::string_view key, std::string_view value) {
        pickle_.string(key);
        pickle_.string(value);
    }

    void segments() {
        std::vector<BlockInfo> blocks = snapshot_.blocks;
        std::sort(blocks.begin(), blocks.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
        std::uint64_t count = 0;
        auto block = blocks.begin();
        pickle_.begin_list();
        for (const Segment& segment : snapshot_.segments) {
            while (block != blocks.end() && block->address < segment.address) ++block;
            auto end = block;
            while (end != blocks.end() && end->address - segment.address < segment.bytes) ++end;
            write_segment(segment, {block, end});
            block = end;
            pickle_.next(count);
        }
        pickle_.end_list();
    }

    void write_segment(const Segment& segment, const std::vector<BlockInfo>& blocks) {
        std::size_t live = 0, requested = 0;
        for (const BlockInfo& block : blocks) {
            if (!block.live) continue;
            live += block.bytes;
            requested += block.requested;
        }
        pickle_.dict([&] {
            field("device", 0);
            field("address", segment.address);
            field("total_size", segment.bytes);
            field("allocated_size", live);
            field("active_size", live);
            field("requested_size", requested);
            field("stream", 0);  // the viewer joins pages of one stream only, and a segment here serves all of them
            field("segment_type", "large");
            pickle_.string("segment_pool_id");
            pickle_.pair(0, segment.pool);
            pickle_.string("is_expandable");
            pickle_.boolean(true);
            pickle_.string("frames");
            frames({}, {});
            pickle_.string("blocks");
            std::uint64_t count = 0;
            pickle_.begin_list();
            for (const BlockInfo& block : blocks) {
                write_block(block);
                pickle_.next(count);
            }
            pickle_.end_list();
        });
        file_.flush_if_full();
    }

    void write_block(const BlockInfo& block) {
        pickle_.dict([&] {
            field("address", block.address);
            field("size", block.bytes);
            field("requested_size", block.live ? block.requested : 0);
            field("state", block.live ? "active_allocated" : "inactive");
            pickle_.string("frames");
            frames(block.live ? std::optional(block.tag) : std::nullopt, {});
        });
        file_.flush_if_full();
    }

    /// One device, number 0.
    void traces() {
        const std::uint64_t begin = snapshot_.events.empty() ? snapshot_.time : snapshot_.events.front().time;
        MemoryLevel level = timeline_.start;
        std::uint64_t count = 0;
        pickle_.begin_list();
        pickle_.begin_list();
        for (std::size_t i = 0; i < timeline_.older_blocks; ++i) {
            const BlockLife& block = timeline_.blocks[i];
            entry("alloc", block.address, block.bytes, block.stream, begin, block.tag, {});
            pickle_.next(count);
        }
        for (const MemoryEvent& event : snapshot_.events) {
            write_event(event, level, count);
            level.apply(event);
            file_.flush_if_full();
        }
        // The viewer fails on categories without this one.
        entry("snapshot", 0, 0, 0, snapshot_.time, {}, {}, snapshot_.categories.empty() ? "" : "unknown");
        pickle_.end_list();
        pickle_.end_list();
    }

    void write_event(const MemoryEvent& event, const MemoryLevel& level, std::uint64_t& count) {
        const bool pages = event.kind == Kind::map || event.kind == Kind::unmap;
        const auto tag = pages ? std::nullopt : std::optional(Tag{event.category, event.path});
        const auto simple = [&](std::string_view action, StreamId stream) {
            entry(action, event.address, event.bytes, stream, event.time, tag, event.step);
            pickle_.next(count);
        };
        switch (event.kind) {
            case Kind::allocate:
                return simple("alloc", event.stream);
            case Kind::free:
                simple("free_requested", event.stream);
                return simple("free_completed", event.stream);
            case Kind::map:
                return simple("segment_map", 0);
            case Kind::unmap:
                return simple("segment_unmap", 0);
            case Kind::out_of_memory:
                break;
        }
        pickle_.dict([&] {
            const std::size_t left = snapshot_.limit - std::min(snapshot_.limit, level.reserved);
            field("action", "oom");
            field("addr", left);  // the same as device_free, as PyTorch writes it
            field("device_free", left);
            field("size", event.requested);
            field("stream", event.stream);
            field("time_us", event.time / 1000);
            pickle_.string("frames");
            frames(tag, event.step);
        });
        pickle_.next(count);
    }

    void entry(std::string_view action, std::uintptr_t address, std::size_t bytes, StreamId stream, std::uint64_t time,
               std::optional<Tag> tag, std::optional<std::uint32_t> step, std::string_view category = {}) {
        pickle_.dict([&] {
            field("action", action);
            field("addr", address);
            field("size", bytes);
            field("stream", stream);
            field("time_us", time / 1000);
            pickle_.string("frames");
            frames(tag, step);
            if (action == "alloc") category = category_of(*tag);
            if (!category.empty()) field("category", category);
        });
    }

    /// Empty for all where no category has a name, so that the viewer colours blocks in its own way.
    std::string_view category_of(const Tag& tag) const {
        const std::string_view name = name_of(tag.category, snapshot_.categories);
        return name.empty() && !snapshot_.categories.empty() ? "unknown" : name;
    }

    void frame(std::string_view file, std::uint64_t line, std::string_view function) {
        pickle_.dict([&] {
            field("filename", file);
            field("line", line);
            field("name", function);
        });
    }

    /// Innermost first; shown as filename:line:name. None for no tag and no step.
    void frames(std::optional<Tag> tag, std::optional<std::uint32_t> step) {
        const FramesKey key{tag ? (std::uint64_t{tag->path} << 3 | tag->category) + 1 : 0,
                            step ? std::uint64_t{*step} + 1 : 0};
        const auto [known, added] = frames_.try_emplace(key);
        if (!added) return pickle_.get(known->second);
        pickle_.begin_list();
        if (tag) {
            for (std::string_view path = path_of(snapshot_, tag->path); !path.empty();) {
                frame("module", 0, path);
                const std::size_t dot = path.rfind('.');
                path = dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
            }
            if (const std::string_view category = category_of(*tag); !category.empty()) frame("category", 0, category);
        }
        if (step) frame(*step == 0 ? "setup" : "step", *step, "");
        pickle_.end_list();
        known->second = pickle_.put();
    }

    struct FramesKey {
        std::uint64_t tag;
        std::uint64_t step;
        bool operator==(const FramesKey&) const = default;
    };
    struct FramesHash {
        std::size_t operator()(const FramesKey& key) const {
            return (key.step << 32 ^ key.step >> 32 ^ key.tag) * 0x9E3779B97F4A7C15ull >> 7;
        }
    };

    const MemorySnapshot& snapshot_;
    Timeline timeline_;
    FileWriter file_;
    PickleWriter pickle_;
    std::unordered_map<FramesKey, PickleWriter::Memo, FramesHash> frames_;
};

}  // namespace

void write_torch_snapshot(const MemorySnapshot& snapshot, const std::filesystem::path& path) {
    SnapshotWriter(snapshot, path).write();
}

}  // namespace headroom::memory
