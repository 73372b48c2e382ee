#include <headroom/memory/plan/occupancy.hpp>

#include <bit>

namespace headroom {
namespace {

constexpr std::uint64_t kOne = 1;

/// The bits 0, ..., n of a word.
constexpr std::uint64_t up_to(std::uint32_t n) { return ~std::uint64_t{0} >> (63 - n); }

std::uint32_t highest(std::uint64_t word) { return 63 - static_cast<std::uint32_t>(std::countl_zero(word)); }

}  // namespace

Occupancy::Occupancy(std::uint32_t parts)
    : runs_(parts), starts_((parts + 63) / 64), nonzero_((starts_.size() + 63) / 64) {
    if (parts > 0) begin_run(0, {parts, kNobody});
}

void Occupancy::take(std::uint32_t first, std::uint32_t last, std::uint32_t occupant) noexcept {
    if (first >= last) return;
    std::uint32_t run = run_of(first);
    Run cut = runs_[run];
    if (run < first) {
        runs_[run].end = first;
    } else {
        end_run(run);
    }
    while (cut.end < last) {
        run = cut.end;
        cut = runs_[run];
        end_run(run);
    }
    if (cut.end > last) begin_run(last, cut);
    begin_run(first, {last, occupant});
}

/// The first part of the run that `part` belongs to. Constant time but for one step per 4096 parts.
std::uint32_t Occupancy::run_of(std::uint32_t part) const noexcept {
    std::uint32_t word = part / 64;
    std::uint64_t bits = starts_[word] & up_to(part % 64);
    if (!bits) {
        // The run of part 0 has its bit set: there is a word below.
        std::uint32_t group = word / 64;
        std::uint64_t words = nonzero_[group] & (up_to(word % 64) >> 1);
        while (!words) words = nonzero_[--group];
        word = group * 64 + highest(words);
        bits = starts_[word];
    }
    return word * 64 + highest(bits);
}

void Occupancy::begin_run(std::uint32_t part, Run run) noexcept {
    runs_[part] = run;
    const std::uint32_t word = part / 64;
    starts_[word] |= kOne << (part % 64);
    nonzero_[word / 64] |= kOne << (word % 64);
}

void Occupancy::end_run(std::uint32_t part) noexcept {
    const std::uint32_t word = part / 64;
    starts_[word] &= ~(kOne << (part % 64));
    if (!starts_[word]) nonzero_[word / 64] &= ~(kOne << (word % 64));
}

}  // namespace headroom
