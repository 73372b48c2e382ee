#include <headroom/training/event_file.hpp>

#include <bit>
#include <chrono>
#include <cstring>
#include <iterator>

#include <fmt/format.h>
#include <unistd.h>

#include <headroom/memory/error.hpp>

namespace headroom::training {

namespace {

constexpr const char* kName = "events.out.tfevents";

/// Of protocol buffers: how a field's value is written, in the low bits of its key.
enum class Wire : std::uint8_t { varint = 0, eight_bytes = 1, with_length = 2, four_bytes = 5 };

template <class Number>
void put(std::string& out, Number number) {
    static_assert(std::endian::native == std::endian::little);
    out.append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void put_varint(std::string& out, std::uint64_t number) {
    for (; number >= 0x80; number >>= 7) out += static_cast<char>(0x80 | (number & 0x7f));
    out += static_cast<char>(number);
}

void put_key(std::string& out, unsigned field, Wire wire) { put_varint(out, field << 3 | static_cast<unsigned>(wire)); }

void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
    put_key(out, field, Wire::with_length);
    put_varint(out, bytes.size());
    out += bytes;
}

std::string event_at(double seconds) {
    std::string event;
    put_key(event, 1, Wire::eight_bytes);  // wall_time
    put(event, seconds);
    return event;
}

std::string event_at(double seconds, std::int64_t step) {
    std::string event = event_at(seconds);
    put_key(event, 2, Wire::varint);
    put_varint(event, static_cast<std::uint64_t>(step));
    return event;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

std::string host_name() {
    char name[256] = "";
    return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "host";
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
    std::uint32_t crc = ~0u;
    for (const char byte : bytes) {
        crc ^= static_cast<unsigned char>(byte);
        for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
    }
    return std::rotr(~crc, 15) + 0xa282ead8u;
}

std::string event_message(double seconds, std::int64_t step, std::string_view tag, float value) {
    std::string scalar;
    put_bytes(scalar, 1, tag);
    put_key(scalar, 2, Wire::four_bytes);  // simple_value
    put(scalar, value);
    std::string summary;
    put_bytes(summary, 1, scalar);
    std::string event = event_at(seconds, step);
    put_bytes(event, 5, summary);
    return event;
}

std::string version_message(double seconds) {
    std::string event = event_at(seconds);
    put_bytes(event, 3, "brain.Event:2");
    return event;
}

std::string restart_message(double seconds, std::int64_t step) {
    std::string session;
    put_key(session, 1, Wire::varint);  // status
    put_varint(session, 1);             // START
    std::string event = event_at(seconds, step);
    put_bytes(event, 7, session);
    return event;
}

std::string tfrecord(std::string_view message) {
    std::string record;
    put(record, static_cast<std::uint64_t>(message.size()));
    put(record, masked_crc32c(record));
    record += message;
    put(record, masked_crc32c(message));
    return record;
}

bool has_event(const std::filesystem::path& folder, std::int64_t step, std::string_view tag) {
    const std::string event = event_message(0, step, tag, 0), time = event_at(0);
    const std::string named = event.substr(time.size(), event.size() - time.size() - sizeof(float));
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
        if (!entry.path().filename().string().starts_with(kName)) continue;
        std::ifstream file(entry.path(), std::ios::binary);
        const std::string bytes{std::istreambuf_iterator<char>(file), {}};
        if (bytes.find(named) != std::string::npos) return true;
    }
    return false;
}

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t first) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) throw FileError(fmt::format("{}: can't be created ({})", folder.string(), error.message()));
    const double begin = now();
    const std::string name = fmt::format("{}.{:010.0f}.{}.{}", kName, begin, host_name(), ::getpid());
    for (int run = 0; path_.empty() || std::filesystem::exists(path_); ++run)  // of this process, in this second
        path_ = folder / fmt::format("{}.{}", name, run);
    file_.open(path_, std::ios::binary);
    file_ << tfrecord(version_message(begin)) << tfrecord(restart_message(begin, first));
    flush();
}

void EventFile::add(std::int64_t step, std::string_view tag, double value) {
    file_ << tfrecord(event_message(now(), step, tag, static_cast<float>(value)));
}

void EventFile::flush() {
    file_.flush();
    if (!file_) throw FileError(fmt::format("{}: can't be written; check the folder and the space", path_.string()));
}

}  // namespace headroom::training
