#include <headroom/memory/tag.hpp>

#include <fmt/format.h>

namespace headroom::memory {

std::string_view name_of(CategoryId category, const std::vector<NamedCategory>& categories) {
    return category < categories.size() ? std::string_view(categories[category].name) : std::string_view();
}

std::string purpose(std::string_view category, std::string_view path) {
    return fmt::format("{}{}{}", category, category.empty() || path.empty() ? "" : " of ", path);
}

}  // namespace headroom::memory
