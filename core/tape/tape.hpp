#pragma once
// The recorded program of one context: values, records, regions. It runs backward once, and replays records whose
// values were dropped. It does not depend on any concrete op. Users call `Context`, `Tensor` and `apply` instead.
//
//     tape.apply(table, &attrs, inputs, outputs);     // table: an op's functions, made by core/apply.hpp
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

#include <headroom/core/tape/observer.hpp>
#include <headroom/core/tape/policy.hpp>
#include <headroom/core/tape/record.hpp>

namespace headroom {

class Context;
class Tensor;

struct TapeStatistics {
    std::uint64_t recorded = 0;    ///< ops recorded
    std::uint64_t replayed = 0;    ///< ops replayed by backward
    std::uint64_t backward = 0;    ///< ops run backward
    std::size_t records = 0;       ///< on the tape now
    std::size_t values = 0;        ///< existing now, leaves included
    bool couples_samples = false;  ///< a recorded op couples samples: see OpInfo
};

class Tape {
  public:
    Tape(Context& context, Exec exec);
    ~Tape();
    Tape(const Tape&) = delete;
    Tape& operator=(const Tape&) = delete;

    /// Runs an op on inputs that have storage, and records it. `inputs` may be emptied, because the op may take over
    /// storage that nothing else needs. Errors: the op's errors; tape and memory are then unchanged.
    void apply(const OpTable& op, const void* attrs, std::span<Tensor> inputs, std::span<Tensor> outputs);
    /// Adds `seeds[i]` times the gradient of the one-element `losses[i]` to every leaf that requires it, and consumes
    /// the tape. Errors: the ops' errors; the tape is then cleared and gradients are indeterminate.
    void backward(std::span<const Tensor> losses, std::span<const double> seeds);
    /// The same for one loss with a seed in device memory: one element of any floating dtype, which the host does not
    /// read. `made` is called when all gradients are complete, before updates.
    void backward(const Tensor& loss, const Array& seed, const std::function<void()>& made = {});
    /// See `Context::after_backward`.
    using Update = std::function<void(Exec& exec, const Array* loss)>;
    using Attendance = std::function<void(Exec& exec)>;
    void after_backward(Update update, Attendance attendance);
    /// Runs the attendances of the last backward's updates, on a rank that did not run that backward.
    void participate();
    void forget_attendances() { attendances_.clear(); }
    /// Called by an update or an attendance. Once all of these have run, `change` is called for each rank in rank
    /// order. State that is used twice in a micro-batch thus changes as if one rank had run the micro-batches one after
    /// another.
    void in_order_of_ranks(std::function<void(Exec& exec, int rank)> change) { changes_.push_back(std::move(change)); }
    /// Forgets all records. Surviving handles become leaves.
    void clear() noexcept;
    /// Forgets all records but the first `count`.
    void truncate(std::size_t count) noexcept;
    std::size_t size() const { return records_.size(); }

    /// Creates a leaf. Its gradient, if required, is kept after backward.
    Value* make_leaf(Array array);

    TapeRegion* open_region(PathId path, const Policy* policy);
    /// Opens the region that encloses all modules: call 0 of the path "". Other calls of that path count from 1.
    TapeRegion* open_micro_batch(const Policy* policy);
    void close_region() noexcept;
    TapeRegion* region() const { return region_; }
    PathId path() const { return region_ ? region_->path : 0; }

    bool recording() const { return recording_; }
    void set_recording(bool on);

    /// See `Context::use_from_this_thread`.
    void use_from_this_thread() noexcept { thread_ = this_thread(); }

    /// Sets the observer, which must outlive its use by the tape; null removes it.
    void observe(TapeObserver* observer) { observer_ = observer; }

    Exec& exec() { return exec_; }
    Context& context() const { return *context_; }
    TapeStatistics statistics() const;

    /// For autocast: the existing half-precision cast of `source`, if it still has its storage and can be used here;
    /// else null.
    Value* cast_of(const Value& source, Dtype dtype) const;
    /// For autocast: lets later uses of `source` share this cast, for as long as backward or a handle keeps it.
    void remember_cast(Value& source, const Tensor& cast);
    /// Whether parameter casts that are made without recording stay alive until this is switched off or recording
    /// resumes.
    bool keeps_casts() const { return keeps_casts_; }
    void keep_casts(bool on);

    /// Called by `Tensor` when a value's last handle is gone.
    void unused(Value* value) noexcept;
    /// For module scopes and checks: calls `visit(value)` for each value that `region` produced and the user still
    /// holds.
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
    /// Errors: Error if the calling thread is not the context's.
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
        /// Kept, although an enclosing region asks for recomputation, which applies once a handle to the value leaves
        /// this region.
        bool movable = false;
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
        std::size_t records;  ///< size of the tape when it was requested: dropped if the tape becomes shorter
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
    std::vector<std::uint32_t> calls_;              ///< number of regions so far for each path, in a micro-batch
    std::deque<std::string> path_texts_;            ///< for policies
    std::uint32_t outer_ops_ = 0;                   ///< `TapeRegion::ops` outside of regions
    TapeRegion* region_ = nullptr;                  ///< innermost open one
    std::uint32_t cursor_ = RecordInterval::kNone;  ///< the record whose backward is running
    bool recording_ = true;
    bool in_backward_ = false;
    bool keeps_casts_ = false;
    RecordArena arena_;
    struct alignas(Value) ValueMemory {
        std::byte bytes[sizeof(Value)];
    };
    std::deque<ValueMemory> value_storage_;
    std::vector<void*> free_values_;
    std::vector<Tensor> casts_;  ///< casts that are kept
    std::vector<Record*> arm_stack_;
    std::vector<PendingUpdate> updates_;
    std::vector<std::pair<PathId, Attendance>> attendances_;  ///< of the last backward
    std::vector<std::function<void(Exec& exec, int rank)>> changes_;
    TapeStatistics statistics_;
    TapeObserver* observer_ = nullptr;
};

}  // namespace headroom
