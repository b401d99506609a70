#include "adapters/net/http_text.h"
#include "base/masking.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/report.h"
#include "cli/table.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace dgxmm::cli {
namespace {

std::string held_text(const dto::Orphan& orphan) { return orphan.measured ? measured_text(*orphan.measured) : "?"; }

int show(Context& context, const std::vector<dto::Orphan>& orphans) {
  if (context.json) {
    print_json(context, orphans);
    return kExitOk;
  }
  if (orphans.empty()) {
    note(context.console, "none: every engine that dgxmm started belongs to a deployment");
    return kExitOk;
  }
  Table table{{{"ID"}, {"RUNTIME"}, {"HELD", Align::right}, {"COMMAND", Align::left, 16}}};
  bool approximate = false;
  bool incomplete = false;
  bool unknown = false;
  for (const auto& orphan : orphans) {
    approximate = approximate || (orphan.measured && orphan.measured->approximate);
    incomplete = incomplete || (orphan.measured && !orphan.measured->complete);
    unknown = unknown || !orphan.measured;
    table.add({orphan.id, orphan.runtime, held_text(orphan), orphan.command});
  }
  context.console.out << table.render(context.console.width)
                      << wrap(measured_footnote(approximate, incomplete, unknown), context.console.width);
  note(context.console, "`dgxmm orphans --stop ID` ends one");
  return kExitOk;
}

}  // namespace

int run(const OrphansCommand& command, Context& context) {
  auto ids = command.stop;
  if (ids.empty()) {
    const auto orphans = context.api.get<std::vector<dto::Orphan>>("/orphans");
    if (!orphans) return report(context, orphans.error());
    if (!command.stop_all || orphans->empty()) return show(context, *orphans);
    for (const auto& orphan : *orphans) ids.push_back(orphan.id);
  }
  std::vector<dto::Orphan> stopped;
  int exit_code = kExitOk;
  for (const auto& id : ids) {
    auto orphan = [&] {
      Progress progress{context.console};
      progress.show(fmt::format("stopping {}", id));
      return context.api.post<dto::Orphan>(fmt::format("/orphans/{}/stop", net::percent_encode(id)));
    }();
    if (!orphan) {
      exit_code = report(context, orphan.error());
      if (context.json) return exit_code;
      continue;
    }
    if (!context.json) {
      context.console.out << printable(fmt::format("stopped {}, which held {}", orphan->id, held_text(*orphan)))
                          << '\n';
    }
    stopped.push_back(std::move(*orphan));
  }
  if (context.json) print_json(context, stopped);
  return exit_code;
}

}  // namespace dgxmm::cli
