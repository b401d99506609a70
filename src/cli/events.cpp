#include "adapters/net/sse.h"
#include "base/masking.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/report.h"
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace dgxmm::cli {
namespace {

// Sent beside the events: whenever the budget changed, and first when what is stored has been sent.
constexpr std::string_view kBudgetEvent = "budget";
// Sent beside them as well: who waits for what (`dgxmm queue` shows it), who is at work, and how the memory goes on.
constexpr std::array<std::string_view, 3> kNoEvents{"queue", "activity", "history"};

void print_event(Context& context, const dto::Event& event) {
  if (context.json) {
    print_json(context, event);
    return;
  }
  const auto time = parse_time(event.time);
  const auto label =
      printable(fmt::format("{:>5}  {}  ", event.id, time ? local_time_text(*time, context.clock.wall()) : event.time));
  context.console.out << wrap_beside(label, printable(event.message), context.console.width);
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
      if (std::ranges::find(kNoEvents, message.event) != kNoEvents.end()) continue;
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
  constexpr std::int64_t kShown = 50;
  auto path = fmt::format("/events?tail={}", command.tail.value_or(command.follow ? 0 : kShown));
  if (command.all) path = "/events?after=0";
  if (command.after) path = fmt::format("/events?after={}", *command.after);
  for (;;) {
    Listening listening{.context = context, .follow = command.follow};
    const auto end = context.api.stream(path, [&](std::string_view piece) { return listening.put(piece); });
    if (!end) return report(context, end.error());
    if (listening.error) return report(context, problem_of(*listening.error));
    // The daemon sends what is stored in portions, and the budget after the first of them.
    if (command.follow || !listening.last_id || !context.console.out.good()) return kExitOk;
    path = fmt::format("/events?after={}", *listening.last_id);
  }
}

}  // namespace dgxmm::cli
