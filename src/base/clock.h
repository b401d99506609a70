#pragma once
#include <chrono>
#include <string>

namespace dgxmm {

using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;
using SteadyTime = std::chrono::steady_clock::time_point;

/// The only source of time for everything above the adapters, so that tests can hold it still.
class Clock {
 public:
  virtual ~Clock() = default;
  [[nodiscard]] virtual WallTime wall() const = 0;
  [[nodiscard]] virtual SteadyTime steady() const = 0;
};

class SystemClock final : public Clock {
 public:
  [[nodiscard]] WallTime wall() const override {
    return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
  }
  [[nodiscard]] SteadyTime steady() const override { return std::chrono::steady_clock::now(); }
};

/// "2026-11-29T21:30:11.042Z"
std::string format_time(WallTime time);

}  // namespace dgxmm
