// `dgxmm top`: one loop that listens to the daemon's events, to keys and to the size of the terminal.
#include "adapters/net/asio_event_loop.h"
#include "adapters/net/http_client.h"
#include "adapters/net/http_text.h"
#include "adapters/net/sse.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/top/screen.h"
#include "cli/top/state.h"
#include "cli/top/view.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <csignal>
#include <sstream>
#include <unistd.h>
#include <utility>

namespace dgxmm::cli {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using ports::Task;
using top::Action;

constexpr auto kRedraw = 1s;           // ages tick
constexpr auto kLeastBetween = 500ms;  // two questions to the daemon
constexpr auto kAskAgain = 5s;         // without an event
constexpr auto kReconnect = 1s;

class Top {
 public:
  Top(Context& context, top::Screen& screen)
      : context_(context),
        screen_(screen),
        loop_([this](int) { loop_.stop(); }, 500ms),
        http_(loop_),
        keys_(loop_.context(), ::dup(STDIN_FILENO)),
        resized_(loop_.context(), SIGWINCH),
        ended_(loop_.context(), SIGHUP, SIGQUIT),
        changed_(loop_.make_wakeup()),
        on_stop_(loop_.on_stop([this] { stop_waiting(); })) {
    state_.address = context.api.address();
  }

  void run() {
    draw();
    loop_.spawn("keys", read_keys());
    loop_.spawn("size", follow_size());
    loop_.spawn("end", wait_for_end());
    loop_.spawn("events", follow_events());
    loop_.spawn("figures", refresh_figures());
    loop_.spawn("clock", tick());
    loop_.run();
  }

 private:
  void draw() { screen_.show(top::draw(state_, screen_.size(), context_.clock.wall())); }

  void stop_waiting() {
    boost::system::error_code ignored;
    keys_.cancel(ignored);
    resized_.cancel(ignored);
    ended_.cancel(ignored);
  }

  Task<> read_keys() {
    while (!loop_.stopping()) {
      boost::system::error_code error;
      co_await keys_.async_wait(asio::posix::stream_descriptor::wait_read,
                                asio::redirect_error(asio::use_awaitable, error));
      if (error) break;  // the terminal is gone, or we end
      asio::posix::descriptor_base::bytes_readable waiting;
      keys_.io_control(waiting, error);
      if (error || waiting.get() == 0) break;  // readable, and nothing to read: it was closed
      while (const auto press = screen_.read()) begin(state_.press(*press));
      draw();
    }
    loop_.stop();
  }

  Task<> follow_size() {
    while (!loop_.stopping()) {
      boost::system::error_code error;
      co_await resized_.async_wait(asio::redirect_error(asio::use_awaitable, error));
      if (error) co_return;
      screen_.resize();
      draw();
    }
  }

  Task<> wait_for_end() {
    boost::system::error_code error;
    co_await ended_.async_wait(asio::redirect_error(asio::use_awaitable, error));
    if (!error) loop_.stop();
  }

  Task<> tick() {
    while (!loop_.stopping()) {
      co_await loop_.sleep_for(kRedraw);
      if (!loop_.stopping()) draw();
    }
  }

  /// Each event, and each change of the budget, is a reason to look again.
  Task<> follow_events() {
    while (!loop_.stopping()) {
      net::SseParser parser;
      const auto on_piece = [&](std::string_view piece) {
        const auto messages = parser.put(piece);
        if (!messages) return false;
        if (!messages->empty()) look_again();
        return !loop_.stopping();
      };
      auto reply = co_await http_.stream(context_.api.request("GET", "/events?tail=0"), on_piece);
      if (loop_.stopping()) co_return;
      const auto end = context_.api.body_of(std::move(reply));
      state_.lost = end ? "the daemon ended it" : end.error().detail;
      draw();
      co_await loop_.sleep_for(kReconnect);
      look_again();
    }
  }

  template <class T>
  Task<Answer<T>> get(std::string path) {
    auto reply = co_await http_.call(context_.api.request("GET", path));
    auto answer = context_.api.understand<T>(std::move(reply));
    co_return answer;
  }

  Task<> refresh_figures() {
    while (!loop_.stopping()) {
      to_look_ = false;
      auto memory = co_await get<dto::Memory>("/memory");
      if (memory) {
        state_.take(std::move(*memory));
        auto deployments = co_await get<std::vector<dto::Deployment>>("/deployments");
        if (deployments) state_.take(std::move(*deployments));
        auto processes = co_await get<dto::Processes>("/processes");
        if (processes) state_.take(std::move(*processes));
      } else if (!loop_.stopping()) {
        state_.lost = memory.error().detail;
      }
      if (!state_.log_of.empty()) co_await read_log();
      if (loop_.stopping()) co_return;
      draw();
      co_await loop_.sleep_for(kLeastBetween);
      if (!to_look_) co_await changed_->wait_for(kAskAgain);
    }
  }

  Task<> read_log() {
    const auto path =
        fmt::format("/deployments/{}/logs?tail={}", net::percent_encode(state_.log_of), screen_.size().lines);
    auto reply = co_await http_.call(context_.api.request("GET", path));
    const auto text = context_.api.body_of(std::move(reply));
    state_.log.clear();
    std::istringstream lines{text ? *text : text.error().detail};
    for (std::string line; std::getline(lines, line);) state_.log.push_back(line);
  }

  void begin(const Action& action) {
    switch (action.kind) {
      case Action::Kind::none: return;
      case Action::Kind::quit: loop_.stop(); return;
      case Action::Kind::show_log: loop_.spawn("log", show_log()); return;
      default: break;
    }
    loop_.spawn("action", carry_out(action));
  }

  Task<> show_log() {
    co_await read_log();
    draw();
  }

  static std::string path_of(const Action& action) {
    const auto target = net::percent_encode(action.target);
    switch (action.kind) {
      case Action::Kind::stop: return fmt::format("/deployments/{}/stop", target);
      case Action::Kind::sleep: return fmt::format("/deployments/{}/sleep?level=1", target);
      case Action::Kind::wake: return fmt::format("/deployments/{}/wake", target);
      default: return fmt::format("/orphans/{}/stop", target);
    }
  }

  static std::pair<std::string_view, std::string_view> words_of(Action::Kind kind) {
    switch (kind) {
      case Action::Kind::sleep: return {"putting to sleep", "sleeps"};
      case Action::Kind::wake: return {"waking", "is waking up"};
      default: return {"stopping", "is stopped, its memory is back"};
    }
  }

  Task<> carry_out(Action action) {
    const auto [doing, done] = words_of(action.kind);
    state_.message = fmt::format("{} {} ...", doing, action.name);
    draw();
    auto reply = co_await http_.call(context_.api.request("POST", path_of(action)));
    const auto answer = context_.api.body_of(std::move(reply));
    if (loop_.stopping()) co_return;
    state_.message =
        answer ? fmt::format("{} {}", action.name, done) : fmt::format("{}: {}", action.name, answer.error().detail);
    look_again();
    draw();
  }

  void look_again() {
    to_look_ = true;
    changed_->notify_all();
  }

  Context& context_;
  top::Screen& screen_;
  top::State state_;
  net::AsioEventLoop loop_;
  net::AsioHttpClient http_;
  asio::posix::stream_descriptor keys_;
  asio::signal_set resized_, ended_;
  std::unique_ptr<ports::Wakeup> changed_;
  bool to_look_ = false;
  net::StopHook on_stop_;
};

}  // namespace

int run(const TopCommand& /*command*/, Context& context) {
  if (context.json) {
    return report(
        context, problem_of(Error{
                     "usage", "top shows a screen, not a document", "`dgxmm memory --json` has the same figures", {}}));
  }
  auto screen = top::Screen::open();
  if (!screen) return report(context, problem_of(screen.error()));
  Top{context, **screen}.run();
  screen->reset();
  return kExitOk;
}

}  // namespace dgxmm::cli
