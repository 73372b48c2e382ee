#include <headroom/bench/traces/program.hpp>

#include <algorithm>

namespace headroom::traces {

void Piece::reset() {
    if (Program* program = std::exchange(program_, nullptr)) program->give_back(id_);
}

Piece Program::take(std::size_t bytes, memory::StreamId stream, std::string_view path, Category category) {
    if (unused_.empty()) unused_.push_back(ids_++);
    const std::uint32_t id = unused_.back();
    unused_.pop_back();
    trace_.operations.push_back({.kind = Operation::Kind::allocate,
                                 .category = static_cast<memory::CategoryId>(category),
                                 .stream = stream,
                                 .id = id,
                                 .path = this->path(path),
                                 .bytes = bytes});
    return {this, id};
}

void Program::use(const Piece& piece, memory::StreamId stream) {
    trace_.operations.push_back({.kind = Operation::Kind::record_use, .stream = stream, .id = piece.id_});
}

void Program::wait(memory::StreamId stream, memory::StreamId awaited) {
    trace_.operations.push_back({.kind = Operation::Kind::wait, .stream = stream, .awaited = awaited});
}

void Program::give_back(std::uint32_t id) {
    trace_.operations.push_back({.kind = Operation::Kind::free, .id = id});
    unused_.push_back(id);
}

memory::PathId Program::path(std::string_view name) {
    const auto found = std::ranges::find(trace_.paths, name);
    if (found == trace_.paths.end()) return trace_.paths.emplace_back(name), trace_.paths.size() - 1;
    return static_cast<memory::PathId>(found - trace_.paths.begin());
}

}  // namespace headroom::traces
