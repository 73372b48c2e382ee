#pragma once
// Calls modules and functions of one tensor one after another. The parts keep their types, so there are no virtual
// calls.
//
//     auto net = nn::sequential(nn::Linear(root / "fc1", 784, 256), [](Tensor x) { return relu(std::move(x)); },
//                           nn::Linear(root / "fc2", 256, 10));
//     Tensor logits = net(images);
//     std::get<0>(net.parts).weight;
#include <cstddef>
#include <tuple>
#include <utility>

#include <headroom/core/tensor.hpp>

namespace headroom::nn {

template <class... Parts>
class Sequential {
  public:
    explicit Sequential(Parts... modules) : parts(std::move(modules)...) {}

    Tensor operator()(Tensor x) const {
        std::apply([&](const auto&... part) { ((x = part(std::move(x))), ...); }, parts);
        return x;
    }

    std::tuple<Parts...> parts;
};

/// Makes a Sequential; moves the modules and functions into it.
template <class... Parts>
Sequential<Parts...> sequential(Parts... parts) {
    return Sequential<Parts...>(std::move(parts)...);
}

}  // namespace headroom::nn
