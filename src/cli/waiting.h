#pragma once
#include "app/dto/dto.h"
#include "cli/commands.h"

#include <cstdint>
#include <string>

namespace dgxmm::cli {

/// Watches a deployment until it serves, showing what it does. Problems: the engine's failure; `interrupted` when the
/// user left, which leaves the deployment as it is; those of the API.
Answer<dto::Deployment> wait_until_ready(Context& context, dto::Deployment deployment);

/// Watches an operation to its end, showing its steps. Ctrl-C says that the daemon goes on, and a second one within 5 s
/// cancels it. Problems: `interrupted`; those of the API.
Answer<dto::Operation> wait_until_done(Context& context, dto::Operation operation);

/// The end of `deploy` and `start`: waits when asked to, and shows the deployment. Returns the exit code.
int finish_start(Context& context, const dto::Deployment& deployment, bool wait);

/// What a refused request makes of `--yes`: the recommended plan of the problem is carried out. Without one it says so.
/// Returns the exit code.
int finish_refused(Context& context, const dto::Problem& problem, bool yes, bool wait);

/// "waits for its turn, 2nd in the queue"
std::string queue_text(std::int64_t place);

/// What a person needs to use a deployment.
void print_started(Context& context, const dto::Deployment& deployment);

dto::Problem problem_of(const dto::Failure& failure);

}  // namespace dgxmm::cli
