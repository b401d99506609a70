#include "relay/relay_engine.h"

#include "adapters/net/asio_event_loop.h"
#include "adapters/net/http_relay.h"
#include "core/engine/public_path.h"
#include "ports/event_loop.h"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <sys/prctl.h>

namespace dgxmm::relay {
namespace {

constexpr int kUsage = 2;
constexpr int kFailed = 1;
constexpr std::chrono::seconds kProbeInterval{5};
constexpr std::chrono::seconds kStopLimit{1};

struct Options {
  std::uint16_t port = 0;
  std::string socket;
};

std::optional<Options> parse_options(int argc, char** argv) {
  Options options;
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const std::string_view value = argv[i + 1];
    if (name == "--socket") {
      options.socket = value;
    } else if (name == "--port") {
      const auto* end = value.data() + value.size();
      if (const auto parsed = std::from_chars(value.data(), end, options.port); parsed.ptr != end) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  const bool complete = argc % 2 == 0 && options.port != 0 && !options.socket.empty();
  return complete ? std::optional{options} : std::nullopt;
}

/// One that was there and refuses has ended; before it was there, it loads.
ports::Task<> end_with_engine(net::AsioEventLoop* loop, net::HttpRelay* relay) {
  bool was_there = false;
  while (!loop->stopping()) {
    const auto there = co_await relay->probe();
    if (there == false && was_there) loop->stop();
    was_there = was_there || there == true;
    co_await loop->sleep_for(kProbeInterval);
  }
}

}  // namespace

int relay_engine(int argc, char** argv) {
  const auto options = parse_options(argc, argv);
  if (!options) {
    std::fputs("relay-engine is an internal command of dgxmm; use `dgxmm deploy`.\n", stderr);
    return kUsage;
  }
  ::prctl(PR_SET_NAME, "dgxmm-relay");
  net::AsioEventLoop* running_loop = nullptr;
  net::AsioEventLoop loop{[&](int) { running_loop->stop(); }, kStopLimit};
  running_loop = &loop;
  net::HttpRelay relay{loop, options->socket,
                       [](const net::MessageHead& head) { return engine::check_public_path(head.target); }};
  if (const auto port = relay.listen_tcp("127.0.0.1", options->port); !port) {
    std::fprintf(stderr, "%s\n", port.error().message.c_str());
    return port.error().code == "port_taken" ? kPortTaken : kFailed;
  }
  loop.spawn("watch the engine", end_with_engine(&loop, &relay));
  loop.run();
  return 0;
}

}  // namespace dgxmm::relay
