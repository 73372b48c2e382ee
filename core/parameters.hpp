#pragma once
// The trainable state of a model. Values lie in one flat array, so that an optimizer step is a few kernels. Parameters
// are registered while modules are built and get their place when one is first used. Gradients have memory from the
// first arrival until the optimizer's step, in segments: neighbours share one block. Frozen parameters have none. If
// several models share a context, each has `Parameters` of its own, with a name that begins all their paths. Running
// statistics are no parameters: those are buffers, which are saved as well.
//
//     Parameters parameters(context);
//     Parameters critic(context, {.name = "critic"});   // "critic.up.weight"
//     Tensor weight = parameters.create("up.weight", {512, 128}, initializer);
//     parameters.freeze("up.**");
//     for (const Parameter& p : parameters.all()) fmt::print("{} {}\n", p.path, p.tensor.shape());
//     std::vector<float> values = parameters.at("up.weight").tensor.to_vector<float>();
//     parameters.set("up.weight", values);
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <headroom/core/context.hpp>
#include <headroom/core/group.hpp>
#include <headroom/core/state_dict.hpp>

namespace headroom {

/// Fills a new parameter. The key depends on the context's seed and the parameter's path, not on the order of
/// construction.
using Initializer = std::function<void(Exec& exec, const Array& parameter, const kernels::RandomKey& key)>;

struct Parameter {
    std::string path;
    Tensor tensor;
    Initializer initializer;
    bool trained = true;      ///< false: frozen, or a buffer
    bool buffer = false;      ///< saved, never optimised
    std::int64_t offset = 0;  ///< elements from the start of the values
    std::int64_t room = 0;    ///< elements, padding included
};

/// What each of several ranks that train one model has for its share of the parameters alone; the rest it has for all
/// of them. Who updates a parameter has its share of the optimizer's state; afterwards all have its value (ZeRO,
/// Rajbhandari et al. 2020, arXiv:1910.02054: stages 1 and 2).
enum class Shard : std::uint8_t {
    none,
    state,      ///< the optimizer's state
    gradients,  ///< and the sum of the gradients, in the order of micro-batches: the same bits with any number of ranks
};

const char* name(Shard shard);

/// Trained parameters that are neighbours in memory, whose gradients share one block.
struct GradientSegment {
    std::vector<std::size_t> parameters;  ///< indices into `Parameters::all`, in the order of memory
    std::int64_t offset = 0;              ///< of the first, in the values
    std::int64_t count = 0;               ///< elements, padding included
    std::vector<std::int64_t> parts;      ///< where its `Group::kParts` parts begin, and the end; some may be empty
    ShardRange own = {};                  ///< which elements this rank updates: all, unless they are sharded
    Array gradients;                      ///< [count]; undefined while no gradient has arrived. The padding is zero.
    /// [own.count]: what updates them. Of `gradients`, or with `Shard::gradients` what `set_own_gradients` has set.
    Array own_gradients;

    /// By rank.
    std::vector<ShardRange> shares(int ranks) const;
};

struct ParametersOptions {
    std::string name = {};     ///< the first segment of all paths; empty: none
    Dtype dtype = Dtype::f32;  ///< f32, or f64 for checks
    Shard shard = Shard::none;
};

class Parameters : private ParameterStorage {
  public:
    /// Errors: DtypeError unless the dtype is f32 or f64; Error if the context has parameters of that name, or the name
    /// has a dot.
    explicit Parameters(Context& context, ParametersOptions options = {});
    ~Parameters() override;
    Parameters(const Parameters&) = delete;
    Parameters& operator=(const Parameters&) = delete;

    /// Registers a parameter at a path below this model's name. It stays if the constructor of its module throws: build
    /// the model again with new `Parameters`. Errors: Error if the path is taken, or if one of the parameters was used
    /// already; ShapeError for a negative size or too many elements. `format` is how values, gradients and moments lie
    /// in memory; files and `set` have them row-major.
    Tensor create(std::string path, const Shape& shape, Initializer initializer,
                  MemoryFormat format = MemoryFormat::contiguous);
    /// Registers an array that is saved with the parameters but not differentiated or optimised.
    Tensor create_buffer(std::string path, const Shape& shape, Initializer initializer, Dtype dtype = Dtype::f32);

    /// All parameters and buffers, in the order of construction.
    const std::vector<Parameter>& all() const { return all_; }
    /// Null if there is none.
    const Parameter* find(std::string_view path) const;
    /// The parameter or buffer at a path, which begins with this model's name. Errors: Error if there is none; it names
    /// the ones whose paths are most alike at the beginning.
    const Parameter& at(std::string_view path) const;
    /// Sets the values of a parameter or buffer, in row-major order, converted to its dtype. Not between a forward pass
    /// and its backward, which is then refused. Errors: as `at`; ShapeError for another number of values; Error inside
    /// of `optim::MovingAverage::evaluate`.
    template <class T>
    void set(std::string_view path, std::span<const T> values);
    template <class T>
    void set(std::string_view path, const std::vector<T>& values) {
        set(path, std::span<const T>(values));
    }
    /// Elements of all parameters, padding and buffers not counted.
    std::int64_t count() const;

    /// Stops (or resumes) training the parameters whose path matches (see path_matches), and returns their number.
    /// Errors: Error if none does, or if gradients have arrived: freeze between steps, or call `zero_grad` before.
    std::size_t freeze(std::string_view pattern, bool frozen = true);

    /// Gives all values their memory and initialises them. The first use of a parameter does it, too.
    void materialize() override;
    /// Drops all gradients and gives their memory back; gradients that the program holds handles to stay as they are.
    void zero_grad();
    /// From the next gradients on, their memory stays in `zero_grad`: for graphs, whose addresses are fixed.
    void hold_gradients() { hold_gradients_ = true; }
    /// For graphs. `reached`: by index into `all`, whether a gradient has arrived since `zero_grad`. `set_reached`
    /// marks gradients as arrived; inside a graph the host does not see them arrive.
    std::vector<bool> reached() const;
    void set_reached(const std::vector<bool>& reached);
    /// Called on the host during backward, for each segment all of whose parameters have a gradient to which that
    /// backward adds nothing more; what made them is queued before. A segment of which some parameter has no gradient
    /// is not named. The listener must not call backward or change a gradient's memory. An empty one: none.
    void on_segment_complete(std::function<void(const GradientSegment&)> listener) {
        on_complete_ = std::move(listener);
    }
    /// Sets gradients that backward has not reached since `zero_grad` to zero: afterwards each segment, or this one,
    /// has its gradients.
    void fill_unreached();
    void fill_unreached(const GradientSegment& segment);
    /// For `Shard::gradients`: the gradients of a segment are given back, and `own` is this rank's share of their sum.
    void set_own_gradients(const GradientSegment& segment, Array own);

    /// All values, [elements, padding included]; materialises them.
    Array values();
    /// The parameters that are trained at present. The order is fixed when parameters get their memory: modules that
    /// were built last, whose gradients arrive first, come first; in a segment matrices precede vectors.
    const std::vector<GradientSegment>& segments();
    /// Call it after values were changed in place: a backward that saved them before is then refused.
    void mark_changed();
    /// The same for the values of one segment alone: a backward may go on with all others.
    void mark_changed(const GradientSegment& segment);

    /// For code that exchanges the values for others for a while: until `mark_exchanged(false)`, writes to the values
    /// are refused, since they would be lost.
    void mark_exchanged(bool on) { exchanged_ = on; }
    /// Errors: Error that says that `what` is not possible, while the values are exchanged.
    void check_not_exchanged(std::string_view what) const;

    /// The mode of the whole model, for which modules have no switch of their own: model.train() and, with false,
    /// model.eval() of PyTorch. At first it is training; evaluation switches dropout off.
    void train(bool on = true) { training_ = on; }
    bool training() const { return training_; }

    /// Values and buffers under their paths; materialises them.
    StateDict state_dict();
    /// Call it after the arrays of `state_dict` were filled.
    void restore(const StateValues&);

    Context& context() const { return context_; }
    Dtype dtype() const { return options_.dtype; }
    Shard shard() const { return options_.shard; }
    /// Among which the parameters are sharded; 1 if they are not.
    int shards() const;
    const std::string& name() const { return options_.name; }
    /// The path with this model's name before it.
    std::string full_path(std::string_view path) const;

  private:
    Parameter& add(std::string path, const Shape& shape, Initializer initializer, Dtype dtype, MemoryFormat format);
    void initialize(const Parameter& parameter);
    void lay_out();
    void make_segments();
    Array gradient_of(const Value& parameter) override;
    void gradient_complete(const Value& parameter) override;
    GradientSegment& segment_of(const Value& parameter);
    GradientSegment& mutable_segment(const GradientSegment& segment);
    void take(GradientSegment& segment);
    Array place_of(const GradientSegment& segment, const Value& parameter) const;

    friend class ParametersRef;

    Context& context_;
    ParametersOptions options_;
    std::shared_ptr<Parameters*> self_ = std::make_shared<Parameters*>(this);  ///< null when these are gone
    bool training_ = true;
    bool exchanged_ = false;
    bool hold_gradients_ = false;
    std::vector<Parameter> all_;
    std::map<std::string, std::size_t, std::less<>> places_;  ///< in `all_`, by path
    std::vector<std::vector<std::size_t>> layout_;  ///< the parameters that share a segment if all of them are trained
    std::vector<GradientSegment> segments_;
    std::function<void(const GradientSegment&)> on_complete_;
    Array values_;
};

/// A reference that notices when its parameters are gone, for modules.
class ParametersRef {
  public:
    explicit ParametersRef(Parameters& parameters) : target_(parameters.self_) {}

    /// Errors: Error if the parameters are gone, or if this reference was moved from.
    Parameters& get() const {
        if (!target_ || !*target_) refuse();
        return **target_;
    }

  private:
    [[noreturn]] void refuse() const;

    std::shared_ptr<Parameters* const> target_;
};

}  // namespace headroom
