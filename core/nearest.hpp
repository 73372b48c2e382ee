#pragma once
// Suggests names for a mistyped one, for messages.
//
//     nearest("--layer", {"--layers", "--lr", "--data"}, 1);  // {"--layers"}
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// The `count` names nearest to `wanted`, nearest first, by the number of characters to insert, remove or replace
/// (Levenshtein, 1966); all names if there are fewer.
std::vector<std::string> nearest(std::string_view wanted, std::vector<std::string> names, std::size_t count);

class Parameters;

/// The end of a message about a pattern that matches no parameter: "; the nearest are a.weight, b.weight". Empty if
/// there are no parameters.
std::string nearest_parameters(const Parameters& parameters, std::string_view pattern);

}  // namespace headroom
