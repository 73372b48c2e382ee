// Writes files of a made-up history, for the tests in Python that read them. usage: write_history FOLDER [key=value...]
// Keys: steps, layers, kept, limit. Prints the figures that the files should show, one "key value" per line.
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <headroom/memory/history/chrome_trace.hpp>
#include <headroom/memory/history/html_report.hpp>
#include <headroom/memory/history/timeline.hpp>
#include <headroom/memory/history/torch_snapshot.hpp>
#include <headroom/tests/support/training_history.hpp>

using namespace headroom;

namespace {

bool set(test::TrainingOptions& options, std::string_view argument) {
    const std::size_t equal = argument.find('=');
    if (equal == std::string_view::npos) return false;
    const std::string_view key = argument.substr(0, equal);
    const unsigned long long value = std::stoull(std::string(argument.substr(equal + 1)));
    if (key == "steps")
        options.steps = static_cast<int>(value);
    else if (key == "layers")
        options.layers = static_cast<int>(value);
    else if (key == "kept")
        options.kept = value;
    else if (key == "limit")
        options.limit = value;
    else
        return false;
    return true;
}

void print(std::string_view prefix, const MemorySnapshot& snapshot) {
    const Timeline timeline = make_timeline(snapshot);
    const MemoryStatistics& s = snapshot.statistics;
    fmt::print("{0}.events {1}\n{0}.allocated {2}\n{0}.requested {3}\n{0}.reserved {4}\n{0}.limit {5}\n", prefix,
               snapshot.events.size(), s.allocated, s.requested, s.reserved, snapshot.limit);
    fmt::print("{0}.start {1}\n{0}.peak {2}\n{0}.peak_events {3}\n{0}.older_blocks {4}\n", prefix,
               timeline.start.allocated(), timeline.peak.allocated(), timeline.peak_events, timeline.older_blocks);
    for (std::size_t i = 0; i < kCategoryCount; ++i) {
        fmt::print("{}.peak.{} {}\n", prefix, kCategoryNames[i], timeline.peak.live[i]);
    }
}

}  // namespace

int main(int argc, char** argv) {
    test::TrainingOptions options;
    for (int i = 2; i < argc; ++i) {
        if (!set(options, argv[i])) argc = 0;
    }
    if (argc < 2) {
        fmt::print(stderr, "usage: write_history FOLDER [steps=N] [layers=N] [kept=EVENTS] [limit=BYTES]\n");
        return 2;
    }
    const std::filesystem::path folder = argv[1];
    const MemorySnapshot all = test::training_history(options);
    options.checkpoint = true;
    const MemorySnapshot checkpoint = test::training_history(options);
    const std::array<NamedSnapshot, 2> both{{{"keep all", &all}, {"--checkpoint", &checkpoint}}};
    write_torch_snapshot(all, folder / "snapshot.pickle");
    write_chrome_trace(all, folder / "trace.json");
    write_html_report(both, folder / "report.html");
    write_html_report(std::span(both).first(1), folder / "single.html");
    print("all", all);
    print("checkpoint", checkpoint);
}
