#pragma once
// What reads and adds by indices, for tests: gather with scatter_add, index_select and embedding with their gradients.
//
//     const IndexCase problem{IndexKind::select, {3, 4, 5}, {7}, 1};      // seven slices of x along axis 1
//     result.add(problem.name(), index_trial, problem);
//     result.add("gradient_of_" + problem.name(), index_gradient_trial, problem, false, false);
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <headroom/kernels/embedding/embedding.hpp>
#include <headroom/kernels/gather/gather.hpp>
#include <headroom/tests/kernels/kernel_table.hpp>

namespace headroom::kernels::test {

enum class IndexKind { gather, select, embedding };

/// y[i] is x[position of i]; the gradient adds dy[i] there.
struct IndexCase {
    IndexKind kind;
    Shape x, index;
    int axis = 0;

    Shape y() const {
        Shape result = kind == IndexKind::gather ? index : x;
        if (kind == IndexKind::select) result[axis] = index.numel();
        if (kind == IndexKind::embedding) result = index, result.push_back(x[1]);
        return result;
    }
    std::vector<std::int64_t> positions(const TestArray& indices) const {
        std::vector<std::int64_t> result;
        const Shape walked = y();
        const Strides strides = contiguous_strides(x);
        for (std::int64_t i = 0; i < walked.numel(); ++i) {
            if (kind == IndexKind::embedding) {
                result.push_back(indices.get_integer(i / x[1]) * x[1] + i % x[1]);
                continue;
            }
            std::int64_t rest = i, position = 0;
            for (int k = walked.rank() - 1; k >= 0; --k) {
                const std::int64_t at = rest % walked[k];
                position += (k == axis ? indices.get_integer(kind == IndexKind::gather ? i : at) : at) * strides[k];
                rest /= walked[k];
            }
            result.push_back(position);
        }
        return result;
    }
    std::string name() const {
        const char* names[] = {"gather/", "index_select/", "embedding/"};
        return names[static_cast<int>(kind)] + to_name(x) + "_by_" + to_name(index) + "_along_" + std::to_string(axis);
    }

    void forward(Device& device, const View& x, const View& index, const View& y) const {
        device.run([&](auto& stream) {
            if (kind == IndexKind::gather) return gather(stream, x, axis, index, y);
            if (kind == IndexKind::select) return index_select(stream, x, axis, index, y);
            embedding(stream, x, index, y);
        });
    }
    void backward(Device& device, const View& index, const View& dy, const View& dx, float beta) const {
        if (kind == IndexKind::gather) return device.run<ScatterAddPlan>(axis, index, dy, dx, beta);
        if (kind == IndexKind::select) return device.run<IndexSelectGradientPlan>(axis, index, dy, dx, beta);
        device.run<EmbeddingGradientPlan>(index, dy, dx, beta);
    }
    const char* what() const {
        const char* names[] = {"gather: index", "index_select: index", "embedding: index"};
        return names[static_cast<int>(kind)];
    }
};

inline Dtype index_dtype(const Variant& v) { return v.dtype == Dtype::f32 ? Dtype::i32 : Dtype::i64; }

/// Copies, in the array's dtype; of embeddings also in wider and narrower ones.
inline Trial index_trial(const Variant& v, Random& random, const IndexCase& problem) {
    Trial trial;
    const TestArray& x = trial.input(v, problem.x, indices(random, 100));
    const TestArray& index = trial.input(index_dtype(v), problem.index, v.in, indices(random, problem.x[problem.axis]));
    trial.output(v, problem.y());
    for (const Dtype other : {Dtype::f64, Dtype::bf16}) {
        if (problem.kind == IndexKind::embedding) trial.output(other, problem.y(), v.out);
    }
    for (const std::int64_t from : problem.positions(index)) {
        for (Output& y : trial.out) y.expect(x.get(from), 0);  // below 256: exact in bf16, too
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        for (const View& y : out) problem.forward(device, in[0], in[1], y);
    };
    return trial;
}

/// How sums are asked for: into which dtype, and what becomes of what is there.
struct SumsTo {
    Dtype dtype;
    float beta;
};

/// Sums by index. `frequent`: most indices are 2. `between`: into every dtype.
inline Trial index_gradient_trial(const Variant& v, Random& random, const IndexCase& problem, bool frequent,
                                  bool between) {
    Trial trial;
    const TestArray& index = trial.input(index_dtype(v), problem.index, v.in, [&](TestArray& array) {
        array.fill_indices(random, std::max<std::int64_t>(problem.x[problem.axis] - 1, 1));  // the last one is not used
        for (std::int64_t i = 0; frequent && i < array.numel(); ++i) i % 5 == 0 ? void() : array.set(i, 2);
    });
    const TestArray& dy = trial.input(v, problem.y(), normal(random));
    std::vector<SumsTo> all{{v.dtype, 0.0f}, {Dtype::f32, 1.0f}, {v.dtype, 0.5f}};
    for (const Dtype to : kFloating) {
        if (between) all.insert(all.end(), {{to, 0.0f}, {to, 1.0f}, {to, -0.5f}});
    }
    const auto positions = problem.positions(index);
    for (const auto& [dtype, beta] : all) {
        Output& dx = trial.output(dtype, problem.x, v.out, beta == 0 ? Fill() : normal(random));
        std::vector<double> value(static_cast<std::size_t>(dx.array.numel())), magnitude(value), count(value);
        for (std::size_t i = 0; i < value.size() && beta != 0; ++i) {
            value[i] = beta * dx.array.get(static_cast<std::int64_t>(i)), magnitude[i] = std::abs(value[i]);
        }
        for (std::size_t i = 0; i < positions.size(); ++i) {
            const auto to = static_cast<std::size_t>(positions[i]);
            const double x = dy.get(static_cast<std::int64_t>(i));
            value[to] += x, magnitude[to] += std::abs(x), count[to] += 1;
        }
        // n additions and a product, each wrong by half a unit; rounded once.
        const double unit = epsilon(compute_dtype(dtype)) / 2;
        for (std::size_t i = 0; i < value.size(); ++i) dx.expect(value[i], (count[i] + 2) * unit * magnitude[i]);
    }
    trial.call = [=](Device& device, const Views& in, const Views& out) {
        for (std::size_t i = 0; i < out.size(); ++i) problem.backward(device, in[0], in[1], out[i], all[i].beta);
    };
    return trial;
}

/// Both ways in every dtype. A sort costs the emulator much: most gradients that take one lie in one layout.
inline void add_index_cases(Cases& cases, const IndexCase& problem, bool forward = true, bool backward = true) {
    if (forward) cases.add(problem.name(), index_trial, problem).only(kAllDtypes, layouts_for(problem.y()));
    if (!backward) return;
    const Shape& x = problem.x;
    const bool gathers = problem.kind == IndexKind::gather, sorts = !gathers || problem.index[problem.axis] > 256;
    const bool moves = x == Shape{4, 5} || x == Shape{3, 16} || x == Shape{7, 64} || x == Shape{7, 5};
    std::span<const Layouts> layouts = kContiguous;
    if (gathers || moves || x == Shape{3, 4, 5}) layouts = kFewLayouts;
    if (!sorts) layouts = layouts_for(problem.y());
    cases.add("gradient_of_" + problem.name(), index_gradient_trial, problem, false, false)
        .only(kFloating, layouts)
        .moves = moves;
}

/// The gradient where most indices are the same.
inline void add_frequent(Cases& cases, const IndexCase& problem) {
    cases.add("gradient_of_" + problem.name() + "/frequent", index_gradient_trial, problem, true, false)
        .only(kFloating)
        .moves = false;
}

/// The gradient where the processor's threads share it out.
inline void add_for_threads(Cases& cases, const IndexCase& problem) {
    cases.add("threads/" + problem.name(), index_gradient_trial, problem, false, false).only(kF32).only_on(kPlaces[0]);
}

}  // namespace headroom::kernels::test
