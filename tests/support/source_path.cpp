#include <headroom/tests/support/source_path.hpp>

namespace headroom::test {

std::string source_path(const std::string& name) { return HEADROOM_SOURCE_DIR "/" + name; }

}  // namespace headroom::test
