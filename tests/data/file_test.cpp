#include <functional>
#include <thread>
#include <vector>
#include <sys/stat.h>

#include <headroom/data/file.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>

namespace headroom::data {
namespace file_test {

using test::ScratchFolder;
using test::throws;

// All readers refuse the same files in the same words.
const std::vector<std::function<void(const std::filesystem::path&)>> readers = {
    [](const std::filesystem::path& path) { read_file(path); },
    [](const std::filesystem::path& path) { check_file(path); },
    [](const std::filesystem::path& path) { MappedFile file(path); },
    [](const std::filesystem::path& path) { FileParts file(path); },
};

TEST(File, IsReadWhole) {
    const ScratchFolder folder;
    std::string contents;
    for (uint32_t i = 0; i < 3'000'000; ++i) contents.push_back(static_cast<char>(i * 7919 >> 3));
    const auto path = folder.write("large", contents);
    EXPECT_EQ(read_file(path), contents);
    EXPECT_EQ(check_file(path), contents.size());
}

TEST(File, MayHoldZerosAndLackALastNewline) {
    const ScratchFolder folder;
    const std::string contents("a\0b\n\0", 5);
    EXPECT_EQ(read_file(folder.write("zeros", contents)), contents);
}

TEST(File, MayBeAPipe) {
    const ScratchFolder folder;
    const auto path = folder.path() / "pipe";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const std::string contents(300'000, 'x');
    std::thread writer([&] { std::ofstream(path) << contents; });
    EXPECT_EQ(check_file(path), 0u);
    EXPECT_EQ(read_file(path), contents);
    writer.join();
}

TEST(File, ThatIsMissingIsRefused) {
    const ScratchFolder folder;
    for (const auto& read : readers)
        EXPECT_THAT([&] { read(folder.path() / "absent"); }, throws<FileError>("absent", "no such file"));
}

TEST(File, WithAnEmptyNameIsRefused) {
    for (const auto& read : readers) EXPECT_THAT([&] { read(""); }, throws<FileError>("empty"));
}

TEST(File, ThatIsAFolderIsRefused) {
    const ScratchFolder folder;
    for (const auto& read : readers)
        EXPECT_THAT([&] { read(folder.path()); }, throws<FileError>(folder.path().native().c_str(), "folder"));
}

TEST(File, ThatIsEmptyIsRefused) {
    const ScratchFolder folder;
    const auto path = folder.write("empty", "");
    for (const auto& read : readers) EXPECT_THAT([&] { read(path); }, throws<FileError>("is empty"));
}

TEST(File, ThatIsADeviceIsRefusedBeforeItIsRead) {
    for (const auto& read : readers) EXPECT_THAT([&] { read("/dev/zero"); }, throws<FileError>("device"));
}

TEST(File, BelowAFileIsRefusedWithTheSystemsReason) {
    const ScratchFolder folder;
    const auto path = folder.write("plain", "x") / "below";
    for (const auto& read : readers) EXPECT_THAT([&] { read(path); }, throws<FileError>("Not a directory"));
}

TEST(File, WithoutPermissionIsRefused) {
    if (::geteuid() == 0) GTEST_SKIP() << "the superuser may read every file";
    const ScratchFolder folder;
    const auto path = folder.write("secret", "x");
    std::filesystem::permissions(path, std::filesystem::perms::none);
    for (const auto& read : readers) EXPECT_THAT([&] { read(path); }, throws<FileError>("Permission denied"));
}

// The system would take it for the file that is named by what comes before.
TEST(File, WhoseNameHasAZeroInItIsNotTheFileThatIsNamedBefore) {
    const ScratchFolder folder;
    const auto path = folder.write("file", "contents").native() + std::string("\0.txt", 5);
    for (const auto& read : readers)
        EXPECT_THAT([&] { read(path); }, throws<FileError>("file?.txt: a path can't contain a zero byte"));
}

TEST(FileParts, AreAsLongAsTheFileLets) {
    const ScratchFolder folder;
    const FileParts file(folder.write("file", "contents"));
    EXPECT_EQ(file.size(), 8u);
    EXPECT_EQ(file.read(3, 4), "tent");
    EXPECT_EQ(file.read(3, 100), "tents");
    EXPECT_EQ(file.read(8, 1), "");
    EXPECT_EQ(file.read(std::size_t{1} << 63, 1), "");
    folder.write("file", "c");  // it was cut meanwhile
    EXPECT_EQ(file.read(0, 5), "c");
}

TEST(MappedFile, ShowsTheBytesAndSurvivesMoves) {
    const ScratchFolder folder;
    MappedFile file(folder.write("file", "contents"));
    MappedFile moved(std::move(file));
    file = MappedFile(folder.write("other", "xyz"));
    std::swap(file, moved);
    const auto text = [](const MappedFile& f) {
        return std::string(reinterpret_cast<const char*>(f.bytes().data()), f.bytes().size());
    };
    EXPECT_EQ(text(file), "contents");
    EXPECT_EQ(text(moved), "xyz");
}

TEST(MappedFile, CantBeAPipe) {
    const ScratchFolder folder;
    const auto path = folder.path() / "pipe";
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    EXPECT_THAT([&] { MappedFile file(path); }, throws<FileError>("pipe"));
}

}  // namespace file_test
}  // namespace headroom::data
