#include <headroom/core/state_dict.hpp>

#include <headroom/core/state_counter.hpp>

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
        if (stop == end && error == std::errc()) return number;
        throw Error(
            fmt::format("the state's \"{}\" is \"{}\", which is not a number of the expected type", name, text));
    }
}

std::int64_t state_counter(const StateValues& values, std::string_view name) {
    const auto count = state_value<std::int64_t>(values, name);
    if (count >= 0 && count <= std::int64_t{1} << 62) return count;
    throw Error(fmt::format("the state's \"{}\" is {}; a count must be from 0 to 2^62", name, count));
}

template std::int64_t state_value(const StateValues&, std::string_view);
template std::uint64_t state_value(const StateValues&, std::string_view);
template double state_value(const StateValues&, std::string_view);
template std::string state_value(const StateValues&, std::string_view);

}  // namespace headroom
