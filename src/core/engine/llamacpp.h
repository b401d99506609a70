#pragma once
#include "core/engine/engine.h"

#include <memory>

namespace dgxmm::engine {

/// `spec.config` holds a LlamaCppConfig.
Command make_llamacpp_command(const LaunchSpec& spec);

/// Understands the lines of llama-server from 2024 to build 11669, with and without its time prefix. Buffer lines are
/// printed from `--log-verbosity 4` on. `failure` may name a fault that the engine survived: ask it for an engine that
/// has ended.
std::unique_ptr<LogReader> make_llamacpp_log_reader();

/// `llamacpp:requests_processing` and `llamacpp:requests_deferred`.
Activity parse_llamacpp_activity(std::string_view metrics_text);

}  // namespace dgxmm::engine
