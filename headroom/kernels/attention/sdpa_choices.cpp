#include <headroom/kernels/attention/internal/sdpa_choices.hpp>

#include <fstream>
#include <string_view>

#include <fmt/format.h>

#include <headroom/kernels/attention/attention.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

constexpr std::string_view kBegin = "attention ", kBetween = " | ";

/// Everything that a plan is made for: the budget decides only which parts there are.
std::string text_of(const Sdpa& x, const std::string& place) {
    std::string text =
        fmt::format("{} | {} {} {} {} {} {:a} {} {} {} {} {} {}", place, x.gradient, x.causal, x.deterministic, x.stats,
                    name(x.dtype), x.scale, x.batch, x.queries, x.keys, x.heads, x.key_heads, x.width);
    for (const Sdpa::Strides& strides : {x.q, x.k, x.v, x.o, x.dy, x.dq, x.dk, x.dv}) {
        text += fmt::format(" {}:{}:{}", strides[0], strides[1], strides[2]);
    }
    return text;
}

}  // namespace

const std::string* SdpaChoices::find(const Sdpa& sdpa, const std::string& place) const {
    const auto found = plans_.find(text_of(sdpa, place));
    return found == plans_.end() ? nullptr : &found->second;
}

void SdpaChoices::set(const Sdpa& sdpa, const std::string& place, const std::string& plan) {
    plans_[text_of(sdpa, place)] = plan;
}

void SdpaChoices::write(std::ostream& file) const {
    for (const auto& [key, plan] : plans_) file << kBegin << key << kBetween << plan << "\n";
}

bool SdpaChoices::read(const std::string& line) {
    const std::size_t end = line.rfind(kBetween), first = line.find(kBetween);
    if (!line.starts_with(kBegin) || first == end || end + kBetween.size() == line.size()) return false;
    plans_.emplace(line.substr(kBegin.size(), end - kBegin.size()), line.substr(end + kBetween.size()));
    return true;
}

void append_attention_choices(CudaStream& stream, const std::string& path) {
    std::ofstream file(path, std::ios::app);
    stream.state->get<SdpaChoices>().write(file);
    file.close();
    if (!file) throw FileError(fmt::format("attention choices: {} can't be written", path));
}

void load_attention_choices(CudaStream& stream, const std::string& path) {
    std::ifstream file(path);
    if (!file) throw FileError(fmt::format("attention choices: {} can't be read", path));
    int number = 1;
    for (std::string line; std::getline(file, line); ++number) {
        if (!line.starts_with(kBegin) || stream.state->get<SdpaChoices>().read(line)) continue;
        throw FileError(
            fmt::format("attention choices: {} is damaged in line {}; delete it to choose anew", path, number));
    }
}

}  // namespace headroom::kernels
