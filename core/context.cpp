#include <headroom/core/context.hpp>

#include <algorithm>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <headroom/core/nearest.hpp>
#include <headroom/core/transfer.hpp>
#include <headroom/kernels/device/cuda_device.hpp>
#include <headroom/kernels/device/probe.hpp>
#include <headroom/kernels/device/shape.hpp>
#include <headroom/kernels/dispatch.hpp>
#include <headroom/kernels/fill/fill.hpp>
#include <headroom/kernels/sum_of_squares/sum_of_squares.hpp>
#include <headroom/kernels/tuning.hpp>
#include <headroom/memory/error.hpp>

namespace headroom {

namespace {

int resolve_threads(int threads) {
    if (threads < 0) throw Error(fmt::format("context: the number of threads must be positive, got {}", threads));
    if (threads > 0) return threads;
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// A GPU that is present, with the rates of the most similar one that is known.
GpuModel model_of(const CudaDevice& device, std::size_t memory_bytes) {
    const kernels::CudaProperties& gpu = device.properties();
    return {.name = gpu.name,
            .memory_bytes = memory_bytes,
            .capability = gpu.capability(),
            .multiprocessors = gpu.multiprocessors,
            .shared_bytes = gpu.shared_bytes,
            .rates = kernels::nearest_gpu(gpu.capability(), gpu.multiprocessors, memory_bytes).rates};
}

}  // namespace

Context::Context(Stream stream, std::shared_ptr<DeviceMemory> memory, const ContextOptions& options,
                 std::shared_ptr<CudaDevice> device, const Profile& profile)
    : device_(std::move(device)),
      stream_(stream),
      memory_(std::move(memory)),
      group_(options.group && options.group->ranks() > 1 ? options.group : nullptr),
      model_(profile.model),
      reserve_(profile.reserve),
      in_use_(profile.in_use),
      seed_(options.seed),
      random_counter_(profile.random_counter),
      tuning_file_(options.tuning_file),
      autocast_(profile.autocast),
      module_paths_(profile.module_paths),
      find_non_finite_(profile.finds_non_finite),
      tape_(*this, Exec(stream_, *memory_)) {
    std::visit(
        [&](auto& s) {
            s.state = &state_;
            if (profile.cuda() && model_.capability < kernels::device::kBf16Capability)
                s.compute.tf32 = false;  // there is none
        },
        stream_);
    for (const auto& [pattern, attached] : profile.policies) policy(pattern, attached);
    policy(profile.micro_batch_policy);
    tape_.set_recording(profile.records);
    tape_.keep_casts(profile.keeps_casts);
    exec().fill_uninitialized_memory(options.fill_uninitialized_memory);
    std::error_code error;
    const auto kind = std::filesystem::status(tuning_file_, error).type();
    if (keeps_tuning() && kind != std::filesystem::file_type::not_found) {
        kernels::load_tuning(stream_, tuning_file_);
    }
}

Context::~Context() = default;

Context Context::cpu(ContextOptions options) {
    if (!options.memory) {
        options.memory = std::make_shared<DeviceMemory>(memory::make_host_driver(),
                                                        training_memory({.limit = options.memory_limit}));
    }
    const CpuStream stream{.threads = resolve_threads(options.threads), .compute = options.compute};
    return Context(stream, options.memory, options, nullptr, {});
}

Context Context::cuda(int index, ContextOptions options) {
    if (options.memory) throw Error("context: contexts on GPUs can't share memory; leave `memory` empty");
    const std::shared_ptr<CudaDevice> device = kernels::open_cuda_device(index);
    CudaStream stream{.device = device.get(), .compute = options.compute};
    kernels::probe(stream);
    std::unique_ptr<memory::Driver> driver = device->make_driver();
    const memory::DriverProperties& properties = driver->properties();
    Profile profile{.model = model_of(*device, properties.total_bytes),
                    .memory = properties,
                    .ranks = options.group ? options.group->ranks() : 1,
                    .reserve = options.gpu_reserve,
                    .in_use = options.gpu_in_use};
    if (profile.in_use == 0) profile.in_use = properties.total_bytes - driver->free_bytes();
    const memory::MemoryOptions memory_options =
        training_memory({.limit = options.memory_limit, .reserve = profile.reserved_bytes()});
    // Whoever keeps the memory keeps the device.
    const std::shared_ptr<DeviceMemory> memory(new DeviceMemory(std::move(driver), memory_options),
                                               [device](DeviceMemory* gone) { delete gone; });
    return Context(stream, memory, options, device, profile);
}

Context Context::best(ContextOptions options) {
    const bool gpu = !kernels::cuda_is_emulated() && kernels::cuda_device_count() > 0;
    return gpu ? cuda(0, std::move(options)) : cpu(std::move(options));
}

Context Context::dry(const Profile& profile, std::shared_ptr<DeviceMemory> memory) {
    if (memory && !memory->properties().simulated)
        throw Error("context: a dry context shares memory only with dry contexts; pass `shared_memory()` of one");
    if (!memory) {
        const memory::MemoryOptions options = training_memory(
            {.limit = profile.memory_limit, .reserve = profile.reserved_bytes(), .slack = profile.slack});
        memory = std::make_shared<DeviceMemory>(memory::make_simulated_driver({.properties = profile.device_memory()}),
                                                options);
    }
    const DryStream stream{.threads = resolve_threads(profile.threads),
                           .capability = profile.model.capability,
                           .compute = profile.compute};
    ContextOptions of_rank{.seed = profile.seed};
    if (profile.ranks > 1) of_rank.group = std::make_shared<RehearsedGroup>(profile.rank, profile.ranks);
    return Context(stream, std::move(memory), of_rank, nullptr, profile);
}

Profile Context::profile() const {
    std::vector<std::pair<std::string, Policy>> policies;
    for (const AttachedPolicy& attached : policies_) policies.emplace_back(attached.pattern, *attached.policy);
    return {.threads = threads(),
            .memory_limit = memory_->limit(),
            .seed = seed_,
            .slack = memory_->options().slack,
            .model = model_,
            .compute = compute_of(stream_),
            .memory = memory_->properties(),
            .rank = group_ ? group_->rank() : 0,
            .ranks = group_ ? group_->ranks() : 1,
            .reserve = reserve_,
            .in_use = in_use_,
            .policies = std::move(policies),
            .micro_batch_policy = micro_batch_policy_,
            .module_paths = module_paths_,
            .random_counter = random_counter_,
            .autocast = autocast_,
            .records = tape_.recording(),
            .keeps_casts = tape_.keeps_casts(),
            .finds_non_finite = find_non_finite_};
}

std::string Context::description() const {
    const char* const kind = on_cuda(stream_) ? "cuda" : "cpu";
    return dry() ? fmt::format("a dry run on {}", kind) : kind;
}

void check_one_context(const char* op, const Context& a, const Context& b) {
    if (&a == &b) return;
    const std::string first = a.description(), second = b.description();
    throw Error(
        fmt::format("{}: the tensors belong to two contexts, {}; make all of them in one (also those that a rehearsed "
                    "function captures)",
                    op, first == second ? "both " + first : first + " and " + second));
}

bool Context::keeps_tuning() const { return device_ && !tuning_file_.empty() && !compute_of(stream_).own_kernels; }

void Context::save_tuning() {
    if (keeps_tuning()) kernels::save_tuning(stream_, tuning_file_);
}

Profile Profile::gpu(const GpuModel& model) {
    constexpr std::size_t page = std::size_t{2} << 20;
    return {.model = model,
            .memory = {.name = "simulated " + model.name,
                       .granularity = page,
                       .alignment = 512,
                       .total_bytes = model.memory_bytes,
                       .address_bytes = 8 * (model.memory_bytes / page + 1) * page,
                       .touchable = false,
                       .simulated = true},
            .reserve = kGpuReserve};
}

Profile Profile::gpu(std::size_t memory_bytes) {
    GpuModel model = gpu_model("H100");
    model.name = "GPU";
    model.memory_bytes = memory_bytes;
    return gpu(model);
}

std::size_t Profile::reserved_bytes() const {
    if (!cuda() || reserve == 0) return in_use;
    return std::max(reserve, in_use + reserve / 2) + (ranks > 1 ? kNcclReserve : 0);
}

std::size_t Profile::usable_bytes() const {
    const memory::DriverProperties device = device_memory();
    const std::size_t left = device.total_bytes - std::min(device.total_bytes, reserved_bytes());
    return left / device.granularity * device.granularity;
}

memory::DriverProperties Profile::device_memory() const {
    return memory.granularity == 0 ? memory::make_simulated_host_driver()->properties() : memory;
}

Profile Profile::limited(std::size_t bytes) const {
    Profile result = *this;
    result.memory = device_memory();
    result.memory_limit = bytes;
    result.reserve = result.in_use = 0;
    result.memory.total_bytes = std::max(result.memory.total_bytes, bytes);
    result.memory.address_bytes = std::max(result.memory.address_bytes, bytes);
    return result;
}

template <class T>
Tensor Context::from_host(std::span<const T> values, Shape shape, Category category) {
    if (!bytes_of(shape, kernels::dtype_of<T>) || static_cast<std::int64_t>(values.size()) != shape.numel()) {
        throw ShapeError(fmt::format("from_host: got {} values for the shape {}", values.size(), shape.to_string()));
    }
    exec().set_path(tape_.path());
    Array array = exec().empty(shape, kernels::dtype_of<T>, category);
    const View source = contiguous_view(const_cast<T*>(values.data()), array.dtype, shape);
    upload(exec(), source, array);
    return from_array(std::move(array));
}

template Tensor Context::from_host(std::span<const float>, Shape, Category);
template Tensor Context::from_host(std::span<const double>, Shape, Category);
template Tensor Context::from_host(std::span<const std::int32_t>, Shape, Category);
template Tensor Context::from_host(std::span<const std::int64_t>, Shape, Category);
template Tensor Context::from_host(std::span<const std::uint8_t>, Shape, Category);

Tensor Context::scalar(double value, Dtype dtype) {
    exec().set_path(tape_.path());
    Array array = exec().empty({}, dtype, Category::inputs);
    exec().launch([&](auto& stream) { kernels::fill(stream, value, array.view()); });
    return from_array(std::move(array));
}

Tensor Context::from_array(Array array) {
    check_memory("from_array", exec(), array);
    if (!is_dense(array.shape(), array.strides())) {
        throw ShapeError(fmt::format("from_array: {} with strides {} has gaps; pass an array without gaps",
                                     array.shape().to_string(), array.strides().to_string()));
    }
    array.geometry.strides = kernels::dense_strides(array.shape(), array.strides());
    if (device_ && on_host(array)) throw Error("from_array: the array is in host memory; use from_host");
    const Geometry geometry{array.shape(), array.strides()};
    return Tensor(tape_.make_leaf(std::move(array)), geometry);
}

PathId Context::module_path(std::string_view path) {
    module_paths_.emplace(path);
    return memory_->intern(path);
}

void Context::policy(std::string pattern, Policy policy) {
    ++settings_version_;
    policies_.push_back({std::move(pattern), std::make_shared<const Policy>(std::move(policy))});
    policy_of_path_.clear();
}

void Context::policy(std::optional<Policy> policy) {
    ++settings_version_;
    micro_batch_policy_ = std::move(policy);
}

PolicyScope::PolicyScope(Context& context)
    : context_(context), policies_(context.policies_), of_micro_batches_(context.micro_batch_policy_) {}

PolicyScope::~PolicyScope() {
    context_.policies_ = std::move(policies_);
    context_.policies_checked_ = std::min(context_.policies_checked_, context_.policies_.size());
    context_.policy_of_path_.clear();
    context_.policy(std::move(of_micro_batches_));
}

const Policy* Context::policy_for(PathId path) {
    if (policies_.empty()) return nullptr;
    if (path >= policy_of_path_.size()) policy_of_path_.resize(path + 1);
    std::optional<const Policy*>& known = policy_of_path_[path];
    if (!known) {
        known = nullptr;
        const std::string text = memory_->path(path);
        for (AttachedPolicy& attached : policies_) {
            if (!path_matches(attached.pattern, text)) continue;
            known = attached.policy.get();
            attached.used = true;
        }
    }
    return *known;
}

void Context::check_policies() {
    for (; policies_checked_ < policies_.size(); ++policies_checked_) {
        const std::string& pattern = policies_[policies_checked_].pattern;
        const auto fits = [&](const std::string& path) { return path_matches(pattern, path); };
        if (policies_[policies_checked_].used || std::any_of(module_paths_.begin(), module_paths_.end(), fits))
            continue;
        std::vector<std::string> names(module_paths_.begin(), module_paths_.end());
        std::erase(names, "");  // the model itself
        throw Error(fmt::format("policy: the pattern \"{}\" matches no module{}{}", pattern,
                                names.empty() ? "; build modules with names before backward" : "; the nearest are ",
                                fmt::join(nearest(pattern, names, 3), ", ")));
    }
}

void Context::open_micro_batch() {
    if (in_micro_batch_) throw Error("context: micro-batches can't be nested");
    tape_.open_micro_batch(micro_batch_policy_ ? &*micro_batch_policy_ : nullptr);
    for (Draws& draws : draws_) draws.uses = 0;
    in_micro_batch_ = true;
}

void Context::close_micro_batch() {
    tape_.close_region();
    in_micro_batch_ = false;
    ++random_counter_;
}

kernels::RandomKey Context::next_random(kernels::RandomDomain domain) {
    std::uint64_t seed = seed_, number = random_counter_;
    if (in_micro_batch_) {
        const PathId path = tape_.path();
        if (path >= draws_.size()) draws_.resize(path + 1);
        Draws& draws = draws_[path];
        if (draws.module == 0) draws.module = kernels::fnv1a(memory_->path(path));
        seed = kernels::use_seed(seed_, draws.module, draws.uses++);
    } else {
        ++random_counter_;
    }
    kernels::RandomKey key = kernels::random_key(seed, domain, number);
    key.shift = exec().random_shift();
    return key;
}

StateDict Context::state_dict() const {
    return {{}, {{"random.seed", fmt::to_string(seed_)}, {"random.counter", fmt::to_string(random_counter_)}}};
}

void Context::restore(const StateValues& values) {
    const auto seed = state_value<std::uint64_t>(values, "random.seed");
    random_counter_ = state_value<std::uint64_t>(values, "random.counter");
    seed_ = seed;
    ++settings_version_;
}

void Context::find_non_finite(bool on) {
    ++settings_version_;
    find_non_finite_ = on;
    if (on) first_non_finite_.reset();
}

void Context::check_finite(const TapeRegion& region) {
    if (first_non_finite_) return;
    tape_.for_each_held(region, [&](const Value& value) {
        if (!is_floating(value.array.dtype) || value.missing()) return;
        bool finite = true;
        const Scratch scratch = exec().scratch(kernels::all_finite_scratch(exec().stream()));
        exec().launch([&](auto& stream) { finite = kernels::all_finite(stream, value.array.view(), scratch.data()); });
        if (!finite && !first_non_finite_) first_non_finite_ = memory_->path(region.path);
    });
}

RegionScope::RegionScope(Context& context, PathId path) : context_(context) {
    context.tape_.open_region(path, context.policy_for(path));
}

RegionScope::RegionScope(Context& context, PathId path, const Policy& otherwise) : context_(context) {
    const Policy* const attached = context.policy_for(path);
    context.tape_.open_region(path, attached ? attached : &otherwise);
}

RegionScope::~RegionScope() {
    try {
        if (context_.find_non_finite_) context_.check_finite(*context_.tape_.region());
    } catch (const Error&) {
        // Memory is missing, and a region further out is checked next; or the device has failed, which the next op
        // says.
    }
    context_.tape_.close_region();
}

Autocast::Autocast(Context& context, std::optional<Dtype> dtype) : context_(context), before_(context.autocast_) {
    if (dtype && !is_half(*dtype)) {
        throw DtypeError(fmt::format("autocast: dtype must be f16 or bf16, got {}", name(*dtype)));
    }
    if (dtype) context.exec().check_dtype("autocast", *dtype);
    context.autocast_ = dtype;
}

}  // namespace headroom
