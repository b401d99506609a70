#include "adapters/net/asio_event_loop.h"

#include "base/log.h"

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <csignal>
#include <exception>
#include <list>
#include <optional>
#include <utility>
#include <vector>

namespace dgxmm::net {

namespace asio = boost::asio;
using ports::Task;
using std::chrono::milliseconds;

struct TaskHandle::Record {
  std::string what;
  asio::cancellation_signal cancel;
};

namespace {

// Blocking work is SQLite, file scans and name look-ups: two at a time keep one slow disk from holding up the rest.
constexpr std::size_t kPoolThreads = 2;
// After tasks were cancelled: only one that waits for blocking work can still be there.
constexpr milliseconds kCancelLimit{2000};
// Far enough, and small enough that adding it to now() cannot overflow.
constexpr milliseconds kLongestWait = std::chrono::hours{24 * 365};

using TimerList = std::list<asio::steady_timer*>;

/// A timer in a list of those to be cancelled together. The list may outlive whoever made it.
class Listed {
 public:
  Listed(std::shared_ptr<TimerList> list, asio::steady_timer* timer)
      : list_(std::move(list)),
        place_(list_->insert(list_->end(), timer)) {}
  ~Listed() { list_->erase(place_); }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;

 private:
  std::shared_ptr<TimerList> list_;
  TimerList::iterator place_;
};

void cancel_all(const TimerList& timers) {
  for (auto* timer : timers) timer->cancel();
}

bool is_cancellation(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const boost::system::system_error& error) {
    return error.code() == asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

std::string text_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

/// Starts a task from the loop, never from inside the function that spawned it.
Task<> started_from_loop(Task<> task) {
  co_await asio::post(asio::use_awaitable);
  co_await std::move(task);
}

}  // namespace

struct AsioEventLoop::State {
  using Records = std::list<std::shared_ptr<TaskHandle::Record>>;
  using Hooks = std::list<std::weak_ptr<std::function<void()>>>;

  State(std::function<void(int)> signal_action, milliseconds limit)
      : on_signal(std::move(signal_action)),
        stop_limit(limit) {}

  void wait_for_signal() {
    signals.async_wait([this](const boost::system::error_code& error, int number) {
      if (error) return;
      wait_for_signal();
      on_signal(number);
    });
  }

  void begin_stop() {
    if (stopping) return;
    stopping = true;
    cancel_all(*sleeping);
    for (const auto& hook : std::exchange(hooks, {})) {
      if (const auto action = hook.lock()) (*action)();
    }
    stop_timer.expires_after(stop_limit);
    stop_timer.async_wait([this](const boost::system::error_code& error) {
      if (!error) cancel_tasks();
    });
    finish_if_done();
  }

  void cancel_tasks() {
    const Records late = tasks;
    for (const auto& task : late) {
      log::warning("{}: not ended {} ms after the stop, cancelled", task->what, stop_limit.count());
      task->cancel.emit(asio::cancellation_type::terminal);
    }
    stop_timer.expires_after(kCancelLimit);
    stop_timer.async_wait([this](const boost::system::error_code& error) {
      if (error) return;
      for (const auto& task : tasks) log::error("{}: given up", task->what);
      context.stop();
    });
  }

  void finish_if_done() {
    if (stopping && tasks.empty()) context.stop();
  }

  std::function<void(int)> on_signal;
  milliseconds stop_limit;
  bool stopping = false;
  Records tasks;
  Hooks hooks;
  std::shared_ptr<TimerList> sleeping = std::make_shared<TimerList>();

  // Destroyed in the reverse order: the pool's threads end first, then what waits, then the context with the frames
  // of tasks that were given up.
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  asio::signal_set signals{context};
  asio::steady_timer stop_timer{context};
  std::optional<asio::thread_pool> pool;
};

void TaskHandle::cancel() const {
  if (const auto record = record_.lock()) record->cancel.emit(asio::cancellation_type::terminal);
}

AsioEventLoop::AsioEventLoop(std::function<void(int)> on_signal, milliseconds stop_limit)
    : state_(std::make_unique<State>(std::move(on_signal), stop_limit)) {
  if (!state_->on_signal) return;
  state_->signals.add(SIGTERM);
  state_->signals.add(SIGINT);
  state_->wait_for_signal();
}

AsioEventLoop::~AsioEventLoop() = default;

void AsioEventLoop::run() { state_->context.run(); }

void AsioEventLoop::stop() {
  asio::post(state_->context, [state = state_.get()] { state->begin_stop(); });
}

void AsioEventLoop::spawn(std::string what, Task<> task) { spawn_cancellable(std::move(what), std::move(task)); }

TaskHandle AsioEventLoop::spawn_cancellable(std::string what, Task<> task) {
  auto record = std::make_shared<TaskHandle::Record>();
  record->what = std::move(what);
  const auto place = state_->tasks.insert(state_->tasks.end(), record);
  auto on_end = [state = state_.get(), place](const std::exception_ptr& failure) {
    if (failure && !is_cancellation(failure)) log::error("{}: {}", (*place)->what, text_of(failure));
    state->tasks.erase(place);
    state->finish_if_done();
  };
  asio::co_spawn(state_->context, started_from_loop(std::move(task)),
                 asio::bind_cancellation_slot(record->cancel.slot(), std::move(on_end)));
  TaskHandle handle;
  handle.record_ = record;
  return handle;
}

Task<> AsioEventLoop::sleep_for(milliseconds duration) {
  if (state_->stopping) {
    // Not at once: a task that forgets to look at stopping() must not keep the loop from cancelling it.
    co_await asio::post(asio::use_awaitable);
    co_return;
  }
  asio::steady_timer timer(state_->context, std::min(duration, kLongestWait));
  const Listed listed(state_->sleeping, &timer);
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

void AsioEventLoop::post(std::function<void()> work) {
  asio::post(state_->context, [work = std::move(work)] {
    try {
      work();
    } catch (...) {
      log::error("posted work: {}", text_of(std::current_exception()));
    }
  });
}

Task<> AsioEventLoop::on_pool(std::function<void()> work) {
  if (!state_->pool) state_->pool.emplace(kPoolThreads);
  // An operation without a way to cancel it: `work` may use what lives in the frame of the waiting task.
  auto start = [pool = &*state_->pool, work = std::move(work)](auto handler) mutable {
    asio::post(*pool, [work = std::move(work), handler = std::move(handler)]() mutable {
      std::exception_ptr failure;
      try {
        work();
      } catch (...) {
        failure = std::current_exception();
      }
      // Nothing of it may be left on this thread when the task goes on.
      work = nullptr;
      const auto loop = asio::get_associated_executor(handler);
      asio::post(loop, [handler = std::move(handler), failure = std::move(failure)]() mutable {
        std::move(handler)(std::move(failure));
      });
    });
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>, void(std::exception_ptr)>(std::move(start),
                                                                                         asio::use_awaitable);
}

bool AsioEventLoop::stopping() const { return state_->stopping; }

class AsioEventLoop::LoopWakeup final : public ports::Wakeup {
 public:
  explicit LoopWakeup(State* state) : state_(state) {}
  ~LoopWakeup() override { cancel_all(*waiting_); }
  LoopWakeup(const LoopWakeup&) = delete;
  LoopWakeup& operator=(const LoopWakeup&) = delete;

  void notify_all() override { cancel_all(*waiting_); }

  Task<> wait_for(milliseconds timeout) override { return wait(state_, waiting_, timeout); }

 private:
  // Static, because the object may be gone before its waiters are.
  static Task<> wait(State* state, std::shared_ptr<TimerList> waiting, milliseconds timeout) {
    if (state->stopping) {
      co_await asio::post(asio::use_awaitable);
      co_return;
    }
    asio::steady_timer timer(state->context, std::min(timeout, kLongestWait));
    const Listed sleeping(state->sleeping, &timer);
    const Listed notified(std::move(waiting), &timer);
    boost::system::error_code ignored;
    co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }

  State* state_;
  std::shared_ptr<TimerList> waiting_ = std::make_shared<TimerList>();
};

std::unique_ptr<ports::Wakeup> AsioEventLoop::make_wakeup() { return std::make_unique<LoopWakeup>(state_.get()); }

StopHook AsioEventLoop::on_stop(std::function<void()> action) {
  std::erase_if(state_->hooks, [](const auto& hook) { return hook.expired(); });
  auto registration = std::make_shared<std::function<void()>>(std::move(action));
  state_->hooks.push_back(registration);
  StopHook hook;
  hook.registration_ = std::move(registration);
  return hook;
}

asio::io_context& AsioEventLoop::context() { return state_->context; }

}  // namespace dgxmm::net
