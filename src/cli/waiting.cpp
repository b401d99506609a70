#include "cli/waiting.h"

#include "adapters/net/http_text.h"
#include "base/masking.h"
#include "cli/format.h"
#include "cli/interrupt.h"
#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace dgxmm::cli {
namespace {

using namespace std::chrono_literals;

// Asking again is cheap for both sides, and cannot miss an event.
constexpr auto kPoll = 200ms;
constexpr auto kSecondThought = 5s;  // for a second Ctrl-C

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
    const auto phase = deployment.queue_place     ? queue_text(*deployment.queue_place)
                       : deployment.phase.empty() ? deployment.state
                                                  : deployment.phase;
    progress.show(fmt::format("{}: {}", deployment.name, phase), duration_text(since(begin, context.clock)));
    if (interrupt.wait_for(kPoll) != Interrupt::Wish::none) {
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
  Progress progress{context.console};
  std::vector<std::string> shown;
  std::optional<SteadyTime> asked;  // when Ctrl-C was pressed
  const auto path = "/operations/" + net::percent_encode(operation.id);
  for (;;) {
    progress.clear();
    show_steps(context.console, operation, shown);
    if (operation.state != "running") return operation;
    if (operation.queue_place) progress.show(queue_text(*operation.queue_place));
    const auto wish = interrupt.wait_for(kPoll);
    const bool leaves = wish == Interrupt::Wish::leave ||
                        (asked && wish == Interrupt::Wish::none && context.clock.steady() - *asked >= kSecondThought);
    if (leaves) {
      return refuse(
          interrupted("no longer waiting: the daemon goes on with the plan",
                      fmt::format("`dgxmm events -f` shows what it does, `dgxmm cancel {}` ends it and undoes "
                                  "what it did",
                                  operation.id)));
    }
    if (wish == Interrupt::Wish::ask && !asked && !operation.cancelled_at) {
      asked = context.clock.steady();
      progress.clear();
      note(context.console,
           fmt::format("the daemon goes on with the plan; Ctrl-C again within {} s cancels it and undoes what it did",
                       kSecondThought.count()));
    } else if (wish == Interrupt::Wish::ask && asked) {
      asked.reset();
      auto cancelled = context.api.post<dto::Operation>(path + "/cancel");
      if (!cancelled && cancelled.error().code != "operation_ended") return refuse(cancelled.error());
      if (cancelled) note(context.console, "cancelled; waiting until everything is as it was");
    } else if (wish == Interrupt::Wish::ask) {  // while it is undone
      return refuse(interrupted("no longer waiting: the daemon goes on undoing the plan",
                                "`dgxmm events -f` shows what it does"));
    }
    auto now = context.api.get<dto::Operation>(path);
    if (!now) return refuse(now.error());
    operation = std::move(*now);
  }
}

std::string queue_text(std::int64_t place) { return fmt::format("waits for its turn, place {} in the queue", place); }

int finish_refused(Context& context, const dto::Problem& problem, bool yes, bool wait) {
  if (!yes || problem.code != "does_not_fit" || !problem.plans || problem.plans->plan_set.empty()) {
    return report(context, problem);
  }
  const auto& plans = problem.plans->plans;
  const auto recommended = std::ranges::find_if(plans, &dto::Plan::recommended);
  if (recommended != plans.end()) {
    ApplyCommand command;
    command.plan = fmt::format("{}/{}", problem.plans->plan_set, recommended->id);
    command.wait = wait;
    return run(command, context);
  }
  auto explained = problem;
  if (explained.detail.ends_with('.')) explained.detail.pop_back();
  explained.detail += std::ranges::any_of(plans, &dto::Plan::fits)
                          ? "; none of the plans is safe, so none was carried out"
                          : "; no plan makes it fit, so none was carried out";
  return report(context, explained);
}

int finish_start(Context& context, const dto::Deployment& deployment, bool wait) {
  for (const auto& text : deployment.notes) note(context.console, printable(text));
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
