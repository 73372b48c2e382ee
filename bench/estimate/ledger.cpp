#include <headroom/bench/estimate/ledger.hpp>

#include <fstream>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::estimate {

using kernels::View;

void Ledger::add(const std::string& kernel, const std::string& rate, const Work& work) {
    Work& all = open_.try_emplace({kernel, rate}, Work{.launches = 0}).first->second;
    all.bytes += work.bytes;
    all.operations += work.operations;
    all.launches += work.launches;
}

void Ledger::add(const Ledger& other) {
    for (const auto& [key, work] : other.open_) add(key.first, key.second, work);
}

void Ledger::close_window() {
    if (!open_.empty()) closed_ = std::exchange(open_, {});
}

void Ledger::write(const std::string& file) const {
    std::ofstream out(file);
    out << "[";
    const char* separator = "\n";
    for (const auto& [key, work] : closed_) {
        out << separator
            << fmt::format(R"({{"kernel": "{}", "rate": "{}", "launches": {}, "bytes": {:.0f}, "operations": {:.0f}}})",
                           key.first, key.second, work.launches, work.bytes, work.operations);
        separator = ",\n";
    }
    out << "\n]\n";
    out.close();
    if (!out) throw FileError(fmt::format("ledger: {} can't be written", file));
}

double bytes_of(const View& view) {
    auto bytes = static_cast<double>(kernels::size_of(view.dtype));
    for (int axis = 0; axis < view.rank(); ++axis) {
        if (view.stride(axis) != 0 || view.size(axis) == 0) bytes *= static_cast<double>(view.size(axis));
    }
    return bytes;
}

void count(kernels::CudaStream& stream, const std::string& kernel, std::initializer_list<const View*> arrays,
           float beta, int launches) {
    Work work{.launches = launches};
    std::string text;
    const View* last = nullptr;
    for (const View* array : arrays) {
        if (array == nullptr) continue;
        work.bytes += bytes_of(*array);
        if (last == nullptr) text = fmt::format("{} {}", kernel, array->shape.to_string());
        text += fmt::format(" {}", name(array->dtype));
        last = array;
    }
    if (beta != 0) work.bytes += bytes_of(*last);
    ledger_of(stream).add(text, "", work);
}

}  // namespace headroom::estimate
