#pragma once
#include "app/dto/dto.h"
#include "cli/commands.h"

namespace dgxmm::cli {

/// Watches a deployment until it serves, showing what it does. Problems: the engine's failure; `interrupted` when the
/// user left, which leaves the deployment as it is; those of the API.
Answer<dto::Deployment> wait_until_ready(Context& context, dto::Deployment deployment);

/// Watches an operation to its end, showing its steps. Problems: `interrupted`; those of the API.
Answer<dto::Operation> wait_until_done(Context& context, dto::Operation operation);

/// The end of `deploy` and `start`: waits when asked to, and shows the deployment. Returns the exit code.
int finish_start(Context& context, const dto::Deployment& deployment, bool wait);

/// What a person needs to use a deployment.
void print_started(Context& context, const dto::Deployment& deployment);

dto::Problem problem_of(const dto::Failure& failure);

}  // namespace dgxmm::cli
