#include "cli/interrupt.h"

#include <ctime>

namespace dgxmm::cli {

Interrupt::Interrupt() {
  sigemptyset(&watched_);
  sigaddset(&watched_, SIGINT);
  sigaddset(&watched_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &watched_, &before_);
}

Interrupt::~Interrupt() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

Interrupt::Wish Interrupt::wait_for(std::chrono::milliseconds duration) const {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(duration);
  const auto rest = std::chrono::duration_cast<std::chrono::nanoseconds>(duration - seconds);
  const timespec limit{.tv_sec = seconds.count(), .tv_nsec = rest.count()};
  // A signal of another kind (the terminal changed its size) only makes this wait shorter.
  const int signal = sigtimedwait(&watched_, nullptr, &limit);
  return signal == SIGINT ? Wish::ask : signal == SIGTERM ? Wish::leave : Wish::none;
}

}  // namespace dgxmm::cli
