// Files that people take for weights are told by what they are.
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <headroom/files/safetensors.hpp>
#include <headroom/memory/error.hpp>
#include <headroom/tests/data/scratch.hpp>
#include <headroom/tests/files/raw_safetensors.hpp>

namespace headroom::files {
namespace foreign_file_test {

using namespace std::string_literals;
using headroom::test::ScratchFolder;
using ::testing::AllOf, ::testing::HasSubstr, ::testing::Not;

/// A ZIP archive as far as the name of its first member.
std::string zip_of(const std::string& member) { return "PK\3\4"s + std::string(26, '\0') + member + "contents"; }

TEST(ForeignFile, IsToldByItsKind) {
    const std::pair<std::string, const char*> files[] = {
        {"version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 12\n", "a Git LFS pointer"},
        {"<!DOCTYPE html>\n<html><body>Sign in</body></html>", "a web page"},
        {"\xef\xbb\xbf\r\n <HTML>" + std::string(600, 'x'), "a web page"},
        {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code></Error>", "a web page"},
        {"Entry not found", "a text file that begins with \"Entry not found\""},
        {"Access to this model is restricted: \xc3\xa9\nmore", "a text file that begins with \"Access to this model"},
        {zip_of("archive/data.pkl"),
         "a file written by torch.save; convert it to safetensors with scripts/convert_pth"},
        {zip_of("wte.npy"), "NumPy arrays (.npz)"},
        {zip_of("model.safetensors"), "a ZIP archive"},
        {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19."s + std::string(80, '\1'), "a pickle"},
        {"\x89HDF\r\n\x1a\n"s + std::string(80, '\0'), "an HDF5 file"},
        {"GGUF\3\0\0\0"s + std::string(80, '\1'), "a GGUF file"},
        {"\x93NUMPY\1\0v\0{'descr': '<f4'"s, "a NumPy array"},
        {"\x1f\x8b\x08\0\0\0\0\0\0\3"s, "compressed with gzip"},
        {"{\"model_type\": \"gpt2\"}", "not an index of weights"},
        {"{\"weight_map\": {\"a\": ", "truncated"}};
    const ScratchFolder folder;
    for (const auto& [bytes, kind] : files) {
        const auto path = folder.write("model.safetensors", bytes);
        EXPECT_THAT([&] { SafetensorsFile file(path); },
                    ::testing::ThrowsMessage<FileError>(AllOf(HasSubstr(path.string()), HasSubstr(kind),
                                                              Not(HasSubstr("claims")), Not(HasSubstr("\n")))))
            << bytes.substr(0, 40);
    }
}

TEST(ForeignFile, ATruncatedSafetensorsFileIsNone) {
    const ScratchFolder folder;
    for (const std::uint64_t length : {640u, 1147u, 1u << 20}) {  // 640 begins as a pickle does, 1147 as JSON
        const auto path = folder.write("cut.safetensors", test::with_length(std::string(30, ' '), length));
        EXPECT_THAT([&] { SafetensorsFile file(path); }, test::throws<FileError>("claims", "truncated")) << length;
    }
}

}  // namespace foreign_file_test
}  // namespace headroom::files
