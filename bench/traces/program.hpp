#pragma once
// A program that asks for memory and does nothing else: for traces of what the framework can't do yet. Written as the
// real program would be, with pieces of memory that live as long as their variables. Not for what the framework can do:
// record that (see record_traces.cpp).
//
//     Program program("demo", "two pieces");
//     program.step();
//     Piece x = program.take(1 << 20, 0, "mlp");
//     program.wait(1, 0);
//     program.use(x, 1);                        // read on stream 1; x may go now
//     Trace trace = program.trace();
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <headroom/bench/traces/trace.hpp>
#include <headroom/core/category.hpp>

namespace headroom::traces {

class Program;

/// Memory of a Program; given back when it goes. Its program outlives it.
class Piece {
  public:
    Piece() = default;
    Piece(Piece&& other) noexcept : program_(std::exchange(other.program_, nullptr)), id_(other.id_) {}
    Piece& operator=(Piece&& other) noexcept {
        reset();
        program_ = std::exchange(other.program_, nullptr);
        id_ = other.id_;
        return *this;
    }
    ~Piece() { reset(); }
    void reset();

  private:
    friend class Program;
    Piece(Program* program, std::uint32_t id) : program_(program), id_(id) {}

    Program* program_ = nullptr;
    std::uint32_t id_ = 0;
};

class Program {
  public:
    Program(std::string name, std::string origin) : trace_{std::move(name), std::move(origin), {""}, {}} {}
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    void step() { trace_.operations.push_back({.kind = Operation::Kind::step}); }
    Piece take(std::size_t bytes, memory::StreamId stream, std::string_view path,
               Category category = Category::activations);
    /// Work queued on `stream` uses the piece.
    void use(const Piece& piece, memory::StreamId stream);
    /// `stream` waits for what was queued on `awaited`.
    void wait(memory::StreamId stream, memory::StreamId awaited);
    /// As it stands.
    Trace trace() const { return trace_; }

  private:
    friend class Piece;
    void give_back(std::uint32_t id);
    memory::PathId path(std::string_view name);

    Trace trace_;
    std::vector<std::uint32_t> unused_;
    std::uint32_t ids_ = 0;
};

}  // namespace headroom::traces
