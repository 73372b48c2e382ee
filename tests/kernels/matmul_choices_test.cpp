#include <headroom/kernels/matmul/internal/choices.hpp>

#include <fstream>
#include <limits>
#include <sstream>

#include <gmock/gmock.h>

#include <headroom/memory/error.hpp>

namespace headroom::kernels {
namespace matmul_choices_test {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class MatmulChoicesFile : public ::testing::Test {
  protected:
    void SetUp() override {
        choices.set(key, {.words = {0, 1, std::numeric_limits<std::uint64_t>::max(), 3, 4, 5, 6, 7}, .tuned = true});
        choices.set(choice_key({.rows = 7}, {}, true), {.words = {8}});
    }
    std::string contents() const {
        std::ifstream file(path);
        return std::string(std::istreambuf_iterator<char>(file), {});
    }
    void write(const std::string& text) const { std::ofstream(path) << text; }

    const std::string path = ::testing::TempDir() + "choices.txt";
    const MatmulChoiceKey key = choice_key({.rows = 5, .columns = 6, .depth = 7, .a_batch = -1}, {.a = 2}, false);
    MatmulChoices choices;
};

TEST_F(MatmulChoicesFile, BringsBackWhatWasSaved) {
    choices.save(path, "A GPU", 130100);
    MatmulChoices other;
    EXPECT_TRUE(other.load(path, "A GPU", 130100));
    EXPECT_EQ(other.size(), 2);
    ASSERT_NE(other.find(key), nullptr);
    EXPECT_EQ(other.find(key)->words, choices.find(key)->words);
    EXPECT_TRUE(other.find(key)->tuned);
    const std::string first = contents();
    other.save(path, "A GPU", 130100);
    EXPECT_EQ(contents(), first);
}

TEST_F(MatmulChoicesFile, LeavesPresentChoicesAlone) {
    choices.save(path, "A GPU", 1);
    MatmulChoices other;
    other.set(key, {.words = {42}});
    EXPECT_TRUE(other.load(path, "A GPU", 1));
    EXPECT_EQ(other.find(key)->words[0], 42);
}

TEST_F(MatmulChoicesFile, IsIgnoredForAnotherDeviceOrVersion) {
    choices.save(path, "A GPU", 130100);
    MatmulChoices other;
    EXPECT_FALSE(other.load(path, "Another GPU", 130100));
    EXPECT_FALSE(other.load(path, "A GPU", 130101));
    EXPECT_EQ(other.size(), 0);
}

TEST_F(MatmulChoicesFile, IsRefusedWhenDamaged) {
    choices.save(path, "A GPU", 130100);
    const std::string whole = contents();
    MatmulChoices other;
    const auto load = [&] { other.load(path, "A GPU", 130100); };
    for (std::size_t length = 0; length + 1 < whole.size(); length += 3) {  // without the last newline it is whole
        write(whole.substr(0, length));
        // A line for the device or the version that is cut off is one for something else.
        bool taken = false;
        try {
            taken = other.load(path, "A GPU", 130100);
        } catch (const FileError&) {
        }
        EXPECT_FALSE(taken) << length;
    }
    write("something else\n" + whole);
    EXPECT_THAT(load, ThrowsMessage<FileError>(HasSubstr("is damaged in line 1; delete the file")));
    write(whole + "1 2 3\n");
    EXPECT_THAT(load, ThrowsMessage<FileError>(HasSubstr("is damaged in line 7")));
    std::string letter = whole;
    letter[letter.size() - 3] = 'x';
    write(letter);
    EXPECT_THAT(load, ThrowsMessage<FileError>(HasSubstr("is damaged in line 6")));
    EXPECT_EQ(other.size(), 0);
}

TEST_F(MatmulChoicesFile, SaysThatItCannotBeReadOrWritten) {
    const std::string nowhere = ::testing::TempDir() + "no such folder/choices.txt";
    EXPECT_THAT([&] { choices.save(nowhere, "A GPU", 1); }, ThrowsMessage<FileError>(HasSubstr("can't be written")));
    EXPECT_THAT([&] { choices.load(nowhere, "A GPU", 1); }, ThrowsMessage<FileError>(HasSubstr("can't be read")));
}

TEST(MatmulChoiceKey, TellsApartWhatAlgorithmsDependOn) {
    const Gemm gemm{.rows = 8, .columns = 8, .depth = 8, .lda = 8, .ldb = 8, .ldd = 8};
    const MatmulChoiceKey first = choice_key(gemm, {}, false);
    EXPECT_EQ(choice_key(gemm, {}, false), first);
    EXPECT_NE(choice_key(gemm, {}, true), first);
    for (const GemmAlignment& alignment : {GemmAlignment{.a = 16}, GemmAlignment{.b = 16}, GemmAlignment{.d = 16},
                                           GemmAlignment{.bias = 16}, GemmAlignment{.inner = 16}}) {
        EXPECT_NE(choice_key(gemm, alignment, false), first);
    }
    for (const auto change :
         {+[](Gemm& g) { g.rows = 9; }, +[](Gemm& g) { g.columns = 9; }, +[](Gemm& g) { g.depth = 9; },
          +[](Gemm& g) { g.lda = 9; }, +[](Gemm& g) { g.ldb = 9; }, +[](Gemm& g) { g.ldd = 9; },
          +[](Gemm& g) { g.transpose_a = true; }, +[](Gemm& g) { g.transpose_b = true; },
          +[](Gemm& g) { g.batches = 2; }, +[](Gemm& g) { g.a_batch = 1; }, +[](Gemm& g) { g.b_batch = 1; },
          +[](Gemm& g) { g.d_batch = 1; }, +[](Gemm& g) { g.operand = Dtype::f16; },
          +[](Gemm& g) { g.result = Dtype::f16; }, +[](Gemm& g) { g.bias = true; },
          +[](Gemm& g) { g.activation = Activation::relu; }, +[](Gemm& g) { g.inner = true; },
          +[](Gemm& g) { g.derivative = true; }, +[](Gemm& g) { g.sums = true; }}) {
        Gemm changed = gemm;
        change(changed);
        EXPECT_NE(choice_key(changed, {}, false), first);
    }
    Gemm sums = gemm, swapped = gemm;  // of A, of B
    sums.sums = swapped.sums = swapped.swapped = true;
    EXPECT_NE(choice_key(sums, {}, false), choice_key(swapped, {}, false));
}

}  // namespace matmul_choices_test
}  // namespace headroom::kernels
