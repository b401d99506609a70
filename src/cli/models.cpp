#include "cli/commands.h"
#include "cli/format.h"
#include "cli/report.h"
#include "cli/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dgxmm::cli {

int run(const ModelsCommand& /*command*/, Context& context) {
  const auto models = context.api.get<dto::Models>("/models");
  if (!models) return report(context, models.error());
  if (context.json) {
    print_json(context, *models);
    return kExitOk;
  }
  for (const auto& warning : models->warnings) warn(context.console, warning);
  if (models->models.empty()) {
    note(context.console, models->folders.empty()
                              ? std::string{"no model folders are set: `model_folders` in the daemon's settings"}
                              : fmt::format("no models in {}", fmt::join(models->folders, ", ")));
    return kExitOk;
  }
  Table table{{{"NAME", Align::left, 16},
               {"FORMAT"},
               {"ARCHITECTURE", Align::left, 8},
               {"QUANT", Align::left, 6},
               {"SIZE", Align::right},
               {"CONTEXT", Align::right}}};
  for (const auto& model : models->models) {
    const auto context_length = model.training_context > 0 ? fmt::format("{}", model.training_context) : "?";
    table.add({model.name, model.format, model.architecture, model.quantization, format_bytes(model.file_bytes),
               context_length});
    if (!model.problem.empty()) table.add_note("cannot be used: " + model.problem);
  }
  context.console.out << table.render(context.console.width);
  return kExitOk;
}

}  // namespace dgxmm::cli
