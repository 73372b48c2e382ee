#pragma once
// The trainable state of a model, in flat arenas: one for values, one for gradients; optimizers add theirs. So an
// optimizer step is one kernel, a gradient norm one reduction. Parameters are registered while modules are built and
// move into the arena when one is first used. Those that weight decay applies to (matrices) come first. Several models
// may share a context, each with parameters of its own. Not for running statistics: those are buffers, saved beside.
//
//     Parameters parameters(context);
//     Tensor weight = parameters.create("up.weight", {512, 128}, initializer);
//     parameters.freeze("embedding.**");
//     parameters.bind_gradients();          // an optimizer does this
//     for (const Parameter& p : parameters.all()) fmt::print("{} {}\n", p.path, p.tensor.shape().text());
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <headroom/core/context.hpp>

namespace headroom {

/// Fills a new parameter. The key depends on the context's seed and the parameter's path, not on the order of
/// construction.
using Initializer = std::function<void(Exec& exec, const Array& parameter, const kernels::RandomKey& key)>;

struct Parameter {
    std::string path;
    Tensor tensor;
    Initializer initializer;
    bool decay = false;       ///< weight decay applies: rank >= 2
    bool trained = true;      ///< false: frozen, or a buffer
    bool buffer = false;      ///< saved, never optimised
    std::int64_t offset = 0;  ///< elements from the start of the arena; -1 for buffers
};

/// Neighbouring elements of the arena that are treated alike.
struct ArenaRange {
    std::int64_t offset = 0;
    std::int64_t count = 0;
    bool decay = false;
};

class Parameters : private LazyStorage {
  public:
    /// `dtype`: f32, or f64 for checks. Errors: DtypeError for others.
    explicit Parameters(Context& context, Dtype dtype = Dtype::f32);
    ~Parameters() override;
    Parameters(const Parameters&) = delete;
    Parameters& operator=(const Parameters&) = delete;

    /// Registers a parameter. Errors: Error if the path is taken or a parameter was used already.
    Tensor create(std::string path, const Shape& shape, Initializer initializer);
    /// Registers an array that is saved with the parameters but not differentiated or optimised.
    Tensor create_buffer(std::string path, const Shape& shape, Initializer initializer, Dtype dtype = Dtype::f32);

    const std::vector<Parameter>& all() const { return all_; }
    /// Null if there is none.
    const Parameter* find(std::string_view path) const;
    /// Elements of all parameters, padding and buffers not counted.
    std::int64_t count() const;

    /// Stops (or resumes) training those whose path matches (see path_matches); how many. Errors: Error if none does.
    std::size_t freeze(std::string_view pattern, bool frozen = true);

    /// Values into their arena, initialised. Happens by itself when one is used.
    void materialize() override;
    /// Makes the arena of gradients and attaches it. Gradients that exist move in.
    void bind_gradients();
    /// No gradient has arrived yet: the next write to each overwrites.
    void zero_grad();
    /// Zeros what no gradient reached since `zero_grad`.
    void fill_unreached();

    /// The whole arenas, [elements, padding included]; frozen ones too. Materialised, and bound, by the call.
    Array values();
    Array gradients();
    /// What an optimizer runs over: trained parameters, neighbours joined.
    std::vector<ArenaRange> trained_ranges();
    /// To be called after values were changed in place: what backward saved before is then stale.
    void mark_changed();

    /// The model's mode: training (the initial one) or evaluation, which switches dropout off.
    void train(bool on = true) { training_ = on; }
    bool training() const { return training_; }

    Context& context() const { return context_; }
    Dtype dtype() const { return dtype_; }

  private:
    Parameter& add(std::string path, const Shape& shape, Initializer initializer, Dtype dtype);
    void initialize(const Parameter& parameter);

    Context& context_;
    Dtype dtype_;
    bool training_ = true;
    std::vector<Parameter> all_;
    Array values_;
    Array gradients_;
    std::int64_t arena_elements_ = 0;
};

}  // namespace headroom
