#pragma once
// Callbacks of the tape for rehearsals and timers. A context has at most one observer; without one, each op costs one
// comparison.
#include <cstddef>
#include <span>

namespace headroom {

struct Record;
struct Value;

class TapeObserver {
  public:
    virtual ~TapeObserver() = default;
    /// An op is about to run: forward, backward or a replay.
    virtual void op_begins() = 0;
    /// The op has ended; the call tells which kind of run it was.
    virtual void recorded(const Record& record) = 0;
    virtual void replayed(const Record& record) = 0;
    virtual void differentiated(const Record& record) = 0;
    /// The program has let go of a value when the tape held `records` records.
    virtual void let_go(const Value& value, std::size_t records) = 0;
    /// All records exist; those whose backward will run are marked.
    virtual void backward_begins(std::span<Record* const> records) = 0;
};

}  // namespace headroom
