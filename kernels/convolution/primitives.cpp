#include <headroom/kernels/convolution/internal/primitives.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace headroom::kernels {

namespace {

using Dims = dnnl::memory::dims;

Dims with_groups(std::int64_t groups, const Dims& dims) {
    Dims result = dims;
    if (groups > 1) result.insert(result.begin(), groups);
    return result;
}

/// Padding behind the last row or column; below 0 if those are not used.
std::int64_t behind_of(const ConvolutionAxis& axis) { return axis.reached() - axis.input - axis.padding; }

dnnl::memory::desc image(std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w, Dtype dtype) {
    return {{n, c, h, w}, library_type(dtype), dnnl::memory::format_tag::nhwc};
}

template <class Description>
dnnl::primitive_desc_base checked(const Description& description) {
    const std::string_view name = description.impl_info_str();
    if (!name.starts_with("br") && !name.starts_with("jit")) throw dnnl::error(dnnl_unimplemented, "no fast kernel");
    return description;
}
}  // namespace

dnnl::memory::desc describe_weight(const ConvolutionProblem& p, bool exchanged) {
    Dims sizes{p.outputs, p.inputs, p.h.kernel, p.w.kernel}, steps(p.weight.stride.begin(), p.weight.stride.end());
    for (std::size_t i = 0; i < 4; ++i) steps[i] = std::max<std::int64_t>(steps[i], 1);
    const std::int64_t group = p.outputs * steps[0];
    if (exchanged) std::swap(sizes[0], sizes[1]), std::swap(steps[0], steps[1]);
    steps = with_groups(p.groups, steps);
    if (p.groups > 1) steps[0] = group;
    return {with_groups(p.groups, sizes), library_type(p.weight.dtype), steps};
}

std::size_t Primitives::add(const Slice& slice) {
    if (slice.from_rows <= 0) throw dnnl::error(dnnl_unimplemented, "nothing belongs to these rows");
    const auto [entry, created] =
        known_.try_emplace({slice.images, slice.from_rows, slice.to_rows, slice.h.padding}, all_.size());
    if (created) all_.push_back({describe(slice)});
    return entry->second;
}

dnnl::memory::desc Primitives::from(const Slice& s) const {
    return image(s.images, p_.groups * m_.inputs, s.from_rows, m_.from_width(), m_.from.dtype);
}

dnnl::memory::desc Primitives::to(const Slice& s) const {
    return image(s.images, p_.groups * m_.outputs, s.to_rows, m_.to_width(), m_.to.dtype);
}

dnnl::primitive_desc_base Primitives::describe(const Slice& slice) {
    const Dims strides{m_.h.stride, m_.w.stride}, dilates{m_.h.dilation - 1, m_.w.dilation - 1};
    const Dims before{slice.h.padding, m_.w.padding}, behind{behind_of(slice.h), behind_of(m_.w)};
    const bool weights = p_.pass == ConvolutionPass::weight;
    const auto kind = dnnl::algorithm::convolution_direct;
    const std::int64_t in = m_.gradient ? m_.outputs : m_.inputs, out = m_.gradient ? m_.inputs : m_.outputs;
    const Dims sizes = with_groups(p_.groups, {out, in, m_.h.kernel, m_.w.kernel});
    const auto any = dnnl::memory::format_tag::any;
    const dnnl::memory::desc any_weight(sizes, library_type(p_.operand), any);
    const auto x = m_.gradient ? to(slice) : from(slice), y = m_.gradient ? from(slice) : to(slice);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (!m_.gradient && !weights) {
        dnnl::post_ops operations;
        if (p_.beta != 0) operations.append_sum(p_.beta);
        attributes.set_post_ops(operations);
        const auto weight = all_.empty() ? any_weight : weight_;
        const auto training = dnnl::prop_kind::forward_training;
        const dnnl::memory::desc bias({p_.groups * m_.outputs}, library_type(p_.bias_dtype),
                                      dnnl::memory::format_tag::a);
        const auto desc =
            p_.has_bias
                ? dnnl::convolution_forward::desc(training, kind, x, weight, bias, y, strides, dilates, before, behind)
                : dnnl::convolution_forward::desc(training, kind, x, weight, y, strides, dilates, before, behind);
        const dnnl::convolution_forward::primitive_desc description(desc, attributes, engine_);
        weight_ = description.weights_desc();
        return checked(description);
    }
    // oneDNN demands a forward description as a hint.
    const dnnl::convolution_forward::primitive_desc hint(
        {dnnl::prop_kind::forward_training, kind, x, any_weight, y, strides, dilates, before, behind}, engine_);
    if (weights) {
        const dnnl::memory::desc f32_weight(sizes, dnnl::memory::data_type::f32, any);
        const dnnl::convolution_backward_weights::primitive_desc description(
            {kind, x, all_.empty() ? f32_weight : weight_, y, strides, dilates, before, behind}, attributes, engine_,
            hint);
        weight_ = description.diff_weights_desc();
        return checked(description);
    }
    const dnnl::convolution_backward_data::primitive_desc description(
        {kind, x, all_.empty() ? any_weight : weight_, y, strides, dilates, before, behind}, attributes, engine_, hint);
    weight_ = description.weights_desc();
    // oneDNN 2.6's kernel for AVX2 computes wrong gradients for channels 16 to 31 of images of 12 x 13 at stride 2.
    if (std::string_view(description.impl_info_str()).starts_with("jit:avx2"))
        throw dnnl::error(dnnl_unimplemented, "a kernel that errs");
    return checked(description);
}

}  // namespace headroom::kernels
