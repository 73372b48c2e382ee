#pragma once
// Writes down what a context's tape records, for `rehearse`.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/recorded_program.hpp>
#include <headroom/memory/memory_scope.hpp>

namespace headroom {

class ProgramRecorder : public TapeObserver {
  public:
    explicit ProgramRecorder(Context& context) : context_(context), alignment_(context.profile().memory.alignment) {
        context.tape().observe(this);
    }
    ~ProgramRecorder() override { context_.tape().observe(nullptr); }
    ProgramRecorder(const ProgramRecorder&) = delete;
    ProgramRecorder& operator=(const ProgramRecorder&) = delete;

    /// Of the last backward pass; without ops if there was none.
    RecordedProgram take() { return std::move(program_); }
    /// Of all backward passes so far: how many different programs.
    std::int64_t kinds() const { return static_cast<std::int64_t>(kinds_.size()); }

    void op_begins() override;
    void recorded(const Record& record) override;
    void replayed(const Record& record) override;
    void differentiated(const Record& record) override;
    void let_go(const Value& value, std::size_t records) override;
    void backward_begins(std::span<Record* const> records) override;

  private:
    /// A value of the tape that is no parameter.
    struct Held {
        const Value* value;
        std::size_t record;  ///< that made it; of a leaf: the first that reads it
        std::size_t bytes;
        bool there;  ///< counted in `held_bytes_`
    };
    struct Read {
        std::size_t record;
        const Value* value;
    };

    bool runs_again() const;
    OpMemory op_ends();
    std::size_t block_bytes(const Array& array) const;
    void hold(const Value* value, std::size_t record);
    void forget(std::size_t records);
    void count_held();

    Context& context_;
    std::optional<memory::MemoryScope> scope_;
    std::size_t others_ = 0;
    bool replayed_ = false;                ///< since the last backward
    std::size_t alignment_;                ///< of blocks, bytes
    std::vector<OpMemory> forward_;        ///< by the record's index
    std::vector<bool> saves_;              ///< likewise: its backward would read what it saved
    std::vector<const Value*> last_read_;  ///< likewise: what it would write over (`RecordedOp::overwrites`), or null
    std::span<Record* const> backward_;    ///< the tape's records while backward runs
    // The bytes of all values that are there. A value comes or goes only where an op runs, where the program lets go of
    // it, or where a record that reads it is gone: only such `suspects_` are looked at, so that the work is linear.
    std::vector<Held> held_;                                    ///< in the order of records
    std::unordered_map<const Value*, std::size_t> held_place_;  ///< in `held_`
    std::vector<Read> reads_;                                   ///< of records, in their order
    std::vector<const Value*> suspects_;
    std::size_t held_bytes_ = 0;
    std::unordered_map<const Value*, std::uint32_t>
        let_go_;  ///< when that value, or an earlier one there, was let go of
    RecordedProgram program_;
    std::set<std::string> kinds_;
};

}  // namespace headroom
