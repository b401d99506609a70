#include "base/masking.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/report.h"
#include "cli/table.h"

#include <fmt/format.h>

namespace dgxmm::cli {

int run(const ProcessesCommand& /*command*/, Context& context) {
  const auto processes = context.api.get<dto::Processes>("/processes");
  if (!processes) return report(context, processes.error());
  if (context.json) {
    print_json(context, *processes);
    return kExitOk;
  }
  Table table{{{"PID", Align::right},
               {"USER", Align::left, 8},
               {"HELD", Align::right},
               {"RSS", Align::right},
               {"GPU", Align::right},
               {"CONTAINER", Align::left, 9},
               {"COMMAND", Align::left, 16}}};
  bool unknown = false;
  for (const auto& process : processes->processes) {
    unknown = unknown || !process.rss_bytes || !process.gpu_bytes;
    table.add({fmt::format("{}", process.pid), process.user, format_bytes(process.held_bytes),
               size_text(process.rss_bytes), size_text(process.gpu_bytes), place_text(process), process.command});
    if (const auto note = orphan_note(process); !note.empty()) table.add_note(note);
  }
  context.console.out << table.render(context.console.width);
  auto& console = context.console;
  console.out << wrap(measured_footnote(false, false, unknown), console.width);
  if (const auto& rest = processes->unattributed_bytes; rest && *rest >= Bytes{}) {
    console.out << wrap(fmt::format("{} more are used by the kernel and its drivers", format_bytes(*rest)),
                        console.width);
  }
  console.out << warnings_text(processes->warnings, console);
  return kExitOk;
}

}  // namespace dgxmm::cli
