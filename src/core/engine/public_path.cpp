#include "core/engine/public_path.h"

#include <algorithm>
#include <array>

namespace dgxmm::engine {
namespace {

// What vLLM serves models by is below these. Its calls for developers are at the root, in 0.10.2 to 0.32
// (vllm/entrypoints: serve/dev, rl/online), six at first, thirty by now: so what is not known is refused.
constexpr std::array<std::string_view, 2> kFolders{"/v1/", "/v2/"};
constexpr std::array<std::string_view, 13> kPaths{"/health",   "/ping",        "/version",     "/load",     "/metrics",
                                                  "/tokenize", "/detokenize",  "/pooling",     "/classify", "/score",
                                                  "/rerank",   "/invocations", "/openapi.json"};

/// Stands for itself, whoever reads it: never escaped, never a separator of anything but folders.
constexpr bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view{"-._~/"}.contains(c);
}

bool has_odd_segment(std::string_view path) {
  path.remove_prefix(1);
  for (;;) {
    const auto end = std::min(path.find('/'), path.size());
    const auto segment = path.substr(0, end);
    // An empty last one is a folder's name with its slash.
    if (segment == "." || segment == ".." || (segment.empty() && end < path.size())) return true;
    if (end == path.size()) return false;
    path.remove_prefix(end + 1);
  }
}

}  // namespace

Result<void> check_public_path(std::string_view target) {
  const auto path = target.substr(0, target.find('?'));
  if (!path.starts_with('/') || !std::ranges::all_of(path, is_plain) || has_odd_segment(path)) {
    return fail("bad_request", "the path of a request to a model is plain: no escapes, no empty or dotted folders");
  }
  const bool public_folder = std::ranges::any_of(kFolders, [&](auto folder) { return path.starts_with(folder); });
  if (public_folder || std::ranges::find(kPaths, path) != kPaths.end()) return {};
  return fail("path_not_passed_on", "only calls that serve models are passed on to this engine");
}

}  // namespace dgxmm::engine
