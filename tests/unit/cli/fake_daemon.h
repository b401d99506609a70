#pragma once
// A daemon that says what a test wants, over a real socket on a port that the kernel picks.
#include "adapters/net/asio_event_loop.h"
#include "adapters/net/http_server.h"
#include "cli/cli.h"
#include "cli/console.h"
#include "cli/documents.h"
#include "cli/session.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

namespace dgxmm::cli {

/// A body in pieces; after them it ends, or stays open until the client leaves.
class ScriptedStream final : public ports::BodyStream {
 public:
  ScriptedStream(net::AsioEventLoop* loop, std::deque<std::string> pieces, bool stays_open)
      : loop_(loop),
        pieces_(std::move(pieces)),
        stays_open_(stays_open) {}

  ports::Task<std::optional<std::string>> next() override {
    if (pieces_.empty()) {
      if (stays_open_) co_await loop_->sleep_for(std::chrono::hours{1});
      co_return std::nullopt;
    }
    auto piece = std::move(pieces_.front());
    pieces_.pop_front();
    co_return piece;
  }

 private:
  net::AsioEventLoop* loop_;
  std::deque<std::string> pieces_;
  bool stays_open_;
};

class FakeDaemon final : public ports::HttpHandler {
 public:
  using Route = std::function<ports::HttpResponse(const ports::HttpRequest&)>;

  FakeDaemon() : server_(loop_, *this) {
    port_ = server_.listen_tcp("127.0.0.1", 0).value();
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~FakeDaemon() override {
    loop_.stop();
    thread_.join();
  }
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  /// "POST /fit"; of several answers to one route each is given once, the last for ever.
  void call(const std::string& route, Route answer) {
    const std::lock_guard lock{mutex_};
    routes_[route].push_back(std::move(answer));
  }
  template <class T>
  void on(const std::string& route, const T& document, int status = 200) {
    call(route, Route{[text = to_json(document), status](const auto&) { return json(text, status); }});
  }
  void stream(const std::string& route, const std::deque<std::string>& pieces, bool stays_open = false) {
    call(route, Route{[this, pieces, stays_open](const auto&) {
           ports::HttpResponse response;
           response.stream = std::make_unique<ScriptedStream>(&loop_, pieces, stays_open);
           return response;
         }});
  }

  static ports::HttpResponse json(std::string text, int status = 200) {
    ports::HttpResponse response;
    response.status = status;
    response.body = std::move(text);
    return response;
  }

  [[nodiscard]] std::vector<ports::HttpRequest> requests() {
    const std::lock_guard lock{mutex_};
    return requests_;
  }

  ports::Task<ports::HttpResponse> handle(ports::HttpRequest request) override {
    auto response = answer(request);
    co_return response;
  }
  [[nodiscard]] std::size_t body_limit(const std::string&, const std::string&) const override { return 65536; }

 private:
  ports::HttpResponse answer(const ports::HttpRequest& request) {
    Route route;
    {
      const std::lock_guard lock{mutex_};
      requests_.push_back(request);
      const std::string prefix = "/api/v1";
      const auto path = request.path.starts_with(prefix) ? request.path.substr(prefix.size()) : "outside the API";
      const auto found = routes_.find(request.method + " " + path);
      if (found == routes_.end()) {
        return json(R"({"type":"about:blank","title":"Not found","status":404,"detail":"no route )" + path +
                        R"(","code":"not_found","hint":"","where":""})",
                    404);
      }
      route = found->second.front();
      if (found->second.size() > 1) found->second.pop_front();
    }
    return route(request);
  }

  net::AsioEventLoop loop_;
  std::mutex mutex_;
  std::map<std::string, std::deque<Route>> routes_;
  std::vector<ports::HttpRequest> requests_;
  net::HttpServer server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

/// Stands still.
class StillClock final : public Clock {
 public:
  [[nodiscard]] WallTime wall() const override { return WallTime{std::chrono::milliseconds{1'800'000'000'000}}; }
  [[nodiscard]] SteadyTime steady() const override { return {}; }
};

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

/// Runs commands with no settings but those of the test.
class CliTest : public testing::Test {
 public:
  ~CliTest() override { std::filesystem::remove_all(folder_); }

 protected:
  CliTest() {
    folder_ = std::filesystem::temp_directory_path() / ("dgxmm_cli_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    ::setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
    for (const auto& definition : settings::definitions()) {
      ::unsetenv(settings::environment_name(definition.name).c_str());
    }
    ::setenv("DGXMM_HUGGING_FACE_CACHE", "off", 1);  // that of the user who runs the tests is none of theirs
    composition_.version = "1.2.3";
    composition_.commit = "abcdef";
  }

  /// Without a daemon: nobody can listen at port 0.
  Outcome run_cli(std::vector<std::string> arguments) { return run_at("127.0.0.1:0", std::move(arguments)); }

  Outcome run_at(const std::string& address, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--address", address});
    return run_plain(std::move(arguments));
  }

  Outcome run_plain(std::vector<std::string> arguments) {
    std::ostringstream out;
    std::ostringstream err;
    Console console{.out = out, .err = err, .width = width_};
    const int exit_code = run(std::move(arguments), composition_, console, clock_);
    return {exit_code, out.str(), err.str()};
  }

  std::filesystem::path folder_;
  Composition composition_;
  StillClock clock_;
  std::size_t width_ = 0;
};

}  // namespace dgxmm::cli
