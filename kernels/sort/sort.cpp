#include <headroom/kernels/sort/sort.hpp>

#include <algorithm>

#include <headroom/kernels/parallel.hpp>
#include <headroom/kernels/rows.hpp>
#include <headroom/kernels/sort/internal/keys.hpp>

namespace headroom::kernels {

namespace {

struct Entry {
    std::uint64_t key;
    std::int64_t position;
    friend bool operator<(const Entry& a, const Entry& b) {
        return a.key != b.key ? a.key < b.key : a.position < b.position;
    }
};

View with_last(View view, int axis) {
    const std::int64_t size = view.shape[axis], stride = view.strides[axis];
    view.shape.erase(axis);
    view.strides.erase(axis);
    view.shape.push_back(size);
    view.strides.push_back(stride);
    return view;
}

}  // namespace

OrderPlan::OrderPlan(const Stream& stream, const View& x, int axis, bool descending, const View& y, std::int64_t most)
    : x_(with_last(x, axis)),
      y_(with_last(y, axis)),
      descending_(descending),
      length_(x_.shape.back()),
      kept_(y_.shape.back()) {
    lines_ = kept_ == 0 ? 0 : y_.numel() / kept_;
    if (!on_cuda(stream)) {
        scratch_ = static_cast<std::size_t>(workers(threads_of(stream)) * length_) * sizeof(Entry);
        return;
    }
    check_sortable("sort", length_, 1);
    if (lines_ == 0) return;
    lines_at_once_ = std::clamp<std::int64_t>(most / kept_, 1, lines_);
    sort_ = {.count = lines_at_once_ * kept_, .keys = std::int64_t{1} << std::min(32, sort_key_bits(x.dtype))};
    const std::int64_t selected = kept_ < length_ ? lines_ * kept_ : 0;
    scratch_ = sort_.bytes() + aligned_bytes(selected, sizeof(std::uint32_t));
}

std::int64_t OrderPlan::workers(int threads) const { return std::min<std::int64_t>(threads, lines_); }

void OrderPlan::run(CpuStream& stream, std::byte* scratch) const {
    const Rows in(x_), out(y_);
    const std::int64_t count = workers(stream.threads);
    parallel_for(stream, count, lines_ * length_ * 16, [&](std::int64_t worker) {
        Entry* const entries = reinterpret_cast<Entry*>(scratch) + worker * length_;
        for (std::int64_t line = lines_ * worker / count; line < lines_ * (worker + 1) / count; ++line) {
            const std::byte* row = in.at(line);
            for (std::int64_t i = 0; i < length_; ++i)
                entries[i] = {sort_key(row, x_.dtype, i * in.stride(), descending_), i};
            if (kept_ < length_) std::nth_element(entries, entries + kept_ - 1, entries + length_);
            std::sort(entries, entries + kept_);
            auto* target = reinterpret_cast<std::int64_t*>(out.at(line));
            for (std::int64_t i = 0; i < kept_; ++i) target[i * out.stride()] = entries[i].position;
        }
    });
}

}  // namespace headroom::kernels
