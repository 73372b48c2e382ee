#pragma once
// A context holds all state: device, stream, memory, tape, random state, autocast, module path, policies. There are no
// globals; two contexts share nothing but a `DeviceMemory` that both were given. A context belongs to the thread that
// created it, can't be moved, and must outlive its tensors.
//
//     Context context = Context::cpu({.threads = 2, .memory_limit = 2'000'000'000, .seed = 1337});
//     context.policy("blocks.*", recompute_all());
//     Tensor x = context.from_host(std::vector<float>{1, 2}, {2});
//     Context rehearsal = Context::dry(context.profile());
//     fmt::print("{}\n", context.memory().statistics().peak_allocated);
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <headroom/core/group.hpp>
#include <headroom/core/state_dict.hpp>
#include <headroom/core/tape/tape.hpp>
#include <headroom/core/tensor.hpp>
#include <headroom/kernels/device/gpu_model.hpp>
#include <headroom/kernels/random/random.hpp>

namespace headroom {

using kernels::gpu_model;
using kernels::GpuModel;

/// GPU memory in bytes that is set aside for CUDA's context, its libraries and kernel code. A training plans with the
/// rest.
inline constexpr std::size_t kGpuReserve = std::size_t{600} << 20;
/// Bytes that are also set aside for NCCL's buffers when several GPUs train together.
inline constexpr std::size_t kNcclReserve = std::size_t{400} << 20;

struct ContextOptions {
    int threads = 0;                        ///< 0: one per processor of the machine
    std::size_t memory_limit = 0;           ///< bytes; 0: all of the device except the reserve
    std::size_t gpu_reserve = kGpuReserve;  ///< `Profile::reserve`; ignored on the CPU
    /// `Profile::in_use` of an earlier context on the same GPU, so that both get the same limit; 0: measured now.
    std::size_t gpu_in_use = 0;
    std::uint64_t seed = 0;                          ///< for initialisation and random ops
    std::shared_ptr<DeviceMemory> memory = nullptr;  ///< shared memory, see `training_memory`; null: the context's own
    ComputeOptions compute = {};                     ///< TF32, tuning, determinism, scratch: mostly for GPUs
    /// File written by `save_tuning`, with the algorithms that earlier runs found fastest. Read if it exists and is for
    /// this GPU model, whether or not `compute.tune` is set. Empty: no file. Ignored on the CPU.
    std::filesystem::path tuning_file = {};
    /// Fills new memory with NaN (-1 for integers), which exposes ops that read before anything was written. Slow;
    /// `test::check_op` sets it.
    bool fill_uninitialized_memory = false;
    /// The processes that train together; this context is one rank. Null, or one rank: single-process.
    std::shared_ptr<Group> group = nullptr;
};

/// Properties of a device and settings of a context that a dry run needs to allocate the same bytes.
struct Profile {
    int threads = 1;
    std::size_t memory_limit = 0;
    std::uint64_t seed = 0;
    double slack = memory::MemoryOptions().slack;  ///< `MemoryOptions::slack`
    GpuModel model{};                              ///< the GPU; without a compute capability: the CPU
    ComputeOptions compute{};                      ///< `ContextOptions::compute`
    /// Properties of the device's memory; a granularity of 0 stands for this machine's memory.
    memory::DriverProperties memory{};
    int rank = 0, ranks = 1;  ///< the rank that is rehearsed, and their number
    /// Bytes of a GPU reserved for CUDA and its libraries. CUDA's context takes about half of them; the rest is for
    /// code loaded later.
    std::size_t reserve = 0;
    /// Bytes of a GPU in use when the context was created, by CUDA's context and by other programs. 0 if the GPU is not
    /// present.
    std::size_t in_use = 0;
    /// The context's policies so far, by pattern and for whole micro-batches.
    std::vector<std::pair<std::string, Policy>> policies = {};
    std::optional<Policy> micro_batch_policy = {};
    std::set<std::string> module_paths = {};  ///< paths of the modules so far, which patterns may match
    std::uint64_t random_counter = 0;         ///< `Context::random_counter`
    std::optional<Dtype> autocast = {};       ///< of the innermost open `Autocast`
    bool records = true;                      ///< false while a `NoGradGuard` is open
    bool keeps_casts = false;                 ///< true while a `KeptCasts` is open
    bool finds_non_finite = false;            ///< `Context::find_non_finite`

    /// Profile of a GPU for a dry run on a machine without it. Pages are 2 MiB, as on today's NVIDIA GPUs; the reserve
    /// is kGpuReserve.
    static Profile gpu(const GpuModel& model);
    /// A GPU like an H100, with this much memory.
    static Profile gpu(std::size_t memory_bytes);
    bool cuda() const { return model.capability > 0; }
    /// `memory`, or this machine's memory if its granularity is 0.
    memory::DriverProperties device_memory() const;
    /// Bytes of the device that a training can't use: the reserve, plus NCCL's buffers if there are several ranks; more
    /// if other programs use the GPU.
    std::size_t reserved_bytes() const;
    /// Bytes of the device that a training can use: all but `reserved_bytes()`, in whole pages.
    std::size_t usable_bytes() const;
    /// The same profile with this limit, on a device of exactly this size and without a reserve.
    Profile limited(std::size_t bytes) const;
    /// The same profile with a limit that is never reached, for rehearsals that compare peaks.
    Profile endless() const { return limited(std::size_t{1} << 50); }
};

class Context {
  public:
    /// Creates a context on the CPU. Errors: Error for a negative number of threads or a limit below one page.
    static Context cpu(ContextOptions options = {});
    /// Creates a context on GPU `index`, in CUDA's numbering. `threads` has no effect. Calls queue work and return; the
    /// host waits only where values are read (`item`, `to_vector`), and an index out of range is reported there, too.
    /// After a fault on the GPU the context refuses all further work. Errors: DeviceError if the build has no CUDA, the
    /// NVIDIA driver is missing or too old, the program has no code for this GPU, or the GPU does not exist; Error if
    /// `memory` is set, because contexts on GPUs can't share memory; FileError if the `tuning_file` is damaged.
    static Context cuda(int index = 0, ContextOptions options = {});
    /// Creates a context that computes nothing and allocates on a simulated device. Its peak equals the real one to the
    /// byte. `memory`: another dry context's memory, if the real contexts share one (`ContextOptions::memory`); null:
    /// its own. Errors: Error if `memory` is not simulated.
    static Context dry(const Profile& profile, std::shared_ptr<DeviceMemory> memory = nullptr);
    /// Creates a context on the first GPU, or on the CPU if there is none.
    static Context best(ContextOptions options = {});
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    /// All tensors must be gone. If one is left, the program is aborted with a message, because the tensor would
    /// dangle.
    ~Context();

    bool dry() const { return is_dry(stream_); }
    /// "cpu", "cuda" or "dry".
    std::string device() const { return dry() ? "dry" : on_cuda(stream_) ? "cuda" : "cpu"; }
    /// The processes that train together; null if there is only this one.
    Group* group() const { return group_.get(); }
    /// The GPU; null on the CPU and in dry runs.
    CudaDevice* gpu() const { return device_.get(); }
    /// For messages: "cpu", "cuda", "a dry run on cpu", "a dry run on cuda".
    std::string description() const;
    int threads() const { return threads_of(stream_); }
    /// The profile for a dry run of this context's program: `Context::dry(context.profile())`.
    Profile profile() const;
    /// Hands the context to the calling thread; ops recorded by any other thread are refused from now on. The previous
    /// thread must be done with the context and its tensors, and its writes must be visible here (a join, a lock).
    void use_from_this_thread() { tape_.use_from_this_thread(); }

    /// Writes the algorithms chosen for products and attention so far, with those read at the start, to the
    /// `tuning_file`. The file is text, for this GPU model and these versions of cuBLASLt and cuDNN. Does nothing
    /// without such a file, on the CPU and in dry runs. Errors: FileError.
    void save_tuning();
    Stream& stream() { return stream_; }
    DeviceMemory& memory() { return *memory_; }
    std::shared_ptr<DeviceMemory> shared_memory() const { return memory_; }
    Tape& tape() { return tape_; }
    Exec& exec() { return tape_.exec(); }

    /// Creates a leaf with a copy of `values`: shape.numel() elements in row-major order, in the dtype of T. Errors:
    /// ShapeError, OutOfMemory.
    template <class T>
    Tensor from_host(std::span<const T> values, Shape shape, Category category = Category::inputs);
    /// The same for a vector, an array, or any other contiguous container.
    template <class C>
    requires requires(const C& values) {
        values.data();
        values.size();
    }
    Tensor from_host(const C& values, Shape shape, Category category = Category::inputs) {
        using T = std::remove_cvref_t<decltype(*values.data())>;
        return from_host(std::span<const T>(values.data(), values.size()), shape, category);
    }
    /// Creates a leaf [] with one value, rounded to the dtype.
    Tensor scalar(double value, Dtype dtype = Dtype::f32);
    /// Creates a leaf that uses the caller's array as its storage; its axes may be in any order in memory. Errors:
    /// ShapeError if it has gaps; Error if its memory belongs to another context.
    Tensor from_array(Array array);

    // Policies. Later patterns take precedence over earlier patterns.
    /// Attaches `policy` to the module paths that match `pattern`, for regions opened from now on. The next backward
    /// refuses a pattern that matches no module, so build modules first.
    void policy(std::string pattern, Policy policy);
    /// Attaches `policy` to whole micro-batches. It is asked last, and also about ops outside modules. It replaces the
    /// previous micro-batch policy; an empty optional removes that, as a plan that keeps everything requires. Takes
    /// effect in the next `MicroBatchScope`, such as those of `GradientAccumulator`.
    void policy(std::optional<Policy> policy);
    /// Registers a module's path, so that patterns can match it.
    PathId module_path(std::string_view path);

    /// Updates state that is not a value of the tape, such as running statistics. While ops are recorded, `update` is
    /// called once after the backward pass that consumes the current records has succeeded: only once even if records
    /// are replayed, and never if an error drops them. While nothing is recorded, it is called immediately. `loss`: the
    /// sum of that backward's losses, one f64 on the device, from which kernels can tell whether the batch was finite;
    /// null if called immediately. `attendance`: with several ranks, the part of the update that a rank without a
    /// micro-batch must also run, such as its exchanges.
    void after_backward(Tape::Update update, Tape::Attendance attendance = {}) {
        tape_.after_backward(std::move(update), std::move(attendance));
    }

    // Random state: (seed, counter). A micro-batch (`MicroBatchScope`) takes one counter value. Its draws depend on the
    // seed, that value, the module's path, and the number of earlier draws by that module in the micro-batch; they
    // don't depend on other modules or on which rank computes the micro-batch. Outside a micro-batch, each random op
    // takes a counter value.
    std::uint64_t seed() const { return seed_; }
    /// The key for the next random op, or for random numbers on the host.
    kernels::RandomKey next_random(kernels::RandomDomain domain = kernels::RandomDomain::op);
    std::uint64_t random_counter() const { return random_counter_; }
    void set_random_counter(std::uint64_t counter) { random_counter_ = counter; }
    /// "random.seed" and "random.counter".
    StateDict state_dict() const;
    /// Restores seed and counter. Errors: Error if one is missing.
    void restore(const StateValues& values);

    /// Changes whenever a module call may record different ops than before: when policies, the seed, or the set of
    /// trained parameters change. Graphs use it to detect that they are out of date.
    std::uint64_t settings_version() const { return settings_version_; }

    /// The dtype for products of f32 inputs; none outside `Autocast`.
    std::optional<Dtype> autocast() const { return autocast_; }

    /// While on, each region checks the values that leave it when it closes; the path of the first NaN or infinity is
    /// kept. Slow.
    void find_non_finite(bool on);
    /// The path found since the check was switched on, if any.
    const std::optional<std::string>& first_non_finite() const { return first_non_finite_; }

  private:
    friend class RegionScope;
    friend class PolicyScope;
    friend class MicroBatchScope;
    friend class Autocast;
    friend class Parameters;
    Context(Stream stream, std::shared_ptr<DeviceMemory> memory, const ContextOptions& options,
            std::shared_ptr<CudaDevice> device, const Profile& profile);
    friend class Tape;
    const Policy* policy_for(PathId path);
    /// Errors: Error that names a pattern that matches no module, and the most similar paths.
    void check_policies();
    void check_finite(const TapeRegion& region);
    bool keeps_tuning() const;
    void open_micro_batch();
    void close_micro_batch();

    std::shared_ptr<CudaDevice> device_;
    StreamState state_;
    Stream stream_;
    std::shared_ptr<DeviceMemory> memory_;
    std::shared_ptr<Group> group_;
    GpuModel model_;  ///< this and the next two are as in Profile
    std::size_t reserve_, in_use_;
    std::uint64_t seed_;
    std::uint64_t random_counter_ = 0;
    struct Draws {
        std::uint64_t module = 0;  ///< fnv1a of the path; 0: not computed yet
        std::uint64_t uses = 0;    ///< draws in this micro-batch
    };
    std::vector<Draws> draws_;  ///< by PathId
    bool in_micro_batch_ = false;
    std::uint64_t settings_version_ = 0;
    std::filesystem::path tuning_file_;
    std::optional<Dtype> autocast_;
    struct AttachedPolicy {
        std::string pattern;
        std::shared_ptr<const Policy> policy;
        bool used = false;  ///< a region with a matching path was opened
    };
    std::vector<AttachedPolicy> policies_;
    std::optional<Policy> micro_batch_policy_;
    std::size_t policies_checked_ = 0;  ///< the number that `check_policies` has checked
    std::set<std::string> module_paths_;
    std::vector<std::optional<const Policy*>> policy_of_path_;
    bool find_non_finite_ = false;
    std::optional<std::string> first_non_finite_;
    std::set<std::string> model_names_;  ///< names of the existing `Parameters`
    Tape tape_;
};

/// Errors: Error that names both contexts if they differ.
void check_one_context(const char* op, const Context& a, const Context& b);

/// Assigns the ops recorded in its scope to a module path, which policies, accounting and reports refer to.
class RegionScope {
  public:
    RegionScope(Context& context, PathId path);
    /// `otherwise` applies if no policy is attached to that path. It must outlive the tape's records.
    RegionScope(Context& context, PathId path, const Policy& otherwise);
    ~RegionScope();
    RegionScope(const RegionScope&) = delete;
    RegionScope& operator=(const RegionScope&) = delete;

  private:
    Context& context_;
};

/// Scope of a micro-batch's forward pass. Its ops are counted from 0, the micro-batch policy applies to them, and it
/// takes one value of the random counter. It must end before backward. Scopes can't be nested.
class MicroBatchScope {
  public:
    explicit MicroBatchScope(Context& context) : context_(context) { context.open_micro_batch(); }
    ~MicroBatchScope() { context_.close_micro_batch(); }
    MicroBatchScope(const MicroBatchScope&) = delete;
    MicroBatchScope& operator=(const MicroBatchScope&) = delete;

  private:
    Context& context_;
};

/// Disables recording in its scope, for evaluation and sampling.
class NoGradGuard {
  public:
    explicit NoGradGuard(Context& context) : tape_(context.tape()), before_(tape_.recording()) {
        tape_.set_recording(false);
    }
    ~NoGradGuard() { tape_.set_recording(before_); }
    NoGradGuard(const NoGradGuard&) = delete;
    NoGradGuard& operator=(const NoGradGuard&) = delete;

  private:
    Tape& tape_;
    bool before_;
};

/// Restores the context's policies at its end.
class PolicyScope {
  public:
    explicit PolicyScope(Context& context);
    ~PolicyScope();
    PolicyScope(const PolicyScope&) = delete;
    PolicyScope& operator=(const PolicyScope&) = delete;

  private:
    Context& context_;
    std::vector<Context::AttachedPolicy> policies_;
    std::optional<Policy> of_micro_batches_;
};

/// In its scope, recorded ops cast the f32 inputs of matrix products and attention to `dtype`, and norms write `dtype`
/// for an f32 input, so that no cast follows. Without a dtype, autocast is off.
class Autocast {
  public:
    /// Errors: DtypeError unless the dtype is f16 or bf16.
    Autocast(Context& context, std::optional<Dtype> dtype);
    ~Autocast() { context_.autocast_ = before_; }
    Autocast(const Autocast&) = delete;
    Autocast& operator=(const Autocast&) = delete;

  private:
    Context& context_;
    std::optional<Dtype> before_;
};

/// Keeps the half-precision copies that `Autocast` makes of parameters while nothing is recorded. Use it for many small
/// calls, such as those of `generate`, which would otherwise spend their time on copies. From the second call on it
/// costs half the memory of these parameters. Outside this scope a copy lives only as long as the op that needs it, so
/// every batch of an evaluation takes as much memory as the first.
class KeptCasts {
  public:
    explicit KeptCasts(Context& context) : tape_(context.tape()), before_(tape_.keeps_casts()) {
        tape_.keep_casts(true);
    }
    ~KeptCasts() { tape_.keep_casts(before_); }
    KeptCasts(const KeptCasts&) = delete;
    KeptCasts& operator=(const KeptCasts&) = delete;

  private:
    Tape& tape_;
    bool before_;
};

}  // namespace headroom
