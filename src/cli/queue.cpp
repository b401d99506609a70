#include "cli/commands.h"
#include "cli/format.h"
#include "cli/report.h"
#include "cli/table.h"

#include <fmt/format.h>

#include <chrono>

namespace dgxmm::cli {
namespace {

std::string waited_text(const dto::QueueEntry& entry, WallTime now) {
  const auto since = parse_time(entry.since);
  return since ? duration_text(std::chrono::duration_cast<std::chrono::seconds>(now - *since)) : "?";
}

}  // namespace

int run(const QueueCommand& /*command*/, Context& context) {
  const auto queue = context.api.get<dto::Queue>("/queue");
  if (!queue) return report(context, queue.error());
  if (context.json) {
    print_json(context, *queue);
    return kExitOk;
  }
  Table table{{{"PLACE", Align::right},
               {"WAITS FOR"},
               {"WHAT", Align::left, 12},
               {"PRIORITY", Align::right},
               {"SINCE", Align::right},
               {"ID"}}};
  for (const auto& entry : queue->waiting) {
    table.add({fmt::format("{}", entry.place), entry.queue == "start" ? "others to load" : "a decision", entry.what,
               fmt::format("{}", entry.priority), waited_text(entry, context.clock.wall()), entry.id});
  }
  auto& console = context.console;
  if (!table.empty()) console.out << table.render(console.width);
  if (queue->deciding) note(console, "has the turn to be decided on: " + *queue->deciding);
  if (queue->starting) note(console, "loads now: " + *queue->starting);
  if (table.empty()) note(console, "nothing waits");
  if (!table.empty()) note(console, "`dgxmm cancel ID` takes one out");
  return kExitOk;
}

}  // namespace dgxmm::cli
