#include <headroom/memory/history/internal/pickle_writer.hpp>

#include <gtest/gtest.h>

#include <string>

namespace headroom::memory {
namespace pickle_writer_test {

template <class Write>
std::string written(Write&& write) {
    std::string out;
    PickleWriter pickle(out);
    write(pickle);
    return out;
}

std::string integer(std::int64_t value) {
    return written([&](PickleWriter& pickle) { pickle.integer(value); });
}

// Expected bytes are those of Python's pickle.dumps(value, protocol=4).
TEST(PickleWriter, IntegersTakeTheShortestForm) {
    EXPECT_EQ(integer(0), std::string("K\x00", 2));
    EXPECT_EQ(integer(255), "K\xFF");
    EXPECT_EQ(integer(256), std::string("M\x00\x01", 3));
    EXPECT_EQ(integer(65535), "M\xFF\xFF");
    EXPECT_EQ(integer(65536), std::string("J\x00\x00\x01\x00", 5));
    EXPECT_EQ(integer(-1), "J\xFF\xFF\xFF\xFF");
    EXPECT_EQ(integer(INT32_MAX), "J\xFF\xFF\xFF\x7F");
    EXPECT_EQ(integer(2147483648), std::string("\x8A\x05\x00\x00\x00\x80\x00", 7));
    EXPECT_EQ(integer((1ll << 39) - 1), "\x8A\x05\xFF\xFF\xFF\xFF\x7F");
    EXPECT_EQ(integer(1ll << 39), std::string("\x8A\x06\x00\x00\x00\x00\x80\x00", 8));
    EXPECT_EQ(integer(INT64_MAX), "\x8A\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F");
    EXPECT_EQ(integer(INT64_MIN), std::string("\x8A\x08\x00\x00\x00\x00\x00\x00\x00\x80", 10));
}

TEST(PickleWriter, AStringIsWrittenOnce) {
    const std::string text = written([](PickleWriter& pickle) {
        pickle.string("abc");
        pickle.string("d");
        pickle.string("abc");
    });
    EXPECT_EQ(text, std::string("X\x03\0\0\0abc\x94X\x01\0\0\0d\x94h\x00", 18));
}

TEST(PickleWriter, LateObjectsHaveLongNumbers) {
    const std::string text = written([](PickleWriter& pickle) {
        for (int i = 0; i < 300; ++i) pickle.string(std::to_string(i));
        pickle.string("299");
    });
    EXPECT_EQ(text.substr(text.size() - 5), std::string("j\x2B\x01\x00\x00", 5));
}

TEST(PickleWriter, LongListsAreAppendedInBatches) {
    const std::string text = written([](PickleWriter& pickle) {
        std::uint64_t count = 0;
        pickle.begin_list();
        for (int i = 0; i < 2500; ++i) {
            pickle.boolean(true);
            pickle.next(count);
        }
        pickle.end_list();
    });
    const std::string thousand(1000, '\x88');
    EXPECT_EQ(text, "](" + thousand + "e(" + thousand + "e(" + std::string(500, '\x88') + "e");
}

TEST(PickleWriter, DictsAndPairs) {
    const std::string text = written([](PickleWriter& pickle) {
        pickle.begin();
        pickle.dict([&] {
            pickle.string("k");
            pickle.pair(1, 2);
        });
        pickle.end();
    });
    EXPECT_EQ(text, std::string("\x80\x04}(X\x01\0\0\0k\x94K\x01K\x02\x86u.", 18));
}

}  // namespace pickle_writer_test
}  // namespace headroom::memory
