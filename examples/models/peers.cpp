#include <headroom/examples/models/peers.hpp>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <headroom/memory/error.hpp>

namespace headroom::techniques {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

fs::path script() {
    std::error_code none;
    const fs::path program = fs::read_symlink("/proc/self/exe", none);
    const fs::path installed = program.parent_path().parent_path() / "share/headroom/peers/train.py";
    for (const fs::path& path : {installed, fs::path(HEADROOM_PEERS) / "train.py"}) {
        if (fs::exists(path, none)) return path;
    }
    throw Error(fmt::format("PyTorch's trainings are missing: there is no {}", installed.string()));
}

/// For a shell.
std::string quoted(const std::string& word) {
    std::string result = "'";
    for (const char c : word) result += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
    return result + "'";
}

struct Output {
    bool succeeded = false;
    std::string text;       ///< of stdout
    std::string last_line;  ///< of stderr
};

/// Of a command that has ended. Errors: Error if it can't be started.
Output output_of(const std::vector<std::string>& words) {
    const fs::path errors = fs::temp_directory_path() / fmt::format("headroom-peers-{}", ::getpid());
    std::string command;
    for (const std::string& word : words) command += quoted(word) + ' ';
    std::FILE* const pipe = ::popen(fmt::format("{}2>{}", command, quoted(errors.string())).c_str(), "r");
    if (pipe == nullptr) throw Error("no process can be started for PyTorch");
    Output output;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) output.text += static_cast<char>(c);
    output.succeeded = ::pclose(pipe) == 0;
    std::ifstream file(errors);
    for (std::string line; std::getline(file, line);) {
        if (!line.empty()) output.last_line = line;
    }
    if (output.last_line.empty())
        output.last_line = "the process ended without a message; it may have been killed for its memory";
    fs::remove(errors);
    return output;
}

}  // namespace

Peers::Peers(const Question& question, const std::string& device, int threads)
    : command_{"python3",   script().string(),       "--model", question.model.name,           "--device", device,
               "--threads", std::to_string(threads), "--steps", std::to_string(question.steps)} {
    const models::Sizes sizes = question.model.completed(question.sizes);
    for (const auto& [flag, size] :
         {std::pair("--height", sizes.height), std::pair("--width", sizes.width), std::pair("--block", sizes.block),
          std::pair("--classes", sizes.classes), std::pair("--layers", sizes.layers)}) {
        command_.insert(command_.end(), {flag, std::to_string(size)});
    }
    std::string fractions = "1";
    for (std::int64_t i = 0; i + 1 < question.budgets; ++i)
        fractions +=
            fmt::format(",{:.2f}", 0.05 + 0.95 * static_cast<double>(i) / static_cast<double>(question.budgets - 1));
    list_ = command_;
    list_.insert(list_.end(), {"--list", "--dtype", question.dtype, "--optimizer", question.optimizer, "--batch",
                               std::to_string(sizes.batch), "--fractions", fractions});
    if (!question.techniques.empty())
        list_.insert(list_.end(), {"--techniques", fmt::format("{}", fmt::join(question.techniques, ","))});
}

std::vector<Row> Peers::rows() const {
    const Output probe = output_of({"python3", "-c", "import torch, torchvision"});
    if (!probe.succeeded)
        throw Error(fmt::format("{}; run python3 -m pip install torch torchvision transformers", probe.last_line));
    const Output list = output_of(list_);
    if (!list.succeeded) throw Error(list.last_line);
    std::vector<Row> rows;
    for (const Json& json : Json::parse(list.text)) {
        Row& row = rows.emplace_back(Row{.technique = json.at("technique"),
                                         .name = json.at("name"),
                                         .dtype = json.at("dtype"),
                                         .optimizer = json.at("optimizer"),
                                         .peer = json.at("arguments"),
                                         .compiled = json.at("compiled")});
        row.options.batch = json.at("batch");
        row.options.accumulate = json.at("accumulate");
    }
    return rows;
}

void Peers::train(Row& row) const {
    std::vector<std::string> command = command_;
    command.insert(command.end(), row.peer.begin(), row.peer.end());
    if (!row.step_seconds.empty()) command.emplace_back("--no-peak");
    const Output output = output_of(command);
    if (!output.succeeded) {
        row.refused = output.last_line;
        return;
    }
    const Json json = Json::parse(output.text);
    row.step_seconds.push_back(json.at("step_seconds"));
    row.loss = json.at("loss");
    row.parameters = json.at("parameters");
    if (command.back() == "--no-peak") return;
    row.peak_bytes_allocated = json.at("peak_bytes_allocated");
    if (const Json& reserved = json.at("peak_bytes_reserved"); !reserved.is_null()) row.peak_bytes_reserved = reserved;
}

}  // namespace headroom::techniques
