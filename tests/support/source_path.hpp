#pragma once
// Files of the sources, for tests that read them. In one source, so that nothing else that is compiled depends on the
// folder that it lies in: the compiler cache then serves other clones, too.
#include <string>

namespace headroom::test {

/// Where `name`, from the sources' root, lies on this machine. Empty: the root itself.
std::string source_path(const std::string& name);

}  // namespace headroom::test
