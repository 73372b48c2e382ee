#pragma once
// Figures over time in a file that TensorBoard draws: one file for a run, in a folder that several runs may share. Not
// for anything but scalars.
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
/// An Event by which TensorBoard recognises a restart: it forgets the folder's older figures from that step on.
std::string restart_message(double seconds, std::int64_t step);
/// A message with its length and its checksums.
std::string tfrecord(std::string_view message);

/// Whether a file of the folder has a value of that tag at that step.
bool has_event(const std::filesystem::path& folder, std::int64_t step, std::string_view tag);

class EventFile {
  public:
    /// Creates the folder, and a file in it with a name of its own. `first`: the first step that will be added. Errors:
    /// FileError.
    explicit EventFile(const std::filesystem::path& folder, std::int64_t first = 1);

    void add(std::int64_t step, std::string_view tag, double value);
    /// Errors: FileError if something could not be written.
    void flush();

  private:
    std::filesystem::path path_;
    std::ofstream file_;
};

}  // namespace headroom::training
