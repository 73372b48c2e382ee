#include <headroom/core/ops/nll_loss.hpp>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/cast.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/compare.hpp>
#include <headroom/core/ops/index.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/ops/where.hpp>

namespace headroom {

namespace {

void check_arguments(const Tensor& x, const Tensor& targets, const Tensor& weights) {
    constexpr const char* op = "nll_loss";
    check_floating(op, {{"log_probabilities", x}});
    check_index(op, {"targets", targets});
    check_form(op, {"log_probabilities", x}, x.rank() > 0 && x.size(-1) > 0, "[..., C], C at least 1");
    Shape rows = x.shape();
    rows.erase(rows.rank() - 1);
    check_shape(op, {"targets", targets}, rows, {"log_probabilities", x});
    if (!weights.defined()) return;
    check_floating(op, {{"class_weights", weights}});
    check_form(op, {"class_weights", weights}, weights.rank() == 1 && weights.numel() == x.size(-1),
               "[C], one for each class");
    if (weights.requires_grad()) {
        throw Error("nll_loss: class_weights must not require a gradient; call detach() on them");
    }
}

}  // namespace

Loss nll_loss(Tensor log_probabilities, Tensor targets, const NllLossOptions& options) {
    check_arguments(log_probabilities, targets, options.class_weights);
    const Dtype compute = compute_dtype(log_probabilities.dtype());
    return as_op("nll_loss", [&]() -> Loss {
        const Tensor ignored = eq(targets, static_cast<double>(options.ignore_index));
        const Tensor ids = masked_fill(targets, ignored, 0);
        Tensor chosen = cast(gather(std::move(log_probabilities), -1, ids.unsqueeze(-1)).squeeze(-1), compute);
        Tensor terms = cast(logical_not(ignored), compute);
        if (options.class_weights.defined()) {
            const Tensor weights = index_select(cast(options.class_weights, compute), 0, ids.reshape({ids.numel()}));
            terms = terms * weights.reshape(ids.shape());
        }
        // Not chosen * terms: an ignored row may have a probability of 0.
        chosen = masked_fill(std::move(chosen), ignored, 0);
        return {-sum(chosen * terms), sum(cast(terms, Dtype::f64))};
    });
}

}  // namespace headroom
