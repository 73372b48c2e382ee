// What is written is read again, bit for bit; a failed write leaves the old file; other writers' files are read.
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <vector>

#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <headroom/files/safetensors.hpp>
#include <headroom/files/safetensors_dtypes.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/support/reference.hpp>
#include <headroom/tests/support/source_path.hpp>

namespace headroom::files {
namespace safetensors_test {

using headroom::test::ScratchFolder;
using headroom::test::throws;

std::string contents(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

class Safetensors : public ::testing::Test {
  protected:
    /// An array whose bytes are 0, 1, 2, ...; bools alternate.
    Array counting(const Shape& shape, Dtype dtype) {
        Array array = context.exec().empty(shape, dtype);
        auto* bytes = static_cast<unsigned char*>(static_cast<void*>(array.buffer.data()));
        for (std::size_t i = 0; i < bytes_of(array).size(); ++i) {
            bytes[i] = static_cast<unsigned char>(dtype == Dtype::boolean ? i % 2 : i * 7);
        }
        return array;
    }
    static std::string bytes_of(const Array& array) {
        return {reinterpret_cast<const char*>(array.buffer.data()),
                static_cast<std::size_t>(array.numel()) * size_of(array.dtype)};
    }
    Tensor floats(const std::vector<float>& values, const Shape& shape) { return context.from_host(values, shape); }

    Context context = Context::cpu({.threads = 1});
    ScratchFolder folder;
    std::filesystem::path path = folder.path() / "model.safetensors";
};

TEST_F(Safetensors, EveryDtypeComesBackBitForBit) {
    for (int i = 0; i < kernels::kDtypeCount; ++i) {
        const auto dtype = static_cast<Dtype>(i);
        const Array array = counting({3, 5}, dtype);
        write_safetensors(path, context, {{"x", array}});
        const SafetensorsFile file(path);
        ASSERT_EQ(file.entries().size(), 1u);
        EXPECT_EQ(file.find("x")->dtype, dtype);
        EXPECT_EQ(file.find("x")->shape, (Shape{3, 5}));
        const Array back = context.exec().empty({3, 5}, dtype);
        file.copy_to(*file.find("x"), context, back);
        EXPECT_EQ(bytes_of(back), bytes_of(array)) << name(dtype);
    }
}

TEST_F(Safetensors, ArraysThatAreNotThereOrOfAnotherContextAreRefused) {
    EXPECT_THAT([&] { write_safetensors(path, context, {{"x", Array{}}}); }, throws<Error>("x", "undefined"));
    Context dry = Context::dry(context.profile());
    const Array foreign = dry.scalar(1.0).array();
    EXPECT_THAT(
        [&] {
            write_safetensors(path, context, {{"x", foreign}});
        },
        throws<Error>("x", "belongs to another context"));
    EXPECT_FALSE(std::filesystem::exists(path));
    write_safetensors(path, context, {{"x", context.scalar(1.0).array()}});
    const SafetensorsFile file(path);
    EXPECT_THAT([&] { file.copy_to(*file.find("x"), context, foreign); }, throws<Error>("belongs to another context"));
    EXPECT_THAT([&] { file.copy_to(*file.find("x"), context, {}); }, throws<Error>("undefined"));
}

TEST_F(Safetensors, ScalarsAndEmptyArraysHaveEntriesToo) {
    write_safetensors(path, context, {{"scalar", context.scalar(2.5).array()}, {"none", counting({0, 3}, Dtype::f32)}});
    const SafetensorsFile file(path);
    EXPECT_EQ(file.find("none")->shape, (Shape{0, 3}));
    file.copy_to(*file.find("none"), context, counting({0, 3}, Dtype::f32));
    const Tensor scalar = context.scalar(0);
    file.copy_to(*file.find("scalar"), context, scalar.array());
    EXPECT_EQ(scalar.item(), 2.5);
}

TEST_F(Safetensors, StridedArraysAreWrittenAndFilledInRowMajorOrder) {
    const Tensor x = floats({1, 2, 3, 4, 5, 6}, {2, 3});
    write_safetensors(path, context, {{"x", x.transpose(0, 1).array()}});
    const SafetensorsFile file(path);
    const Tensor y = floats({0, 0, 0, 0, 0, 0}, {3, 2});
    file.copy_to(*file.find("x"), context, y.array());
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
    const Tensor z = floats({0, 0, 0, 0, 0, 0}, {2, 3});
    file.copy_to(*file.find("x"), context, z.transpose(0, 1).array());
    EXPECT_EQ(z.to_vector<float>(), (std::vector<float>{1, 2, 3, 4, 5, 6}));
}

TEST_F(Safetensors, FileHasTheBytesOfTheSpecification) {
    const Tensor b = floats({1, -2}, {2});
    const Tensor a = context.from_host(std::vector<std::uint8_t>{7}, {});
    write_safetensors(path, context, {{"b", b.array()}, {"a", a.array()}}, {{"made", "by \"me\""}});
    std::string header = R"({"__metadata__":{"made":"by \"me\""},"a":{"dtype":"U8","shape":[],"data_offsets":[0,1]},)"
                         R"("b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})";
    header.resize((header.size() + 7) / 8 * 8, ' ');
    const std::string length{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0};
    const std::string data("\x07\x00\x00\x80\x3f\x00\x00\x00\xc0", 9);
    EXPECT_EQ(contents(path), length + header + data);
    EXPECT_EQ(SafetensorsFile(path).metadata(), (Metadata{{"made", "by \"me\""}}));
}

TEST_F(Safetensors, TheSameTensorsGiveTheSameBytesInAnyOrder) {
    const Tensor a = floats({1, 2}, {2}), b = floats({3}, {1});
    write_safetensors(path, context, {{"a", a.array()}, {"b", b.array()}});
    const std::string first = contents(path);
    write_safetensors(path, context, {{"b", b.array()}, {"a", a.array()}});
    EXPECT_EQ(contents(path), first);
}

TEST_F(Safetensors, ReadsWhatTheReferenceImplementationWrote) {
    const std::string reference = test::source_path("tests/reference/gpt_initial.safetensors");
    const SafetensorsFile file(reference);
    const test::Reference want(reference);
    ASSERT_EQ(file.entries().size(), want.all().size());
    for (const SafetensorsEntry& entry : file.entries()) {
        const Array array = context.exec().empty(entry.shape, Dtype::f64);
        file.copy_to(entry, context, array);
        EXPECT_EQ(context.from_array(array).to_vector<double>(), want.at(entry.name).values) << entry.name;
    }
}

TEST_F(Safetensors, CopyConvertsTheDtypeAndRefusesAnotherShape) {
    write_safetensors(path, context, {{"x", floats({1.5f, -2}, {2}).array()}});
    const SafetensorsFile file(path);
    const Array half = context.exec().empty({2}, Dtype::bf16);
    file.copy_to(*file.find("x"), context, half);
    EXPECT_EQ(context.from_array(half).to_vector<float>(), (std::vector<float>{1.5f, -2}));
    EXPECT_THAT(
        [&] {
            file.copy_to(*file.find("x"), context, counting({1, 2}, Dtype::f32));
        },
        throws<ShapeError>("x has shape [2]", "[1, 2]"));
}

TEST_F(Safetensors, RefusesNamesThatCouldNotBeReadAgain) {
    const Array one = counting({1}, Dtype::f32);
    const auto writing = [&](const std::string& a, const std::string& b) {
        return [&, a, b] { write_safetensors(path, context, {{a, one}, {b, one}}); };
    };
    EXPECT_THAT(writing("x", "x"), throws<Error>("two tensors are named \"x\""));
    EXPECT_THAT(writing("x", "__metadata__"), throws<Error>("__metadata__"));
    EXPECT_THAT(writing("x", "\xff"), throws<Error>("not UTF-8"));
    EXPECT_THAT(writing("x", "a\nb"), throws<Error>("control character"));
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(Safetensors, AFileThatShrinksMeanwhileIsAnErrorOfTheFile) {
    write_safetensors(path, context, {{"x", counting({100}, Dtype::f32)}});
    const SafetensorsFile file(path);
    std::filesystem::resize_file(path, 200);
    EXPECT_THAT([&] { file.copy_to(*file.find("x"), context, counting({100}, Dtype::f32)); },
                throws<FileError>(path.string(), "x can't be read"));
}

TEST_F(Safetensors, ADryContextReadsNoData) {
    write_safetensors(path, context, {{"x", counting({100}, Dtype::f32)}});
    const SafetensorsFile file(path);
    std::filesystem::resize_file(path, 200);
    Context dry = Context::dry(context.profile());
    for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
        file.copy_to(*file.find("x"), dry, dry.exec().empty({100}, dtype));
    }
    EXPECT_THROW(file.copy_to(*file.find("x"), dry, dry.exec().empty({99}, Dtype::f32)), ShapeError);
}

TEST_F(Safetensors, WritingReplacesAndLeavesNothingBeside) {
    write_safetensors(path, context, {{"x", counting({9}, Dtype::f32)}});
    write_safetensors(path, context, {{"y", counting({1}, Dtype::f32)}});
    EXPECT_TRUE(SafetensorsFile(path).find("y"));
    EXPECT_FALSE(SafetensorsFile(path).find("x"));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

/// From the folder in which each of them lies, whatever the working folder is.
TEST_F(Safetensors, WritingFollowsLinksAndLeavesThem) {
    namespace fs = std::filesystem;
    fs::create_directories(folder.path() / "runs" / "best");
    const fs::path real = folder.path() / "runs" / "best" / "model", link = folder.path() / "latest",
                   first = folder.path() / "runs" / "first", gone = folder.path() / "runs" / "gone";
    fs::create_symlink("runs/first", link);
    fs::create_symlink("best/model", first);
    fs::create_symlink("best/none", gone);
    for (const float value : {1.0f, 2.0f}) {  // a new file, and one in another's place
        write_safetensors(link, context, {{"x", floats({value}, {1}).array()}});
        EXPECT_EQ(to_replace(link), real);
        EXPECT_TRUE(fs::is_symlink(link) && fs::is_symlink(first));
        EXPECT_EQ(contents(real), contents(link));
        ASSERT_EQ(contents(real).size(), fs::file_size(real));
        const Array read = context.exec().empty({1}, Dtype::f32);
        const SafetensorsFile file(real);
        file.copy_to(*file.find("x"), context, read);
        EXPECT_EQ(context.from_array(read).item(), value);
    }
    EXPECT_EQ(to_replace(gone), folder.path() / "runs" / "best" / "none");
}

TEST_F(Safetensors, AnUnwritablePlaceIsAnErrorThatNamesIt) {
    const Array one = counting({1}, Dtype::f32);
    const auto nowhere = folder.path() / "missing" / "x.safetensors";
    EXPECT_THAT(
        [&] {
            write_safetensors(nowhere, context, {{"x", one}});
        },
        throws<FileError>(nowhere.string(), "can't be created", "No such file"));
    std::filesystem::create_directory(path);
    EXPECT_THAT([&] { write_safetensors(path, context, {{"x", one}}); }, throws<FileError>("not a regular file"));
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

/// In a process of its own, since limits cannot be lifted again: 0 if the write failed as it should.
int write_with_limit(const std::filesystem::path& path, Context& context, const Array& large, rlim_t limit) {
    const pid_t child = ::fork();
    if (child == 0) {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit bytes{limit, limit};
        int outcome = 2;
        if (::setrlimit(RLIMIT_FSIZE, &bytes) == 0) {
            try {
                write_safetensors(path, context, {{"large", large}});
                outcome = 1;
            } catch (const FileError& error) {
                outcome = std::strstr(error.what(), "unchanged") ? 0 : 3;
            }
        }
        ::_exit(outcome);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

TEST_F(Safetensors, AFullDiskLeavesTheOldFileAndNothingBeside) {
    write_safetensors(path, context, {{"old", counting({50}, Dtype::f32)}});
    const std::string before = contents(path);
    const Array large = counting({5000}, Dtype::f32);
    for (const rlim_t limit : {rlim_t{0}, rlim_t{5}, rlim_t{40}, rlim_t{10'000}, rlim_t{20'000}}) {
        EXPECT_EQ(write_with_limit(path, context, large, limit), 0) << limit;
        EXPECT_EQ(contents(path), before);
        EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
    }
}

}  // namespace safetensors_test
}  // namespace headroom::files
