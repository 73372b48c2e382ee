#include <headroom/kernels/attention/internal/cuda_cudnn.hpp>

#include <cstdint>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include <headroom/kernels/device/internal/cudnn_graph.hpp>
#include <headroom/memory/error.hpp>

namespace headroom::kernels {

namespace {

namespace fe = ::cudnn_frontend;
using fe::graph::Graph;
using fe::graph::Tensor_attributes;
using TensorPtr = std::shared_ptr<Tensor_attributes>;

constexpr std::size_t kMostPlans = 64;           // each takes memory, and a second
constexpr std::size_t kOldestBlackwell = 91801;  // with a deterministic gradient

enum Id : std::int64_t { kQ = 1, kK, kV, kO, kLse, kDy, kDq, kDk, kDv };

struct Rows {
    std::int64_t heads, length;
    const Sdpa::Strides& strides;
};

/// Ours is [batch, position, head, width], cuDNN's [batch, head, position, width].
void describe(Tensor_attributes& tensor, const Sdpa& x, Id id, const Rows& rows) {
    const auto& [batch, position, head] = rows.strides;
    tensor.set_uid(id).set_dim({x.batch, rows.heads, rows.length, x.width}).set_stride({batch, head, position, 1});
}

TensorPtr tensor_of(Graph& graph, const Sdpa& x, Id id, const Rows& rows) {
    Tensor_attributes attributes;
    describe(attributes, x, id, rows);
    return graph.tensor(attributes);
}

void describe_lse(Tensor_attributes& tensor, const Sdpa& x) {
    tensor.set_uid(kLse).set_dim({x.batch, x.heads, x.queries, 1});
    tensor.set_stride({x.heads * x.queries, x.queries, 1, 1}).set_data_type(fe::DataType_t::FLOAT);
}

template <class Attributes>
void set_mask(Attributes& attributes, const Sdpa& x) {
    if (!x.causal) return;
    // Both mean the same if there are as many keys as queries; the first is what most kernels were made for.
    attributes.set_diagonal_alignment(x.queries == x.keys ? fe::DiagonalAlignment_t::TOP_LEFT
                                                          : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
    attributes.set_diagonal_band_right_bound(0);
}

void add_forward(Graph& graph, const Sdpa& x) {
    const TensorPtr q = tensor_of(graph, x, kQ, {x.heads, x.queries, x.q});
    const TensorPtr k = tensor_of(graph, x, kK, {x.key_heads, x.keys, x.k});
    const TensorPtr v = tensor_of(graph, x, kV, {x.key_heads, x.keys, x.v});
    fe::graph::SDPA_attributes attributes;
    attributes.set_name("attention").set_attn_scale(x.scale).set_generate_stats(x.stats);
    set_mask(attributes, x);
    const auto [o, lse] = graph.sdpa(q, k, v, attributes);
    describe(o->set_output(true), x, kO, {x.heads, x.queries, x.o});
    if (x.stats) describe_lse(lse->set_output(true), x);
}

void add_gradient(Graph& graph, const Sdpa& x) {
    const TensorPtr q = tensor_of(graph, x, kQ, {x.heads, x.queries, x.q});
    const TensorPtr k = tensor_of(graph, x, kK, {x.key_heads, x.keys, x.k});
    const TensorPtr v = tensor_of(graph, x, kV, {x.key_heads, x.keys, x.v});
    const TensorPtr o = tensor_of(graph, x, kO, {x.heads, x.queries, x.o});
    const TensorPtr dy = tensor_of(graph, x, kDy, {x.heads, x.queries, x.dy});
    Tensor_attributes stats;
    describe_lse(stats, x);
    const TensorPtr lse = graph.tensor(stats);
    fe::graph::SDPA_backward_attributes attributes;
    attributes.set_name("attention gradient").set_attn_scale(x.scale).set_deterministic_algorithm(x.deterministic);
    set_mask(attributes, x);
    const auto [dq, dk, dv] = graph.sdpa_backward(q, k, v, o, dy, lse, attributes);
    describe(dq->set_output(true), x, kDq, {x.heads, x.queries, x.dq});
    describe(dk->set_output(true), x, kDk, {x.key_heads, x.keys, x.dk});
    describe(dv->set_output(true), x, kDv, {x.key_heads, x.keys, x.dv});
}

CudnnAddresses addresses_of(const Sdpa& x, const SdpaData& data) {
    CudnnAddresses addresses{{kQ, data.q}, {kK, data.k}, {kV, data.v}, {kO, data.o}};
    if (x.stats || x.gradient) addresses[kLse] = data.lse;
    if (x.gradient) addresses.insert({{kDy, data.dy}, {kDq, data.dq}, {kDk, data.dk}, {kDv, data.dv}});
    return addresses;
}

}  // namespace

struct Cudnn::State {
    std::shared_ptr<const CudnnSession> session;
    CudnnGraphs<Sdpa> made{kMostPlans};

    /// Why cuDNN is not even asked, or nothing.
    std::string reserve(const Sdpa& x) const {
        const int major = session->capability() / 10;
        if (!x.gradient || !x.deterministic || major == 9) return "";
        if (major == 10 && session->version() >= kOldestBlackwell) return "";
        return fmt::format("no deterministic gradient by cuDNN {} on compute capability {}.{}",
                           CudnnSession::text_of(session->version()), major, session->capability() % 10);
    }
};

Cudnn::Cudnn(std::shared_ptr<const CudnnSession> session) : state_(new State{.session = std::move(session)}) {}

Cudnn::~Cudnn() = default;

std::string Cudnn::version() const { return state_->session->text(); }

const Cudnn::Plan& Cudnn::plan(const Sdpa& x) {
    return state_->made
        .get(*state_->session, x,
             [&](CudnnGraph& made) {
                 made.plan.refusal = state_->reserve(x);
                 if (!made.plan.refusal.empty()) return;
                 made.make(*state_->session, x.scratch(), [&](Graph& graph) {
                     graph.set_io_data_type(x.dtype == Dtype::f16 ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16);
                     x.gradient ? add_gradient(graph, x) : add_forward(graph, x);
                 });
             })
        .plan;
}

Cudnn::Choice& Cudnn::choice(const Sdpa& sdpa) { return state_->made.at(sdpa).choice; }

void Cudnn::choose(const Sdpa& sdpa, const std::string& name) { state_->made.at(sdpa).choose(name, sdpa.scratch()); }

std::string Cudnn::choose_fastest(const Sdpa& sdpa, const SdpaData& data, std::byte* scratch, const WorkTimer& timer,
                                  const std::function<bool()>& in_time) {
    return state_->made.at(sdpa).choose_fastest(*state_->session, addresses_of(sdpa, data), scratch, sdpa.scratch(),
                                                timer, in_time);
}

void Cudnn::run(const Sdpa& sdpa, const SdpaData& data, std::byte* scratch) {
    const auto refusal = state_->made.at(sdpa).execute(*state_->session, addresses_of(sdpa, data), scratch);
    if (!refusal) return;
    throw DeviceError(fmt::format("{}: cuDNN: {}: q [{}, {}, {}, {}], {} keys, {} key heads",
                                  sdpa.gradient ? "attention_gradient" : "attention", *refusal, sdpa.batch,
                                  sdpa.queries, sdpa.heads, sdpa.width, sdpa.keys, sdpa.key_heads));
}

}  // namespace headroom::kernels
