#include "core/engine/runtime_choice.h"

#include "base/masking.h"
#include "core/model/split_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

namespace dgxmm::engine {
namespace {

constexpr std::string_view kProcess = "process";
constexpr std::string_view kDocker = "docker";

std::unexpected<Error> bad_field(std::string field, std::string_view what, std::string hint = {}) {
  auto message = fmt::format("{}: {}", field, what);
  return fail("bad_field", std::move(message), std::move(hint), std::move(field));
}

void add_mounts(std::string_view path, std::vector<container::Mount>& mounts) {
  if (path.empty() || path == "none") return;
  const auto add = [&mounts](const std::string& file) {
    container::Mount mount{.source = file, .target = file};
    if (std::ranges::find(mounts, mount) == mounts.end()) mounts.push_back(std::move(mount));
  };
  const auto slash = path.rfind('/');
  const auto folder = slash == std::string_view::npos ? std::string_view{} : path.substr(0, slash + 1);
  const auto split = model::parse_split_name(path.substr(folder.size()), ".gguf");
  if (!split) {
    add(std::string{path});
    return;
  }
  for (std::uint32_t part = 1; part <= split->count; ++part) {
    add(std::string{folder} + model::split_file_name(*split, part));
  }
}

}  // namespace

Result<DeployRequest> with_runtime(DeployRequest request, const RuntimeDefaults& defaults) {
  if (request.runtime && *request.runtime != kProcess && *request.runtime != kDocker) {
    return bad_field("runtime", fmt::format("must be process or docker, not '{}'", printable(*request.runtime)));
  }
  if (request.image && request.image->empty()) return bad_field("image", "is empty", "leave it out");
  if (request.runtime == kProcess && request.image) {
    return bad_field("runtime", "a process has no image", "leave out one of the two, or ask for docker");
  }
  const bool by_image = request.image || (defaults.runtime != kProcess && !defaults.image.empty());
  if (!request.runtime) request.runtime = by_image || defaults.runtime == kDocker ? kDocker : kProcess;
  if (request.runtime == kProcess) return request;
  if (!request.image && !defaults.image.empty()) request.image = defaults.image;
  if (!request.image) {
    return bad_field("image", "a container needs one",
                     "name it with the request, or in the settings (`llamacpp_image`, `vllm_image`)");
  }
  return request;
}

bool in_container(const DeployRequest& request) { return request.runtime == kDocker; }

Bytes shared_memory_limit(const EngineConfig& config) {
  const auto* vllm = std::get_if<VllmConfig>(&config);
  if (vllm == nullptr) return gib(1);
  return gib(2) + gib(vllm->mm_processor_cache_gb.value_or(0));
}

std::vector<std::string> models_of(std::string_view model_path, const EngineConfig& config) {
  std::vector<std::string> models{std::string{model_path}};
  auto draft = std::visit([](const auto& engine) { return engine.draft_model; }, config);
  if (!draft.empty()) models.push_back(std::move(draft));
  return models;
}

std::vector<container::Mount> model_mounts(std::string_view model_path, const EngineConfig& config) {
  std::vector<container::Mount> mounts;
  add_mounts(model_path, mounts);
  std::visit([&](const auto& engine) { add_mounts(engine.draft_model, mounts); }, config);
  if (const auto* llamacpp = std::get_if<LlamaCppConfig>(&config)) add_mounts(llamacpp->mmproj, mounts);
  return mounts;
}

}  // namespace dgxmm::engine
