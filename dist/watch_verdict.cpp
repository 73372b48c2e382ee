#include <headroom/dist/internal/watch_verdict.hpp>

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace headroom::dist {

namespace {

/// "rank 2", "ranks 2, 3".
std::string names(const std::vector<std::size_t>& ranks) {
    return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

/// "rank 2 has", "ranks 2, 3 have".
std::string subject(const std::vector<std::size_t>& ranks) {
    return fmt::format("{} {}", names(ranks), ranks.size() == 1 ? "has" : "have");
}

}  // namespace

double WatchedTime::pass(std::chrono::steady_clock::time_point now) {
    const double passed = begun_ ? std::chrono::duration<double>(now - last_).count() : 0;
    begun_ = true;
    last_ = now;
    return std::min(passed, longest_);
}

void WatchedRanks::heard(int rank, const Beat& beat) {
    Rank& of = at(rank);
    if (of.beat != beat) of.still = 0;
    of.beat = beat;
    of.silent = 0;
}

void WatchedRanks::finished(int rank) {
    at(rank).state = State::finished;
    at(rank).still = 0;
}

void WatchedRanks::lost(int rank) {
    if (at(rank).state == State::here) at(rank).state = State::lost;
}

void WatchedRanks::pass(double seconds) {
    for (Rank& rank : ranks_) {
        rank.still += seconds;
        rank.silent += seconds;
        if (rank.state == State::lost) rank.gone += seconds;
    }
}

template <class Condition>
std::vector<std::size_t> WatchedRanks::those(const Condition& condition) const {
    std::vector<std::size_t> found;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        if (condition(ranks_[r])) found.push_back(r);
    }
    return found;
}

std::string WatchedRanks::exchanges_begun() const {
    std::map<std::uint64_t, std::vector<std::size_t>, std::greater<>> ranks;
    for (std::size_t r = 0; r < ranks_.size(); ++r) ranks[ranks_[r].beat.exchanges].push_back(r);
    std::vector<std::string> parts;
    for (const auto& [count, by] : ranks)
        parts.push_back(fmt::format("{} by {}", count, by.size() == ranks_.size() ? "each" : names(by)));
    return fmt::format("{}", fmt::join(parts, ", "));
}

std::string WatchedRanks::verdict() const {
    const auto lost = those([](const Rank& rank) { return rank.state == State::lost && rank.gone >= kGrace; });
    if (!lost.empty()) return fmt::format("{} ended without finishing the job, which ends all ranks", subject(lost));

    const auto still = [&](const Rank& rank) { return rank.still >= patience_; };
    const auto stays = [&](const Rank& rank) { return rank.state == State::here && still(rank); };
    const auto waits = [&](const Rank& rank) { return rank.beat.waits && rank.silent < patience_; };
    if (those([&](const Rank& rank) { return stays(rank) && waits(rank); }).empty()) return "";
    const auto hanging = those([&](const Rank& rank) { return stays(rank) && !waits(rank); });
    if (!hanging.empty()) {
        return fmt::format("{} made no progress for {:g} s while others wait; --rank-timeout sets how long they do",
                           subject(hanging), patience_);
    }
    if (those(still).size() < ranks_.size()) return "";
    const auto finished = those([](const Rank& rank) { return rank.state == State::finished; });
    if (!finished.empty())
        return fmt::format("{} finished, and the others have waited for {:g} s", subject(finished), patience_);
    return fmt::format(
        "all ranks have waited for each other for {:g} s, exchanges begun: {}; --rank-timeout sets how long they do",
        patience_, exchanges_begun());
}

}  // namespace headroom::dist
