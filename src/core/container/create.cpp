#include "core/container/create.h"

#include "base/json_codec.h"

#include <fmt/format.h>

#include <algorithm>

namespace dgxmm::container {
namespace {

namespace bj = json::bj;

// The engine rather than sshd, when the host itself runs out.
constexpr int kOomScoreAdjustment = 500;
constexpr std::string_view kCdiVendor = "nvidia.com/gpu=";
constexpr std::string_view kCdiAll = "nvidia.com/gpu=all";
constexpr std::string_view kNvidiaRuntime = "nvidia";

bj::array to_array(const std::vector<std::string>& items) {
  bj::array array;
  for (const auto& item : items) array.emplace_back(valid_utf8(item));
  return array;
}

bj::object cache_mount(const CreateRequest& request) {
  return {{"Type", "volume"},
          {"Source", request.owner + "cache"},
          {"Target", request.settings.cache_folder},
          {"VolumeOptions", {{"NoCopy", true}, {"Labels", {{kOwnerLabel, request.owner}}}}}};
}

bj::object mount_of(const Mount& mount) {
  return {{"Type", "bind"},
          {"Source", mount.source},
          {"Target", mount.target},
          {"ReadOnly", true},
          {"BindOptions", {{"Propagation", "rprivate"}}}};
}

void add_gpu(GpuAccess access, bj::object& host, bj::array& environment) {
  if (access == GpuAccess::cdi) {
    host["DeviceRequests"] = bj::array{bj::object{{"Driver", "cdi"}, {"DeviceIDs", bj::array{kCdiAll}}}};
  } else if (access == GpuAccess::nvidia_runtime) {
    host["Runtime"] = kNvidiaRuntime;
    environment.emplace_back("NVIDIA_VISIBLE_DEVICES=all");
    environment.emplace_back("NVIDIA_DRIVER_CAPABILITIES=compute,utility");
  }
}

bj::object body_without_labels(const CreateRequest& request, std::vector<std::string> arguments) {
  const auto& settings = request.settings;
  bj::array environment;
  for (const auto& [name, value] : request.environment) environment.emplace_back(valid_utf8(name + "=" + value));
  bj::array mounts;
  for (const auto& mount : settings.mounts) mounts.emplace_back(mount_of(mount));
  if (!settings.cache_folder.empty()) mounts.emplace_back(cache_mount(request));
  bj::object host{
      {"Init", true},  // D2
      {"IpcMode", "private"},
      {"ShmSize", settings.shm_size.count()},
      {"RestartPolicy", {{"Name", "no"}}},
      {"OomScoreAdj", kOomScoreAdjustment},
      {"LogConfig",
       {{"Type", "json-file"},
        {"Config", {{"max-size", std::to_string(request.log_limit.count())}, {"max-file", "2"}}}}},
      {"ReadonlyRootfs", true},
      {"Tmpfs", {{"/tmp", "rw,nosuid,nodev,size=256m"}}},
      {"CapDrop", bj::array{"ALL"}},
      {"CapAdd", bj::array{"DAC_OVERRIDE"}},  // to read a model that belongs to somebody else
      {"SecurityOpt", bj::array{"no-new-privileges"}},
      {"Mounts", std::move(mounts)},
  };
  if (request.lock_memory) host["Ulimits"] = bj::array{bj::object{{"Name", "memlock"}, {"Soft", -1}, {"Hard", -1}}};
  if (!request.network.empty()) host["NetworkMode"] = request.network;
  add_gpu(request.gpu, host, environment);

  bj::object body{{"Image", request.image_id}, {"Tty", false}, {"Env", std::move(environment)}};
  if (settings.container_port != 0) {
    const auto inside = fmt::format("{}/tcp", settings.container_port);
    const bj::object binding{{"HostIp", "127.0.0.1"}, {"HostPort", std::to_string(settings.host_port)}};
    host["PortBindings"] = bj::object{{inside, bj::array{binding}}};
    body["ExposedPorts"] = bj::object{{inside, bj::object{}}};
  }
  body["HostConfig"] = std::move(host);
  if (!arguments.empty()) {
    if (!arguments.front().empty()) body["Entrypoint"] = bj::array{valid_utf8(arguments.front())};
    arguments.erase(arguments.begin());
    body["Cmd"] = to_array(arguments);
  }
  return body;
}

}  // namespace

GpuAccess gpu_access(const EngineInfo& info) {
  const auto is_nvidia = [](const std::string& device) { return device.starts_with(kCdiVendor); };
  if (std::ranges::any_of(info.cdi_devices, is_nvidia)) return GpuAccess::cdi;
  if (std::ranges::find(info.runtimes, kNvidiaRuntime) != info.runtimes.end()) return GpuAccess::nvidia_runtime;
  return GpuAccess::none;
}

std::string spec_digest(const CreateRequest& request) {
  std::uint64_t digest = 14695981039346656037U;  // FNV-1a
  const auto& lasting = request.lasting_arguments.empty() ? request.arguments : request.lasting_arguments;
  for (const char c : bj::serialize(body_without_labels(request, lasting))) {
    digest = (digest ^ static_cast<unsigned char>(c)) * 1099511628211U;
  }
  return fmt::format("{:016x}", digest);
}

std::string create_body(const CreateRequest& request) {
  auto body = body_without_labels(request, request.arguments);
  body["Labels"] = bj::object{{kOwnerLabel, request.owner},
                              {kNameLabel, request.name},
                              {kDeploymentLabel, std::to_string(request.deployment.value)},
                              {kSpecLabel, spec_digest(request)},
                              {kLogLabel, valid_utf8(request.log_path)}};
  return bj::serialize(body);
}

std::string network_body(std::string_view name, std::string_view owner) {
  return bj::serialize(bj::object{{"Name", name},
                                  {"Driver", "bridge"},
                                  {"CheckDuplicate", true},
                                  {"Options", {{"com.docker.network.bridge.enable_icc", "false"}}},
                                  {"Labels", {{kOwnerLabel, owner}}}});
}

bool is_owned(const std::map<std::string, std::string>& labels, std::string_view owner) {
  const auto found = labels.find(std::string{kOwnerLabel});
  return found != labels.end() && found->second == owner;
}

StartProblem classify_start_error(std::string_view message) {
  const auto says = [&](std::string_view text) { return message.find(text) != std::string_view::npos; };
  if (says("port is already allocated") || says("address already in use")) return StartProblem::port_taken;
  if (says("could not select device driver") || says("unresolvable CDI devices") ||
      says("unknown or invalid runtime")) {
    return StartProblem::no_gpu_driver;
  }
  if (says("executable file not found") || says("no such file or directory: unknown") || says("No command specified") ||
      says("no command specified")) {
    return StartProblem::program_missing;
  }
  return StartProblem::other;
}

}  // namespace dgxmm::container
