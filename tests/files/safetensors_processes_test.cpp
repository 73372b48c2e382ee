// Several processes at one path: what is read is one file, what is saved is whole, and nothing is left behind.
#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <csignal>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <headroom/files/safetensors.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/support/reference.hpp>

namespace headroom::files {
namespace safetensors_processes_test {

using headroom::test::ScratchFolder;
using headroom::test::throws;

constexpr std::int64_t kCount = 20000;  // of each of two tensors: more than a reader's or a writer's buffer

class SafetensorsProcesses : public ::testing::Test {
  protected:
    /// Two tensors of this value alone.
    void save(float value) {
        const Tensor one = context.from_host(std::vector<float>(kCount, value), {kCount});
        write_safetensors(path, context, {{"a", one.array()}, {"b", one.array()}}, {{"value", std::to_string(value)}});
    }
    /// The one value of all elements and of the metadata; fails if there are several.
    void expect_whole(const SafetensorsFile& file) {
        const std::string value = file.metadata().at("value");
        for (const char* name : {"a", "b"}) {
            const Tensor read = context.from_host(std::vector<float>(kCount, -1.0f), {kCount});
            file.copy_to(*file.find(name), context, read.array());
            const std::vector<float> values = read.to_vector<float>();
            EXPECT_EQ(std::count(values.begin(), values.end(), std::stof(value)), kCount) << name << " of " << value;
        }
    }
    /// A process that saves files of `first`, first + 1, ... until it is killed.
    pid_t saver(float first) {
        const pid_t child = ::fork();
        for (float value = first; child == 0; value += 1) save(value);
        return child;
    }
    static void end(pid_t child) {
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
    }
    std::size_t files() const {
        return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
    }

    Context context = Context::cpu({.threads = 1});
    ScratchFolder folder;
    std::filesystem::path path = folder.path() / "model.safetensors";
};

TEST_F(SafetensorsProcesses, AFileThatIsReplacedWhileItIsReadStaysWhatItWas) {
    save(1);
    const SafetensorsFile file(path);
    save(2);
    expect_whole(file);
    EXPECT_EQ(file.metadata().at("value"), std::to_string(1.0f));
    std::filesystem::remove(path);
    expect_whole(file);
}

TEST_F(SafetensorsProcesses, WhatSeveralSaveIsWhole) {
    save(0);
    const pid_t first = saver(1), second = saver(100000);
    bool of_first = false, of_second = false;
    for (int round = 0; round < 200000 && !(round >= 100 && of_first && of_second); ++round) {
        const SafetensorsFile file(path);
        expect_whole(file);
        const float value = std::stof(file.metadata().at("value"));
        (value < 100000 ? of_first : of_second) = value > 0;
    }
    end(first);
    end(second);
    EXPECT_TRUE(of_first && of_second);
    expect_whole(SafetensorsFile(path));
}

TEST_F(SafetensorsProcesses, WhatAKilledOneLeftIsRemovedByTheNext) {
    const auto aside = [&](const char* name) { return path.string() + name; };
    std::ofstream(aside(".0123abcd.partial")) << "left";
    std::ofstream(aside(".partial")) << "not one of ours";
    const std::string under_way = aside(".89abcdef.partial");
    const int other = ::open(under_way.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    ASSERT_EQ(::flock(other, LOCK_EX), 0);
    to_replace(path);  // a training asks before its first step
    EXPECT_FALSE(std::filesystem::exists(aside(".0123abcd.partial")));
    std::ofstream(aside(".0123abcd.partial")) << "left";
    save(1);
    EXPECT_FALSE(std::filesystem::exists(aside(".0123abcd.partial")));
    EXPECT_TRUE(std::filesystem::exists(aside(".partial")));
    EXPECT_TRUE(std::filesystem::exists(under_way));
    ::close(other);
    save(2);
    EXPECT_FALSE(std::filesystem::exists(under_way));
    EXPECT_EQ(files(), 2u);
}

/// A path may hold any byte but 0; a message is one line.
TEST_F(SafetensorsProcesses, OddPathsAreToldInOneLine) {
    const std::filesystem::path odd = folder.path() / "two\nlines\x1b[31m";
    EXPECT_THAT([&] { SafetensorsFile{odd}; }, throws<FileError>("two?lines?[31m: can't be opened"));
    const std::filesystem::path cut = folder.path() / std::string("a\0b", 3);
    EXPECT_THAT([&] { SafetensorsFile{cut}; }, throws<FileError>("a path must not contain a NUL"));
    EXPECT_THAT([&] { write_safetensors(cut, context, {}); }, throws<FileError>("a path must not contain a NUL"));
    EXPECT_EQ(files(), 0u);
}

}  // namespace safetensors_processes_test
}  // namespace headroom::files
