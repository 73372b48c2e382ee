#pragma once
// Programs of at most 16 ops, few enough to look at every plan of them: some with a name, others drawn.
//
//     for (const auto& [name, program] : named_graphs()) ...
//     const RecordedProgram program = program_of(drawn_graph(seed, 12));
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <headroom/core/ops/binary.hpp>
#include <headroom/core/ops/matmul.hpp>
#include <headroom/core/ops/reduce.hpp>
#include <headroom/core/ops/unary.hpp>
#include <headroom/core/rehearsal.hpp>

namespace headroom::plan {

inline constexpr std::int64_t kGraphRows = 64;

/// Of a micro-batch: x, of 64 rows and 128 columns, and a way to weights by their sizes, which has each pair once.
struct GraphInputs {
    Tensor x;
    std::function<Tensor(std::int64_t in, std::int64_t out)> weight;
};

using Graph = std::function<Tensor(const GraphInputs&)>;

/// Two micro-batches, whose `loss` takes the sum of what `graph` returns.
inline void train_graph(Context& context, const Graph& graph) {
    const auto zeros_of = [&](std::int64_t rows, std::int64_t columns) {
        return context.from_host(std::vector<float>(static_cast<std::size_t>(rows * columns)), {rows, columns});
    };
    std::map<std::pair<std::int64_t, std::int64_t>, Tensor> weights;
    for (int step = 0; step < 2; ++step) {
        Tensor loss;
        {
            const MicroBatchScope micro_batch(context);
            loss = sum(graph({zeros_of(kGraphRows, 128), [&](std::int64_t in, std::int64_t out) {
                                  const auto [place, is_new] = weights.try_emplace({in, out});
                                  if (is_new) place->second = zeros_of(in, out).requires_grad_();
                                  return place->second;
                              }}));
        }
        backward(loss);
    }
}

inline RecordedProgram program_of(const Graph& graph, const Profile& profile = {}) {
    return rehearse(profile,
                    [&](Context& context) {
                        context.policy(inherit_all());
                        train_graph(context, graph);
                    })
        .program;
}

inline std::vector<std::pair<std::string, RecordedProgram>> named_graphs() {
    std::vector<std::pair<std::string, RecordedProgram>> graphs;
    const auto add_graph = [&](const std::string& name, const Graph& graph) {
        graphs.emplace_back(name, program_of(graph));
    };
    add_graph("two diamonds", [](const GraphInputs& in) {
        Tensor x = matmul(in.x, in.weight(128, 512));
        for (int i = 0; i < 2; ++i) {
            Tensor left = gelu(x), right = tanh(x);
            x = gelu(left * tanh(right)) * right;
        }
        return matmul(std::move(x), in.weight(512, 128));
    });
    add_graph("densenet", [](const GraphInputs& in) {
        Tensor all = matmul(in.x, in.weight(128, 256));
        for (int i = 0; i < 4; ++i) all = all + gelu(matmul(all, in.weight(256, 256)));
        return all;
    });
    add_graph("a weight six times", [](const GraphInputs& in) {
        Tensor x = in.x;
        for (int i = 0; i < 6; ++i) x = tanh(matmul(std::move(x), in.weight(128, 128)));
        return x;
    });
    add_graph("an hourglass", [](const GraphInputs& in) {
        Tensor wide = gelu(matmul(in.x, in.weight(128, 1024)));
        Tensor middle = gelu(matmul(wide, in.weight(1024, 256)));
        Tensor narrow = tanh(gelu(matmul(middle, in.weight(256, 64))));
        Tensor up = gelu(matmul(std::move(narrow), in.weight(64, 256))) * middle;
        return gelu(matmul(std::move(up), in.weight(256, 1024))) * wide;
    });
    return graphs;
}

/// `ops` of them, with the sum: products with weights, functions, and products of two values that lie before.
inline Graph drawn_graph(std::uint64_t seed, std::size_t ops) {
    struct Node {
        std::uint64_t kind = 0;
        std::size_t a = 0, b = 0;  ///< nodes; 0 is x
        std::int64_t width = 128;
    };
    std::mt19937_64 random(seed);
    std::vector<Node> nodes{{}, {.width = 256}};  // a product of x and a weight comes first
    while (nodes.size() < ops) {
        const std::size_t made = nodes.size() - 1;
        Node node{.kind = random() % 4, .a = made - random() % std::min<std::size_t>(made, 3)};
        const std::int64_t in = nodes[node.a].width;
        node.width = node.kind == 0 ? std::int64_t{64} << random() % 4 : in;
        if (node.kind == 1) {  // with another of that width, if there is one
            node.b = node.a;
            for (std::size_t i = 0; i < 4; ++i) {
                const std::size_t other = 1 + random() % made;
                if (nodes[other].width == in && other != node.a) node.b = other;
            }
            if (node.b == node.a) node.kind = 2;
        }
        nodes.push_back(node);
    }
    std::vector<std::size_t> last_use(nodes.size(), nodes.size());
    for (std::size_t i = 1; i < nodes.size(); ++i) last_use[nodes[i].a] = last_use[nodes[i].b] = i;
    return [nodes = std::move(nodes), last_use = std::move(last_use)](const GraphInputs& in) {
        std::vector<Tensor> values{in.x};
        for (std::size_t i = 1; i < nodes.size(); ++i) {
            const Node& node = nodes[i];
            const Tensor a = values[node.a];
            values.push_back(node.kind == 0   ? matmul(a, in.weight(nodes[node.a].width, node.width))
                             : node.kind == 1 ? a * values[node.b]
                             : node.kind == 2 ? gelu(a)
                                              : tanh(a));
            for (std::size_t before = 0; before < i; ++before) {
                if (last_use[before] == i) values[before] = Tensor();
            }
        }
        return values.back();
    };
}

}  // namespace headroom::plan
