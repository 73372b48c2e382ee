#pragma once
// A short list without a heap allocation, for recording an op and running its gradient. It can't grow: reserve room
// once.
//
//     InlineList<Array, 4> inputs;
//     inputs.reserve(count);
//     for (const Slot& slot : slots) inputs.emplace_back(array_of(slot));
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

namespace headroom {

/// Holds up to N objects without a heap allocation; more go to the heap. Unused capacity is not constructed.
template <class T, std::size_t N>
class InlineList {
  public:
    InlineList() = default;
    explicit InlineList(std::size_t count) {
        reserve(count);
        for (; size_ < count; ++size_) new (first_ + size_) T;  // T() would write zeros first
    }
    InlineList(const InlineList&) = delete;
    InlineList& operator=(const InlineList&) = delete;
    ~InlineList() { std::destroy_n(first_, size_); }

    /// Makes room for `count` elements; call it before adding the first.
    void reserve(std::size_t count) {
        if (count <= N) return;
        heap_ = std::make_unique<Cell[]>(count);
        first_ = reinterpret_cast<T*>(heap_.get());
    }
    template <class... Args>
    T& emplace_back(Args&&... args) {
        return *new (first_ + size_++) T(std::forward<Args>(args)...);
    }
    /// For a caller that has constructed the first `count` elements at `data()` itself.
    void constructed(std::size_t count) { size_ = count; }
    T* data() { return first_; }
    T& operator[](std::size_t i) { return first_[i]; }
    std::size_t size() const { return size_; }

  private:
    struct Cell {
        alignas(T) std::byte bytes[sizeof(T)];
    };
    Cell cells_[N];
    std::unique_ptr<Cell[]> heap_;
    T* first_ = reinterpret_cast<T*>(cells_);
    std::size_t size_ = 0;
};

}  // namespace headroom
