#include "adapters/net/asio_event_loop.h"

#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <stdexcept>
#include <thread>
#include <vector>

namespace dgxmm::net {
namespace {

using ports::Task;
using namespace std::chrono_literals;

// Waits that must end early are this long: a test that needs them to pass would be seen.
constexpr auto kForever = std::chrono::milliseconds{1h};

Task<> count_after(ports::EventLoop* loop, std::chrono::milliseconds delay, std::vector<int>* order, int number) {
  co_await loop->sleep_for(delay);
  order->push_back(number);
}

Task<> stop_now(AsioEventLoop* loop) {
  loop->stop();
  co_return;
}

Task<> stop_when(AsioEventLoop* loop, ports::Wakeup* wakeup, const int* value, int wanted) {
  while (*value != wanted) co_await wakeup->wait_for(kForever);
  loop->stop();
}

TEST(EventLoop, SpawnStartsTasksLaterAndInOrder) {
  AsioEventLoop loop;
  std::vector<int> order;
  loop.post([&] {
    loop.spawn("first", [](std::vector<int>* o) -> Task<> {
      o->push_back(1);
      co_return;
    }(&order));
    loop.spawn("second", [](std::vector<int>* o) -> Task<> {
      o->push_back(2);
      co_return;
    }(&order));
    order.push_back(0);
    loop.spawn("stop", stop_now(&loop));
  });
  loop.run();
  EXPECT_EQ(order, (std::vector{0, 1, 2}));
}

Task<> throw_soon(ports::EventLoop* loop) {
  co_await loop->sleep_for(0ms);
  throw std::runtime_error("expected by the test");
}

TEST(EventLoop, AnExceptionEndsItsTaskAlone) {
  AsioEventLoop loop;
  std::vector<int> order;
  loop.spawn("throws", throw_soon(&loop));
  loop.post([] { throw std::runtime_error("expected by the test"); });
  loop.spawn("goes on", [](AsioEventLoop* l, std::vector<int>* o) -> Task<> {
    for (int i = 0; i < 5; ++i) co_await l->sleep_for(0ms);
    o->push_back(1);
    l->stop();
  }(&loop, &order));
  loop.run();
  EXPECT_EQ(order, (std::vector{1}));
}

TEST(EventLoop, StopEndsSleepsAndWaitsEarlyAndRunReturns) {
  AsioEventLoop loop;
  const auto wakeup = loop.make_wakeup();
  std::vector<int> order;
  loop.spawn("sleeps", count_after(&loop, kForever, &order, 1));
  loop.spawn("waits", [](ports::Wakeup* w, std::vector<int>* o) -> Task<> {
    co_await w->wait_for(kForever);
    o->push_back(2);
  }(wakeup.get(), &order));
  loop.spawn("stop", stop_now(&loop));
  EXPECT_FALSE(loop.stopping());
  loop.run();
  EXPECT_TRUE(loop.stopping());
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST(EventLoop, AfterStopWaitingReturnsButLetsOthersRun) {
  AsioEventLoop loop;
  const auto wakeup = loop.make_wakeup();
  std::vector<int> order;
  loop.spawn("waits after the stop", [](AsioEventLoop* l, ports::Wakeup* w, std::vector<int>* o) -> Task<> {
    while (!l->stopping()) co_await l->sleep_for(kForever);
    co_await l->sleep_for(kForever);
    co_await w->wait_for(kForever);
    o->push_back(1);
  }(&loop, wakeup.get(), &order));
  loop.stop();
  loop.run();
  EXPECT_EQ(order, (std::vector{1}));
}

TEST(EventLoop, TasksThatIgnoreTheStopAreCancelled) {
  AsioEventLoop loop({}, 1ms);
  bool destroyed = false;
  struct Flag {
    explicit Flag(bool* target) : flag(target) {}
    ~Flag() { *flag = true; }
    Flag(const Flag&) = delete;
    Flag& operator=(const Flag&) = delete;
    bool* flag;
  };
  loop.spawn("never looks at stopping()", [](AsioEventLoop* l, bool* d) -> Task<> {
    const Flag flag(d);
    for (;;) co_await l->sleep_for(kForever);
  }(&loop, &destroyed));
  loop.stop();
  loop.run();
  EXPECT_TRUE(destroyed);
}

TEST(EventLoop, NotifyWakesEveryWaiterAndIsNotRemembered) {
  AsioEventLoop loop;
  const auto wakeup = loop.make_wakeup();
  const auto done = loop.make_wakeup();
  int woken = 0;
  wakeup->notify_all();  // nobody waits yet
  for (int i = 0; i < 3; ++i) {
    loop.spawn("waits", [](ports::Wakeup* w, ports::Wakeup* d, int* count) -> Task<> {
      co_await w->wait_for(kForever);
      ++*count;
      d->notify_all();
    }(wakeup.get(), done.get(), &woken));
  }
  loop.spawn("notifies", [](AsioEventLoop* l, ports::Wakeup* w, const int* count) -> Task<> {
    co_await l->sleep_for(0ms);
    EXPECT_EQ(*count, 0);
    w->notify_all();
  }(&loop, wakeup.get(), &woken));
  loop.spawn("stop", stop_when(&loop, done.get(), &woken, 3));
  loop.run();
  EXPECT_EQ(woken, 3);
}

TEST(EventLoop, AWaitEndsWithItsTimeoutAndWithItsWakeup) {
  AsioEventLoop loop;
  auto wakeup = loop.make_wakeup();
  std::vector<int> order;
  loop.spawn("waits", [](AsioEventLoop* l, ports::Wakeup* w, std::vector<int>* o) -> Task<> {
    co_await w->wait_for(1ms);
    o->push_back(1);
    co_await w->wait_for(kForever);
    o->push_back(2);
    l->stop();
  }(&loop, wakeup.get(), &order));
  loop.spawn("destroys", [](AsioEventLoop* l, std::unique_ptr<ports::Wakeup>* w, std::vector<int>* o) -> Task<> {
    while (o->empty()) co_await l->sleep_for(1ms);
    w->reset();
  }(&loop, &wakeup, &order));
  loop.run();
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST(EventLoop, BlockingWorkRunsElsewhereAndComesBack) {
  AsioEventLoop loop;
  const auto loop_thread = std::this_thread::get_id();
  std::string caught;
  loop.spawn("works", [](AsioEventLoop* l, std::thread::id expected, std::string* message) -> Task<> {
    std::thread::id worker;
    std::function<void()> work = [&worker] { worker = std::this_thread::get_id(); };
    co_await l->on_pool(work);
    EXPECT_NE(worker, expected);
    EXPECT_EQ(std::this_thread::get_id(), expected);
    work = [] { throw std::runtime_error("from the pool"); };
    try {
      co_await l->on_pool(work);
    } catch (const std::runtime_error& error) {
      *message = error.what();
    }
    EXPECT_EQ(std::this_thread::get_id(), expected);
    l->stop();
  }(&loop, loop_thread, &caught));
  loop.run();
  EXPECT_EQ(caught, "from the pool");
}

TEST(EventLoop, ACancelledTaskStillWaitsForItsBlockingWork) {
  AsioEventLoop loop;
  std::promise<void> may_end;
  bool work_ended = false;
  bool past_work = false;
  const auto task = loop.spawn_cancellable(
      "works", [](AsioEventLoop* l, std::promise<void>* gate, bool* ended, bool* past) -> Task<> {
        std::function<void()> work = [l, gate, ended] {
          l->post([l] { l->stop(); });
          gate->get_future().wait();
          *ended = true;
        };
        co_await l->on_pool(work);
        EXPECT_TRUE(*ended);
        co_await l->sleep_for(0ms);
        *past = true;
      }(&loop, &may_end, &work_ended, &past_work));
  const auto hook = loop.on_stop([&] {
    task.cancel();
    may_end.set_value();
  });
  loop.run();
  EXPECT_TRUE(work_ended);
  EXPECT_FALSE(past_work);
}

TEST(EventLoop, CancelEndsOneTaskAndOnlyOnce) {
  AsioEventLoop loop;
  std::vector<int> order;
  const auto task = loop.spawn_cancellable("sleeps", count_after(&loop, kForever, &order, 1));
  loop.spawn("cancels", [](AsioEventLoop* l, TaskHandle t) -> Task<> {
    co_await l->sleep_for(0ms);
    t.cancel();
    t.cancel();
    co_await l->sleep_for(0ms);
    l->stop();
  }(&loop, task));
  loop.run();
  task.cancel();
  // The sleep itself returns, as when the loop stops; what follows it throws.
  EXPECT_EQ(order, (std::vector{1}));
}

TEST(EventLoop, AHookRunsOnceUnlessItIsGone) {
  AsioEventLoop loop;
  int kept = 0;
  int dropped = 0;
  const auto hook = loop.on_stop([&] { ++kept; });
  {
    const auto gone = loop.on_stop([&] { ++dropped; });
  }
  loop.stop();
  loop.stop();
  loop.run();
  EXPECT_EQ(kept, 1);
  EXPECT_EQ(dropped, 0);
}

TEST(EventLoop, PostComesFromAnyThread) {
  AsioEventLoop loop;
  int count = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 100; ++j)
        loop.post([&] {
          if (++count == 400) loop.stop();
        });
    });
  }
  loop.run();
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(count, 400);
}

TEST(EventLoop, SignalsReachTheLoop) {
  std::vector<int> signals;
  AsioEventLoop* running = nullptr;
  AsioEventLoop loop([&](int number) {
    signals.push_back(number);
    if (signals.size() == 1) {
      std::raise(SIGINT);
    } else {
      running->stop();
    }
  });
  running = &loop;
  loop.post([] { std::raise(SIGTERM); });
  loop.run();
  EXPECT_EQ(signals, (std::vector{SIGTERM, SIGINT}));
}

}  // namespace
}  // namespace dgxmm::net
