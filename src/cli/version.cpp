#include "base/masking.h"
#include "cli/commands.h"
#include "cli/report.h"

#include <fmt/format.h>

namespace dgxmm::cli {
namespace {

std::string text_of(const dto::Version& version) {
  return printable(version.commit.empty() ? version.version : fmt::format("{} ({})", version.version, version.commit));
}

}  // namespace

int run(const VersionCommand& /*command*/, Context& context) {
  const dto::Version own{.version = context.composition.version, .commit = context.composition.commit};
  if (context.json) {
    print_json(context, own);
    return kExitOk;
  }
  context.console.out << fmt::format("dgxmm {}\n", text_of(own));
  const auto daemon = context.api.get<dto::Version>("/version");
  if (daemon) {
    context.console.out << fmt::format("daemon at {}: {}\n", context.api.address(), text_of(*daemon));
  } else {
    note(context.console, daemon.error().detail);
  }
  return kExitOk;
}

}  // namespace dgxmm::cli
