#include "base/masking.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/offline.h"
#include "cli/report.h"
#include "cli/table.h"

#include <fmt/format.h>

#include <utility>

namespace dgxmm::cli {
namespace {

Answer<dto::Budget> ask(Context& context) {
  auto answer = context.api.get<dto::Budget>("/budget");
  if (answer || answer.error().code != kNoDaemon || !context.api.is_local()) return answer;
  note(context.console, answer.error().detail + ": direct reading, no deployments are known");
  const auto parts = context.composition.offline();
  auto budget = offline_budget(*parts.host, context.settings, context.clock.wall());
  if (!budget) return refuse(budget.error());
  return std::move(*budget);
}

/// Not a quantity to add: it is in managed and external already.
void row_of_gpu(Table& table, const dto::Budget& budget) {
  std::string how = "of managed and external: what processes hold on the GPU, by NVML";
  if (budget.gpu_age_s > 5) how += fmt::format(", {} s ago", *budget.gpu_age_s);
  if (!budget.gpu_bytes && budget.gpu_estimate_bytes) {
    how = fmt::format("about {} by what /proc/meminfo leaves out", format_bytes(*budget.gpu_estimate_bytes));
  }
  table.add({"gpu", size_text(budget.gpu_bytes, budget.gpu_at_least_bytes), std::move(how)});
}

std::string quantities(const dto::Budget& budget, std::size_t width) {
  Table table{{{"QUANTITY"}, {"SIZE", Align::right}, {"HOW", Align::left, 20}}};
  const auto row = [&table](std::string name, Bytes size, std::string how) {
    table.add({std::move(name), format_bytes(size), std::move(how)});
  };
  row("total", budget.mem_total_bytes, "MemTotal");
  row("safety margin", budget.safety_margin_bytes, "setting safety_margin_gib");
  row("os reserve", budget.os_reserve_bytes, "setting os_reserve_gib");
  row("usable", budget.usable_bytes, "total - safety margin - os reserve");
  row("committed", budget.committed_bytes, "promised to the deployments, or held by them");
  row("used", budget.used_bytes, fmt::format("total - MemAvailable ({})", format_bytes(budget.mem_available_bytes)));
  row("managed", budget.measured_by_managed_bytes, "measured in the deployments");
  row("ready gap", budget.ready_gap_bytes, "reserved above measured, where ready");
  row("external", budget.external_bytes, "used - managed - ready gap, at least 0");
  if (budget.host_class != "none" && !budget.host_class.empty()) row_of_gpu(table, budget);
  row("free for new", budget.free_for_new_bytes, "usable - committed - external");
  return table.render(width);
}

std::string deployments(const dto::Budget& budget, std::size_t width) {
  Table table{{{"ID", Align::right},
               {"NAME", Align::left, 12},
               {"STATE"},
               {"RESERVED", Align::right},
               {"MEASURED", Align::right}}};
  bool approximate = false;
  bool incomplete = false;
  bool unknown = false;
  for (const auto& deployment : budget.deployments) {
    const auto& measured = deployment.measured;
    approximate = approximate || (measured && measured->approximate);
    incomplete = incomplete || (measured && !measured->complete);
    unknown = unknown || !measured;
    table.add({fmt::format("{}", deployment.id.value), deployment.name, deployment.state,
               format_bytes(deployment.reserved_bytes), measured ? measured_text(*measured) : "?"});
  }
  if (table.empty()) return {};
  const auto footnote = measured_footnote(approximate, incomplete, unknown);
  return "\n" + table.render(width) + wrap(footnote, width);
}

}  // namespace

int run(const BudgetCommand& /*command*/, Context& context) {
  const auto budget = ask(context);
  if (!budget) return report(context, budget.error());
  if (context.json) {
    print_json(context, *budget);
    return kExitOk;
  }
  auto& console = context.console;
  if (budget->free_for_new_bytes < Bytes{0}) {
    console.out << paint(console.colour, Colour::red,
                         fmt::format("over-committed by {}", format_bytes(-budget->free_for_new_bytes)));
  } else {
    console.out << paint(console.colour, Colour::bold,
                         fmt::format("{} free for new models", format_bytes(budget->free_for_new_bytes)));
  }
  console.out << "\n\n" << quantities(*budget, console.width) << deployments(*budget, console.width);
  if (!budget->host_class.empty()) {
    console.out << wrap(printable(fmt::format("host class {}: {}", budget->host_class, budget->host_class_evidence)),
                        console.width);
  }
  console.out << warnings_text(budget->warnings, console);
  return kExitOk;
}

}  // namespace dgxmm::cli
