#include "cli/commands.h"
#include "cli/format.h"
#include "cli/report.h"
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace dgxmm::cli {
namespace {

bool has_ended(const dto::Deployment& deployment) {
  return deployment.state == "stopped" || deployment.state == "failed";
}

/// It gave way for a plan that failed: somebody has to see to it.
bool is_missed(const dto::Deployment& deployment) {
  return deployment.failure && deployment.failure->code == dto::kNotBroughtBack;
}

bool is_hidden(const dto::Deployment& deployment) { return has_ended(deployment) && !is_missed(deployment); }

std::string idle_text(const dto::Deployment& deployment, WallTime now) {
  if (deployment.state != "ready") return "-";
  if (!deployment.busy) return "?";
  if (*deployment.busy) return "busy";
  const auto since = deployment.idle_since ? parse_time(*deployment.idle_since) : std::nullopt;
  return since ? duration_text(std::chrono::duration_cast<std::chrono::seconds>(now - *since)) : "?";
}

std::string state_text(const dto::Deployment& deployment) {
  if (deployment.queue_place) return fmt::format("{} (#{})", deployment.state, *deployment.queue_place);
  if (!deployment.sleep_level) return deployment.state;
  return fmt::format("{} ({})", deployment.state, *deployment.sleep_level);
}

void print_table(Context& context, const std::vector<dto::Deployment>& deployments) {
  Table table{{{"ID", Align::right},
               {"NAME", Align::left, 10},
               {"STATE"},
               {"MODEL", Align::left, 10},
               {"RESERVED", Align::right},
               {"MEASURED", Align::right},
               {"PORT", Align::right},
               {"IDLE", Align::right}}};
  bool approximate = false;
  bool incomplete = false;
  bool unknown = false;
  for (const auto& deployment : deployments) {
    const auto& measured = deployment.measured;
    // What has ended holds nothing; what runs and was not measured holds an unknown amount.
    const bool is_unknown = !measured && !has_ended(deployment);
    const auto idle = idle_text(deployment, context.clock.wall());
    approximate = approximate || (measured && measured->approximate);
    incomplete = incomplete || (measured && !measured->complete);
    unknown = unknown || is_unknown || idle == "?";
    table.add({fmt::format("{}", deployment.id.value), deployment.name, state_text(deployment), deployment.model_name,
               format_bytes(deployment.reserved_bytes),
               measured     ? measured_text(*measured)
               : is_unknown ? std::string{"?"}
                            : std::string{"-"},
               has_ended(deployment) ? std::string{"-"} : port_text(deployment.url), idle});
    if (const auto wake = wake_text(deployment); !wake.empty()) table.add_note(wake);
    if (deployment.failure) table.add_note(deployment.failure->message);
    if (is_missed(deployment)) table.add_note(deployment.failure->hint);
    if (deployment.outdated) {
      table.add_note(fmt::format("outdated: {}; stop and start it to replace it", *deployment.outdated));
    }
  }
  context.console.out << table.render(context.console.width);
  const bool queued = std::ranges::any_of(deployments, [](const auto& one) { return one.queue_place.has_value(); });
  if (queued) {
    context.console.out << wrap("# its place among those that wait for others to load (`dgxmm queue`)",
                                context.console.width);
  }
  const auto footnote = measured_footnote(approximate, incomplete, unknown);
  context.console.out << wrap(footnote, context.console.width);
}

}  // namespace

int run(const PsCommand& command, Context& context) {
  auto deployments = context.api.get<std::vector<dto::Deployment>>("/deployments");
  if (!deployments) return report(context, deployments.error());
  const auto ended = command.all ? 0 : std::erase_if(*deployments, is_hidden);
  if (context.json) {
    print_json(context, *deployments);
    return kExitOk;
  }
  if (!deployments->empty()) print_table(context, *deployments);
  // What the daemon warns of is about the host, and so about all of them.
  if (const auto budget = context.api.get<dto::Budget>("/budget")) {
    context.console.out << warnings_text(budget->warnings, context.console);
  }
  if (ended > 0) {
    note(context.console, fmt::format("{} ended: `dgxmm ps --all` shows {}", ended, ended == 1 ? "it" : "them"));
  } else if (deployments->empty()) {
    note(context.console, "no deployments: `dgxmm deploy MODEL` starts one");
  }
  return kExitOk;
}

}  // namespace dgxmm::cli
