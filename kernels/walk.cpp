#include <headroom/kernels/walk.hpp>

#include <utility>

namespace headroom::kernels {

Walk::Walk(const View* const* views, int count, Order order) : operands_(count) {
    const Shape& shape = views[0]->shape;
    const int rank = shape.rank();
    size_.fill(1);
    int axis = kMaxRank;
    for (int i = rank - 1; i >= 0; --i) {
        if (shape[i] == 1) continue;
        size_[index(--axis)] = shape[i];
        for (int k = 0; k < count; ++k) {
            const View& view = *views[k];
            const int own = i - (rank - view.rank());
            stride_[index(k)][index(axis)] = own < 0 || view.shape[own] == 1 ? 0 : view.strides[own];
        }
    }
    if (axis == kMaxRank) {  // one element: a row of it
        --axis;
        for (int k = 0; k < count; ++k) stride_[index(k)][index(axis)] = 1;
    }
    for (int k = 0; k < count; ++k) {
        data_[index(k)] = static_cast<std::byte*>(views[k]->data);
        bytes_[index(k)] = static_cast<std::int64_t>(size_of(views[k]->dtype));
    }
    if (order == Order::memory) sort_axes(axis);
    first_ = merge_axes(axis);
    rows_ = shape.numel() == 0 ? 0 : 1;
    for (int i = first_; i < kMaxRank - 1; ++i) rows_ *= size_[index(i)];
}

void Walk::sort_axes(int first) {
    const auto& order = stride_[0];
    for (int i = first + 1; i < kMaxRank; ++i) {
        for (int j = i; j > first && order[index(j - 1)] < order[index(j)]; --j) {
            std::swap(size_[index(j - 1)], size_[index(j)]);
            for (int k = 0; k < operands_; ++k) std::swap(stride_[index(k)][index(j - 1)], stride_[index(k)][index(j)]);
        }
    }
}

int Walk::merge_axes(int first) {
    int inner = kMaxRank - 1;
    for (int i = inner - 1; i >= first; --i) {
        bool joins = true;
        for (int k = 0; k < operands_; ++k) {
            const auto& stride = stride_[index(k)];
            joins = joins && stride[index(i)] == stride[index(inner)] * size_[index(inner)];
        }
        if (joins) {
            size_[index(inner)] *= size_[index(i)];
            continue;
        }
        --inner;
        size_[index(inner)] = size_[index(i)];
        for (int k = 0; k < operands_; ++k) stride_[index(k)][index(inner)] = stride_[index(k)][index(i)];
    }
    return inner;
}

Cursor::Cursor(const Walk& walk, std::int64_t start) : row(start), walk_(walk) {
    data_ = walk.data_;
    if (start == 0) return;
    std::int64_t rest = start;
    for (int i = kMaxRank - 2; i >= walk.first_; --i) {
        const auto axis = Walk::index(i);
        position_[axis] = rest % walk.size_[axis];
        rest /= walk.size_[axis];
        for (std::size_t k = 0; k < Walk::index(walk.operands_); ++k) {
            data_[k] += position_[axis] * walk.stride_[k][axis] * walk.bytes_[k];
        }
    }
}

void Cursor::next() {
    ++row;
    for (int i = kMaxRank - 2; i >= walk_.first_; --i) {
        const auto axis = Walk::index(i);
        const bool wraps = ++position_[axis] == walk_.size_[axis];
        const std::int64_t steps = wraps ? 1 - walk_.size_[axis] : 1;
        for (std::size_t k = 0; k < Walk::index(walk_.operands_); ++k) {
            data_[k] += steps * walk_.stride_[k][axis] * walk_.bytes_[k];
        }
        if (!wraps) return;
        position_[axis] = 0;
    }
}

}  // namespace headroom::kernels
