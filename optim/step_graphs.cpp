#include <headroom/optim/internal/step_graphs.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <headroom/kernels/copy/copy.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::optim {

StepGraphEntry& StepGraphs::entry(const StepGraphKind& kind) {
    std::erase_if(entries_, [&](const StepGraphEntry& entry) { return entry.kind.settings != kind.settings; });
    const auto found =
        std::find_if(entries_.begin(), entries_.end(), [&](const StepGraphEntry& entry) { return entry.kind == kind; });
    return found != entries_.end() ? *found : entries_.emplace_back(kind);
}

void StepGraphs::capture(StepGraphEntry& entry, const std::function<void()>& work) {
    try {
        if (!memory_) memory_.emplace(context_);
        entry.graph = std::make_unique<WorkGraph>(*memory_, work);
        return;
    } catch (const CaptureError& error) {
        refusal_ = error.what();
    } catch (const OutOfMemory& error) {
        refusal_ = error.what();
    }
    entry.refused = true;
    entry.inputs.clear();
    const auto has_graph = [](const StepGraphEntry& other) { return other.graph != nullptr; };
    if (std::none_of(entries_.begin(), entries_.end(), has_graph)) memory_.reset();  // others may have its pages
}

void StepGraphs::make_inputs(StepGraphEntry& entry, std::span<const Tensor> inputs) const {
    for (const Tensor& input : inputs) {
        entry.inputs.push_back(context_.from_array(
            context_.exec().empty_like(input.shape(), input.strides(), input.dtype(), Category::inputs)));
    }
}

void StepGraphs::copy_inputs(const StepGraphEntry& entry, std::span<const Tensor> inputs) const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        const View from = inputs[i].array().view(), to = entry.inputs[i].array().view();
        context_.exec().launch([&](auto& stream) { kernels::copy(stream, from, to); });
    }
}

std::vector<std::pair<Geometry, Dtype>> StepGraphs::forms(std::span<const Tensor> inputs) {
    std::vector<std::pair<Geometry, Dtype>> forms;
    for (const Tensor& input : inputs) {
        const Geometry geometry{input.shape(), kernels::dense_strides(input.shape(), input.strides())};
        forms.emplace_back(geometry, input.dtype());
    }
    return forms;
}

void StepGraphs::check_terms(const StepGraphEntry& entry, const HostTerms& terms) {
    if (terms == entry.host_terms) return;
    const auto text = [](std::optional<double> number) {
        return number ? fmt::format("{}", *number) : "on the device";
    };
    const auto [was, is] = std::ranges::mismatch(entry.host_terms, terms);
    if (was == entry.host_terms.end() || is == terms.end())
        throw CaptureError("the number of reported figures changed, but a graph repeats the recorded ones");
    throw CaptureError(
        fmt::format("the number of terms of a {} was {} and now is {}, but a graph repeats the recorded number; if "
                    "equal shapes can have different numbers of terms, count them on the device",
                    is == terms.begin() ? "loss" : "figure", text(*was), text(*is)));
}

}  // namespace headroom::optim
