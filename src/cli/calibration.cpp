#include "adapters/net/http_text.h"
#include "app/dto/convert.h"
#include "base/masking.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/report.h"
#include "cli/table.h"

#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::cli {
namespace {

// Enough of a digest to tell models apart.
constexpr std::size_t kShownDigits = 12;

std::string model_of(const std::string& name, const std::string& fingerprint) {
  return name.empty() ? "weights " + fingerprint.substr(0, kShownDigits) : name;
}

int show(Context& context) {
  const auto calibrations = context.api.get<dto::Calibrations>("/calibration");
  if (!calibrations) return report(context, calibrations.error());
  if (context.json) {
    print_json(context, *calibrations);
    return kExitOk;
  }
  auto& console = context.console;
  Table records{{{"ID"}, {"MODEL"}, {"MEASURED", Align::right}, {"FORMULA", Align::right}, {"RECORDED"}}};
  for (const auto& record : calibrations->records) {
    records.add({record.id, model_of(record.model, record.fingerprint), format_bytes(record.measured_bytes),
                 format_bytes(record.formula_bytes), record.recorded_at});
    records.add_note(record.configuration);
  }
  Table floors{{{"ID"}, {"MODEL"}, {"RAN OUT OF MEMORY AT", Align::right}, {"TIMES", Align::right}, {"RECORDED"}}};
  for (const auto& floor : calibrations->oom_floors) {
    floors.add({floor.id, model_of(floor.model, floor.fingerprint), format_bytes(floor.killed_bytes),
                fmt::format("{}", floor.kills), floor.recorded_at});
    floors.add_note(floor.configuration);
    floors.add_note(floor.evidence);
  }
  if (!records.empty()) console.out << records.render(console.width);
  if (!floors.empty()) console.out << (records.empty() ? "" : "\n") << floors.render(console.width);
  Table durations{{{"ID"}, {"MODEL"}, {"ACTION"}, {"TOOK", Align::right}, {"RECORDED"}}};
  for (const auto& duration : calibrations->durations) {
    durations.add({duration.id, model_of(duration.model, duration.fingerprint),
                   duration.level ? fmt::format("{} ({})", duration.action, *duration.level) : duration.action,
                   duration_text(std::chrono::seconds{duration.took_s}), duration.recorded_at});
  }
  if (!durations.empty()) {
    console.out << (records.empty() && floors.empty() ? "" : "\n") << durations.render(console.width);
  }
  Table asleep{{{"ID"}, {"MODEL"}, {"LEVEL", Align::right}, {"ASLEEP", Align::right}, {"RECORDED"}}};
  for (const auto& record : calibrations->asleep) {
    asleep.add({record.id, model_of(record.model, record.fingerprint), fmt::format("{}", record.level),
                format_bytes(record.asleep_bytes), record.recorded_at});
    asleep.add_note(record.configuration);
  }
  if (!asleep.empty()) console.out << "\n" << asleep.render(console.width);
  if (records.empty() && floors.empty() && durations.empty() && asleep.empty()) {
    note(console, "nothing learned yet: a deployment is measured some seconds after it is ready");
  }
  return kExitOk;
}

/// Forgetting a size that ran out of memory is asked for in words of the command line, not of the API.
dto::Problem with_flag(dto::Problem problem) {
  if (problem.code == "oom_floor_kept")
    problem.hint = "add --oom-floors to forget it all the same, when its cause is gone";
  return problem;
}

}  // namespace

int run(const CalibrationCommand& command, Context& context) {
  if (command.forget.empty()) return show(context);
  std::vector<dto::Calibrations> forgotten;
  int exit_code = kExitOk;
  for (const auto& id : command.forget) {
    auto those = context.api.remove<dto::Calibrations>(
        fmt::format("/calibration/{}{}", net::percent_encode(id), command.oom_floors_too ? "?oom_floors=1" : ""));
    if (!those) {
      exit_code = report(context, with_flag(those.error()));
      if (context.json) return exit_code;
      continue;
    }
    if (!context.json) context.console.out << printable(dto::forgotten_text(*those)) << '\n';
    forgotten.push_back(std::move(*those));
  }
  if (context.json) print_json(context, forgotten);
  return exit_code;
}

}  // namespace dgxmm::cli
