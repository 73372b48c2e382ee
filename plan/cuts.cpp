#include <headroom/plan/internal/cuts.hpp>

#include <algorithm>

namespace headroom::plan {

Cuts::Cuts(const RecordedProgram& program)
    : program_(program),
      last_use_(program.values.size()),
      crossing_(program.ops.size() + 1),
      made_(program.ops.size() + 1) {
    std::vector<bool> saved(program.values.size());
    for (std::uint32_t op = 0; op < program.ops.size(); ++op) {
        for (const RecordedInput& input : program.ops[op].inputs) {
            if (input.value != RecordedValue::kNone) last_use_[input.value] = op;
        }
        for (const std::uint32_t value : program.ops[op].saved)
            saved[value] = program.ops[op].differentiable || saved[value];
    }
    for (std::uint32_t value = 0; value < program.values.size(); ++value) {
        const RecordedValue& its = program.values[value];
        if (its.producer == RecordedValue::kNone) continue;
        const auto bytes = static_cast<double>(its.bytes);
        if (saved[value]) made_[its.producer + 1] += bytes;
        for (std::uint32_t at = its.producer + 1; at <= last_use_[value]; ++at) crossing_[at] += bytes;
    }
    for (std::size_t i = 1; i < made_.size(); ++i) made_[i] += made_[i - 1];
}

std::uint32_t Cuts::border_at(double share, double width) const {
    const auto at = [&](double part) {
        return std::lower_bound(made_.begin(), made_.end(), made_.back() * part) - made_.begin();
    };
    const auto last = static_cast<std::ptrdiff_t>(program_.ops.size()) - 1;
    const auto first = std::clamp<std::ptrdiff_t>(at(share - width / 2), 0, last);
    const auto end = std::clamp<std::ptrdiff_t>(at(share + width / 2), first + 1, last + 1);
    return static_cast<std::uint32_t>(std::min_element(crossing_.begin() + first, crossing_.begin() + end) -
                                      crossing_.begin());
}

std::vector<Answer> Cuts::cut(std::size_t parts, bool leaning) const {
    const auto count = static_cast<double>(parts);
    double lean = 0;  // by which a part is larger than the next one, of all bytes
    if (leaning) {
        for (std::size_t part = 1; part < parts; ++part) {
            lean += crossing_[border_at(static_cast<double>(part) / count, 1 / count)] / made_.back() / (count - 1);
        }
        lean = std::min(lean, 2 / (count * count));  // the last part is not below nothing
    }
    std::vector<Answer> answers(program_.ops.size(), Answer::recompute);
    double share = 0;
    for (std::size_t part = 1; part < parts; ++part) {
        const double size = 1 / count + lean * ((count + 1) / 2 - static_cast<double>(part));
        share += size;
        const std::uint32_t border = border_at(share, std::min(size, 1 / count));
        for (std::uint32_t value = 0; value < program_.values.size(); ++value) {
            const std::uint32_t producer = program_.values[value].producer;
            if (producer < border && last_use_[value] >= border) answers[producer] = Answer::keep;
        }
    }
    return answers;
}

}  // namespace headroom::plan
