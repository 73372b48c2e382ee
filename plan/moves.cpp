#include <headroom/plan/internal/moves.hpp>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <headroom/plan/internal/kind_of.hpp>

namespace headroom::plan {

namespace {

constexpr std::uint32_t kNone = RecordedValue::kNone;
constexpr std::uint32_t kNear = 32;     // ops about a place
constexpr std::uint32_t kSegment = 24;  // ops in a row that one move changes, at most

/// Of each op: whether backward wants what it made at moments that are long apart.
std::vector<bool> waits_long(const RecordedProgram& program) {
    std::vector<bool> result(program.ops.size());
    std::vector<std::uint32_t> before(program.values.size(), kNone);
    for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
        if (!program.ops[op].differentiable) continue;
        for (const std::uint32_t value : program.ops[op].saved) {
            const std::uint32_t producer = program.values[value].producer;
            if (producer == kNone) continue;
            if (before[value] != kNone && before[value] + kLongDropDistance <= op) result[producer] = true;
            before[value] = op;
        }
    }
    return result;
}

/// Ops of each module, with those inside of it, and the same op of all modules of a kind: where there are several.
std::vector<std::vector<std::uint32_t>> groups_of(const RecordedProgram& program) {
    std::map<std::string, std::vector<std::uint32_t>> modules;
    std::map<std::tuple<std::string, std::uint32_t, std::string>, std::vector<std::uint32_t>> kinds;
    for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
        const RecordedOp& its = program.ops[op];
        for (std::size_t end = its.path.find('.'); !its.path.empty(); end = its.path.find('.', end + 1)) {
            modules[its.path.substr(0, end)].push_back(op);
            if (end == std::string::npos) break;
        }
        kinds[{kind_of(its.path), its.ordinal, its.name}].push_back(op);
    }
    std::vector<std::vector<std::uint32_t>> result;
    for (auto& [name, ops] : modules) result.push_back(std::move(ops));
    for (auto& [name, ops] : kinds) result.push_back(std::move(ops));
    std::erase_if(result, [](const auto& ops) { return ops.size() < 2; });
    return result;
}

std::vector<std::vector<std::uint32_t>> related_of(const RecordedProgram& program) {
    std::vector<std::vector<std::uint32_t>> result(program.ops.size());
    for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
        for (const RecordedInput& input : program.ops[op].inputs) {
            const std::uint32_t producer = input.value == kNone ? kNone : program.values[input.value].producer;
            if (producer == kNone) continue;
            result[op].push_back(producer);
            result[producer].push_back(op);
        }
    }
    return result;
}

}  // namespace

Moves::Moves(const RecordedProgram& program) : groups_(groups_of(program)), related_(related_of(program)) {
    std::map<std::tuple<std::string, std::uint32_t, std::uint32_t>, std::uint32_t> casts;
    std::vector<std::uint32_t> readers(program.values.size());
    for (const RecordedOp& op : program.ops) {
        for (const RecordedInput& input : op.inputs) {
            if (input.value != kNone) ++readers[input.value];
        }
    }
    const std::vector<bool> waits = waits_long(program);
    for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
        const RecordedOp& its = program.ops[op];
        const bool has_same = its.is_cast && its.in_micro_batch;
        same_.push_back(has_same ? casts.try_emplace({its.path, its.call, its.ordinal}, op).first->second : op);
        const bool by_itself = its.replays > 0;
        std::vector<Answer>& choices = choices_.emplace_back(1, by_itself ? Answer::recompute : Answer::keep);
        if (by_itself || !its.in_micro_batch) continue;
        if (its.is_cast && readers[its.outputs.front()] > 1) {
            choices_[same_[op]].resize(1);  // of all that have its name
            continue;
        }
        choices.emplace_back(Answer::recompute);
        if (waits[op]) choices.emplace_back(Answer::recompute, kLongDropDistance);
    }
}

void Moves::unite(Answers& answers) const {
    for (std::size_t op = 0; op < answers.size(); ++op) {
        answers[op] = choices_[op].size() == 1 ? choices_[op].front() : answers[same_[op]];
    }
}

void Moves::change(Answers& answers, std::uint32_t op, std::mt19937_64& random) const {
    const std::vector<Answer>& choices = choices_[op];
    const std::size_t start = random() % choices.size();
    answers[op] = choices[choices[start] == answers[op] ? (start + 1) % choices.size() : start];
}

void Moves::change(Answers& answers, std::span<const std::uint32_t> ops, std::mt19937_64& random) const {
    const std::vector<Answer>& choices = choices_[ops[random() % ops.size()]];
    const Answer answer = choices[random() % choices.size()];
    for (const std::uint32_t op : ops) {
        const bool may = std::find(choices_[op].begin(), choices_[op].end(), answer) != choices_[op].end();
        if (may) answers[op] = answer;
    }
}

void Moves::draw(Answers& answers, std::mt19937_64& random, std::uint32_t about) const {
    const auto count = static_cast<std::uint32_t>(answers.size());
    const auto drawn = [&](std::uint32_t begin, std::uint32_t end) {
        return begin + static_cast<std::uint32_t>(random() % (end - begin));
    };
    const std::uint32_t near = drawn(about - std::min(about, kNear), std::min(about + kNear, count));
    const std::uint32_t op = random() % 2 == 0 ? near : drawn(0, count);
    switch (random() % 6) {
        case 0:
        case 1:
            change(answers, op, random);
            break;
        case 2: {  // with what it reads from, or what reads from it
            const std::vector<std::uint32_t>& related = related_[op];
            change(answers, op, random);
            if (!related.empty()) change(answers, related[random() % related.size()], random);
            break;
        }
        case 3:
            change(answers, op, random);
            change(answers, drawn(0, count), random);
            break;
        case 4: {
            std::vector<std::uint32_t> segment;
            const std::uint32_t most = std::min(kSegment, count - op);
            for (std::uint32_t i = drawn(0, most) + 1; i-- > 0;) segment.push_back(op + i);
            change(answers, segment, random);
            break;
        }
        default:
            if (groups_.empty()) return change(answers, op, random);
            change(answers, groups_[random() % groups_.size()], random);
    }
}

}  // namespace headroom::plan
