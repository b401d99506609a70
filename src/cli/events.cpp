#include "adapters/net/sse.h"
#include "base/masking.h"
#include "cli/commands.h"
#include "cli/report.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>

namespace dgxmm::cli {
namespace {

// Sent beside the events: whenever the budget changed, and first when what is stored has been sent.
constexpr std::string_view kBudgetEvent = "budget";

void print_event(Context& context, const dto::Event& event) {
  if (context.json) {
    print_json(context, event);
  } else {
    context.console.out << printable(fmt::format("{:>5}  {}  {}", event.id, event.time, event.message)) << '\n';
  }
}

/// One connection to the stream of events.
struct Listening {
  Context& context;
  bool follow = false;
  net::SseParser parser{};
  std::optional<std::int64_t> last_id{};
  std::optional<Error> error{};

  /// False: nothing more is wanted.
  bool put(std::string_view piece) {
    const auto messages = parser.put(piece);
    if (!messages) {
      error = messages.error();
      return false;
    }
    bool caught_up = false;
    for (const auto& message : *messages) {
      if (message.event == kBudgetEvent) {
        caught_up = true;
        continue;
      }
      const auto event = from_json<dto::Event>(message.data);
      if (!event) {
        error = event.error();
        return false;
      }
      print_event(context, *event);
      last_id = event->id;
    }
    context.console.out.flush();
    return context.console.out.good() && (follow || !caught_up);
  }
};

}  // namespace

int run(const EventsCommand& command, Context& context) {
  auto after = command.after;
  if (!after && !command.follow) after = 0;
  for (;;) {
    const auto path = after ? fmt::format("/events?after={}", *after) : std::string{"/events"};
    Listening listening{.context = context, .follow = command.follow};
    const auto end = context.api.stream(path, [&](std::string_view piece) { return listening.put(piece); });
    if (!end) return report(context, end.error());
    if (listening.error) return report(context, problem_of(*listening.error));
    // The daemon sends what is stored in portions, and the budget after the first of them.
    if (command.follow || !listening.last_id || !context.console.out.good()) return kExitOk;
    after = listening.last_id;
  }
}

}  // namespace dgxmm::cli
