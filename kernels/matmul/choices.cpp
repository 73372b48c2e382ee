#include <headroom/kernels/matmul/internal/choices.hpp>

#include <bit>
#include <fstream>
#include <sstream>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

constexpr const char* kHeading = "headroom matmul choices 1";

std::string line_of(const MatmulChoiceKey& key, const MatmulChoice& choice) {
    std::string line;
    for (const std::int64_t number : key) line += fmt::format("{} ", number);
    for (const std::uint64_t word : choice.words) line += fmt::format(" {:016x}", word);
    return line;
}

/// False if `line` is none of `line_of`'s.
bool parse(const std::string& line, MatmulChoiceKey& key, MatmulChoice& choice) {
    std::istringstream text(line);
    for (std::int64_t& number : key) text >> number;
    for (std::uint64_t& word : choice.words) text >> std::hex >> word;
    choice.tuned = true;
    return text && line == line_of(key, choice);
}

}  // namespace

MatmulChoiceKey choice_key(const Gemm& g, const GemmAlignment& alignment, bool tf32) {
    const auto bits = [](auto value, int shift) { return static_cast<std::int64_t>(value) << shift; };
    // Of a power of two, as its exponent plus 1; 0 for 0.
    const auto aligned = [&](std::uint32_t bytes, int shift) { return bits(std::bit_width(bytes), shift); };
    const std::int64_t flags = bits(g.transpose_a, 0) | bits(g.transpose_b, 1) | bits(g.bias, 2) | bits(tf32, 3) |
                               bits(g.inner, 4) | bits(g.derivative, 5) | bits(g.sums, 6) |
                               bits(g.sums && g.swapped, 7) | bits(g.operand, 8) | bits(g.result, 16) |
                               bits(g.activation, 24);
    const std::int64_t alignments = aligned(alignment.a, 0) | aligned(alignment.b, 8) | aligned(alignment.d, 16) |
                                    aligned(alignment.bias, 24) | aligned(alignment.inner, 32);
    return {g.rows,    g.columns, g.depth,   g.lda,     g.ldb, g.ldd,
            g.batches, g.a_batch, g.b_batch, g.d_batch, flags, alignments};
}

const MatmulChoice* MatmulChoices::find(const MatmulChoiceKey& key) const {
    const auto found = choices_.find(key);
    return found == choices_.end() ? nullptr : &found->second;
}

void MatmulChoices::save(const std::string& path, const std::string& device, std::size_t version) const {
    std::ofstream file(path);
    file << kHeading << "\ndevice " << device << "\ncublaslt " << version << "\nchoices " << choices_.size() << "\n";
    for (const auto& [key, choice] : choices_) file << line_of(key, choice) << "\n";
    file.close();
    if (!file) throw FileError(fmt::format("matmul choices: {} can't be written", path));
}

bool MatmulChoices::load(const std::string& path, const std::string& device, std::size_t version) {
    std::ifstream file(path);
    if (!file) throw FileError(fmt::format("matmul choices: {} can't be read", path));
    const auto refuse = [&](int line) {
        throw FileError(
            fmt::format("matmul choices: {} is damaged in line {}; delete the file to tune again", path, line));
    };
    std::string heading, made_for, of_version, count;
    std::getline(file, heading);
    if (heading != kHeading) refuse(1);
    std::getline(file, made_for);
    std::getline(file, of_version);
    if (!made_for.starts_with("device ")) refuse(2);
    if (!of_version.starts_with("cublaslt ")) refuse(3);
    if (made_for != "device " + device || of_version != fmt::format("cublaslt {}", version)) return false;
    std::getline(file, count);
    std::map<MatmulChoiceKey, MatmulChoice> read;
    int number = 5;
    for (std::string line; std::getline(file, line); ++number) {
        if (line.starts_with("attention ") || line.starts_with("convolution ")) continue;  // those of cuDNN's plans
        MatmulChoiceKey key{};
        MatmulChoice choice;
        if (!parse(line, key, choice)) refuse(number);
        read.emplace(key, choice);
    }
    if (count != fmt::format("choices {}", read.size())) refuse(number);
    choices_.merge(read);
    return true;
}

}  // namespace headroom::kernels
