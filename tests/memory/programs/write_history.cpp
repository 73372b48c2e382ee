// Writes files of made-up histories, for the tests in Python that read them. usage: write_history FOLDER [key=value...]
// Keys: steps, layers, kept, limit. Prints the figures that the files should show, one "key value" per line.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <headroom/memory/history/chrome_trace.hpp>
#include <headroom/memory/history/html_report.hpp>
#include <headroom/memory/history/internal/timeline.hpp>
#include <headroom/memory/history/torch_snapshot.hpp>
#include <headroom/tests/memory/timeline_peak.hpp>
#include <headroom/tests/support/training_history.hpp>

using namespace headroom;
using namespace headroom::memory;

namespace {

bool set(headroom::test::TrainingOptions& options, std::string_view argument) {
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
    const memory::test::TimelinePeak peak = memory::test::peak_of(snapshot, timeline);
    const MemoryStatistics& s = snapshot.statistics;
    fmt::print("{0}.events {1}\n{0}.allocated {2}\n{0}.requested {3}\n{0}.reserved {4}\n{0}.limit {5}\n", prefix,
               snapshot.events.size(), s.allocated, s.requested, s.reserved, snapshot.limit);
    fmt::print("{0}.start {1}\n{0}.peak {2}\n{0}.peak_events {3}\n{0}.older_blocks {4}\n", prefix,
               timeline.start.allocated(), peak.level.allocated(), peak.events, timeline.older_blocks);
    std::size_t rounding = 0;
    const std::vector<bool> live = memory::test::live_after(snapshot, timeline, peak.events);
    for (std::size_t i = 0; i < live.size(); ++i) {
        if (live[i]) rounding += timeline.blocks[i].bytes - timeline.blocks[i].requested;
    }
    fmt::print("{}.peak_rounding {}\n", prefix, rounding);
    for (std::size_t i = 0; i < snapshot.categories.size(); ++i) {
        fmt::print("{}.peak.{} {}\n", prefix, snapshot.categories[i].name, peak.level.live[i]);
    }
}

/// Names that a format may stumble over, in the place of some of the history's.
MemorySnapshot with_odd_names(MemorySnapshot snapshot) {
    const std::array<std::string, 6> names = {"a \"quoted\" name", "back\\slash\n\tand\x01",
                                              "</script><!--",     "\xC3\xBC.\xE5\xB1\x82.\xF0\x9F\x98\x80",
                                              "not\xFFutf8\xC3",   std::string("zero\0", 5)};
    for (std::size_t i = 0; i < names.size() && i + 1 < snapshot.paths.size(); ++i) snapshot.paths[i + 1] = names[i];
    snapshot.device = "a \"device\" </script>";
    return snapshot;
}

/// As a device's memory makes it: with ops, whole pages, and a limit that is not one of whole pages.
MemorySnapshot complete(MemorySnapshot snapshot) {
    snapshot.paths.push_back("feed_forward");
    for (MemoryEvent& event : snapshot.events) event.op = static_cast<PathId>(snapshot.paths.size() - 1);
    snapshot.page_bytes = std::size_t{2} << 20;
    snapshot.asked_limit = snapshot.limit + 1'000'000;
    return snapshot;
}

/// With many small blocks that come and go in the step before the last, as in a validation.
MemorySnapshot with_validation(MemorySnapshot snapshot) {
    constexpr std::uint64_t kApart = 1'000'000;
    if (snapshot.events.empty() || snapshot.events.front().step == snapshot.events.back().step) return snapshot;
    const std::uint32_t last = snapshot.events.back().step;
    const auto begin = std::find_if(snapshot.events.begin(), snapshot.events.end(),
                                    [&](const MemoryEvent& event) { return event.step == last; });
    std::vector<MemoryEvent> added;
    const MemoryEvent before = begin[-1];
    for (std::uint64_t i = 1; i <= 5'000; ++i) {
        added.push_back({.time = before.time + i * kApart,
                         .address = std::uintptr_t{1} << 45,
                         .bytes = 4096,
                         .requested = 4096,
                         .step = before.step,
                         .kind = i % 2 == 1 ? MemoryEvent::Kind::allocate : MemoryEvent::Kind::free});
    }
    std::for_each(begin, snapshot.events.end(), [&](MemoryEvent& event) { event.time += 5'001 * kApart; });
    snapshot.time += 5'001 * kApart;
    snapshot.events.insert(begin, added.begin(), added.end());
    return snapshot;
}

const MemorySnapshot kNothing;

}  // namespace

int main(int argc, char** argv) {
    headroom::test::TrainingOptions options;
    for (int i = 2; i < argc; ++i) {
        if (!set(options, argv[i])) argc = 0;
    }
    if (argc < 2) {
        fmt::print(stderr, "usage: write_history FOLDER [steps=N] [layers=N] [kept=EVENTS] [limit=BYTES]\n");
        return 2;
    }
    const std::filesystem::path folder = argv[1];
    const MemorySnapshot all = complete(headroom::test::training_history(options));
    options.checkpoint = true;
    const MemorySnapshot checkpoint = headroom::test::training_history(options);
    const std::array<NamedSnapshot, 2> both{{{"keep all", &all}, {"--recompute blocks", &checkpoint}}};
    write_torch_snapshot(all, folder / "snapshot.pickle");
    write_chrome_trace(all, folder / "trace.json");
    write_html_report(both, folder / "report.html");
    write_html_report(std::span(both).first(1), folder / "single.html");
    MemorySnapshot unlimited = all;
    unlimited.asked_limit = 0;
    const std::array<NamedSnapshot, 1> rehearsed{{{"keep all", &unlimited, true}}};
    write_html_report(rehearsed, folder / "rehearsed.html");
    const MemorySnapshot validated = with_validation(all);
    const std::array<NamedSnapshot, 1> long_step{{{"with a validation", &validated}}};
    write_html_report(long_step, folder / "validation.html");
    MemorySnapshot nameless = all;
    nameless.categories.clear();
    const std::array<NamedSnapshot, 1> without_names{{{"an allocator's", &nameless}}};
    write_html_report(without_names, folder / "nameless.html");
    write_torch_snapshot(nameless, folder / "nameless.pickle");
    write_chrome_trace(nameless, folder / "nameless.json");
    MemorySnapshot own = nameless;
    own.categories = {{"\"weights\"", 1}, {"</script>"}};
    const std::array<NamedSnapshot, 2> different{{{"training", &all}, {"own names", &own}}};
    write_html_report(different, folder / "own.html");
    write_torch_snapshot(own, folder / "own.pickle");
    write_chrome_trace(own, folder / "own.json");
    print("all", all);
    print("checkpoint", checkpoint);

    options.kept = 0;
    const MemorySnapshot none = headroom::test::training_history(options);
    const MemorySnapshot odd = with_odd_names(all);
    const std::array<NamedSnapshot, 3> three{
        {{"</script><b>\"odd\" \xF0\x9F\x98\x80", &odd}, {"no events", &none}, {"nothing", &kNothing}}};
    write_html_report(three, folder / "odd.html");
    write_html_report({}, folder / "none.html");
    write_chrome_trace(odd, folder / "odd.json");
    write_torch_snapshot(odd, folder / "odd.pickle");
    write_chrome_trace(kNothing, folder / "nothing.json");
    write_torch_snapshot(kNothing, folder / "nothing.pickle");
}
