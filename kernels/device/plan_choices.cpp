#include <headroom/kernels/device/plan_choices.hpp>

#include <fstream>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

constexpr std::string_view kBetween = " | ";

}  // namespace

void PlanTable::write(std::ostream& file) const {
    for (const auto& [key, plan] : plans_) file << kind_ << " " << key << kBetween << plan << "\n";
}

bool PlanTable::read(const std::string& line) {
    const std::string begin = fmt::format("{} ", kind_);
    const std::size_t end = line.rfind(kBetween), first = line.find(kBetween);
    if (!line.starts_with(begin) || first == end || end + kBetween.size() == line.size()) return false;
    plans_.emplace(line.substr(begin.size(), end - begin.size()), line.substr(end + kBetween.size()));
    return true;
}

void PlanTable::append(const std::string& path) const {
    std::ofstream file(path, std::ios::app);
    write(file);
    file.close();
    if (!file) throw FileError(fmt::format("{} choices: {} can't be written", kind_, path));
}

void PlanTable::load(const std::string& path) {
    std::ifstream file(path);
    if (!file) throw FileError(fmt::format("{} choices: {} can't be read", kind_, path));
    const std::string begin = fmt::format("{} ", kind_);
    int number = 1;
    for (std::string line; std::getline(file, line); ++number) {
        if (!line.starts_with(begin) || read(line)) continue;
        throw FileError(
            fmt::format("{} choices: {} is damaged in line {}; delete the file to tune again", kind_, path, number));
    }
}

}  // namespace headroom::kernels
