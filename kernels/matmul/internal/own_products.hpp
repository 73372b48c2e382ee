#pragma once
// Records what the project's own kernels computed of products meant for cuBLASLt, for reports: nothing else shows it.
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
    beside     ///< the outputs beside c: inner or its derivative, sums
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

/// Part of a stream's state.
class OwnProducts {
  public:
    void add(const OwnProduct& product) { products_.insert(product); }
    /// One line with their number and the first ones. Empty if there are none.
    std::string text() const;

  private:
    std::set<OwnProduct> products_;
};

}  // namespace headroom::kernels
