#pragma once
#include <string>
#include <string_view>

namespace dgxmm::engine {

/// A module for a Python program: "<name>.py" with `source`, in a place where it can be imported.
struct PythonModule {
  std::string_view name;
  std::string_view source;
};

/// What keeps the calls that control a vLLM in developer mode (sleeping, /collective_rpc, …) for dgxmm: an ASGI
/// middleware, loaded with vLLM's own option (`--middleware`, vllm/entrypoints/openai/cli_args.py, 0.8 to 0.32). It
/// lets everybody through to what serves models or tells how the engine is; everything else, known or not, takes the
/// secret that is in the engine's environment.
extern const PythonModule kGuard;

/// PYTHONPATH with that folder first, before what it was.
std::string python_path(std::string_view folder, std::string_view before);

inline constexpr std::string_view kGuardOption = "dgxmm_guard.Guard";     ///< of `--middleware`
inline constexpr std::string_view kGuardVariable = "DGXMM_GUARD_SECRET";  ///< in the engine's environment
inline constexpr std::string_view kGuardHeader = "X-Dgxmm-Secret";        ///< of a call that is dgxmm's

}  // namespace dgxmm::engine
