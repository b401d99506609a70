#pragma once
#include <cstddef>
#include <deque>
#include <utility>

namespace dgxmm {

/// The newest `capacity` values, oldest first; older ones are dropped.
template <class T>
class Ring {
 public:
  explicit Ring(std::size_t capacity) : capacity_(capacity) {}

  void push(T value) {
    if (capacity_ == 0) return;
    if (items_.size() == capacity_) items_.pop_front();
    items_.push_back(std::move(value));
  }
  void clear() { items_.clear(); }
  [[nodiscard]] const std::deque<T>& items() const { return items_; }

 private:
  std::size_t capacity_;
  std::deque<T> items_;
};

}  // namespace dgxmm
