#include <headroom/memory/history/chrome_trace.hpp>

#include <iterator>
#include <numeric>

#include <fmt/format.h>

#include <headroom/memory/history/internal/file_writer.hpp>
#include <headroom/memory/history/internal/timeline.hpp>

namespace headroom::memory {

void write_chrome_trace(const MemorySnapshot& snapshot, const std::filesystem::path& path) {
    const std::uint64_t origin = snapshot.events.empty() ? snapshot.time : snapshot.events.front().time;
    MemoryLevel level = make_timeline(snapshot).start;
    FileWriter file(path);
    file.text = "{\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":";
    append_json(file.text, "Headroom: memory of " + snapshot.device);
    file.text += "}}";
    const auto add = [&](std::uint64_t time, const std::string& rest) {
        fmt::format_to(std::back_inserter(file.text), ",\n{{\"pid\":1,\"tid\":1,\"ts\":{}.{:03},{}}}",
                       (time - origin) / 1000, (time - origin) % 1000, rest);
    };
    const auto add_level = [&](std::uint64_t time) {
        std::string live;
        for (std::size_t i = 0; i < snapshot.categories.size(); ++i) {
            append_json(live, snapshot.categories[i].name);
            live += fmt::format(":{},", level.live[i]);
        }
        const auto unnamed = level.live.begin() + static_cast<std::ptrdiff_t>(snapshot.categories.size());
        live += fmt::format("\"other\":{}", std::accumulate(unnamed, level.live.end(), std::size_t{0}));
        add(time, "\"ph\":\"C\",\"name\":\"live bytes\",\"args\":{" + live + "}");
        add(time, fmt::format(R"("ph":"C","name":"reserved bytes","args":{{"reserved":{}}})", level.reserved));
    };
    add_level(origin);
    std::uint64_t step = ~std::uint64_t{0};
    for (const MemoryEvent& event : snapshot.events) {
        if (event.step != step)
            add(event.time, fmt::format(R"("ph":"i","s":"p","name":"{}")",
                                        event.step == 0 ? "setup" : fmt::format("step {}", event.step)));
        step = event.step;
        level.apply(event);
        add_level(event.time);
        if (event.kind == MemoryEvent::Kind::out_of_memory)
            add(event.time, fmt::format(R"("ph":"i","s":"g","name":"out of memory: {} bytes")", event.requested));
        file.flush_if_full();
    }
    add_level(snapshot.time);
    file.text += "\n]}\n";
    file.finish();
}

}  // namespace headroom::memory
