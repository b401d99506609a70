#include "base/masking.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/offline.h"
#include "cli/report.h"
#include "cli/table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace dgxmm::cli {
namespace {

bool fits(const dto::Fit& fit) { return fit.verdict == "fits"; }

/// Asks the daemon, until it turns out that there is none.
class Oracle {
 public:
  explicit Oracle(Context& context) : context_(context) {}

  Answer<dto::Fit> ask(const engine::DeployRequest& request) {
    if (!offline_) {
      auto answer = context_.api.post<dto::Fit>("/fit", to_json(request));
      if (answer || answer.error().code != kNoDaemon || !context_.api.is_local()) return answer;
      note(context_.console, answer.error().detail + ": direct reading, nothing learned yet is applied");
      offline_ = context_.composition.offline();
    }
    auto fit = offline_fit(*offline_, context_.settings, request, context_.clock.wall());
    if (!fit) return refuse(fit.error());
    return std::move(*fit);
  }

 private:
  Context& context_;
  std::optional<OfflineParts> offline_;
};

void print_verdict(Console& console, const dto::Fit& fit) {
  console.out << paint(console.colour, fits(fit) ? Colour::green : Colour::red, fits(fit) ? "fits:" : "does not fit:")
              << ' ' << verdict_text(fit.total_bytes, fit.free_for_new_bytes) << '\n';
}

void print_one(Console& console, const dto::Fit& fit) {
  auto& out = console.out;
  print_verdict(console, fit);
  Table table{{{"PART"}, {"SIZE", Align::right}, {"SOURCE"}, {"DETAIL", Align::left, 16}}};
  for (const auto& part : fit.parts) {
    table.add({part.name, format_bytes(part.bytes), words(part.source), part.detail});
  }
  table.add({"total", format_bytes(fit.total_bytes), {}, fit.total_source});
  out << '\n' << table.render(console.width) << '\n';
  out << wrap(printable(confidence_text(fit.confidence)), console.width);
  if (!fit.missing_fields.empty()) {
    out << wrap(printable(fmt::format("missing in the model's files: {}", fmt::join(fit.missing_fields, ", "))),
                console.width);
  }
  out << wrap(printable(config_text(fit.config)), console.width);
}

void print_several(Console& console, const std::vector<dto::Fit>& fits_of_all) {
  Table table{
      {{"MODEL", Align::left, 16}, {"VERDICT"}, {"NEEDS", Align::right}, {"LEAVES", Align::right}, {"CONFIDENCE"}}};
  for (const auto& fit : fits_of_all) {
    const auto left = fits(fit) ? format_bytes(fit.left_bytes) : "short " + format_bytes(fit.shortfall_bytes);
    table.add({fit.model.name, words(fit.verdict), format_bytes(fit.total_bytes), left, fit.confidence});
  }
  console.out << table.render(console.width);
  console.out << fmt::format("each on its own, of {} free\n", format_bytes(fits_of_all.front().free_for_new_bytes));
}

}  // namespace

int run(const FitCommand& command, Context& context) {
  Oracle oracle{context};
  std::vector<dto::Fit> answers;
  int exit_code = kExitOk;
  for (const auto& model : command.models) {
    auto request = command.request;
    request.model = model_argument(model);
    auto fit = oracle.ask(request);
    if (fit) {
      answers.push_back(std::move(*fit));
      continue;
    }
    // A script gets one document, the problem; a person gets the other models' answers as well.
    exit_code = report(context, fit.error());
    if (context.json) return exit_code;
  }
  const bool one = command.models.size() == 1;
  if (context.json) {
    one ? print_json(context, answers.front()) : print_json(context, answers);
  } else if (!answers.empty()) {
    one ? print_one(context.console, answers.front()) : print_several(context.console, answers);
  }
  if (exit_code != kExitOk) return exit_code;
  return std::ranges::all_of(answers, fits) ? kExitOk : kExitDoesNotFit;
}

}  // namespace dgxmm::cli
