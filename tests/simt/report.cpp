#include <fmt/format.h>

#include <map>
#include <string_view>
#include <headroom/tests/simt/running_block.hpp>

namespace headroom::simt {
namespace {

std::string where(const CudaThread& thread) {
    switch (thread.state) {
        case CudaThread::State::at_sync:
            return fmt::format("wait in sync at {}", describe(thread.site));
        case CudaThread::State::at_collective: {
            constexpr std::string_view names[] = {"",          "warp_sync",       "a vote",
                                                  "a shuffle", "a tile's access", "multiply_add"};
            return fmt::format("wait in {} with mask {:#010x} at {}", names[static_cast<int>(thread.collective)],
                               thread.mask, describe(thread.site));
        }
        default:
            return "have returned";
    }
}

// 0-15, 17, 40-63
std::string ranges(const std::vector<unsigned>& numbers) {
    std::string text;
    for (std::size_t i = 0; i < numbers.size();) {
        std::size_t last = i;
        while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
        text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
        if (last != i) text += fmt::format("-{}", numbers[last]);
        i = last + 1;
    }
    return text;
}

}  // namespace

std::string describe(const kernels::device::Site& site) {
    const std::string_view path = site.file_name();
    return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), site.line());
}

std::string describe_waiting(const std::vector<CudaThread>& threads) {
    std::map<std::string, std::vector<unsigned>> groups;
    for (const CudaThread& thread : threads) groups[where(thread)].push_back(thread.thread);
    std::string text;
    for (const auto& [what, members] : groups)
        text += fmt::format("{}threads {} {}", text.empty() ? "" : "; ", ranges(members), what);
    return text;
}

}  // namespace headroom::simt
