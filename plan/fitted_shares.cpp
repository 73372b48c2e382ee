#include <headroom/plan/internal/fitted_shares.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace headroom::plan {

Parts fitted_shares(const std::vector<std::pair<Parts, double>>& passes, bool several_batches) {
    std::vector<Parts> rows;  // parts of a pass that takes as long as was measured, if rates are right in the mean
    double logarithms = 0;
    for (const auto& [parts, seconds] : passes) {
        const double by_rates = parts[0] + parts[1] + parts[2];
        if (!(seconds > 0) || !(by_rates > 0)) continue;
        rows.push_back({parts[0] / seconds, parts[1] / seconds, parts[2] / seconds});
        logarithms += std::log(seconds / by_rates);
    }
    if (rows.empty()) return {1, 1, 1};
    const double slower = std::exp(logarithms / static_cast<double>(rows.size()));
    Parts mean{}, shares{1, 1, 1};
    for (Parts& row : rows) {
        for (std::size_t i = 0; i < 3; ++i) mean[i] += (row[i] *= slower) / static_cast<double>(rows.size());
    }
    const Parts held{mean[0], mean[1], several_batches ? mean[2] : std::max(mean[2], 1.0)};  // how tightly
    double off = 0.1;
    for (int fit = 0; fit < 3; ++fit) {
        std::array<Parts, 3> products{};  // the normal equations
        Parts target{};
        for (std::size_t i = 0; i < 3; ++i) {
            for (const Parts& row : rows) {
                target[i] += row[i];
                for (std::size_t j = 0; j < 3; ++j) products[i][j] += row[i] * row[j];
            }
            const double towards = off * held[i] * off * held[i];
            target[i] += towards;
            products[i][i] += towards;
        }
        constexpr int kMost = 20000;
        double moved = 1;
        for (int sweep = 0; sweep < kMost && moved > 1e-9; ++sweep) {  // coordinate descent, until it rests
            moved = 0;
            for (std::size_t i = 0; i < 3; ++i) {
                if (products[i][i] == 0) continue;
                const double all = std::inner_product(shares.begin(), shares.end(), products[i].begin(), 0.0);
                const double share = std::max(0.0, shares[i] + (target[i] - all) / products[i][i]);
                moved = std::max(moved, mean[i] * std::abs(share - std::exchange(shares[i], share)));
            }
        }
        double squares = 0;
        for (const Parts& row : rows)
            squares += std::pow(std::inner_product(row.begin(), row.end(), shares.begin(), -1.0), 2);
        off = std::max(0.02, std::sqrt(squares / static_cast<double>(rows.size())));
    }
    return {slower * shares[0], slower * shares[1], slower * shares[2]};
}

}  // namespace headroom::plan
