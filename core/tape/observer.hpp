#pragma once
// Callbacks of the tape for rehearsals and timers. A context has at most one observer; without one, the cost is one
// comparison per op.
#include <cstddef>
#include <span>

namespace headroom {

struct Record;
struct Value;

class TapeObserver {
  public:
    virtual ~TapeObserver() = default;
    /// Called before an op runs forward, backward or as a replay.
    virtual void op_begins() = 0;
    /// Called after the run: `recorded` after forward, `replayed` after a replay, `differentiated` after backward.
    virtual void recorded(const Record& record) = 0;
    virtual void replayed(const Record& record) = 0;
    virtual void differentiated(const Record& record) = 0;
    /// Called when the program has released its last handle to a value; the tape then held `records` records.
    virtual void let_go(const Value& value, std::size_t records) = 0;
    /// Called before backward runs the first record. The records whose backward will run are marked.
    virtual void backward_begins(std::span<Record* const> records) = 0;
};

}  // namespace headroom
