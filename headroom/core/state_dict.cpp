#include <headroom/core/state_dict.hpp>

#include <charconv>
#include <type_traits>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom {

template <class T>
T state_value(const StateValues& values, std::string_view name) {
    const auto found = values.find(std::string(name));
    if (found == values.end()) throw Error(fmt::format("the state lacks \"{}\"", name));
    const std::string& text = found->second;
    if constexpr (std::is_same_v<T, std::string>) {
        return text;
    } else {
        T number{};
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, number);
        // A counter goes on from there, and the next checkpoint must be one that loads.
        const bool counts_on = !std::is_same_v<T, std::int64_t> || number <= T{std::int64_t{1} << 62};
        if (stop == end && error == std::errc() && counts_on) return number;
        throw Error(fmt::format("the state's \"{}\" is \"{}\", which is no number of its kind", name, text));
    }
}

template std::int64_t state_value(const StateValues&, std::string_view);
template std::uint64_t state_value(const StateValues&, std::string_view);
template double state_value(const StateValues&, std::string_view);
template std::string state_value(const StateValues&, std::string_view);

}  // namespace headroom
