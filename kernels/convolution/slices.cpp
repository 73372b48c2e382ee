#include <headroom/kernels/convolution/internal/slices.hpp>

#include <algorithm>
#include <utility>

#include <headroom/kernels/round_up.hpp>

namespace headroom::kernels {

namespace {

bool turns(const ConvolutionAxis& axis) { return axis.stride == 1 && axis.padding < axis.covered(); }
bool turns(const ConvolutionProblem& p) { return p.pass == ConvolutionPass::data && turns(p.h) && turns(p.w); }
ConvolutionAxis turned_axis(const ConvolutionAxis& a) {
    return {a.output, a.input, a.kernel, 1, a.covered() - 1 - a.padding, a.dilation};
}

/// Rows [to, to + rows) of the images from `image` on.
Slice slice_of(const Mapping& m, std::int64_t image, std::int64_t images, std::int64_t to, std::int64_t rows) {
    Slice slice{image, images, to, rows, 0, m.from_rows(), m.h};
    if (rows == m.to_rows()) return slice;
    std::int64_t last;
    if (m.gradient) {
        const std::int64_t first = to + m.h.padding - m.h.covered() + 1;
        slice.from = first <= 0 ? 0 : quotient_up(first, m.h.stride);
        last = std::min(m.h.output - 1, (to + rows - 1 + m.h.padding) / m.h.stride);
        slice.from_rows = last - slice.from + 1;
        slice.h.padding = to + m.h.padding - slice.from * m.h.stride;
        slice.h.input = rows, slice.h.output = slice.from_rows;
    } else {
        const std::int64_t first = m.h.at(to, 0);
        slice.from = std::max<std::int64_t>(0, first);
        last = std::min(m.h.input - 1, m.h.at(to + rows - 1, m.h.kernel - 1));
        slice.from_rows = last - slice.from + 1;
        slice.h.padding = slice.from - first;
        slice.h.input = slice.from_rows, slice.h.output = rows;
    }
    return slice;
}

}  // namespace

std::optional<ConvolutionProblem> turned(const ConvolutionProblem& problem) {
    if (!turns(problem) || problem.groups != 1) return {};
    ConvolutionProblem p = problem;
    p.pass = ConvolutionPass::forward;
    std::swap(p.x, p.y);
    std::swap(p.inputs, p.outputs);
    p.h = turned_axis(p.h), p.w = turned_axis(p.w);
    auto& steps = p.weight.stride;
    p.weight.data = p.weight.at((p.h.kernel - 1) * steps[2] + (p.w.kernel - 1) * steps[3]);
    std::swap(steps[0], steps[1]);
    steps[2] = -steps[2], steps[3] = -steps[3];
    return p;
}

Mapping::Mapping(const ConvolutionProblem& p)
    : from(p.x), to(p.y), inputs(p.inputs), outputs(p.outputs), h(p.h), w(p.w), beta(p.beta) {
    if (p.pass != ConvolutionPass::data) return;
    std::swap(from, to);
    std::swap(inputs, outputs);
    turned = turns(p);
    gradient = !turned;
    if (turned) h = turned_axis(h), w = turned_axis(w);
    if (adds()) to.dtype = Dtype::f32;
}

std::vector<Slice> slices_of(const Mapping& m, std::int64_t images, std::int64_t threads) {
    std::vector<Slice> slices;
    if (images % threads == 0 || images >= 4 * threads) {
        for (std::int64_t i = 0; i < threads; ++i) {
            const std::int64_t first = i * images / threads, end = (i + 1) * images / threads;
            slices.push_back(slice_of(m, first, end - first, 0, m.to_rows()));
        }
        return slices;
    }
    // Rows of a gradient begin where a position of the kernel does.
    const std::int64_t unit = m.gradient ? m.h.stride : 1, shift = m.gradient ? m.h.padding % m.h.stride : 0;
    const std::int64_t step = quotient_up(quotient_up(m.to_rows(), threads), unit) * unit;
    for (std::int64_t image = 0; image < images; ++image) {
        for (std::int64_t first = 0, end = 0; first < m.to_rows(); first = end) {
            end = std::min(m.to_rows(), (first + shift) / unit * unit + step - shift);
            slices.push_back(slice_of(m, image, 1, first, end - first));
        }
    }
    return slices;
}

}  // namespace headroom::kernels
