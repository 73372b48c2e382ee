#include <headroom/kernels/convolution/internal/reorder.hpp>

#include <algorithm>
#include <atomic>
#include <utility>

#include <fmt/format.h>

#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/round_up.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

using Dims = dnnl::memory::dims;

constexpr std::int64_t kUnit = 64;  // channels

/// Where position [row, column] of the kernel begins, in bytes.
std::int64_t place_of(const dnnl::memory::desc& weight, std::int64_t row, std::int64_t column) {
    Dims sizes = weight.dims(), offsets(sizes.size(), 0);
    *(sizes.end() - 2) = *(sizes.end() - 1) = 1;
    *(offsets.end() - 2) = row, *(offsets.end() - 1) = column;
    const std::int64_t elements = weight.submemory_desc(sizes, offsets).data.offset0;
    return elements * static_cast<std::int64_t>(dnnl::memory::data_type_size(weight.data_type()));
}

}  // namespace

void check_library(dnnl_status_t status) {
    if (status != dnnl_success)
        throw DeviceError(fmt::format("convolution: oneDNN failed with status {}", int{status}));
}

Reorder::Reorder(const dnnl::engine& engine, const dnnl::memory::desc& from, const dnnl::memory::desc& to, float beta,
                 int threads, bool turned) {
    Dims sizes = from.dims(), offsets(sizes.size(), 0);
    const std::int64_t rows = turned ? std::exchange(*(sizes.end() - 2), 1) : 1;
    const std::int64_t columns = turned ? std::exchange(*(sizes.end() - 1), 1) : 1;
    for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j)
            taps_.push_back({place_of(from, i, j), place_of(to, rows - 1 - i, columns - 1 - j)});
    }
    const std::int64_t all = sizes[0];
    const std::int64_t step = sizes.size() == 4 ? quotient_up(quotient_up(all, threads), kUnit) * kUnit : all;
    for (; offsets[0] < all; offsets[0] += step) {
        sizes[0] = std::min(step, all - offsets[0]);
        dnnl::primitive_attr attributes;
        attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
        dnnl::post_ops operations;
        if (beta != 0) operations.append_sum(beta);
        attributes.set_post_ops(operations);
        const auto source = from.submemory_desc(sizes, offsets), target = to.submemory_desc(sizes, offsets);
        const dnnl::reorder::primitive_desc description(engine, source, engine, target, attributes);
        if (description.scratchpad_desc().get_size() != 0)
            throw dnnl::error(dnnl_unimplemented, "the reorder would need scratch");
        parts_.push_back({description, {}, {source, engine, DNNL_MEMORY_NONE}, {target, engine, DNNL_MEMORY_NONE}});
    }
    cost_ = static_cast<std::int64_t>(from.get_size());
}

void Reorder::run(const CpuStream& stream, const dnnl::stream& queue, const std::byte* from, std::byte* to) {
    std::atomic<dnnl_status_t> failure{dnnl_success};
    for (Part& part : parts_) {
        if (!part.primitive) part.primitive = dnnl::reorder(part.description);
    }
    parallel_for(stream, static_cast<std::int64_t>(parts_.size()), cost_, [&](std::int64_t i) {
        const OneThread scope;
        Part& part = parts_[static_cast<std::size_t>(i)];
        const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, part.from.get()}, {DNNL_ARG_TO, part.to.get()}};
        for (const Tap& tap : taps_) {
            dnnl_memory_set_data_handle(part.from.get(), const_cast<std::byte*>(from) + tap.from);
            dnnl_memory_set_data_handle(part.to.get(), to + tap.to);
            const auto status = dnnl_primitive_execute(part.primitive.get(), queue.get(), 2, arguments);
            if (status != dnnl_success) failure = status;
        }
    });
    check_library(failure);
}

}  // namespace headroom::kernels
