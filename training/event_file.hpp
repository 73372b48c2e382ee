#pragma once
// Writes scalars over time for TensorBoard: one file per run, in a folder that several runs may share. Supports scalars
// only.
//
//     training::EventFile events("runs/first");
//     events.add(100, "train/loss", 2.5);
//     events.flush();
//
// Sources: the framing is TFRecord's (https://www.tensorflow.org/tutorials/load_data/tfrecord), the records are
// messages of tensorflow/core/util/event.proto and tensorflow/core/framework/summary.proto, in the encoding of protocol
// buffers.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace headroom::training {

/// The cyclic redundancy check of RFC 3720 (Castagnoli's polynomial), "masked" as TFRecord does it.
std::uint32_t masked_crc32c(std::string_view bytes);

/// An Event message. `seconds`: since 1970.
std::string event_message(double seconds, std::int64_t step, std::string_view tag, float value);
/// The first Event of a file: the format's version.
std::string version_message(double seconds);
/// An Event that marks a restart: TensorBoard drops the folder's older values from that step on.
std::string restart_message(double seconds, std::int64_t step);
/// Frames a message with its length and checksums.
std::string tfrecord(std::string_view message);

/// Whether any file in the folder has a value for `tag` at `step`.
bool has_event(const std::filesystem::path& folder, std::int64_t step, std::string_view tag);

class EventFile {
  public:
    /// Creates the folder and a file with a unique name in it. `first` is the first step that will be added. Errors:
    /// FileError.
    explicit EventFile(const std::filesystem::path& folder, std::int64_t first = 1);

    void add(std::int64_t step, std::string_view tag, double value);
    /// Errors: FileError if the file could not be written.
    void flush();

  private:
    std::filesystem::path path_;
    std::ofstream file_;
};

}  // namespace headroom::training
