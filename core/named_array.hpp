#pragma once
// An array with its name in files; checkpoints are lists of these. The array is a view of live storage, for example of
// a parameter, so saving copies nothing and loading writes in place.
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

/// One rank's piece of a sharded array: consecutive elements in memory. The pieces of all ranks, in rank order, make up
/// the whole.
struct ArrayPiece {
    Geometry whole;          ///< without gaps
    std::int64_t first = 0;  ///< index in the whole of this piece's first element
};

struct NamedArray {
    NamedArray() = default;
    NamedArray(std::string name_, Array array_, std::optional<ArrayPiece> piece_ = std::nullopt)
        : name(std::move(name_)), array(std::move(array_)), piece(std::move(piece_)) {}

    /// Shape of the whole array.
    const Shape& shape() const { return piece ? piece->whole.shape : array.shape(); }

    std::string name;
    Array array;  ///< [elements] if it is a piece
    std::optional<ArrayPiece> piece;
};

}  // namespace headroom
