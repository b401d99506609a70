#pragma once
#include "base/result.h"

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace dgxmm {

/// A signed amount of memory. Signed, because a budget can be overdrawn (B5).
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t count) : count_(count) {}

  [[nodiscard]] constexpr std::int64_t count() const { return count_; }
  [[nodiscard]] constexpr double gib() const { return static_cast<double>(count_) / (1024.0 * 1024.0 * 1024.0); }

  constexpr Bytes& operator+=(Bytes other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Bytes& operator-=(Bytes other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return Bytes{a.count_ + b.count_}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) { return Bytes{a.count_ - b.count_}; }
  friend constexpr Bytes operator-(Bytes a) { return Bytes{-a.count_}; }
  friend constexpr Bytes operator*(Bytes a, std::int64_t n) { return Bytes{a.count_ * n}; }
  friend constexpr Bytes operator*(std::int64_t n, Bytes a) { return a * n; }
  friend constexpr auto operator<=>(Bytes, Bytes) = default;

 private:
  std::int64_t count_ = 0;
};

constexpr Bytes kib(std::int64_t n) { return Bytes{n * 1024}; }
constexpr Bytes mib(std::int64_t n) { return Bytes{n * 1024 * 1024}; }
constexpr Bytes gib(std::int64_t n) { return Bytes{n * 1024 * 1024 * 1024}; }

/// `n` GiB rounded to the nearest byte; settings are written in GiB with decimals.
Bytes gib_from_decimal(double n);

/// `numerator / denominator` of an amount, rounded up: an estimate never rounds memory away.
Bytes scale_up(Bytes amount, std::int64_t numerator, std::int64_t denominator);

/// For people: "48.7 GiB", "312.0 MiB", "0 B"; negative amounts keep their sign.
std::string format_bytes(Bytes amount);

/// Reads "121.69GiB", "512 MiB", "8G" or a plain number of bytes. G, M and K are binary. Errors: `bad_size`.
Result<Bytes> parse_bytes(std::string_view text);

}  // namespace dgxmm
