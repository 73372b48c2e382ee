#include <headroom/data/cifar.hpp>

#include <array>
#include <string>

#include <fmt/format.h>
#include <headroom/data/file.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::data {
namespace {

constexpr std::size_t kSide = 32, kPlane = kSide * kSide, kChannels = 3;

struct Cifar {
    const char* name;
    const char* archive;  // of the binary version
    std::array<const char*, 2> files;
    std::size_t labels;  // of a record, the last one counts
    int classes;
};
constexpr Cifar kCifar10{"CIFAR-10", "cifar-10-binary.tar.gz", {"data_batch_1", "test_batch"}, 1, 10};
constexpr Cifar kCifar100{"CIFAR-100", "cifar-100-binary.tar.gz", {"train", "test"}, 2, 100};

class Records {
  public:
    explicit Records(const Cifar& cifar) : cifar_(cifar) {}

    void append(const std::filesystem::path& path) {
        const std::string bytes = read_file(path);
        const std::size_t record = cifar_.labels + kChannels * kPlane;
        if (bytes.size() % record != 0)
            throw FileError(fmt::format("{}: {} bytes are not a whole number of {}-byte records; get the file again",
                                        path.native(), bytes.size(), record));
        for (std::size_t at = 0; at < bytes.size(); at += record) {
            const std::size_t first = at + cifar_.labels;
            const auto label = static_cast<std::uint8_t>(bytes[first - 1]);
            if (label >= cifar_.classes)
                throw FileError(fmt::format("{}: label {} of record {} is not below the number of classes, {}",
                                            path.native(), label, at / record, cifar_.classes));
            labels_.push_back(label);
            for (std::size_t pixel = 0; pixel < kPlane; ++pixel)
                for (std::size_t c = 0; c < kChannels; ++c)
                    pixels_.push_back(static_cast<std::uint8_t>(bytes[first + c * kPlane + pixel]));
        }
    }

    std::shared_ptr<const MemoryImages> images() && {
        return std::make_shared<MemoryImages>(std::move(pixels_), kSide, kSide, kChannels, std::move(labels_));
    }

  private:
    Cifar cifar_;
    std::vector<std::uint8_t> pixels_, labels_;
};

bool has(const std::filesystem::path& folder, const Cifar& cifar, const char* ending) {
    std::error_code ignored;
    for (const char* file : cifar.files)
        if (std::filesystem::is_regular_file(folder / fmt::format("{}{}", file, ending), ignored)) return true;
    return false;
}

}  // namespace

std::shared_ptr<const MemoryImages> read_cifar10(const std::filesystem::path& folder, CifarPart part) {
    Records records(kCifar10);
    if (part == CifarPart::test)
        records.append(folder / "test_batch.bin");
    else
        for (int i = 1; i <= 5; ++i) records.append(folder / fmt::format("data_batch_{}.bin", i));
    return std::move(records).images();
}

std::shared_ptr<const MemoryImages> read_cifar100(const std::filesystem::path& folder, CifarPart part) {
    Records records(kCifar100);
    records.append(folder / (part == CifarPart::test ? "test.bin" : "train.bin"));
    return std::move(records).images();
}

CifarKind find_cifar(const std::filesystem::path& folder) {
    if (has(folder, kCifar10, ".bin")) return CifarKind::ten;
    if (has(folder, kCifar100, ".bin")) return CifarKind::hundred;
    for (const Cifar& cifar : {kCifar10, kCifar100})
        for (const auto& [ending, version] : {std::pair("", "Python"), std::pair(".mat", "Matlab")})
            if (has(folder, cifar, ending))
                throw FileError(
                    fmt::format("{}: has {}'s {} files, which are not read; get the binary version, {}, from "
                                "https://www.cs.toronto.edu/~kriz/cifar.html",
                                folder.native(), cifar.name, version, cifar.archive));
    return CifarKind::none;
}

}  // namespace headroom::data
