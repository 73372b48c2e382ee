#include <headroom/bench/estimate/ledger.hpp>

#include <fstream>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::estimate {

using kernels::View;

void Ledger::sum_up(const std::string& kernel, const std::string& rate, const Work& work) {
    Work& all = open_.try_emplace({kernel, rate}, Work{.launches = 0}).first->second;
    all.bytes += work.bytes;
    all.operations += work.operations;
    all.launches += work.launches;
    all.queued += work.queued;
    if (forward_) all.results += work.results;
}

void Ledger::add(const std::string& kernel, const std::string& rate, const Work& work) {
    Work queued = work;
    if (queued.queued == 0) queued.queued = work.launches;
    sum_up(kernel, rate, queued);
}

void Ledger::add(const Ledger& graph) {
    const bool forward = std::exchange(forward_, true);  // the other one has told them apart
    for (const auto& [key, work] : graph.open_) {
        Work launched = work;
        launched.queued = 0;
        sum_up(key.first, key.second, launched);
    }
    sum_up("graph", "", {.launches = 0, .queued = 1});
    forward_ = forward;
}

void Ledger::close_window() {
    if (!open_.empty()) closed_ = std::exchange(open_, {});
    forward_ = true;
}

void Ledger::write(const std::string& file) const {
    std::ofstream out(file);
    out << "[";
    const char* separator = "\n";
    for (const auto& [key, work] : closed_) {
        out << separator
            << fmt::format(
                   R"({{"kernel": "{}", "rate": "{}", "launches": {}, "queued": {}, "bytes": {:.0f}, "operations": {:.0f}, "results": {:.0f}}})",
                   key.first, key.second, work.launches, work.queued, work.bytes, work.operations, work.results);
        separator = ",\n";
    }
    out << "\n]\n";
    out.close();
    if (!out) throw FileError(fmt::format("ledger: {} can't be written", file));
}

void count_product(kernels::CudaStream& stream, const std::string& kernel, std::array<std::int64_t, 3> mnk,
                   std::int64_t batches, kernels::Dtype operand, kernels::Dtype result, bool adds) {
    const auto size = [](kernels::Dtype dtype) { return static_cast<double>(kernels::size_of(dtype)); };
    const auto [m, n, k] = mnk;
    const double product = number(m) * number(n), operands = number(k) * (number(m) + number(n)) * size(operand);
    const double written = number(batches) * product * size(result);
    ledger_of(stream).add(fmt::format("{} [{} x {} x {}] {} to {}{}", kernel, m, n, k, name(operand), name(result),
                                      adds ? ", added" : ""),
                          fmt::format("{} {}", kernel, name(operand)),
                          {.bytes = number(batches) * operands + written * (adds ? 2 : 1),
                           .operations = number(batches) * 2 * product * number(k),
                           .results = adds ? 0 : written});
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
