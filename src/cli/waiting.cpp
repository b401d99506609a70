#include "cli/waiting.h"

#include "adapters/net/http_text.h"
#include "base/masking.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/report.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace dgxmm::cli {
namespace {

using namespace std::chrono_literals;

// Asking again is cheap for both sides, and cannot miss an event.
constexpr auto kPoll = 200ms;

std::chrono::seconds since(SteadyTime begin, const Clock& clock) {
  return std::chrono::duration_cast<std::chrono::seconds>(clock.steady() - begin);
}

bool is_on_its_way(const std::string& state) { return state == "starting" || state == "loading"; }

dto::Problem why_not_ready(const dto::Deployment& deployment) {
  if (deployment.failure) return problem_of(*deployment.failure);
  return problem_of(Error{"not_ready",
                          fmt::format("{} is {}", deployment.name, deployment.state),
                          fmt::format("`dgxmm logs {}` may say why", deployment.name),
                          {}});
}

dto::Problem interrupted(std::string what_goes_on, std::string hint) {
  return problem_of(Error{"interrupted", std::move(what_goes_on), std::move(hint), {}});
}

/// The steps whose state has changed since they were shown.
void show_steps(Console& console, const dto::Operation& operation, std::vector<std::string>& shown) {
  shown.resize(operation.steps.size(), "waiting");
  for (std::size_t i = 0; i < operation.steps.size(); ++i) {
    const auto& step = operation.steps[i];
    if (step.state == shown[i]) continue;
    shown[i] = step.state;
    const auto message = step.message.empty() ? std::string{} : fmt::format(" ({})", step.message);
    console.err << printable(fmt::format("{}: {}{}", step.what, words(step.state), message)) << '\n' << std::flush;
  }
}

}  // namespace

dto::Problem problem_of(const dto::Failure& failure) {
  auto problem = problem_of(Error{failure.code, failure.message, failure.hint, {}});
  problem.failure = failure;
  return problem;
}

Answer<dto::Deployment> wait_until_ready(Context& context, dto::Deployment deployment) {
  const Interrupt interrupt;
  Progress progress{context.console};
  const auto begin = context.clock.steady();
  const auto path = fmt::format("/deployments/{}", deployment.id.value);
  while (is_on_its_way(deployment.state)) {
    const auto& phase = deployment.phase.empty() ? deployment.state : deployment.phase;
    progress.show(fmt::format("{}: {}", deployment.name, phase), duration_text(since(begin, context.clock)));
    if (interrupt.wait_for(kPoll)) {
      return refuse(interrupted(fmt::format("no longer waiting: {} goes on loading", deployment.name),
                                fmt::format("`dgxmm ps` shows it, `dgxmm stop {}` ends it", deployment.name)));
    }
    auto now = context.api.get<dto::Deployment>(path);
    if (!now) return refuse(now.error());
    deployment = std::move(*now);
  }
  if (deployment.state != "ready") return refuse(why_not_ready(deployment));
  return deployment;
}

Answer<dto::Operation> wait_until_done(Context& context, dto::Operation operation) {
  const Interrupt interrupt;
  std::vector<std::string> shown;
  const auto path = "/operations/" + net::percent_encode(operation.id);
  for (;;) {
    show_steps(context.console, operation, shown);
    if (operation.state != "running") return operation;
    if (interrupt.wait_for(kPoll)) {
      return refuse(
          interrupted("no longer waiting: the daemon goes on with the plan", "`dgxmm events -f` shows what it does"));
    }
    auto now = context.api.get<dto::Operation>(path);
    if (!now) return refuse(now.error());
    operation = std::move(*now);
  }
}

int finish_start(Context& context, const dto::Deployment& deployment, bool wait) {
  if (!wait) {
    print_started(context, deployment);
    return kExitOk;
  }
  const auto ready = wait_until_ready(context, deployment);
  if (!ready) return report(context, ready.error());
  print_started(context, *ready);
  return kExitOk;
}

void print_started(Context& context, const dto::Deployment& deployment) {
  if (context.json) {
    print_json(context, deployment);
    return;
  }
  auto& out = context.console.out;
  const auto name = printable(deployment.name);
  out << paint(context.console.colour, Colour::green, fmt::format("{} is {}", name, printable(deployment.state)))
      << fmt::format(" (id {})\n", deployment.id.value);
  out << printable(fmt::format("  {}, model {}", deployment.url, deployment.served_name)) << '\n';
  out << fmt::format("  reserved {}", format_bytes(deployment.reserved_bytes));
  if (deployment.measured) out << ", measured " << measured_text(*deployment.measured);
  out << '\n';
}

}  // namespace dgxmm::cli
