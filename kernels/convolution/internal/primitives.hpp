#pragma once
// oneDNN primitives for slices of a convolution: their descriptions, and the weight order that they expect.
//
//     Primitives primitives(engine, problem, mapping);
//     const std::size_t index = primitives.add(slice);    // dnnl::error: no fast one
//     primitives.all()[index].description;  primitives.weight();
#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include <headroom/kernels/convolution/internal/slices.hpp>
#include <headroom/kernels/internal/onednn.hpp>

namespace headroom::kernels {

/// The layout of the weights in their array or, if `exchanged`, with inputs and outputs exchanged.
dnnl::memory::desc describe_weight(const ConvolutionProblem& problem, bool exchanged);

/// A primitive for slices of one size.
struct Compiled {
    dnnl::primitive_desc_base description;
    dnnl::primitive primitive{};
};

/// The primitives of a pass: descriptions for slices, all with one order of weights.
class Primitives {
  public:
    /// The problem and its mapping must outlive it.
    Primitives(const dnnl::engine& engine, const ConvolutionProblem& problem, const Mapping& mapping)
        : engine_(engine), p_(problem), m_(mapping) {}

    /// The index in `all()` of the primitive for the slice. Errors: dnnl::error if oneDNN refuses or has no fast one.
    std::size_t add(const Slice& slice);
    std::vector<Compiled>& all() { return all_; }
    dnnl::memory::desc from(const Slice& slice) const;
    dnnl::memory::desc to(const Slice& slice) const;
    /// The layout of the weights that the primitives expect.
    const dnnl::memory::desc& weight() const { return weight_; }

  private:
    dnnl::primitive_desc_base describe(const Slice& slice);

    const dnnl::engine& engine_;
    const ConvolutionProblem& p_;
    const Mapping& m_;
    std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>, std::size_t> known_;
    std::vector<Compiled> all_;
    dnnl::memory::desc weight_;
};

}  // namespace headroom::kernels
