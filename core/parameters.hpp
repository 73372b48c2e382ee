#pragma once
// The trainable state of a model. Values are stored in one flat array, so that an optimizer step takes a few kernels.
// Modules register parameters when they are built; the first use of any parameter allocates them all. A gradient's
// memory exists from its first arrival until the optimizer's step; the gradients of neighbouring parameters form
// segments, each in one block. Frozen parameters have no gradients. If several models share a context, each has its own
// `Parameters`, whose name is the prefix of all its paths. Running statistics are not parameters but buffers, which are
// saved as well.
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

/// Which state is sharded across ranks; everything else is replicated. The rank that updates a parameter holds its
/// optimizer state; afterwards all ranks receive the value (ZeRO stages 1 and 2, Rajbhandari et al. 2020,
/// arXiv:1910.02054).
enum class Shard : std::uint8_t {
    none,
    state,      ///< the optimizer's state
    gradients,  ///< also the sum of gradients, added in micro-batch order: the same bits for any number of ranks
};

const char* name(Shard shard);

/// Trained parameters that are adjacent in memory and whose gradients share one block.
struct GradientSegment {
    std::vector<std::size_t> parameters;  ///< indices into `Parameters::all`, in memory order
    std::int64_t offset = 0;              ///< offset of the first one in the values
    std::int64_t count = 0;               ///< elements, padding included
    std::vector<std::int64_t> parts;      ///< first elements of its `Group::kParts` parts, and the end; may repeat
    ShardRange own = {};                  ///< elements that this rank updates: all, unless sharded
    Array gradients;                      ///< [count]; undefined until a gradient arrives; padding is zero
    /// [own.count]: the gradients used for the update. A part of `gradients`, or with `Shard::gradients` the array from
    /// `set_own_gradients`.
    Array own_gradients;

    /// The range of each rank.
    std::vector<ShardRange> shares(int ranks) const;
};

struct ParametersOptions {
    std::string name = {};     ///< first segment of all paths; empty: none
    Dtype dtype = Dtype::f32;  ///< f32, or f64 for gradient checks
    Shard shard = Shard::none;
};

class Parameters : private ParameterStorage {
  public:
    /// Errors: DtypeError unless the dtype is f32 or f64; Error if the context already has parameters of that name, or
    /// if the name contains a dot.
    explicit Parameters(Context& context, ParametersOptions options = {});
    ~Parameters() override;
    Parameters(const Parameters&) = delete;
    Parameters& operator=(const Parameters&) = delete;

    /// Registers a parameter at a path below this model's name. It stays registered if the module's constructor throws:
    /// build the model again with new `Parameters`. `format` is the memory order of values, gradients and moments;
    /// files and `set` use row-major order. Errors: Error if the path is taken or a parameter was already used;
    /// ShapeError for a negative size or too many elements.
    Tensor create(std::string path, const Shape& shape, Initializer initializer,
                  MemoryFormat format = MemoryFormat::contiguous);
    /// Registers an array that is saved with the parameters but not differentiated or optimised.
    Tensor create_buffer(std::string path, const Shape& shape, Initializer initializer, Dtype dtype = Dtype::f32);

    /// All parameters and buffers, in the order of construction.
    const std::vector<Parameter>& all() const { return all_; }
    /// Null if there is no such path.
    const Parameter* find(std::string_view path) const;
    /// The parameter or buffer at a path, which begins with this model's name. Errors: Error if there is none; the
    /// message lists the paths with the longest common prefix.
    const Parameter& at(std::string_view path) const;
    /// Sets the values of a parameter or buffer, in row-major order, converted to its dtype. A backward whose forward
    /// ran before the call is refused. Errors: as `at`; ShapeError for a different number of values; Error inside
    /// `optim::MovingAverage::evaluate`.
    template <class T>
    void set(std::string_view path, std::span<const T> values);
    template <class T>
    void set(std::string_view path, const std::vector<T>& values) {
        set(path, std::span<const T>(values));
    }
    /// Elements of all parameters, without padding and buffers.
    std::int64_t count() const;

    /// Freezes (or resumes training) the parameters whose path matches (see path_matches) and returns their number.
    /// Errors: Error if none matches, or if gradients have arrived: freeze between steps, or call `zero_grad` first.
    std::size_t freeze(std::string_view pattern, bool frozen = true);

    /// Allocates and initialises all values. The first use of a parameter does so, too.
    void materialize() override;
    /// Drops all gradients and frees their memory; gradients that the program holds handles to stay valid.
    void zero_grad();
    /// Makes `zero_grad` keep the memory of later gradients, for graphs, whose addresses are fixed.
    void hold_gradients() { hold_gradients_ = true; }
    /// For graphs. `reached`: by index into `all`, whether a gradient has arrived since `zero_grad`. `set_reached`
    /// marks gradients as arrived; inside a graph the host does not see them arrive.
    std::vector<bool> reached() const;
    void set_reached(const std::vector<bool>& reached);
    /// Sets a listener that backward calls on the host for each segment whose gradients are complete: every parameter
    /// has one and this backward adds nothing more. The kernels that compute them are already queued. Segments with a
    /// parameter that got no gradient are not reported. The listener must not call backward or change a gradient's
    /// memory. An empty function removes it.
    void on_segment_complete(std::function<void(const GradientSegment&)> listener) {
        on_complete_ = std::move(listener);
    }
    /// Sets gradients that backward has not reached since `zero_grad` to zero, so that every segment, or this one, has
    /// gradients.
    void fill_unreached();
    void fill_unreached(const GradientSegment& segment);
    /// For `Shard::gradients`: frees the segment's gradients and sets `own`, this rank's share of their sum.
    void set_own_gradients(const GradientSegment& segment, Array own);

    /// All values, [elements, padding included]. Allocates them if needed.
    Array values();
    /// The segments of the parameters that are currently trained. The order is fixed when parameters are allocated:
    /// modules that were built last come first, because their gradients arrive first; within a segment, matrices
    /// precede vectors.
    const std::vector<GradientSegment>& segments();
    /// Call it after changing values in place: a backward that saved them before is then refused.
    void mark_changed();
    /// The same for the values of one segment only; backward through other values still works.
    void mark_changed(const GradientSegment& segment);

    /// For code that swaps the values temporarily: until `mark_exchanged(false)`, writes to the values are refused,
    /// because they would be lost.
    void mark_exchanged(bool on) { exchanged_ = on; }
    /// Errors: Error while the values are swapped; the message says that `what` is not possible.
    void check_not_exchanged(std::string_view what) const;

    /// Sets the mode of the whole model, like PyTorch's model.train() and, with false, model.eval(). Modules have no
    /// mode of their own. The initial mode is training; evaluation turns dropout off.
    void train(bool on = true) { training_ = on; }
    bool training() const { return training_; }

    /// Values and buffers under their paths. Allocates them if needed.
    StateDict state_dict();
    /// Call it after filling the arrays of `state_dict`.
    void restore(const StateValues&);

    Context& context() const { return context_; }
    Dtype dtype() const { return options_.dtype; }
    Shard shard() const { return options_.shard; }
    /// Number of ranks that the parameters are sharded across; 1 if they are not.
    int shards() const;
    const std::string& name() const { return options_.name; }
    /// The path prefixed with this model's name.
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
    std::shared_ptr<Parameters*> self_ = std::make_shared<Parameters*>(this);  ///< null once this object is gone
    bool training_ = true;
    bool exchanged_ = false;
    bool hold_gradients_ = false;
    std::vector<Parameter> all_;
    std::map<std::string, std::size_t, std::less<>> places_;  ///< path to index in `all_`
    std::vector<std::vector<std::size_t>> layout_;  ///< the parameters that share a segment if all are trained
    std::vector<GradientSegment> segments_;
    std::function<void(const GradientSegment&)> on_complete_;
    Array values_;
};

/// A reference for modules that detects when its parameters are gone.
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
