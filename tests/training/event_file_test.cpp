#include <headroom/training/event_file.hpp>

#include <fstream>
#include <iterator>

#include <gmock/gmock.h>

#include <headroom/memory/error.hpp>

namespace headroom::training {
namespace event_file_test {

using namespace std::string_literals;
using testing::StartsWith;

// By hand, from the encoding of protocol buffers: key = field << 3 | wire type; 300 = 0xac 0x02 as a varint.
const std::string kScalar =
    "\x0a\x04loss"            // tag = 1
    "\x15\x00\x00\x20\x40"s;  // simple_value = 2: 2.5f
const std::string kEvent =
    "\x09\0\0\0\0\0\0\xf8\x3f"  // wall_time = 1: 1.5
    "\x10\xac\x02"              // step = 2
    "\x2a\x0d"                  // summary = 5, 13 bytes
    "\x0a\x0b"s +
    kScalar;  // its value = 1, 11 bytes

// RFC 3720, B.4, and the check value of CRC-32C; masked: rotated right by 15, plus 0xa282ead8.
TEST(EventFileTest, ChecksumsAreTheStandardsMasked) {
    const auto masked = [](std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; };
    EXPECT_EQ(masked_crc32c(std::string(32, '\0')), masked(0x8a9136aa));
    EXPECT_EQ(masked_crc32c(std::string(32, '\xff')), masked(0x62a8ab43));
    EXPECT_EQ(masked_crc32c("123456789"), masked(0xe3069283));
    EXPECT_EQ(masked_crc32c(""), 0xa282ead8u);
}

TEST(EventFileTest, MessagesAreProtocolBuffers) {
    EXPECT_EQ(event_message(1.5, 300, "loss", 2.5f), kEvent);
    EXPECT_EQ(version_message(1.5),
              "\x09\0\0\0\0\0\0\xf8\x3f\x1a\x0d"
              "brain.Event:2"s);
    EXPECT_EQ(restart_message(1.5, 300),
              "\x09\0\0\0\0\0\0\xf8\x3f\x10\xac\x02"
              "\x3a\x02\x08\x01"s);  // session_log = 7: status = 1: START
    // Longer than 127 bytes: lengths of two bytes each.
    const std::string tag(200, 't');
    EXPECT_THAT(event_message(1.5, 1, tag, 2.5f), StartsWith("\x09\0\0\0\0\0\0\xf8\x3f\x10\x01"
                                                             "\x2a\xd3\x01\x0a\xd0\x01\x0a\xc8\x01ttt"s));
}

TEST(EventFileTest, RecordsHaveLengthAndChecksums) {
    // The checksums are TensorBoard's own, of the eight bytes of the length and of the message.
    EXPECT_EQ(tfrecord("123456789"),
              "\x09\0\0\0\0\0\0\0\x37\xf9\x71\x39"
              "123456789\xe5\xb0\x8a\xc7"s);
}

TEST(EventFileTest, ARunIsAFileInItsFolder) {
    const std::filesystem::path folder = testing::TempDir() + "/headroom_events/nested";
    std::filesystem::remove_all(folder);
    EventFile events(folder);
    events.add(1, "train/loss", 2.5);
    events.add(2, "train/loss", 2.25);
    events.flush();
    const std::filesystem::directory_iterator files(folder);
    const std::filesystem::path file = files->path();
    EXPECT_THAT(file.filename().string(), StartsWith("events.out.tfevents."));
    EXPECT_EQ(std::distance(begin(files), end(files)), 1);
    std::ifstream stream(file, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    EXPECT_EQ(bytes.size(), tfrecord(version_message(0)).size() + tfrecord(restart_message(0, 1)).size() +
                                2 * tfrecord(event_message(0, 1, "train/loss", 0)).size());
    std::filesystem::remove_all(folder);
}

TEST(EventFileTest, AFolderThatCannotBeIsAnError) {
    const std::string file = testing::TempDir() + "/headroom_no_folder";
    std::ofstream(file) << "text";
    EXPECT_THROW(EventFile events(file + "/runs"), FileError);
    std::filesystem::remove(file);
}

}  // namespace event_file_test
}  // namespace headroom::training
