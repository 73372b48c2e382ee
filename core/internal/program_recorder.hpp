#pragma once
// Writes down what a context's tape records, for `rehearse`.
#include <optional>
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

    void op_begins() override;
    void recorded(const Record& record) override;
    void replayed(const Record& record) override;
    void differentiated(const Record& record) override;
    void let_go(const Value& value, std::size_t records) override;
    void backward_begins(std::span<Record* const> records) override;

  private:
    OpMemory op_ends();
    std::size_t block_bytes(const Array& array) const;
    void forget(std::size_t records);

    Context& context_;
    std::optional<memory::MemoryScope> scope_;
    std::size_t others_ = 0;
    bool replayed_ = false;               ///< since the last backward
    std::size_t alignment_;               ///< of blocks, bytes
    std::vector<OpMemory> forward_;       ///< by the record's index
    std::vector<const Record*> records_;  ///< the tape's
    struct Leaf {
        const Value* value;
        std::size_t reader;  ///< the first record that reads it
    };
    std::vector<Leaf> leaves_;  ///< that are no parameters
    std::unordered_map<const Value*, std::uint32_t>
        let_go_;  ///< when that value, or an earlier one there, was let go of
    RecordedProgram program_;
};

}  // namespace headroom
