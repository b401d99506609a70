#include "cli/commands.h"
#include "cli/format.h"
#include "cli/report.h"
#include "cli/table.h"

#include <fmt/format.h>

#include <chrono>
#include <string>

namespace dgxmm::cli {
namespace {

// Enough of a digest to tell models apart.
constexpr std::size_t kShownDigits = 12;

std::string model_of(const std::string& name, const std::string& fingerprint) {
  return name.empty() ? "weights " + fingerprint.substr(0, kShownDigits) : name;
}

}  // namespace

int run(const CalibrationCommand& /*command*/, Context& context) {
  const auto calibrations = context.api.get<dto::Calibrations>("/calibration");
  if (!calibrations) return report(context, calibrations.error());
  if (context.json) {
    print_json(context, *calibrations);
    return kExitOk;
  }
  auto& console = context.console;
  Table records{{{"MODEL"}, {"MEASURED", Align::right}, {"FORMULA", Align::right}, {"RECORDED"}}};
  for (const auto& record : calibrations->records) {
    records.add({model_of(record.model, record.fingerprint), format_bytes(record.measured_bytes),
                 format_bytes(record.formula_bytes), record.recorded_at});
    records.add_note(record.configuration);
  }
  Table floors{{{"MODEL"}, {"RAN OUT OF MEMORY AT", Align::right}, {"TIMES", Align::right}, {"RECORDED"}}};
  for (const auto& floor : calibrations->oom_floors) {
    floors.add({model_of(floor.model, floor.fingerprint), format_bytes(floor.killed_bytes),
                fmt::format("{}", floor.kills), floor.recorded_at});
    floors.add_note(floor.configuration);
    floors.add_note(floor.evidence);
  }
  if (!records.empty()) console.out << records.render(console.width);
  if (!floors.empty()) console.out << (records.empty() ? "" : "\n") << floors.render(console.width);
  Table durations{{{"MODEL"}, {"ACTION"}, {"TOOK", Align::right}, {"RECORDED"}}};
  for (const auto& duration : calibrations->durations) {
    durations.add({model_of(duration.model, duration.fingerprint),
                   duration.level ? fmt::format("{} ({})", duration.action, *duration.level) : duration.action,
                   duration_text(std::chrono::seconds{duration.took_s}), duration.recorded_at});
  }
  if (!durations.empty()) {
    console.out << (records.empty() && floors.empty() ? "" : "\n") << durations.render(console.width);
  }
  if (records.empty() && floors.empty() && durations.empty()) {
    note(console, "nothing learned yet: a deployment is measured some seconds after it is ready");
  }
  return kExitOk;
}

}  // namespace dgxmm::cli
