#include "unit/app/support/simulated_loop.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <exception>
#include <stdexcept>

namespace dgxmm::testing {

namespace asio = boost::asio;
using std::chrono::milliseconds;
using Timers = std::list<asio::steady_timer*>;

namespace {

/// An entry of a list for as long as a frame lives. The list may be older or younger than whoever made it.
template <class List>
class Listed {
 public:
  Listed(std::shared_ptr<List> list, typename List::value_type value)
      : list_(std::move(list)),
        place_(list_->insert(list_->end(), value)) {}
  ~Listed() { list_->erase(place_); }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

 private:
  std::shared_ptr<List> list_;
  typename List::iterator place_;
};

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

ports::Task<> started_from_loop(ports::Task<> task) {
  co_await asio::post(asio::use_awaitable);
  co_await std::move(task);
}

}  // namespace

SimulatedLoop::SimulatedLoop(ManualClock& clock) : clock_(clock), context_(std::make_unique<asio::io_context>(1)) {}

SimulatedLoop::~SimulatedLoop() = default;

void SimulatedLoop::spawn(std::string what, ports::Task<> task) {
  ++running_;
  asio::co_spawn(*context_, started_from_loop(std::move(task)),
                 [this, what = std::move(what)](const std::exception_ptr& failure) {
                   --running_;
                   if (failure) failures_.push_back(what + ": " + text_of(failure));
                 });
}

ports::Task<> SimulatedLoop::sleep_for(milliseconds duration) {
  return sleep_until(clock_.steady() + duration, std::make_shared<Timers>());
}

ports::Task<> SimulatedLoop::sleep_until(SteadyTime time, std::shared_ptr<Timers> also_listed) {
  if (stopping_) {
    co_await asio::post(asio::use_awaitable);
    co_return;
  }
  asio::steady_timer timer(*context_, asio::steady_timer::time_point::max());  // ends by being cancelled
  const Listed<Sleepers> sleeping(sleepers_, {time, &timer});
  const Listed<Timers> listed(std::move(also_listed), &timer);
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

void SimulatedLoop::post(std::function<void()> work) { asio::post(*context_, std::move(work)); }

ports::Task<> SimulatedLoop::on_pool(std::function<void()> work) {
  co_await asio::post(asio::use_awaitable);
  if (pool_takes > milliseconds{0}) co_await sleep_for(pool_takes);
  work();
  co_await asio::post(asio::use_awaitable);
}

class SimulatedLoop::SimulatedWakeup final : public ports::Wakeup {
 public:
  explicit SimulatedWakeup(SimulatedLoop& loop) : loop_(loop) {}
  void notify_all() override {
    for (auto* timer : *waiting_) timer->cancel();
  }
  ports::Task<> wait_for(milliseconds timeout) override {
    return loop_.sleep_until(loop_.clock_.steady() + timeout, waiting_);
  }

 private:
  SimulatedLoop& loop_;
  std::shared_ptr<Timers> waiting_ = std::make_shared<Timers>();
};

std::unique_ptr<ports::Wakeup> SimulatedLoop::make_wakeup() { return std::make_unique<SimulatedWakeup>(*this); }

void SimulatedLoop::run_ready() {
  context_->restart();
  context_->poll();
}

void SimulatedLoop::end_sleeps() {
  for (const auto& sleeper : *sleepers_) {
    if (stopping_ || sleeper.until <= clock_.steady()) sleeper.timer->cancel();
  }
}

bool SimulatedLoop::run_until(const std::function<bool()>& done, milliseconds limit) {
  const auto end = clock_.steady() + limit;
  while (true) {
    run_ready();
    if (done()) return true;
    const auto next = std::ranges::min_element(*sleepers_, {}, &Sleeper::until);
    if (next == sleepers_->end() || next->until > end) {
      clock_.advance_to(end);
      return false;
    }
    clock_.advance_to(next->until);
    end_sleeps();
  }
}

void SimulatedLoop::run_for(milliseconds duration) {
  static_cast<void>(run_until([] { return false; }, duration));
}

void SimulatedLoop::finish(const std::function<bool()>& done) {
  const auto failed_before = failures_.size();
  if (run_until([&] { return done() || failures_.size() > failed_before; }) && done()) return;
  throw std::runtime_error(failures_.size() > failed_before ? failures_.back() : "the task does not end");
}

bool SimulatedLoop::stop() {
  stopping_ = true;
  // Each round wakes what slept; a task that never looks at stopping() would go on for ever.
  for (int round = 0; round < 1000 && running_ > 0; ++round) {
    end_sleeps();
    context_->restart();
    for (int step = 0; step < 1000 && context_->poll_one() > 0; ++step) {
    }
  }
  return running_ == 0;
}

void SimulatedLoop::kill() { context_.reset(); }

}  // namespace dgxmm::testing
