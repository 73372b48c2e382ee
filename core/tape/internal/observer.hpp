#pragma once
// What a rehearsal is told by the tape while a program runs. A context has at most one, and none costs a comparison an
// op.
#include <cstddef>
#include <span>

namespace headroom {

struct Record;
struct Value;

class TapeObserver {
  public:
    virtual ~TapeObserver() = default;
    /// An op is about to run: forward, backward or once more.
    virtual void op_begins() = 0;
    /// What had begun has ended, as this record's.
    virtual void recorded(const Record& record) = 0;
    virtual void replayed(const Record& record) = 0;
    virtual void differentiated(const Record& record) = 0;
    /// The program has let go of a value, `records` ops after the tape was empty.
    virtual void let_go(const Value& value, std::size_t records) = 0;
    /// All records are there; those whose backward will run are marked.
    virtual void backward_begins(std::span<Record* const> records) = 0;
};

}  // namespace headroom
