#include <headroom/kernels/embedding/embedding.hpp>

#include <headroom/kernels/gather/internal/gathering.hpp>
#include <headroom/kernels/gather/internal/segments.hpp>

namespace headroom::kernels {

namespace {

/// The view with one more axis at the end, along which it does not move.
View with_columns(View view, std::int64_t columns) {
    view.shape.push_back(columns);
    view.strides.push_back(0);
    return view;
}

/// The first elements of a view's rows.
View without_columns(View view) {
    view.shape.erase(view.rank() - 1);
    view.strides.erase(view.shape.rank());
    return view;
}

/// The first row of a view.
View row_of(const View& view) {
    const int last = view.rank() - 1;
    return {view.data, view.dtype, {view.shape[last]}, {view.strides[last]}};
}

}  // namespace

void embedding(CudaStream& stream, const View& table, const View& ids, const View& y) {
    const device::IndexCheck check = device::index_check(stream, "embedding: index", table.shape[0]);
    if (y.numel() == 0) return check_indices(stream, ids, check);
    const std::int64_t columns = table.shape[1];
    const View counting = contiguous_view(nullptr, Dtype::i64, ids.shape);
    Gathering gathering{.y = y,
                        .x = with_columns({table.data, table.dtype, ids.shape, {}}, columns),
                        .index = with_columns(ids, columns),
                        .position = with_columns(counting, columns),
                        .x_axis = table.strides[0]};
    gathering.x.strides = {};
    for (int i = 0; i < ids.rank(); ++i) gathering.x.strides.push_back(0);
    gathering.x.strides.push_back(table.strides[1]);
    gather_elements(stream, gathering, check);
}

void EmbeddingGradientPlan::run(CudaStream& stream, std::byte* scratch) const {
    const device::IndexCheck check = device::index_check(stream, "embedding: index", dtable_.shape[0]);
    if (dtable_.numel() == 0) return check_indices(stream, ids_, check);
    SegmentRows rows(without_columns(dy_), row_of(dy_), without_columns(dtable_), row_of(dtable_));
    rows.skipped = padding_;
    const Sorted sorted = sort_indices(stream, ids_, check, plan_.sort, scratch);
    if (beta_ == 0) {
        scale(stream, dtable_, 0);
    } else {
        scale_other_rows(stream, sorted, rows, beta_);
    }
    sum_segments(stream, sorted, rows, plan_.sums, beta_, scratch + plan_.sort.bytes());
}

}  // namespace headroom::kernels
