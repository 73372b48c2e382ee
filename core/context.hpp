#pragma once
// A context holds all state: device, stream, memory, tape, random state, autocast, module path, policies. There are no
// globals; two contexts share nothing, except a `DeviceMemory` that both were given. A context belongs to the thread
// that made it, can't be moved, and outlives its tensors.
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
#include <headroom/core/tape/internal/tape.hpp>
#include <headroom/core/tensor.hpp>
#include <headroom/kernels/device/gpu_model.hpp>
#include <headroom/kernels/random/random.hpp>

namespace headroom {

using kernels::gpu_model;
using kernels::GpuModel;

/// Bytes of a GPU that CUDA's context, its libraries and the code of kernels take: a training plans with the rest.
inline constexpr std::size_t kGpuReserve = std::size_t{600} << 20;
/// What NCCL's buffers take besides, where several GPUs train together.
inline constexpr std::size_t kNcclReserve = std::size_t{400} << 20;

struct ContextOptions {
    int threads = 0;                        ///< 0: one for each processor of the machine
    std::size_t memory_limit = 0;           ///< bytes; 0: all of the device's but the reserve
    std::size_t gpu_reserve = kGpuReserve;  ///< `Profile::reserve`; not for the CPU
    /// `Profile::in_use` of an earlier context on the same GPU, so that both may take as much; 0: it is measured.
    std::size_t gpu_in_use = 0;
    std::uint64_t seed = 0;                          ///< of initialisation and of random ops
    std::shared_ptr<DeviceMemory> memory = nullptr;  ///< shared, see `training_memory`; null: its own
    ComputeOptions compute = {};                     ///< TF32, tuning, determinism, scratch: most for GPUs
    /// The file of `save_tuning`, with the algorithms that earlier runs found fastest. The context reads it if it
    /// exists and is for this model of GPU, with or without `compute.tune`. Empty: no file. Not for the CPU.
    std::filesystem::path tuning_file = {};
    /// New memory holds NaN, and -1 as integers, until something else is written: this shows where an op reads too
    /// early. Slow; `test::check_op` does it.
    bool fill_uninitialized_memory = false;
    /// The processes that train together, of which this context is one rank; null, or of one rank: it is alone.
    std::shared_ptr<Group> group = nullptr;
};

/// The properties of a device and of a context's settings that a dry run needs to allocate the same bytes.
struct Profile {
    int threads = 1;
    std::size_t memory_limit = 0;
    std::uint64_t seed = 0;
    double slack = memory::MemoryOptions().slack;  ///< `MemoryOptions::slack`
    GpuModel model{};                              ///< the GPU; without a compute capability: a processor
    ComputeOptions compute{};                      ///< `ContextOptions::compute`
    /// The properties of the device's memory; a granularity of 0 stands for this machine's.
    memory::DriverProperties memory{};
    int rank = 0, ranks = 1;  ///< the rank of `ranks` that is rehearsed
    /// Bytes of a GPU that are left to CUDA and its libraries. Its context takes about half of them, the rest is for
    /// what is loaded later.
    std::size_t reserve = 0;
    /// Bytes of a GPU that were in use when the context was made: by CUDA's context and by other programs. 0 where the
    /// GPU is not present.
    std::size_t in_use = 0;
    /// What the context's policies are so far, by pattern and for whole micro-batches.
    std::vector<std::pair<std::string, Policy>> policies = {};
    std::optional<Policy> micro_batch_policy = {};
    std::set<std::string> module_paths = {};  ///< of modules so far, which patterns may fit
    std::uint64_t random_counter = 0;         ///< `Context::random_counter`
    std::optional<Dtype> autocast = {};       ///< of the innermost `Autocast` that is open
    bool records = true;                      ///< no `NoGradGuard` is open
    bool keeps_casts = false;                 ///< a `KeptCasts` is open
    bool finds_non_finite = false;            ///< `Context::find_non_finite`

    /// A GPU by its name, for a dry run on a machine without it: pages of 2 MiB, as NVIDIA's GPUs have today. The
    /// reserve is kGpuReserve.
    static Profile gpu(const GpuModel& model);
    /// A GPU like an H100, but with this much memory.
    static Profile gpu(std::size_t memory_bytes);
    bool cuda() const { return model.capability > 0; }
    /// `memory`, or this machine's where it stands for that.
    memory::DriverProperties device_memory() const;
    /// Bytes of the device that a training does not get: the reserve, with NCCL's buffers where there are several
    /// ranks, or more where other programs use the GPU.
    std::size_t reserved_bytes() const;
    /// Bytes of the device that a training may take: all but `reserved_bytes()`, in whole pages.
    std::size_t usable_bytes() const;
    /// With this limit, on a device that has as much, and no reserve.
    Profile limited(std::size_t bytes) const;
    /// With a limit that nothing reaches: for rehearsals whose peaks are compared, not refused.
    Profile endless() const { return limited(std::size_t{1} << 50); }
};

class Context {
  public:
    /// On the CPU. Errors: Error for a negative number of threads or a limit of less than a page.
    static Context cpu(ContextOptions options = {});
    /// On the GPU with this number, as CUDA counts them. `threads` has no effect there. Calls queue work and return;
    /// the host waits where values are read (`item`, `to_vector`), and an index out of range is reported there, too.
    /// After a fault on the GPU the context refuses all further work. Errors: DeviceError if the build has no CUDA, if
    /// the NVIDIA driver is missing or too old, or if the program has no code for the GPU or the GPU does not exist;
    /// Error for `memory`, which contexts on GPUs can't share; FileError if the `tuning_file` is damaged.
    static Context cuda(int index = 0, ContextOptions options = {});
    /// A context that computes nothing and allocates on a simulated device: its peak is the real one's, to the byte.
    /// `memory`: another dry context's, where their contexts share one (`ContextOptions::memory`); null: its own.
    /// Errors: Error for memory that is not simulated.
    static Context dry(const Profile& profile, std::shared_ptr<DeviceMemory> memory = nullptr);
    /// On the first GPU if there is one, else on the CPU.
    static Context best(ContextOptions options = {});
    Context(const Context&) = delete;
    Context& operator=(const Context&) = delete;
    /// All tensors must be gone; if one is left, the program is aborted with a message, because the tensor would point
    /// nowhere.
    ~Context();

    bool dry() const { return is_dry(stream_); }
    /// "cpu", "cuda" or "dry".
    std::string device() const { return dry() ? "dry" : on_cuda(stream_) ? "cuda" : "cpu"; }
    /// The processes that train together; null if it is alone.
    Group* group() const { return group_.get(); }
    /// The GPU; null on the CPU and in a dry run.
    CudaDevice* gpu() const { return device_.get(); }
    /// For messages: "cpu", "cuda", "a dry run on cpu", "a dry run on cuda".
    std::string description() const;
    int threads() const { return threads_of(stream_); }
    /// The properties of this context for a dry run of its program: `Context::dry(context.profile())`.
    Profile profile() const;
    /// From now on the context belongs to the calling thread: ops that another one records are refused. The previous
    /// thread must be done with the context and its tensors, and its work must be visible here (a join, a lock).
    void use_from_this_thread() { tape_.use_from_this_thread(); }

    /// Writes the algorithms that were chosen for products and attention so far, and the ones that were read, to the
    /// `tuning_file`: text, for this model of GPU and these versions of cuBLASLt and cuDNN. Does nothing without such a
    /// file, on a CPU and in a dry run. Errors: FileError.
    void save_tuning();
    Stream& stream() { return stream_; }
    DeviceMemory& memory() { return *memory_; }
    std::shared_ptr<DeviceMemory> shared_memory() const { return memory_; }
    Tape& tape() { return tape_; }
    Exec& exec() { return tape_.exec(); }

    /// A leaf with a copy of `values`: shape.numel() elements in row-major order, of the dtype that T stands for.
    /// Errors: ShapeError, OutOfMemory.
    template <class T>
    Tensor from_host(std::span<const T> values, Shape shape, Category category = Category::inputs);
    /// The same for a vector, an array, or another container whose elements lie side by side.
    template <class C>
    requires requires(const C& values) {
        values.data();
        values.size();
    }
    Tensor from_host(const C& values, Shape shape, Category category = Category::inputs) {
        using T = std::remove_cvref_t<decltype(*values.data())>;
        return from_host(std::span<const T>(values.data(), values.size()), shape, category);
    }
    /// A leaf [] with one value, rounded to the dtype.
    Tensor scalar(double value, Dtype dtype = Dtype::f32);
    /// A leaf with the caller's array as its storage, whose axes may stand in memory in any order. Errors: ShapeError
    /// if it has gaps; Error if its memory is another context's.
    Tensor from_array(Array array);

    // Policies. A pattern added later goes before those added earlier.
    /// Attaches `policy` to the module paths that match `pattern`. Takes effect for regions opened from now on. The
    /// next backward refuses a pattern that fits no module: build modules before it.
    void policy(std::string pattern, Policy policy);
    /// Attaches `policy` to whole micro-batches: it is asked last, also about ops outside of modules. Replaces the one
    /// before; none, as of a plan that keeps all, takes it away. Takes effect in a `MicroBatchScope`, as
    /// `GradientAccumulator` opens one.
    void policy(std::optional<Policy> policy);
    /// Registers the path of a module, so that patterns can match it.
    PathId module_path(std::string_view path);

    /// For state that is not a value of the tape, such as running statistics. While ops are recorded, `update` waits
    /// for the backward pass that consumes the records so far, and is called when that has succeeded: once, even if
    /// records are computed again, and never if an error drops them. While nothing is recorded, it is called now.
    /// `loss`: the sum of that backward's losses, one f64 on the device, which tells kernels whether the batch was
    /// finite; null if called now. `attendance`: what several ranks' updates of one micro-batch each do together, done
    /// by a rank that has none.
    void after_backward(Tape::Update update, Tape::Attendance attendance = {}) {
        tape_.after_backward(std::move(update), std::move(attendance));
    }

    // Random state: (seed, counter). A micro-batch (`MicroBatchScope`) takes one number of the counter. What is drawn
    // in it is a function of the seed, that number, the module's path, and how often that module has drawn in it
    // before: not of other modules, and not of who computes the micro-batch. Outside of them each random op takes a
    // number.
    std::uint64_t seed() const { return seed_; }
    /// The key for the next random op, or for randomness on the host.
    kernels::RandomKey next_random(kernels::RandomDomain domain = kernels::RandomDomain::op);
    std::uint64_t random_counter() const { return random_counter_; }
    void set_random_counter(std::uint64_t counter) { random_counter_ = counter; }
    /// "random.seed" and "random.counter".
    StateDict state_dict() const;
    /// Sets seed and counter. Errors: Error if one is missing.
    void restore(const StateValues& values);

    /// Changes whenever a module's call may record something else than before: with policies, the seed, or the set of
    /// trained parameters. For graphs.
    std::uint64_t settings_version() const { return settings_version_; }

    /// The dtype of products of f32 inputs; none outside of an `Autocast`.
    std::optional<Dtype> autocast() const { return autocast_; }

    /// While on, every region that closes checks the values that leave it; the path of the first NaN or infinity is
    /// kept. Slow.
    void find_non_finite(bool on);
    /// The path that was found since the check was switched on, if any.
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
    /// Errors: Error that names a pattern that fits no module, and the paths most like it.
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
    GpuModel model_;  ///< this and the next two: as in Profile
    std::size_t reserve_, in_use_;
    std::uint64_t seed_;
    std::uint64_t random_counter_ = 0;
    struct Draws {
        std::uint64_t module = 0;  ///< fnv1a of the path; 0: not asked for yet
        std::uint64_t uses = 0;    ///< in the micro-batch
    };
    std::vector<Draws> draws_;  ///< by PathId
    bool in_micro_batch_ = false;
    std::uint64_t settings_version_ = 0;
    std::filesystem::path tuning_file_;
    std::optional<Dtype> autocast_;
    struct AttachedPolicy {
        std::string pattern;
        std::shared_ptr<const Policy> policy;
        bool used = false;  ///< a region with such a path was opened
    };
    std::vector<AttachedPolicy> policies_;
    std::optional<Policy> micro_batch_policy_;
    std::size_t policies_checked_ = 0;  ///< the first ones, by `check_policies`
    std::set<std::string> module_paths_;
    std::vector<std::optional<const Policy*>> policy_of_path_;
    bool find_non_finite_ = false;
    std::optional<std::string> first_non_finite_;
    std::set<std::string> model_names_;  ///< of the existing `Parameters`
    Tape tape_;
};

/// Errors: Error that names both contexts if there are two.
void check_one_context(const char* op, const Context& a, const Context& b);

/// Ops recorded in its scope belong to a module path; policies, accounting and reports refer to it.
class RegionScope {
  public:
    RegionScope(Context& context, PathId path);
    /// `otherwise` decides where no policy is attached to that path. It must outlive the tape's records.
    RegionScope(Context& context, PathId path, const Policy& otherwise);
    ~RegionScope();
    RegionScope(const RegionScope&) = delete;
    RegionScope& operator=(const RegionScope&) = delete;

  private:
    Context& context_;
};

/// The forward pass of a micro-batch: its ops are counted from 0, the policy of micro-batches decides about them, and
/// it takes one number of the random counter. It ends before backward. There is none in another.
class MicroBatchScope {
  public:
    explicit MicroBatchScope(Context& context) : context_(context) { context.open_micro_batch(); }
    ~MicroBatchScope() { context_.close_micro_batch(); }
    MicroBatchScope(const MicroBatchScope&) = delete;
    MicroBatchScope& operator=(const MicroBatchScope&) = delete;

  private:
    Context& context_;
};

/// In its scope nothing is recorded: evaluation and sampling.
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

/// The context's policies are as before when it ends.
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

/// In its scope, recorded ops cast the f32 inputs of matrix products and attention to `dtype`, and norms write
/// `dtype` for an f32 input, so that no cast follows. Without a dtype, ops work as outside of any such scope.
class Autocast {
  public:
    /// Errors: DtypeError unless f16 or bf16.
    Autocast(Context& context, std::optional<Dtype> dtype);
    ~Autocast() { context_.autocast_ = before_; }
    Autocast(const Autocast&) = delete;
    Autocast& operator=(const Autocast&) = delete;

  private:
    Context& context_;
    std::optional<Dtype> before_;
};

/// While nothing is recorded, `Autocast` copies parameters to half precision; in this scope the copies stay for later
/// calls of a model. It is for many small calls, such as those of `generate`, which would spend their time on copies.
/// Costs half of the memory of these parameters from the second call on. Outside of the scope a copy lives as long as
/// the op that it was made for, so that every batch of an evaluation takes the memory of the first one.
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
