#include <headroom/core/tape/policy.hpp>

#include <unordered_map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/memory/error.hpp>

namespace headroom {

bool Rule::fits(const Candidate& candidate) const {
    return (op.empty() || op == candidate.info.name) && (!call || *call == candidate.call) &&
           (!ordinal || *ordinal == candidate.ordinal) && path_matches(path, candidate.path);
}

std::string Rule::to_string() const {
    std::string text = path.empty() ? "the model" : path;
    if (!op.empty()) text += " " + op;
    if (call) text += fmt::format(" call {}", *call);
    if (ordinal) text += fmt::format(" op {}", *ordinal);
    constexpr const char* kChoices[] = {"inherit", "keep", "recompute"};
    text += fmt::format(": {}", kChoices[answer.choice]);
    if (answer.drop_distance) text += fmt::format(", again after {} ops", answer.drop_distance);
    return text;
}

/// Rules by their path, as numbers in ascending order.
class Policy::Index {
  public:
    explicit Index(const std::vector<Rule>& rules) {
        for (std::size_t i = 0; i < rules.size(); ++i) {
            const bool pattern = rules[i].path.find('*') != std::string::npos;
            (pattern ? patterns_ : paths_[rules[i].path]).push_back(i);
        }
    }
    /// The last one that fits; null if there is none.
    const Rule* find(const std::vector<Rule>& rules, const Candidate& candidate) const {
        std::size_t found = last(rules, patterns_, candidate);
        if (const auto own = paths_.find(candidate.path); own != paths_.end()) {
            const std::size_t of_path = last(rules, own->second, candidate);
            if (found == kNone || (of_path != kNone && of_path > found)) found = of_path;
        }
        return found == kNone ? nullptr : &rules[found];
    }

  private:
    static constexpr std::size_t kNone = ~std::size_t{0};
    static std::size_t last(const std::vector<Rule>& rules, const std::vector<std::size_t>& among,
                            const Candidate& candidate) {
        for (auto i = among.rbegin(); i != among.rend(); ++i) {
            if (rules[*i].fits(candidate)) return *i;
        }
        return kNone;
    }
    struct Hash : std::hash<std::string_view> {
        using is_transparent = void;
    };
    std::unordered_map<std::string, std::vector<std::size_t>, Hash, std::equal_to<>> paths_;
    std::vector<std::size_t> patterns_;
};

Policy::Policy(std::vector<Rule> rules) : rules_(std::move(rules)), index_(std::make_shared<const Index>(rules_)) {}

Policy::Policy(Function function, std::string name) : function_(std::move(function)), name_(std::move(name)) {
    if (!function_) throw Error("policy: the function is empty; pass rules or a function");
}

Answer Policy::operator()(const Candidate& candidate) const {
    if (function_) return function_(candidate);
    const Rule* const rule = index_->find(rules_, candidate);
    return rule ? rule->answer : Answer::inherit;
}

std::string Policy::to_string() const {
    if (function_) return name_.empty() ? "a function" : name_;
    std::vector<std::string> lines;
    for (const Rule& rule : rules_) lines.push_back(rule.to_string());
    return fmt::format("{}", fmt::join(lines, "\n"));
}

bool operator==(const Policy& a, const Policy& b) {
    if (a.function_ || b.function_) return !a.name_.empty() && a.name_ == b.name_;
    return a.rules_ == b.rules_;
}

Policy inherit_all() { return Policy(std::vector<Rule>{}); }

Policy keep_all() { return Policy(std::vector<Rule>{{.answer = Answer::keep}}); }

Policy recompute_all() { return Policy(std::vector<Rule>{{.answer = Answer::recompute}}); }

Policy recompute_cheap() {
    const auto cheap = [](const Candidate& op) -> Answer {
        const bool pays = 2 * op.pinned_bytes <= op.bytes && op.replays <= 2;
        if (op.info.cost != Cost::cheap || !pays) return Answer::keep;
        return {Answer::recompute, kLongDropDistance};
    };
    return Policy(cheap, "recompute_cheap");
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
