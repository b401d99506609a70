#include "app/dto/fit.h"

#include "adapters/net/http_text.h"
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

constexpr std::string_view kFits = "fits";
constexpr std::string_view kFitsAfter = "fits_after";

bool fits(const dto::Fit& fit) { return fit.verdict == kFits; }

/// Asks the daemon, until it turns out that there is none.
class Oracle {
 public:
  Oracle(Context& context, const FitCommand& command, std::optional<dto::GivenHost> given)
      : context_(context),
        given_(given) {
    if (command.host) path_ += "?host=" + net::percent_encode(*command.host);
    if (command.free) path_ += "?free=" + net::percent_encode(*command.free);
  }

  Answer<dto::Fit> ask(const engine::DeployRequest& request) {
    if (!offline_) {
      auto answer = context_.api.post<dto::Fit>(path_, to_json(request));
      if (answer || answer.error().code != kNoDaemon || !context_.api.is_local()) return answer;
      note(context_.console, answer.error().detail + ": direct reading, nothing learned yet is applied");
      offline_ = context_.composition.offline();
    }
    auto fit = offline_fit(*offline_, context_.settings, request, given_, context_.clock.wall());
    if (!fit) return refuse(fit.error());
    return std::move(*fit);
  }

 private:
  Context& context_;
  std::optional<dto::GivenHost> given_;
  std::string path_ = "/fit";
  std::optional<OfflineParts> offline_;
};

void print_verdict(Console& console, const dto::Fit& fit) {
  const auto figures = verdict_text(fit.total_bytes, fit.free_for_new_bytes);
  const bool after = fit.verdict == kFitsAfter && fit.after;
  const auto colour = fits(fit) ? Colour::green : after ? Colour::yellow : Colour::red;
  const auto verdict = fits(fit) ? std::string{"fits:"} : after ? "fits after " + fit.after->id + ":" : "does not fit:";
  console.out << paint(console.colour, colour, printable(verdict)) << ' ' << figures << '\n';
  if (after) console.out << wrap(printable(fit.after->title), console.width);
  for (const auto& reason : after ? fit.after->unsafe : std::vector<std::string>{}) {
    console.out << wrap(printable("unsafe: " + reason), console.width);
  }
}

std::string tokens_text(const std::optional<std::int64_t>& tokens) {
  return tokens ? fmt::format("{} tokens", *tokens) : std::string{"none fits"};
}

/// What would move it: other types of cache, other quantizations, and the ends of context and sequences.
void print_reach(Console& console, const dto::Fit& fit) {
  auto& out = console.out;
  const auto& reach = fit.reach;
  Table table{{{"INSTEAD", Align::left, 20}, {"NEEDS", Align::right}, {"FITS"}, {"LONGEST CONTEXT", Align::right}}};
  for (const auto& row : reach.settings) {
    if (row.as_asked || row.needed_bytes == fit.total_bytes) continue;
    table.add({row.name, format_bytes(row.needed_bytes), row.fits ? "yes" : "no", tokens_text(row.longest_context)});
  }
  for (const auto& row : reach.quantizations) {
    table.add({fmt::format("{} ({})", row.name, row.quantization), format_bytes(row.needed_bytes),
               row.fits ? "yes" : "no", tokens_text(row.longest_context)});
  }
  if (const auto& longest = reach.longest_context) {
    out << wrap(fmt::format("longest context: {} tokens{}, needs {}", longest->value,
                            reach.whole_context ? ", all of it" : "", format_bytes(longest->needed_bytes)),
                console.width);
  } else {
    out << "longest context: none fits\n";
  }
  if (const auto& most = reach.most_sequences) {
    out << wrap(fmt::format("most sequences: {} that fill their context at once, needs {}", most->value,
                            format_bytes(most->needed_bytes)),
                console.width);
  } else {
    out << "most sequences: not even one fits with this context\n";
  }
  if (!table.empty()) out << '\n' << table.render(console.width);
}

void print_one(Console& console, const dto::Fit& fit) {
  auto& out = console.out;
  print_verdict(console, fit);
  Table table{{{"PART"}, {"SIZE", Align::right}, {"SOURCE"}, {"DETAIL", Align::left, 16, true}}};
  for (const auto& part : fit.parts) {
    table.add({part.name, format_bytes(part.bytes), words(part.source), part.detail});
  }
  table.add({"total", format_bytes(fit.total_bytes), {}, fit.total_source});
  out << '\n' << table.render(console.width) << '\n';
  out << wrap(printable(confidence_text(fit.confidence)), console.width);
  if (!fit.missing_fields.empty()) {
    out << wrap(printable(fmt::format("not certain from the model's files: {}", fmt::join(fit.missing_fields, ", "))),
                console.width);
  }
  for (const auto& contradiction : fit.contradictions) {
    out << wrap(printable("contradiction in the model's files: " + contradiction), console.width);
  }
  for (const auto& text : fit.notes) out << wrap(printable("note: " + text), console.width);
  out << wrap(printable(config_text(fit.config)), console.width) << '\n';
  print_reach(console, fit);
}

void print_several(Console& console, const std::vector<std::string>& models,
                   const std::vector<Answer<dto::Fit>>& answers) {
  Table table{{{"MODEL", Align::left, 8},
               {"VERDICT"},
               {"NEEDS", Align::right},
               {"LEAVES", Align::right},
               {"MAX CONTEXT", Align::right},
               {"CONFIDENCE", Align::left, 4}}};
  std::optional<Bytes> free;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (!answers[i]) {
      table.add({models[i], "error"});
      table.add_note(answers[i].error().detail);
      if (!answers[i].error().hint.empty()) table.add_note("hint: " + answers[i].error().hint);
      continue;
    }
    const auto& fit = *answers[i];
    const auto left = fits(fit) ? format_bytes(fit.left_bytes) : "short " + format_bytes(fit.shortfall_bytes);
    const auto& longest = fit.reach.longest_context;
    const bool after = fit.verdict == kFitsAfter && fit.after;
    table.add({fit.model.name, after ? "fits after " + fit.after->id : words(fit.verdict),
               format_bytes(fit.total_bytes), left, longest ? fmt::format("{}", longest->value) : "none fits",
               fit.confidence});
    free = fit.free_for_new_bytes;
  }
  console.out << table.render(console.width);
  if (!free) return;
  console.out << (*free < Bytes{} ? fmt::format("the host is over-committed by {}\n", format_bytes(-*free))
                                  : fmt::format("each on its own, of {} free\n", format_bytes(*free)));
}

/// A script gets every model too, each with its answer or with what is wrong.
std::vector<dto::FitOfModel> entries(const std::vector<std::string>& models,
                                     const std::vector<Answer<dto::Fit>>& answers) {
  std::vector<dto::FitOfModel> entries;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    dto::FitOfModel entry{.model = models[i], .fit = {}, .error = {}};
    if (answers[i]) {
      entry.fit = *answers[i];
    } else {
      entry.error = answers[i].error();
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace

int run(const FitCommand& command, Context& context) {
  const auto given = dto::read_given_host(command.host, command.free);
  if (!given) return report(context, problem_of(given.error()));
  Oracle oracle{context, command, *given};
  const bool one = command.models.size() == 1;
  std::vector<Answer<dto::Fit>> answers;
  bool all_fit = true;
  int exit_code = kExitOk;
  for (const auto& model : command.models) {
    auto request = command.request;
    request.model = model;
    request = with_whole_paths(std::move(request));
    answers.push_back(oracle.ask(request));
    if (const auto& answer = answers.back()) {
      all_fit = all_fit && fits(*answer);
    } else {
      if (one) return report(context, answer.error());
      exit_code = exit_code_of(answer.error());
    }
  }
  if (one) {
    context.json ? print_json(context, *answers.front()) : print_one(context.console, *answers.front());
  } else if (context.json) {
    print_json(context, entries(command.models, answers));
  } else {
    print_several(context.console, command.models, answers);
  }
  if (exit_code != kExitOk) return exit_code;
  return all_fit ? kExitOk : kExitDoesNotFit;
}

}  // namespace dgxmm::cli
