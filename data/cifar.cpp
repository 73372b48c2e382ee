#include <headroom/data/cifar.hpp>

#include <string>

#include <fmt/format.h>
#include <headroom/data/file.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

constexpr std::size_t kSide = 32, kPlane = kSide * kSide, kChannels = 3, kRecord = 1 + kChannels * kPlane;
constexpr int kClasses = 10;

void append(const std::filesystem::path& path, std::vector<std::uint8_t>& pixels, std::vector<std::uint8_t>& labels) {
    const std::string bytes = read_file(path);
    if (bytes.size() % kRecord != 0)
        throw FileError(fmt::format("{}: {} bytes are no whole number of records of {}; get the file again",
                                    path.native(), bytes.size(), kRecord));
    for (std::size_t at = 0; at < bytes.size(); at += kRecord) {
        const auto label = static_cast<std::uint8_t>(bytes[at]);
        if (label >= kClasses)
            throw FileError(fmt::format("{}: label {} of record {} is not below the number of classes, {}",
                                        path.native(), label, at / kRecord, kClasses));
        labels.push_back(label);
        for (std::size_t pixel = 0; pixel < kPlane; ++pixel)
            for (std::size_t c = 0; c < kChannels; ++c)
                pixels.push_back(static_cast<std::uint8_t>(bytes[at + 1 + c * kPlane + pixel]));
    }
}

}  // namespace

std::shared_ptr<const MemoryImages> read_cifar10(const std::filesystem::path& folder, CifarPart part) {
    std::vector<std::uint8_t> pixels, labels;
    if (part == CifarPart::test)
        append(folder / "test_batch.bin", pixels, labels);
    else
        for (int i = 1; i <= 5; ++i) append(folder / fmt::format("data_batch_{}.bin", i), pixels, labels);
    return std::make_shared<MemoryImages>(std::move(pixels), kSide, kSide, kChannels, std::move(labels));
}

}  // namespace headroom::data
