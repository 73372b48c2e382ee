#include <headroom/training/history_file.hpp>

#include <filesystem>

#include <fmt/format.h>

#include <headroom/memory/history/chrome_trace.hpp>
#include <headroom/memory/history/html_report.hpp>
#include <headroom/memory/history/torch_snapshot.hpp>
#include <headroom/memory/out_of_memory.hpp>
#include <headroom/training/say.hpp>

namespace headroom::training {

namespace {

constexpr std::size_t kEvents = 2'000'000;  // 112 MB, taken when they are needed

void write(const Context& context, const std::string& file, const std::string& title) {
    const memory::MemorySnapshot snapshot = context.shared_memory()->snapshot();
    const std::string suffix = std::filesystem::path(file).extension().string();
    if (suffix == ".html") {
        const memory::NamedSnapshot named{title, &snapshot, context.dry()};
        memory::write_html_report({&named, 1}, file);
    } else if (suffix == ".json") {
        memory::write_chrome_trace(snapshot, file);
    } else {
        memory::write_torch_snapshot(snapshot, file);
    }
    say("memory history written to {}", file);
}

}  // namespace

std::string history_file_problem(const std::string& file) {
    const std::string suffix = std::filesystem::path(file).extension().string();
    if (suffix == ".html" || suffix == ".json" || suffix == ".pickle") return "";
    return fmt::format("{} must end with .html, .json or .pickle", file);
}

void with_history(Context& context, const std::string& file, const std::string& title,
                  const std::function<void()>& body, bool complete) {
    if (file.empty()) {
        body();
        return;
    }
    context.memory().start_history(kEvents);
    try {
        body();
    } catch (const OutOfMemory&) {
        write(context, file, title);
        throw;
    }
    if (complete) write(context, file, title);
}

}  // namespace headroom::training
