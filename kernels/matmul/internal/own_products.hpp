#pragma once
// What kernels of our own computed of products that were cuBLASLt's to compute: for reports, since nothing else
// tells.
//
//     stream.state->get<OwnProducts>().add(own_product(problem, matmul, OwnPart::product));
//     fmt::print("{}", stream.state->get<OwnProducts>().text());
#include <compare>
#include <cstdint>
#include <set>
#include <string>

#include <headroom/kernels/matmul/matmul.hpp>

namespace headroom::kernels {

enum class OwnPart : std::uint8_t {
    product,   ///< all of it, in tiles
    epilogue,  ///< the bias and the activation, in a pass over the product
    beside     ///< what stands beside c: inner or its derivative, sums
};

struct OwnProduct {
    std::int64_t m = 0, n = 0, k = 0, batches = 1;
    Dtype operand = Dtype::f32, result = Dtype::f32;
    OwnPart part = OwnPart::product;
    Activation activation = Activation::none;
    bool bias = false, inner = false, derivative = false, sums = false;  ///< as in Matmul

    auto operator<=>(const OwnProduct&) const = default;
};
OwnProduct own_product(const Problem& product, const Matmul& matmul, OwnPart part);

/// A stream's state.
class OwnProducts {
  public:
    void add(const OwnProduct& product) { products_.insert(product); }
    /// One line: how many, and what the first ones are. Empty if there are none.
    std::string text() const;

  private:
    std::set<OwnProduct> products_;
};

}  // namespace headroom::kernels
