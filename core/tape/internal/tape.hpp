#pragma once
// The recorded program of one context: values, records, regions. It runs backward once and, where values were
// dropped, runs the records that produced them forward again. It knows no concrete op. Users call `Context`,
// `Tensor` and `apply`.
//
//     tape.apply(table, &attrs, inputs, outputs);     // table: an op's functions, as core/apply.hpp makes it
//     tape.backward(losses, seeds);
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <headroom/core/tape/internal/observer.hpp>
#include <headroom/core/tape/internal/record.hpp>
#include <headroom/core/tape/policy.hpp>

namespace headroom {

class Context;
class Tensor;

struct TapeStatistics {
    std::uint64_t recorded = 0;    ///< ops recorded
    std::uint64_t replayed = 0;    ///< ops run forward again by backward
    std::uint64_t backward = 0;    ///< ops run backward
    std::size_t records = 0;       ///< on the tape now
    std::size_t values = 0;        ///< alive now, leaves included
    bool couples_samples = false;  ///< an op that was recorded does: see OpInfo
};

class Tape {
  public:
    Tape(Context& context, Exec exec);
    ~Tape();
    Tape(const Tape&) = delete;
    Tape& operator=(const Tape&) = delete;

    /// Runs an op on inputs that have their storage, and records it. `inputs` may be emptied: storage of an input that
    /// nothing else needs may be taken over. Errors: those of the op; the tape and the memory are then as before.
    void apply(const OpTable& op, const void* attrs, std::span<Tensor> inputs, std::span<Tensor> outputs);
    /// Adds `seeds[i]` times the gradient of the one-element `losses[i]` to every leaf that requires it; consumes the
    /// tape. Errors: from ops; the tape is then cleared and gradients are indeterminate.
    void backward(std::span<const Tensor> losses, std::span<const double> seeds);
    /// The same for one loss, with a seed in the device's memory: one element of any floating dtype. The host does not
    /// read it. `made`: called when all gradients are, before updates.
    void backward(const Tensor& loss, const Array& seed, const std::function<void()>& made = {});
    /// See `Context::after_backward`.
    using Update = std::function<void(Exec& exec, const Array* loss)>;
    using Attendance = std::function<void(Exec& exec)>;
    void after_backward(Update update, Attendance attendance);
    /// What the updates of the last backward say that a rank does which has no such backward.
    void participate();
    void forget_attendances() { attendances_.clear(); }
    /// For an update or an attendance: behind all of them, `change` is called for each of the ranks, in their order, so
    /// that what is used twice in a micro-batch changes as if one rank did one micro-batch after another.
    void in_order_of_ranks(std::function<void(Exec& exec, int rank)> change) { changes_.push_back(std::move(change)); }
    /// Forgets all records. Handles stay as leaves.
    void clear() noexcept;
    /// Forgets the records after the first `count`.
    void truncate(std::size_t count) noexcept;
    std::size_t size() const { return records_.size(); }

    /// A leaf. Its gradient, if required, is kept after backward.
    Value* make_leaf(Array array);

    TapeRegion* open_region(PathId path, const Policy* policy);
    /// The region around all modules: call 0 of the path "", whose own calls count from 1.
    TapeRegion* open_micro_batch(const Policy* policy);
    void close_region() noexcept;
    TapeRegion* region() const { return region_; }
    PathId path() const { return region_ ? region_->path : 0; }

    bool recording() const { return recording_; }
    void set_recording(bool on);

    /// See `Context::use_from_this_thread`.
    void use_from_this_thread() noexcept { thread_ = this_thread(); }

    /// Null: none. It must outlive the tape's use.
    void observe(TapeObserver* observer) { observer_ = observer; }

    Exec& exec() { return exec_; }
    Context& context() const { return *context_; }
    TapeStatistics statistics() const;

    /// For autocast: the half precision of `source` that an earlier op was given, if it still has its storage and
    /// serves here; else null.
    Value* cast_of(const Value& source, Dtype dtype) const;
    /// For autocast: later uses of `source` may have the same cast, for as long as backward or somebody else keeps it.
    void remember_cast(Value& source, const Tensor& cast);
    /// Whether casts of parameters, made while nothing is recorded, are kept until this is off or recording goes on.
    bool keeps_casts() const { return keeps_casts_; }
    void keep_casts(bool on);

    /// For `Tensor`: the last handle is gone.
    void unused(Value* value) noexcept;
    /// For scopes of modules and checks: calls `visit(value)` for values that region `region` produced and the user
    /// still holds.
    template <class Visit>
    void for_each_held(const TapeRegion& region, Visit&& visit) {
        for (std::size_t i = region.records.first; i < records_.size(); ++i) {
            for (Value* value : records_[i]->values()) {
                if (value->users) visit(*value);
            }
        }
    }

  private:
    friend class GradSink;

    static const void* this_thread() noexcept;
    /// Errors: Error if the calling thread is another one than the context's.
    void check_thread(const char* op) const {
        if (this_thread() != thread_) refuse_thread(op);
    }
    [[noreturn]] void refuse_thread(const char* op) const;
    Value* new_value(Array&& array);
    void release_value(Value* value) noexcept;
    static void forget_cast(Value& value) noexcept;
    Record* new_record(const OpTable& op, const void* attrs, std::span<Tensor> inputs);
    void record(const OpTable& op, const void* attrs, std::span<Tensor> inputs, std::span<Tensor> outputs,
                std::span<Array> saved, unsigned gradients);
    void bind_saved(Record& record, std::span<Array> saved);
    struct RecomputeRegion {
        const RecordInterval* interval = nullptr;  ///< null = keep
        bool movable = false;  ///< null, but an enclosing region says recompute: it counts once a handle leaves
        std::uint32_t replays = 0;
        std::uint32_t drop_distance = 0;
    };
    static void set_recompute_region(Value& value, const RecomputeRegion& region) {
        value.recompute_region = region.interval;
        value.replays = region.replays;
        value.drop_distance = region.drop_distance;
    }
    std::string_view path_text(PathId path);
    Candidate candidate_of(const Record& record);
    RecomputeRegion recompute_region_of(TapeRegion* innermost, Record& record);
    bool stealable(const Tensor& input) const;
    unsigned offered(const OpInfo& info, std::span<const Tensor> inputs) const;
    void take_over(std::span<const Tensor> inputs, unsigned offered, const Array& output) noexcept;
    void pop_record() noexcept;
    void drop_empty_regions() noexcept;
    void pop_dead_tail() noexcept;

    // Retention (retention.cpp)
    bool retained(const Value& value) const;
    bool needed(const Value& value) const;
    bool stays(const Value& value) const;
    void drop_if_unneeded(Value& value) noexcept;
    void pin(Value& value) noexcept;
    void unpin(Value& value) noexcept;
    void arm(Record& record) noexcept;
    void disarm(Record& record) noexcept;
    void disarm_if_done(Record& record) noexcept;
    static bool repeatable(const Record& record);
    static bool must_replay(const Record& record);
    static bool needs_last_of(const Record& record);

    // Backward (backward.cpp) and replay (replay.cpp)
    struct PendingUpdate {
        std::size_t records;  ///< on the tape when it was asked for: it goes when there are fewer
        PathId path;
        Update run;
        Attendance participate;
    };
    class BackwardScope;
    void run_updates(std::span<const PendingUpdate> updates, std::span<const Tensor> losses);
    void run_changes();
    template <class Seed>
    void differentiate(std::span<const Tensor> losses, std::span<const Seed> seeds, const std::function<void()>& made);
    void seed(const Tensor& loss, double value);
    void seed(const Tensor& loss, const Array& value);
    const Value* sweep() noexcept;
    void run_backward(Record& record);
    static void announce_gradients(const Record& record);
    void await_nothing() noexcept;
    void materialize(std::span<Slot> slots);
    void collect(Value& value, std::vector<Record*>& records);
    void replay(Record& record);
    GradientDestination grad_target(Value& value, const Geometry& geometry, Array* spent);
    void number_anew() noexcept;
    static Value* receiver(const Slot& slot);
    Array array_of(const Slot& slot, const Record& record) const;

    Context* context_;
    Exec exec_;
    const void* thread_ = this_thread();
    std::vector<Record*> records_;
    std::deque<TapeRegion> regions_;
    std::vector<std::uint32_t> calls_;              ///< of each path's regions, in a micro-batch
    std::deque<std::string> path_texts_;            ///< for policies
    std::uint32_t outer_ops_ = 0;                   ///< `TapeRegion::ops` outside of regions
    TapeRegion* region_ = nullptr;                  ///< innermost open one
    std::uint32_t cursor_ = RecordInterval::kNone;  ///< the record whose backward runs
    bool recording_ = true;
    bool in_backward_ = false;
    bool keeps_casts_ = false;
    RecordArena arena_;
    struct alignas(Value) ValueMemory {
        std::byte bytes[sizeof(Value)];
    };
    std::deque<ValueMemory> value_storage_;
    std::vector<void*> free_values_;
    std::vector<Tensor> casts_;  ///< that are kept
    std::vector<Record*> arm_stack_;
    std::vector<PendingUpdate> updates_;
    std::vector<std::pair<PathId, Attendance>> attendances_;  ///< of the last backward
    std::vector<std::function<void(Exec& exec, int rank)>> changes_;
    TapeStatistics statistics_;
    TapeObserver* observer_ = nullptr;
};

}  // namespace headroom
