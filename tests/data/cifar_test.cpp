#include <filesystem>
#include <string>

#include <fmt/format.h>

#include <headroom/data/cifar.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace cifar_test {

using test::ScratchFolder;
using test::throws;

TEST(Cifar10, HasTheRecordsOfItsFiles) {
    const ScratchFolder folder;
    const auto write = [&](const std::string& name, int records, int label) {
        std::string bytes;
        for (int i = 0; i < records; ++i) {
            bytes.push_back(static_cast<char>(label));
            for (int j = 0; j < 3072; ++j) bytes.push_back(static_cast<char>(j / 4 + label + i));
        }
        folder.write(name, bytes);
    };
    for (int i = 1; i <= 5; ++i) write(fmt::format("data_batch_{}.bin", i), i, i);
    write("test_batch.bin", 2, 9);
    const auto train = read_cifar10(folder.path(), CifarPart::train);
    ASSERT_EQ(train->size(), 15);
    const ImageSample sample = train->load(2);  // the second of file 2
    EXPECT_EQ(sample.label, 2);
    for (int64_t c = 0; c < 3; ++c)
        EXPECT_EQ(sample.image.at(5, 7)[c], static_cast<uint8_t>((c * 1024 + 5 * 32 + 7) / 4 + 2 + 1));
    EXPECT_EQ(read_cifar10(folder.path(), CifarPart::test)->size(), 2);
    write("test_batch.bin", 2, 10);
    EXPECT_THAT([&] { read_cifar10(folder.path(), CifarPart::test); },
                throws<FileError>("test_batch.bin: label 10 of record 0 is not below the number of classes, 10"));
    folder.write("test_batch.bin", "short");
    EXPECT_THAT([&] { read_cifar10(folder.path(), CifarPart::test); },
                throws<FileError>("test_batch.bin: 5 bytes are not a whole number of 3073-byte records"));
    std::filesystem::remove(folder.path() / "data_batch_3.bin");
    EXPECT_THAT([&] { read_cifar10(folder.path(), CifarPart::train); },
                throws<FileError>("data_batch_3.bin: no such file"));
}

TEST(Cifar100, HasTheFineLabelsOfItsRecords) {
    const ScratchFolder folder;
    const auto write = [&](const std::string& name, int records, int fine) {
        std::string bytes;
        for (int i = 0; i < records; ++i) {
            bytes.push_back(static_cast<char>(19));
            bytes.push_back(static_cast<char>(fine + i));
            for (int j = 0; j < 3072; ++j) bytes.push_back(static_cast<char>(j / 4 + i));
        }
        folder.write(name, bytes);
    };
    write("train.bin", 3, 97);
    write("test.bin", 2, 0);
    const auto train = read_cifar100(folder.path(), CifarPart::train);
    ASSERT_EQ(train->size(), 3);
    const ImageSample sample = train->load(2);
    EXPECT_EQ(sample.label, 99);
    for (int64_t c = 0; c < 3; ++c)
        EXPECT_EQ(sample.image.at(5, 7)[c], static_cast<uint8_t>((c * 1024 + 5 * 32 + 7) / 4 + 2));
    EXPECT_EQ(read_cifar100(folder.path(), CifarPart::test)->size(), 2);
    EXPECT_EQ(find_cifar(folder.path()), CifarKind::hundred);
    write("train.bin", 1, 100);
    EXPECT_THAT([&] { read_cifar100(folder.path(), CifarPart::train); },
                throws<FileError>("train.bin: label 100 of record 0 is not below the number of classes, 100"));
    folder.write("train.bin", std::string(3073, 0));
    EXPECT_THAT([&] { read_cifar100(folder.path(), CifarPart::train); },
                throws<FileError>("train.bin: 3073 bytes are not a whole number of 3074-byte records"));
}

TEST(FindCifar, NamesTheVersionsThatAreNotRead) {
    struct Version {
        const char *file, *what, *archive;
    };
    for (const auto& [file, what, archive] :
         {Version{"data_batch_1", "CIFAR-10's Python files", "cifar-10-binary.tar.gz"},
          Version{"test_batch", "CIFAR-10's Python files", "cifar-10-binary.tar.gz"},
          Version{"test_batch.mat", "CIFAR-10's Matlab files", "cifar-10-binary.tar.gz"},
          Version{"train", "CIFAR-100's Python files", "cifar-100-binary.tar.gz"},
          Version{"test.mat", "CIFAR-100's Matlab files", "cifar-100-binary.tar.gz"}}) {
        const ScratchFolder folder;
        EXPECT_EQ(find_cifar(folder.path()), CifarKind::none);
        folder.write(file, "x");
        EXPECT_THAT([&] { find_cifar(folder.path()); },
                    throws<FileError>(what, "are not read; get the binary version", archive));
        folder.write(std::string(archive).starts_with("cifar-100") ? "test.bin" : "test_batch.bin", "x");
        EXPECT_NE(find_cifar(folder.path()), CifarKind::none);
    }
    const ScratchFolder folder;  // of images
    std::filesystem::create_directory(folder.path() / "train");
    EXPECT_EQ(find_cifar(folder.path()), CifarKind::none);
}

}  // namespace cifar_test
}  // namespace headroom::data
