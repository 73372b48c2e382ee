#include <headroom/training/say.hpp>

namespace headroom::training {

std::string memory_text(const Profile& profile) {
    const std::size_t total = profile.device_memory().total_bytes;
    if (!profile.cuda()) return fmt::format("the device has {}", size_text(total));
    std::string text = fmt::format(
        "the {} has {}, of which a training may take {}: {} are left to CUDA and its libraries", profile.model.name,
        size_text(total), size_text(profile.usable_bytes()), size_text(profile.reserved_bytes()));
    if (profile.ranks > 1) text += ", buffers of NCCL among them";
    if (profile.in_use > profile.reserve - profile.reserve / 2)
        text += fmt::format(", since {} were in use at the start, by its context and other programs",
                            size_text(profile.in_use));
    return text;
}

}  // namespace headroom::training
