#include <headroom/core/tape/policy.hpp>

namespace headroom {

Policy inherit_all() {
    return [](const Candidate&) { return Answer::inherit; };
}

Policy keep_all() {
    return [](const Candidate&) { return Answer::keep; };
}

Policy recompute_all() {
    return [](const Candidate&) { return Answer::recompute; };
}

Policy recompute_cheap() {
    return [](const Candidate& op) {
        const bool pays = 2 * op.pinned_bytes <= op.bytes && op.replays <= 2;
        return op.info.cost == Cost::cheap && pays ? Answer::recompute : Answer::keep;
    };
}

namespace {

/// The first segment, and what follows its dot.
std::pair<std::string_view, std::string_view> split_first(std::string_view path) {
    const std::size_t dot = path.find('.');
    if (dot == std::string_view::npos) return {path, {}};
    return {path.substr(0, dot), path.substr(dot + 1)};
}

}  // namespace

bool path_matches(std::string_view pattern, std::string_view path) {
    if (pattern.empty()) return path.empty();
    const auto [first, rest] = split_first(pattern);
    if (first == "**") {
        if (path_matches(rest, path)) return true;
        return !path.empty() && path_matches(pattern, split_first(path).second);
    }
    if (path.empty()) return false;
    const auto [segment, remainder] = split_first(path);
    return (first == "*" || first == segment) && path_matches(rest, remainder);
}

}  // namespace headroom
