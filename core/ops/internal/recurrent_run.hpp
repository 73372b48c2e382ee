#pragma once
// The forward steps of one direction of a recurrent layer, used by the op and, if gates were not kept, by its gradient.
//
//     Run run(direction, {.gates = gates, .cells = cells, .h = h, .c = c, .y = y});
//     run(0, 128);     // steps 0, 1, ..., 127
#include <cstdint>

#include <headroom/core/exec.hpp>
#include <headroom/core/ops/checks.hpp>
#include <headroom/core/ops/recurrent.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/recurrent/recurrent.hpp>

namespace headroom::recurrent {

enum class Cell : std::uint8_t { lstm, gru };

constexpr std::int64_t gates_of(Cell cell) { return cell == Cell::lstm ? 4 : 3; }
/// The number of leading gates that are kept for backward. A GRU's n is recomputed, which takes only one more product
/// with the input.
constexpr std::int64_t kept_gates_of(Cell cell) { return cell == Cell::lstm ? 4 : 2; }

struct Sizes {
    std::int64_t time, batch, width, directions;

    /// Steps per block: enough rows for a fast product, but at most about the square root of the time steps.
    std::int64_t block() const;
    /// Steps per chunk: whole blocks, or all.
    std::int64_t chunk(const ops::RecurrentAttrs& attrs) const;
};

/// Position `i` of the first axis; that axis is dropped.
inline View at(View x, std::int64_t i) {
    x.data = x.at(i * x.stride(0));
    x.shape.erase(0), x.strides.erase(0);
    return x;
}

/// Columns [first, first + count) of the last axis.
inline View columns(View x, std::int64_t first, std::int64_t count) {
    const int axis = x.rank() - 1;
    x.data = x.at(first * x.stride(axis));
    x.shape[axis] = count;
    return x;
}

/// Workspace with a shape.
struct Room {
    Scratch memory;
    View view;

    Room(const Exec& exec, const Shape& shape, Dtype dtype)
        : memory(exec.scratch(static_cast<std::size_t>(shape.numel()) * size_of(dtype))),
          view(contiguous_view(memory.data(), dtype, shape)) {}
};

inline void copy(const Exec& exec, const View& from, const View& to) {
    exec.launch([&](auto& stream) { kernels::copy(stream, from, to); });
}

/// One direction of a layer. Steps are counted in computation order.
struct Direction {
    Exec& exec;
    Cell cell;
    Sizes size;
    View x, h0, last;
    View weight_ih, weight_hh, bias_ih, bias_hh;
    bool reverse;

    /// The lowest time index of steps [first, first + count).
    std::int64_t time_of(std::int64_t first, std::int64_t count) const {
        return reverse ? size.time - first - count : first;
    }
    kernels::Passage passage() const { return {last, reverse}; }
    std::int64_t gates() const { return gates_of(cell) * size.width; }
    std::int64_t kept_gates() const { return kept_gates_of(cell) * size.width; }
    Dtype compute() const { return compute_dtype(x.dtype); }
    /// This direction's part of an array [D, ...]; empty if the array is empty.
    View own(const View& x) const { return x.rank() != 0 ? at(x, reverse ? 1 : 0) : View{}; }
    View own(const Array& x) const { return x.defined() ? own(x.view()) : View{}; }
    /// This direction's columns of an array [T, B, D H].
    View own_columns(const View& x) const { return columns(x, reverse ? size.width : 0, size.width); }
};

/// c = a W^T + b, for the rows of W and b from `first` on, as many as c has columns.
void affine_part(Exec& exec, const View& a, const View& weight, const View& bias, std::int64_t first, const View& c);

/// The products with a direction's W_hh over all steps, c = a W_hh or a W_hh^T. On the CPU the weights are packed once
/// for many steps; matmul would pack them in each product.
class StateProduct {
  public:
    StateProduct(const Direction& direction, const View& weight, const View& bias, bool accumulate);
    void operator()(const View& a, const View& c) const;

  private:
    const Direction& d_;
    View weight_, bias_;
    bool accumulate_;
    Scratch packed_;
};

/// The destinations of the steps of a run.
struct Steps {
    View gates;  ///< [steps, B, kept gates H] in order of time, or [block, B, kept gates H] if they are not kept
    View cells;  ///< LSTM: [steps, B, H]; rank 0: not kept
    View h;      ///< [B, H]: the state before and after the run
    View c;      ///< LSTM: [B, H], likewise
    View y;      ///< [T, B, H]; rank 0: not wanted
};

/// Runs steps [first, first + count).
class Run {
  public:
    Run(const Direction& direction, const Steps& to);
    void operator()(std::int64_t first, std::int64_t count) const;

  private:
    void step(const View& gates, const View& n, const View& before, const View& c, std::int64_t time) const;

    const Direction& d_;
    Steps to_;
    Room n_, hidden_, bias_;
    StateProduct product_;
};

}  // namespace headroom::recurrent
