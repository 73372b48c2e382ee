#include <headroom/tests/support/toy_ops.hpp>

#include <headroom/core/apply.hpp>
#include <headroom/core/ops/joint_targets.hpp>
#include <headroom/kernels/copy/copy.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/pointwise/pointwise.hpp>
#include <headroom/kernels/random/random.hpp>
#include <headroom/kernels/reduce/reduce.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::toy {

namespace {

namespace k = kernels;

struct Add {
    static constexpr OpInfo info{.name = "toy_add", .in_place = 0b11};
    struct Attrs {};
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs&, const Array& a, const Array& b) {
        if (a.shape() != b.shape()) throw ShapeError("toy_add: shapes differ");
        Array y = exec.output(a.shape(), a.dtype);
        exec.launch([&](auto& stream) { k::map(stream, k::Add{}, a.view(), b.view(), y.view()); });
        return {{}, std::move(y)};
    }
    static void backward(Exec&, const Attrs&, const Saved&, Array dy, GradSink sink) {
        sink.give(0, dy);
        sink.give(1, std::move(dy));
    }
    static std::vector<Sample<Attrs>> samples() { return {}; }
};

struct Mul {
    static constexpr OpInfo info{.name = "toy_mul"};
    struct Attrs {};
    struct Saved {
        Array a;
        Array b;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs&, const Array& a, const Array& b) {
        Array y = exec.fresh_output(a.shape(), a.dtype);
        exec.launch([&](auto& stream) { k::map(stream, k::Mul{}, a.view(), b.view(), y.view()); });
        return {{a, b}, std::move(y)};
    }
    static void backward(Exec& exec, const Attrs&, const Saved& saved, Array dy, GradSink sink) {
        if (auto target = sink.destination(0)) {
            exec.launch([&](auto& s) {
                k::map_backward_a(s, k::Mul{}, saved.a.view(), saved.b.view(), dy.view(), target.beta, target.view());
            });
        }
        if (auto target = sink.destination(1)) {
            exec.launch([&](auto& s) {
                k::map_backward_b(s, k::Mul{}, saved.a.view(), saved.b.view(), dy.view(), target.beta, target.view());
            });
        }
    }
    static std::vector<Sample<Attrs>> samples() { return {}; }
};

struct Tanh {
    static constexpr OpInfo info{.name = "toy_tanh", .cost = Cost::expensive, .in_place = 0b1};
    struct Attrs {};
    struct Saved {
        Array y;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs&, const Array& x) {
        Array y = exec.output(x.shape(), x.dtype);
        exec.launch([&](auto& stream) { k::map(stream, k::Tanh{}, x.view(), y.view()); });
        return {{y}, y};
    }
    static void backward(Exec& exec, const Attrs&, const Saved& saved, Array dy, GradSink sink) {
        if (auto target = sink.destination(0, dy)) {
            exec.launch(
                [&](auto& s) { k::map_backward(s, k::Tanh{}, saved.y.view(), dy.view(), target.beta, target.view()); });
        }
    }
    static std::vector<Sample<Attrs>> samples() { return {}; }
};

struct Noisy {
    static constexpr OpInfo info{.name = "toy_noisy"};
    struct Attrs {
        k::RandomKey key;
    };
    struct Saved {
        Array noise;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x) {
        Array noise = exec.fresh_output(x.shape(), x.dtype);
        Array y = exec.fresh_output(x.shape(), x.dtype);
        exec.launch([&](auto& stream) {
            k::normal(stream, attrs.key, 0.0f, 1.0f, noise.view());
            k::map(stream, k::Mul{}, x.view(), noise.view(), y.view());
        });
        return {{std::move(noise)}, std::move(y)};
    }
    static void backward(Exec& exec, const Attrs&, const Saved& saved, Array dy, GradSink sink) {
        if (auto target = sink.destination(0)) {
            exec.launch([&](auto& s) {
                k::map_backward_a(s, k::Mul{}, dy.view(), saved.noise.view(), dy.view(), target.beta, target.view());
            });
        }
    }
    static std::vector<Sample<Attrs>> samples() { return {}; }
};

struct Sine {
    static constexpr OpInfo info{.name = "toy_sine"};
    struct Attrs {
        std::int64_t* outputs;
    };
    struct Saved {
        Array cosine;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x) {
        Array cosine, y;
        if (exec.saved_wanted()) {
            cosine = exec.empty(x.shape(), x.dtype);
            exec.launch([&](auto& stream) { k::map(stream, k::Cos{}, x.view(), cosine.view()); });
        }
        if (exec.output_wanted()) {
            ++*attrs.outputs;
            y = exec.empty(x.shape(), x.dtype);
            exec.launch([&](auto& stream) { k::map(stream, k::Sin{}, x.view(), y.view()); });
        }
        return {{std::move(cosine)}, std::move(y)};
    }
    static void backward(Exec& exec, const Attrs&, const Saved& saved, Array dy, GradSink sink) {
        if (auto target = sink.destination(0)) {
            exec.launch([&](auto& s) {
                k::map_backward_a(s, k::Mul{}, dy.view(), saved.cosine.view(), dy.view(), target.beta, target.view());
            });
        }
    }
    static std::vector<Sample<Attrs>> samples() { return {}; }
};

struct Fork {
    static constexpr OpInfo info{.name = "toy_fork"};
    struct Attrs {};
    struct Saved {};
    static OpResult<Saved, std::array<Array, 2>> forward(Exec& exec, const Attrs&, const Array& x) {
        Array one = exec.fresh_output(x.shape(), x.dtype);
        Array two = exec.fresh_output(x.shape(), x.dtype);
        exec.launch([&](auto& stream) {
            k::map(stream, k::Affine{1.0, 1.0}, x.view(), one.view());
            k::map(stream, k::Affine{2.0, 0.0}, x.view(), two.view());
        });
        return {{}, {std::move(one), std::move(two)}};
    }
    static void backward(Exec& exec, const Attrs&, const Saved&, std::array<Array, 2> dy, GradSink sink) {
        if (auto target = sink.destination(0)) {
            exec.launch([&](auto& s) {
                k::accumulate(s, dy[0].view(), target.view(), 1.0f, target.beta);
                k::accumulate(s, dy[1].view(), target.view(), 2.0f, 1.0f);
            });
        }
    }
    static std::vector<Sample<Attrs>> samples() { return {}; }
};

struct Total {
    static constexpr OpInfo info{.name = "toy_total"};
    struct Attrs {};
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs&, const Array& x) {
        Array y = exec.empty({}, x.dtype);
        exec.run<k::SumPlan>(x.view(), 1.0, y.view(), 0.0f);
        return {{}, std::move(y)};
    }
    static void backward(Exec& exec, const Attrs&, const Saved&, Array dy, GradSink sink) {
        if (auto target = sink.destination(0)) {
            exec.launch([&](auto& s) { k::accumulate(s, dy.view(), target.view(), 1.0f, target.beta); });
        }
    }
    static std::vector<Sample<Attrs>> samples() { return {}; }
};

struct Count {
    static constexpr OpInfo info{.name = "toy_count"};
    struct Attrs {
        Shape shape;
    };
    struct Saved {};
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs) {
        Array y = exec.empty(attrs.shape, Dtype::f32);
        exec.launch([&](auto&) {
            for (std::int64_t i = 0; i < y.numel(); ++i) y.view().as<float>()[i] = static_cast<float>(i);
        });
        return {{}, std::move(y)};
    }
    static std::vector<Sample<Attrs>> samples() { return {}; }
};

struct Fragile {
    static constexpr OpInfo info{.name = "toy_fragile"};
    struct Attrs {
        Faults* faults;
    };
    struct Saved {
        Array x;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs& attrs, const Array& x) {
        Array y = exec.empty(x.shape(), x.dtype);
        if (attrs.faults->forward-- == 0) throw Error("toy_fragile: forward fails as asked");
        exec.launch([&](auto& stream) { k::copy(stream, x.view(), y.view()); });
        return {{x}, std::move(y)};
    }
    static void backward(Exec&, const Attrs& attrs, const Saved&, Array dy, GradSink sink) {
        if (attrs.faults->backward-- == 0) throw Error("toy_fragile: backward fails as asked");
        sink.give(0, std::move(dy));
    }
    static std::vector<Sample<Attrs>> samples() { return {}; }
};

struct Coarse {
    static constexpr OpInfo info{.name = "toy_coarse", .precision = Precision::half};
    struct Attrs {};
    struct Saved {
        Array x;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs&, const Array& x) {
        Array y = exec.empty(x.shape(), Dtype::f32);
        exec.launch([&](auto& stream) { k::copy(stream, x.view(), y.view()); });
        return {{x}, std::move(y)};
    }
    static void backward(Exec&, const Attrs&, const Saved&, Array dy, GradSink sink) { sink.give(0, std::move(dy)); }
    static std::vector<Sample<Attrs>> samples() { return {}; }
};

struct Squares {
    static constexpr OpInfo info{.name = "toy_squares"};
    struct Attrs {};
    struct Saved {
        Array a, b, c, d, e, f, g, h;
    };
    static OpResult<Saved, Array> forward(Exec& exec, const Attrs&, std::span<const Array> x) {
        Array y = exec.empty(x[0].shape(), x[0].dtype);
        const Array square = exec.empty(x[0].shape(), x[0].dtype, Category::workspace);
        exec.launch([&](auto& stream) {
            k::fill(stream, 0.0, y.view());
            for (const Array& one : x) {
                k::map(stream, k::Square{}, one.view(), square.view());
                k::accumulate(stream, square.view(), y.view(), 1.0f, 1.0f);
            }
        });
        return {{x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]}, std::move(y)};
    }
    static void backward(Exec& exec, const Attrs&, const Saved& saved, Array dy, GradSink sink) {
        const Array* x[] = {&saved.a, &saved.b, &saved.c, &saved.d, &saved.e, &saved.f, &saved.g, &saved.h};
        JointTargets targets(exec, sink);
        std::vector<const JointTarget*> dx;
        for (int i = 0; i < 8; ++i) dx.push_back(&targets.ask(i));
        exec.launch([&](auto& stream) {
            for (std::size_t i = 0; i < 8; ++i) {
                if (*dx[i]) k::map_backward(stream, k::Square{}, x[i]->view(), dy.view(), dx[i]->beta, dx[i]->view);
            }
        });
    }
    static std::vector<Sample<Attrs>> samples() { return {}; }
};

}  // namespace

Tensor add(Tensor a, Tensor b) { return apply<Add>({}, std::move(a), std::move(b)); }
Tensor mul(Tensor a, Tensor b) { return apply<Mul>({}, std::move(a), std::move(b)); }
Tensor tanh(Tensor x) { return apply<Tanh>({}, std::move(x)); }
Tensor noisy(Tensor x) {
    const k::RandomKey key = x.context().next_random();
    return apply<Noisy>({key}, std::move(x));
}
Tensor sine(Tensor x, std::int64_t& outputs) { return apply<Sine>({&outputs}, std::move(x)); }
std::array<Tensor, 2> fork(Tensor x) { return apply<Fork>({}, std::move(x)); }
Tensor total(Tensor x) { return apply<Total>({}, std::move(x)); }
Tensor squares(std::vector<Tensor> eight) { return apply<Squares>({}, std::move(eight)); }
Tensor count(Context& context, const Shape& shape) { return apply<Count>(context, {shape}); }
Tensor coarse(Tensor x) { return apply<Coarse>({}, std::move(x)); }
Tensor fragile(Tensor x, Faults& faults) { return apply<Fragile>({&faults}, std::move(x)); }

}  // namespace headroom::toy
