#pragma once
// What AdamW and SGD have in common: state in flat arenas beside the parameters', one kernel call per range of trained
// parameters, state by name for files. Make one after the model is built (its state is allocated then) and let `Window`
// drive it; call `step` directly only if nothing is accumulated, scaled or clipped.
//
//     AdamW optimizer(parameters, {.weight_decay = 0.1});
//     parameters.zero_grad();
//     backward(model.loss(tokens, targets));
//     parameters.fill_unreached();
//     optimizer.step(1e-3, 1.0 / terms);      // the gradient is the sum's: the mean's is 1 / terms of it
#include <cstdint>
#include <string>
#include <vector>

#include <headroom/core/named_array.hpp>
#include <headroom/core/parameters.hpp>

namespace headroom {

class Optimizer {
  public:
    virtual ~Optimizer() = default;
    Optimizer(const Optimizer&) = delete;
    Optimizer& operator=(const Optimizer&) = delete;

    /// One step with `multiplier` times the gradients, which are not changed; each trained parameter must have one (see
    /// Parameters::fill_unreached). Weight decay applies to matrices alone. A multiplier of 0 or NaN skips the step:
    /// nothing changes, nothing is counted. Afterwards a pending backward is refused. Only queues work. Errors: Error
    /// for a learning rate that is negative or not finite.
    void step(double learning_rate, double multiplier = 1.0);
    /// The same with the multiplier in the device's memory. Errors: DtypeError unless it is f64.
    void step(double learning_rate, const Array& multiplier);
    /// Errors: as `step`.
    void check_learning_rate(double learning_rate) const;

    /// The state's arrays, "adamw.first_moment.<path of the parameter>" and so on, of the parameter's shape: views of
    /// the arenas, to save from and to load into. Frozen parameters have theirs, too.
    std::vector<NamedArray> state() const;
    /// Steps done, skipped ones not counted: the other part of the state. Bias correction counts by it. The device
    /// counts, so this waits for it: count yourself for what you ask in every step. A dry run skips no step.
    std::int64_t steps() const;
    /// After the arrays of `state()` were filled in place. Errors: Error if negative.
    void set_steps(std::int64_t steps);
    /// Copies all of the state from row-major arrays in the host's memory or of any context on this device, whose work
    /// is done (its `steps()` waits for it); others may be among them. Nothing is changed if it fails. Errors: Error if
    /// one is missing, or on a device that this one can't read; ShapeError or DtypeError if one differs.
    void load_state(const std::vector<NamedArray>& arrays, std::int64_t steps);

    Parameters& parameters() const { return parameters_; }
    /// "adamw" or "sgd": the first segment of the names.
    const std::string& name() const { return name_; }

  protected:
    /// Allocates one zero-filled arena, as large as that of the parameters, per name. Errors: OutOfMemory.
    Optimizer(Parameters& parameters, std::string name, std::vector<std::string> arena_names);

    /// What a kernel needs for one range; `arenas` are in the order of their names.
    struct Range {
        View gradient;
        View values;
        std::vector<View> arenas;
        bool decay = false;
    };
    /// How many steps were done before this one: one f64 in the device's memory.
    const Array& steps_before() const { return steps_; }
    /// Launches the kernel for one range.
    virtual void update(double learning_rate, const Array& multiplier, const Range& range) = 0;

  private:
    struct Arena {
        std::string name;
        Array array;
    };

    Parameters& parameters_;
    std::string name_;
    std::vector<Arena> arenas_;
    Array multiplier_;
    Array steps_;
    std::int64_t dry_steps_ = 0;
};

}  // namespace headroom
