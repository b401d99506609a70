#include "cli/commands.h"
#include "cli/report.h"

namespace dgxmm::cli {

int run(const ScenarioCommand& command, Context& context) {
  const auto scenario = command.request.model.empty()
                            ? context.api.get_text("/scenario")
                            : context.api.post_text("/scenario", to_json(with_whole_paths(command.request)));
  if (!scenario) return report(context, scenario.error());
  context.console.out << *scenario << '\n';
  return kExitOk;
}

}  // namespace dgxmm::cli
