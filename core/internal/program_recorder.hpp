#pragma once
// Records the program that a context's tape runs, for `rehearse`.
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

    /// The program of the last backward pass; without ops if there was none.
    RecordedProgram take() { return std::move(program_); }
    /// The number of different programs in all backward passes so far.
    std::int64_t kinds() const { return static_cast<std::int64_t>(kinds_.size()); }

    void op_begins() override;
    void recorded(const Record& record) override;
    void replayed(const Record& record) override;
    void differentiated(const Record& record) override;
    void let_go(const Value& value, std::size_t records) override;
    void backward_begins(std::span<Record* const> records) override;

  private:
    /// A value of the tape that is not a parameter.
    struct Held {
        const Value* value;
        std::size_t record;  ///< the record that made it; for a leaf, the first that reads it
        std::size_t bytes;
        bool there;  ///< its storage is counted in `held_bytes_`
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
    bool replayed_ = false;          ///< an op was replayed since the last backward
    std::size_t alignment_;          ///< bytes that block sizes are a multiple of
    std::vector<OpMemory> forward_;  ///< by record index
    std::vector<bool> saves_;        ///< by record index: its backward reads what it saved
    /// By record index: the value it could overwrite (`RecordedOp::overwrites`), or null.
    std::vector<const Value*> last_read_;
    std::span<Record* const> backward_;  ///< the tape's records while backward runs
    // Bytes of all values with storage. A value gains or loses its storage only when an op runs, when the program lets
    // go of it, or when a record that reads it is gone. Only these `suspects_` are checked, so the work stays linear.
    std::vector<Held> held_;                                    ///< in record order
    std::unordered_map<const Value*, std::size_t> held_place_;  ///< index into `held_`
    std::vector<Read> reads_;                                   ///< by records, in record order
    std::vector<const Value*> suspects_;
    std::size_t held_bytes_ = 0;
    std::unordered_map<const Value*, std::uint32_t>
        let_go_;  ///< number of records when that value, or an earlier one at its address, was let go of
    RecordedProgram program_;
    std::set<std::string> kinds_;
};

}  // namespace headroom
