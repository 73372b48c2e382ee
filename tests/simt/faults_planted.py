"""The faults that tests/simt/faults plants: of the kinds that developers make. Each is seen by one test, as named here."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: str
    name: str
    file: str
    old: str
    new: str
    target: str
    filter: str = "*"
    preset: str = "release"


def of(kind, file, target, filter, *faults, preset="release"):
    """Faults of one file that one test sees: (name, old, new)."""
    return [Fault(kind, name, file, old, new, target, filter, preset) for name, old, new in faults]


K = "headroom/kernels/"
LARGE, ATTENTION, MATMUL = "kernels_large_arrays_cuda_test", "kernels_attention_cuda_test", "kernels_matmul_cuda_test"


def table(family):
    return f"kernels_{family}_devices_test"


FAULTS = [
    # --- A product or an offset in 32 bits.
    *of("64-bit", K + "device/strided.hpp", table("softmax"), "*/far/*",
        ("narrow products", "result[k] += std::int64_t{position} * static_cast<Stride>(stride_[k][axis]);",
         "result[k] += static_cast<Stride>(position * static_cast<Stride>(stride_[k][axis]));"),
        ("offset of a row", "const { return leading_.offsets(row)[0]; }",
         "const { return static_cast<int>(leading_.offsets(row)[0]); }")),
    *of("64-bit", K + "device/strided.hpp", LARGE, "*AreMapped:*AreReduced",
        ("all counts are narrow", "narrow_ = elements_ <= most;", "narrow_ = true;")),
    *of("64-bit", K + "device/strided.hpp", "kernels_strided_cuda_test", "*",
        ("all strides are narrow", "narrow_ = narrow_ && stride_[k][i] <= most && stride_[k][i] >= -most;", "")),
    *of("64-bit", K + "gather/segments.cu", table("gather"), "*/far/*",
        ("segments: source row", "source + position * source_row", "source + static_cast<int>(position * source_row)"),
        ("segments: target row", "const std::int64_t offset = row * target_row + column * kWidth;",
         "const int offset = static_cast<int>(row * target_row + column * kWidth);")),
    *of("64-bit", K + "gather/segments.cu", LARGE, "*AreSummedByRows",
        ("segments: sum of a tile", "target += tile * partial.columns + column * RowsOf::kWidth;",
         "target += static_cast<int>(tile * partial.columns + column * RowsOf::kWidth);"),
        ("segments: joined tiles", "partial.from_before[next * partial.columns + column]",
         "partial.from_before[static_cast<int>(next * partial.columns + column)]")),
    *of("64-bit", K + "gather/gather.cu", table("gather"), "*/far/*",
        ("gather: source", "check(block, index(at[2]), at[3]) * x_axis", "static_cast<int>(check(block, index(at[2]), at[3]) * x_axis)")),
    *of("64-bit", K + "gather/gather.cu", LARGE, "*AreGathered",
        ("gather: grid y", "std::min<std::int64_t>(parts, 65535)", "parts")),
    *of("64-bit", K + "gather/scatter_plan.hpp", LARGE, "*AreScatteredTo",
        ("scatter: keys", "std::min(most_sorted / length, kMostKeys / rows)", "most_sorted / length")),
    *of("64-bit", K + "attention/internal/heads.cuh", ATTENTION, "*Beyond32Bits",
        ("heads: row", "return b * batch + t * position + h * head;",
         "return static_cast<int>(b * batch + t * position + h * head);")),
    *of("64-bit", K + "attention/internal/tensor_cores.cuh", ATTENTION, "*Beyond32Bits",
        ("tensor cores: row of a tile", "x.at<const T>(head + at * x.position + column)",
         "x.at<const T>(head + static_cast<int>(at * x.position) + column)")),
    *of("64-bit", K + "matmul/tiled.cu", MATMUL, "*Beyond32Bits",
        ("matmul: row of c", "offset + i * p.c_row + j * p.c_column", "offset + static_cast<int>(i * p.c_row) + j * p.c_column"),
        ("matmul: column of c", "offset + i * p.c_row + j * p.c_column", "offset + i * p.c_row + static_cast<int>(j * p.c_column)"),
        ("matmul: row of a or b", "matrix[(row + i) * row_stride + (begin + d) * depth_stride]",
         "matrix[static_cast<int>((row + i) * row_stride) + (begin + d) * depth_stride]"),
        ("matmul: depth of a or b", "matrix[(row + i) * row_stride + (begin + d) * depth_stride]",
         "matrix[(row + i) * row_stride + static_cast<int>((begin + d) * depth_stride)]")),
    *of("64-bit", K + "matmul/tiled.cu", LARGE, "*AreMultiplied",
        ("matmul: grid y", "std::min(p.batches(), kMostBatches)", "p.batches()")),
    *of("64-bit", K + "random/random.cu", LARGE, "*AreDrawn",
        ("random: counter of vectors", "philox(key, static_cast<std::uint64_t>(i * kEach + j) / 4)",
         "philox(key, static_cast<std::uint32_t>(i * kEach + j) / 4)"),
        ("random: counter of the rest", "philox(key, static_cast<std::uint64_t>(i) / 4)",
         "philox(key, static_cast<std::uint32_t>(i / 4))"),
        ("random: counter of any strides", "make(philox(key, static_cast<std::uint64_t>(i)));",
         "make(philox(key, static_cast<std::uint32_t>(i)));")),
    *of("64-bit", K + "random/philox.hpp", table("random"), "*",
        ("philox: upper half of the counter", "static_cast<std::uint32_t>(block >> 32)", "0u")),
    *of("64-bit", K + "dropout/dropout.cu", LARGE, "*AreDrawn",
        ("dropout: counter", "philox(key, static_cast<std::uint64_t>(block))", "philox(key, static_cast<std::uint32_t>(block))")),
    *of("64-bit", K + "device/block.hpp", LARGE, "*AreMapped:*AreReduced",
        ("number of a thread", "return std::int64_t{x()} * threads() + thread();", "return x() * threads() + thread();"),
        ("number of threads", "return std::int64_t{grid_x()} * threads();", "return grid_x() * threads();")),
    *of("64-bit", K + "device/team.hpp", LARGE, "*HaveManyRows",
        ("teams: first row", "std::int64_t{block_.x()} * count()", "block_.x() * count()")),
    *of("64-bit", K + "cross_entropy/cross_entropy.cu", LARGE, "*HaveManyRows",
        ("cross entropy: rows", "for (std::int64_t row = std::int64_t{block.x()} * teams + index; row < rows; row += step)",
         "for (int row = static_cast<int>(block.x() * teams + index); row < static_cast<int>(rows); row += static_cast<int>(step))")),
    *of("64-bit", K + "copy/copy.cu", table("copy"), "*/far/*",
        ("copy: target", "target[k] = offsets[0] * size;", "target[k] = static_cast<int>(offsets[0] * size);"),
        ("copy: source", "x + offsets[1] * size", "x + static_cast<int>(offsets[1] * size)")),
    *of("64-bit", K + "copy/transposition.cu", LARGE, "*AreTransposed",
        ("transposition: target", "const std::int64_t offset = place.offsets[0] + row * at.y_stride + lane;\n            float",
         "const int offset = static_cast<int>(place.offsets[0] + row * at.y_stride + lane);\n            float")),
    *of("64-bit", K + "fill/fill.cu", table("fill"), "*/far/*",
        ("fill: element", "y + at.offsets(i)[0] * size", "y + static_cast<int>(at.offsets(i)[0] * size)")),
    *of("64-bit", K + "fill/fill.cu", LARGE, "*AreFilled",
        ("causal mask: row", "y + row * row_stride + first * stride", "y + static_cast<int>(row * row_stride) + first * stride")),
    *of("64-bit", K + "reduce/argmax.cu", table("argmax"), "*/far/*",
        ("argmax: element", "at[1] + i * stride", "static_cast<int>(at[1] + i * stride)")),
    *of("64-bit", K + "optimizer/internal/ranges.cuh", LARGE, "*AreStepped",
        ("optimizer: vector", "work(head + i * Width)", "work(head + static_cast<int>(i * Width))"),
        ("optimizer: single", "work(i < head ? i : i + vectors * Width)", "work(static_cast<int>(i < head ? i : i + vectors * Width))")),

    # --- A condition for accesses of 16 bytes is missing.
    *of("vectors", K + "device/eights.hpp", table("dropout"), "*/moved/*",
        ("eights: length of a row", "(walk.axes() == 1 || walk.row_size() % 8 == 0) && rows_aligned", "rows_aligned"),
        ("eights: address", "if (std::bit_cast<std::uintptr_t>(views[k]->data) % static_cast<std::uintptr_t>(bytes) != 0) return false;", ""),
        ("eights: outer strides", "if (walk.axis_stride(k, i) * size % bytes != 0) return false;", ""),
        ("eights: the first operand's strides alone", "for (int i = 1; i < walk.axes(); ++i) {\n            if (walk.axis_stride(k, i) * size",
         "for (int i = 1; i < walk.axes() && k == 0; ++i) {\n            if (walk.axis_stride(k, i) * size")),
    *of("vectors", K + "pointwise/pointwise_kernels.cuh", table("pointwise"), "*/moved/*",
        ("pointwise: length of a row", "if (at.axes() > 1 && at.row_size() % kTogether != 0) return false;", ""),
        ("pointwise: address", "% access != 0) return false;\n        for (int axis", "% access > 99) return false;\n        for (int axis"),
        ("pointwise: outer strides", "if (at.stride(k, axis) * size % access != 0) return false;", ""),
        ("pointwise: inner stride", "if (at.stride(k) != 1) return false;", "")),
    *of("vectors", K + "gather/gather.cu", table("gather"), "*/moved/*",
        ("gather: length of a row", "return aligned && axes.row_size() * size % unit == 0;", "return aligned;"),
        ("gather: address", "std::bit_cast<std::uintptr_t>(view.data) % unit == 0 && axes", "axes"),
        ("gather: outer strides", "aligned = aligned && axes.stride(operand, i) * size % unit == 0;", "aligned = aligned;"),
        ("gather: stride of the axis", "g.x_axis * size % 16 == 0 && ", "")),
    *of("vectors", K + "gather/segments.cu", table("gather"), "*/moved/*:*gradient_of*",
        ("segments: length of a row", "rows.columns() % width == 0 &&", ""),
        ("segments: source", "rows_of_units(rows.source, rows.source_dtype, rows.positions.stride(0)) &&", ""),
        ("segments: target", "rows_of_units(rows.target, rows.target_dtype, rows.rows.stride(0));", "true;"),
        ("segments: address", "return std::bit_cast<std::uintptr_t>(data) % 16 == 0 && row", "return row")),
    *of("vectors", K + "attention/internal/heads.cuh", ATTENTION, "*VectorsOnly*",
        ("heads: width", "column == 1 && x.size(3) % 8 == 0 &&", "column == 1 &&"),
        ("heads: address", " && reinterpret_cast<std::uintptr_t>(data) % 16 == 0;", ";"),
        ("heads: stride of heads", "for (int axis = 0; axis < 3; ++axis) wide", "for (int axis = 0; axis < 2; ++axis) wide"),
        ("heads: stride of batches", "for (int axis = 0; axis < 3; ++axis) wide", "for (int axis = 1; axis < 3; ++axis) wide"),
        ("heads: strides in elements", "x.stride(axis) * size % 16 == 0);", "x.stride(axis) % 1 == 0);")),
    *of("vectors", K + "device/row_access.hpp", table("layer_norm"), "*/moved/*",
        ("rows: address of gamma", "&& has_aligned_rows(*weight));", ");"),
        ("rows: cut at addresses", "x.dtype == y.dtype && distance % 16 == 0;", "x.dtype == y.dtype;"),
        ("rows: cut at strides", "same = same && (x.shape[i] <= 1 || apart % 16 == 0);", "")),
    *of("vectors", K + "device/row_access.hpp", table("softmax"), "*",
        ("rows: inner stride", "(x.strides[last] == 1 && x.shape[last] < (1 << 30))", "(x.shape[last] < (1 << 30))")),
    *of("vectors", K + "device/strided.hpp", table("layer_norm"), "*/moved/*",
        ("rows: outer strides", "aligned = aligned && leading_.stride(0, i) * size % 16 == 0;", "")),
    *of("vectors", K + "norm/norm.cu", table("norm"), "*",
        ("norm: address", "const bool aligned = std::bit_cast<std::uintptr_t>(x_.data) % 16 == 0;", "const bool aligned = true;")),
    *of("vectors", K + "random/random.cu", table("random"), "*",
        ("random: address", "y.is_contiguous() && std::bit_cast<std::uintptr_t>(y.data) % 16 == 0", "y.is_contiguous()")),
    *of("vectors", K + "copy/copy.cu", table("copy"), "*/moved/*",
        ("copy: misaligned alike", " || from != to) return false;", ") return false;"),
        ("copy: length of a row", "while (width > 1 && (walk.row_size() % width != 0 ||", "while (width > 1 && (")),
    *of("vectors", K + "copy/transposition.cu", table("copy"), "*",
        ("transposition: pairs of rows", "&& at.x_stride % 2 == 0 && at.y_stride % 2 == 0;", ";")),
    *of("vectors", K + "fill/fill.cu", table("fill"), "*",
        ("fill: length of a row", "walk.row_size() % width == 0 && rows_aligned", "rows_aligned"),
        ("causal mask: stride of rows", "y.size(0) == 1 || y.stride(0) % width == 0", "true")),
    *of("vectors", K + "optimizer/internal/ranges.cuh", table("optimizer"), "*",
        ("optimizer: misaligned alike", "alike = alike && misaligned(start) == first;", "")),

    # --- Each block does what is left over, and beta counts several times.
    *of("tail", K + "pointwise/pointwise_kernels.cuh", table("pointwise"), "*gradient/4133*",
        ("pointwise: the rest", "whole * kTogether + block.global_thread()", "whole * kTogether + block.thread()")),
    *of("tail", K + "copy/copy.cu", table("copy"), "*accumulate/9003*",
        ("copy: the rest", "at.rest(block.global_thread())", "at.rest(block.thread())")),
    *of("tail", K + "dropout/dropout.cu", table("dropout"), "*gradient/70001*",
        ("dropout: the rest", "at.rest(block.global_thread())", "at.rest(block.thread())")),
    *of("tail", K + "reduce/reduce.cu", table("reduce"), "*backward*",
        ("reduce: the rest", "at.rest(block.global_thread())", "at.rest(block.thread())")),
    *of("tail", K + "matmul/activate.cu", MATMUL, "*Passes*",
        ("activation: the rest of a gradient", "const std::int64_t rest = at.rest(block.global_thread());\n        if (rest < 0) return;",
         "const std::int64_t rest = at.rest(block.thread());\n        if (rest < 0) return;"),
        ("activation: the rest of a bias", "const std::int64_t rest = at.rest(block.global_thread());\n        if (rest >= 0)",
         "const std::int64_t rest = at.rest(block.thread());\n        if (rest >= 0)")),
    *of("tail", K + "optimizer/internal/ranges.cuh", table("optimizer"), "*",
        ("optimizer: the rest", "for (std::int64_t i = block.global_thread(); i < singles; i += block.global_threads())",
         "for (std::int64_t i = block.thread(); i < singles; i += block.threads())")),

    # --- A barrier is missing.
    *of("barriers", K + "gather/sort.cu", table("gather"), "*gradient_of_embedding*",
        ("sort: last of a sum", "        total += warp_sum;\n    }\n    block.sync();", "        total += warp_sum;\n    }"),
        ("sort: counters are read", "        block.warp_sync();  // all have read the counter\n", ""),
        ("sort: counters are zero", "counters[i] = 0;\n        block.sync();", "counters[i] = 0;")),
    *of("barriers", K + "device/block.hpp", "simt_block_test", "*",
        ("reduction: scratch is read", "value = warp_reduce(value, op, site);\n        sync(site);", "value = warp_reduce(value, op, site);")),
    *of("barriers", K + "device/team.hpp", table("softmax"), "*",
        ("teams: scratch used twice", "odd_ = !odd_;", "odd_ = false;")),
    *of("barriers", K + "matmul/tiled.cu", MATMUL, "*",
        ("matmul: tiles are read", "            block.sync();  // before the tiles are overwritten\n        }\n#pragma unroll\n        for (int i = 0; i < kEach; ++i) {",
         "        }\n#pragma unroll\n        for (int i = 0; i < kEach; ++i) {"),
        ("matmul: result is read", "            block.sync();  // before the next batch overwrites the result, with k = 0 at once\n", "")),

    # --- A library or a GPU would not take it, or does what its stand-in does not.
    *of("stand-ins", K + "matmul/matmul.cu", MATMUL, "*",
        ("bias gradient: a lost beta", "const bool adds = gemm_->sums && matmul_.sums_beta != 0;", "const bool adds = false;"),
        ("bias gradient: in the workspace", "contiguous_view(scratch + kGemmWorkspace,", "contiguous_view(scratch,")),
    *of("stand-ins", K + "cross_entropy/cross_entropy.cu", table("cross_entropy"), "*",
        ("launch: more threads than the kernel takes", "struct CrossEntropy {\n    static constexpr unsigned kMaxThreads = kMostWarps * kWarp;",
         "struct CrossEntropy {\n    static constexpr unsigned kMaxThreads = kMostWarps * kWarp / 2;")),
    *of("stand-ins", K + "attention/tensor_cores_gradient.cu", ATTENTION, "*BitsDoNotDepend*",
        ("launch: more shared memory than 8.6 has", "return Base::shared_bytes(2) + 2 * shared_size<float>(kRows);",
         "return Base::shared_bytes(2) + 2 * shared_size<float>(kRows) + 60 * 1024;")),

    # --- The order of a sum, and what the host reads.
    *of("order", K + "norm/norm.cu", table("norm"), "*",
        ("norm: parts by multiprocessors", "const std::int64_t count = x_.numel(), parts = cuda_parts_;",
         "const std::int64_t count = x_.numel(),\n                       parts = std::min<std::int64_t>(cuda_parts_, stream.device->properties().multiprocessors);")),
    *of("order", K + "device/device.cpp", "kernels_probe_cuda_test", "*",
        ("index error: read half-written", "!= IndexError::kComplete) return", "== IndexError::kNone) return")),
    *of("order", K + "device/index_check.hpp", "simt_block_test", "*",
        ("index error: published first", "error->path = path;", "block.publish(&error->state, IndexError::kComplete, site), error->path = path;")),
]
