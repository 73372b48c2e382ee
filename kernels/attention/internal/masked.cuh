#pragma once
// Masks and dropout of scores in CUDA kernels, as a template parameter: kernels without them contain no trace of it.
//
//     Extras extras = extras_;
//     const Geometry g = extras.begin(block, sizes, at.batch);
//     p = visible ? std::exp2(extras.added(scale * score, place)) : 0.0f;
//     p = extras.along_keys(place).times(p, 0);
#include <headroom/kernels/attention/attention.hpp>
#include <headroom/kernels/attention/internal/heads.cuh>
#include <headroom/kernels/device/index_check.hpp>
#include <headroom/kernels/dropout/internal/threshold.hpp>
#include <headroom/kernels/random/philox.hpp>

namespace headroom::kernels::attention_device {

/// The logical position of a score.
struct ScorePlace {
    std::int64_t batch, head, query, key;

    HEADROOM_DEVICE ScorePlace right(int keys) const { return {batch, head, query, key + keys}; }
    HEADROOM_DEVICE ScorePlace down(int queries) const { return {batch, head, query + queries, key}; }
};

/// Neither masks nor dropout.
struct Unmasked {
    static constexpr bool kAny = false;
    struct Factors {
        template <class T>
        HEADROOM_DEVICE T times(T x, int) const {
            return x;
        }
    };

    HEADROOM_DEVICE static Geometry begin(Block&, const Geometry& g, std::int64_t) { return g; }
    template <class T>
    HEADROOM_DEVICE static T added(T score, const ScorePlace&) {
        return score;
    }
    template <class T>
    HEADROOM_DEVICE static T shift(T lse) {
        return lse;
    }
    HEADROOM_DEVICE static Factors along_keys(const ScorePlace&) { return {}; }
    HEADROOM_DEVICE static Factors along_queries(const ScorePlace&) { return {}; }
    HEADROOM_DEVICE static Factors of(const ScorePlace&) { return {}; }
};

template <class T>
class Masked {
  public:
    static constexpr bool kAny = true;
    /// Four of them; index it only with variables of unrolled loops.
    struct Factors {
        T at[4];
        HEADROOM_DEVICE T times(T x, int i) const { return at[i] * x; }
    };

    /// `A`: Attention or AttentionGradient.
    template <class A>
    Masked(const CudaStream& stream, const A& attention)
        : check_(index_check(stream, kLengthError, attention.k.size(1) + 1)),
          key_(attention.dropout.key),
          threshold_(drop_threshold(attention.dropout.p)),
          kept_(kept_scale<T>(attention.dropout.p)),
          heads_(attention.q.size(2)),
          queries_(attention.q.size(1)),
          word_blocks_(word_blocks(attention.k.size(1))) {
        const View &values = attention.mask.values, &lengths = attention.mask.lengths;
        if (values.rank() != 0) {
            values_ = values.at(0);
            dtype_ = values.dtype;
            batch_ = values.stride(0), head_ = values.stride(1), query_ = values.stride(2), column_ = values.stride(3);
        }
        if (lengths.rank() != 0) {
            lengths_ = lengths.at(0);
            length_dtype_ = lengths.dtype;
            length_ = lengths.stride(0);
        }
    }

    /// Call first; returns the geometry that this batch's queries see.
    HEADROOM_DEVICE Geometry begin(Block& block, Geometry g, std::int64_t batch) {
        key_ = key_.shifted();
        if (lengths_ != nullptr)
            g.limit = check_(block, load_as<std::int64_t>(lengths_, length_dtype_, batch * length_), batch);
        return g;
    }

    /// The score, for base 2, with the mask added; minus infinity if the key is hidden.
    HEADROOM_DEVICE T added(T score, const ScorePlace& at) const {
        if (values_ == nullptr) return score;
        const T mask =
            load_as<T>(values_, dtype_, at.batch * batch_ + at.head * head_ + at.query * query_ + at.key * column_);
        if (dtype_ == Dtype::boolean) return mask != T(0) ? score : T(-INFINITY);
        return mask < T(kHiddenBelow) ? T(-INFINITY) : score + mask * T(kLog2E);
    }
    /// lse, or 0 for a query that sees no key: the value subtracted from its scores of minus infinity.
    HEADROOM_DEVICE static T shift(T lse) { return lse == T(-INFINITY) ? T(0) : lse; }

    /// Dropout's factors for probabilities: for four keys, the first a multiple of four,
    HEADROOM_DEVICE Factors along_keys(const ScorePlace& at) const {
        if (threshold_ == 0) return {{T(1), T(1), T(1), T(1)}};
        const PhiloxBlock words = philox(key_, block_of(at));
        return {{factor(words[0]), factor(words[1]), factor(words[2]), factor(words[3])}};
    }
    /// for four queries,
    HEADROOM_DEVICE Factors along_queries(const ScorePlace& at) const {
        return {{one(at), one(at.down(1)), one(at.down(2)), one(at.down(3))}};
    }
    /// for one score.
    HEADROOM_DEVICE Factors of(const ScorePlace& at) const { return {{one(at), T(1), T(1), T(1)}}; }

  private:
    HEADROOM_DEVICE std::uint64_t block_of(const ScorePlace& at) const {
        const std::int64_t row = (at.batch * heads_ + at.head) * queries_ + at.query;
        return static_cast<std::uint64_t>(row * word_blocks_ + at.key / 4);
    }
    HEADROOM_DEVICE T factor(std::uint32_t word) const { return word >= threshold_ ? kept_ : T(0); }
    HEADROOM_DEVICE T one(const ScorePlace& at) const {
        if (threshold_ == 0) return T(1);
        const PhiloxBlock words = philox(key_, block_of(at));
        const auto i = static_cast<unsigned>(at.key % 4);  // indexing an array would move it to local memory
        const std::uint32_t low = i == 0 ? words[0] : words[1], high = i == 2 ? words[2] : words[3];
        return factor(i < 2 ? low : high);
    }

    const void* values_ = nullptr;
    const void* lengths_ = nullptr;
    std::int64_t batch_ = 0, head_ = 0, query_ = 0, column_ = 0, length_ = 0;  // strides
    Dtype dtype_ = Dtype::f32, length_dtype_ = Dtype::i64;
    IndexCheck check_;
    RandomKey key_;
    std::uint32_t threshold_;
    T kept_;
    std::int64_t heads_, queries_, word_blocks_;
};

/// Calls `work` with the type that the call's masks and dropout need; T: the compute type.
template <class T, class A, class Work>
void with_extras(const CudaStream& stream, const A& attention, Work&& work) {
    if (has_extras(attention)) {
        work(Masked<T>(stream, attention));
    } else {
        work(Unmasked{});
    }
}

}  // namespace headroom::kernels::attention_device
