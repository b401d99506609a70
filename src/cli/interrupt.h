#pragma once
#include <chrono>
#include <csignal>

namespace dgxmm::cli {

/// Takes Ctrl-C (SIGINT) and SIGTERM instead of ending the process, so that a command which only watches can say what
/// goes on without it. The calling thread's; undone at the end.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  enum class Wish {
    none,
    leave,  ///< SIGTERM
    ask,    ///< Ctrl-C: it may be meant for what goes on too
  };
  /// Waits; returns as soon as the user wants something.
  [[nodiscard]] Wish wait_for(std::chrono::milliseconds duration) const;

 private:
  sigset_t watched_{};
  sigset_t before_{};
};

}  // namespace dgxmm::cli
