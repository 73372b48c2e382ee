#pragma once
// An array and its name in files: a checkpoint consists of these. The array is a view of live storage (of a parameter,
// say), so saving copies nothing and loading writes in place.
//
//     for (const NamedArray& entry : parameters.state_dict().arrays) {
//         fmt::print("{} {}\n", entry.name, entry.array.shape().to_string());
//     }
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <headroom/core/array.hpp>

namespace headroom {

/// What one of several ranks has of an array: neighbours in memory. All ranks' pieces, in their order, are the whole.
struct ArrayPiece {
    Geometry whole;          ///< without gaps
    std::int64_t first = 0;  ///< elements of it that lie before this piece
};

struct NamedArray {
    NamedArray() = default;
    NamedArray(std::string name_, Array array_, std::optional<ArrayPiece> piece_ = std::nullopt)
        : name(std::move(name_)), array(std::move(array_)), piece(std::move(piece_)) {}

    /// Of the whole.
    const Shape& shape() const { return piece ? piece->whole.shape : array.shape(); }

    std::string name;
    Array array;  ///< of a piece: [elements]
    std::optional<ArrayPiece> piece;
};

}  // namespace headroom
