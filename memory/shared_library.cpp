#include <headroom/memory/shared_library.hpp>

#include <dlfcn.h>

#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include <headroom/memory/error.hpp>

namespace headroom::memory {

std::vector<std::string> library_files(const char* variable, std::vector<std::string> otherwise) {
    const char* const chosen = std::getenv(variable);
    if (chosen && *chosen) return {chosen};
    std::erase(otherwise, "");
    return otherwise;
}

SharedLibrary::SharedLibrary(std::string name, const std::vector<std::string>& files, std::string advice)
    : name_(std::move(name)), advice_(std::move(advice)) {
    std::string reasons;
    for (const std::string& file : files) {
        handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
        file_ = file;
        if (handle_) return;
        const char* const text = dlerror();
        reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", text ? text : file);
    }
    throw DeviceError(fmt::format("{} can't be loaded ({}); {}", name_, reasons, advice_));
}

void* SharedLibrary::address_of(const char* symbol) const {
    if (void* const address = dlsym(handle_, symbol)) return address;
    throw DeviceError(fmt::format("{} ({}) lacks the function {}; {}", name_, file_, symbol, advice_));
}

}  // namespace headroom::memory
