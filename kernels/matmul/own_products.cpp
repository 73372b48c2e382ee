#include <headroom/kernels/matmul/internal/own_products.hpp>

#include <fmt/format.h>

namespace headroom::kernels {

namespace {

constexpr std::size_t kNamed = 8;

const char* name_of(Activation activation) {
    switch (activation) {
        case Activation::none:
            return "";
        case Activation::relu:
            return " relu";
        case Activation::gelu_tanh:
            return " gelu_tanh";
        case Activation::gelu_erf:
            return " gelu_erf";
    }
    return "";
}

const char* name_of(OwnPart part) {
    switch (part) {
        case OwnPart::product:
            return "all of it";
        case OwnPart::epilogue:
            return "the epilogue";
        case OwnPart::beside:
            return "the outputs beside it";
    }
    return "";
}

std::string text_of(const OwnProduct& p) {
    std::string text = p.batches > 1 ? fmt::format("{} x ", p.batches) : "";
    text += fmt::format("[{} x {} x {}] {}", p.m, p.n, p.k, name(p.operand));
    if (p.result != p.operand) text += fmt::format(" to {}", name(p.result));
    text += fmt::format("{}{}{}{}{} ({})", p.bias ? " bias" : "", p.derivative ? " derivative of" : "",
                        name_of(p.activation), p.inner && !p.derivative ? " inner" : "", p.sums ? " sums" : "",
                        name_of(p.part));
    return text;
}

}  // namespace

OwnProduct own_product(const Problem& product, const Matmul& matmul, OwnPart part) {
    return {.m = product.m,
            .n = product.n,
            .k = product.k,
            .batches = product.batches(),
            .operand = product.operand,
            .result = product.result,
            .part = part,
            .activation = matmul.activation,
            .bias = matmul.has_bias(),
            .inner = matmul.has_inner(),
            .derivative = matmul.derivative,
            .sums = matmul.has_sums()};
}

std::string OwnProducts::text() const {
    if (products_.empty()) return "";
    std::string text = fmt::format("own kernels for {} of the products:", products_.size());
    std::size_t named = 0;
    for (const OwnProduct& product : products_) {
        if (named == kNamed) return text + fmt::format(" and {} more", products_.size() - kNamed);
        text += fmt::format("{} {}", named++ == 0 ? "" : ",", text_of(product));
    }
    return text;
}

}  // namespace headroom::kernels
