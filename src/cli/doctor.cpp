#include "base/masking.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::cli {
namespace {

using State = host::Fact::State;

host::Fact daemon(Context& context) {
  const auto answer = context.api.get<dto::Version>("/version");
  if (answer)
    return {
        .code = "daemon", .name = "daemon", .value = fmt::format("{} at {}", answer->version, context.api.address())};
  const auto advice = answer.error().hint.empty() ? std::string{"start it: dgxmm serve"} : answer.error().hint;
  return {"daemon", "daemon", answer.error().detail, State::warning, advice};
}

Colour colour_of(State state) {
  return state == State::good ? Colour::green : state == State::warning ? Colour::red : Colour::yellow;
}

std::string_view mark_of(State state) {
  switch (state) {
    case State::good: return "ok";
    case State::warning: return "!!";
    case State::unknown: return "??";
  }
  return "??";
}

}  // namespace

int run(const DoctorCommand& /*command*/, Context& context) {
  auto facts = context.composition.examine(context.settings);
  facts.push_back(daemon(context));
  const auto bad = std::ranges::any_of(facts, [](const auto& fact) { return fact.state == State::warning; });
  if (context.json) {
    dto::Doctor document;
    for (const auto& fact : facts) {
      document.facts.push_back({fact.code, fact.name, fact.value, std::string{host::name_of(fact.state)}, fact.advice});
    }
    print_json(context, document);
    return bad ? kExitError : kExitOk;
  }
  auto& console = context.console;
  std::size_t widest = 0;
  for (const auto& fact : facts) widest = std::max(widest, fact.name.size());
  for (const auto& fact : facts) {
    const auto label = fmt::format("{}  {:{}}  ", mark_of(fact.state), fact.name, widest);
    auto line = wrap_beside(label, printable(fact.value), console.width);
    // The mark alone is coloured, after the line was broken by its width.
    line.replace(0, 2, paint(console.colour, colour_of(fact.state), line.substr(0, 2)));
    console.out << line;
    if (!fact.advice.empty()) console.out << wrap(printable(fact.advice), console.width, label.size());
  }
  return bad ? kExitError : kExitOk;
}

}  // namespace dgxmm::cli
