#pragma once
#include "base/result.h"
#include "core/host/gpu.h"

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dgxmm::nvml {

/// One loaded libnvidia-ml.so.1: its functions by name, with older ones where the newest is missing or does not take
/// the structures that are known here. Every call may block for minutes. Never unloaded: a call may be under way.
class Library {
 public:
  /// Errors: `nvml_unusable`, with what the loader said.
  static Result<std::shared_ptr<Library>> load(const std::string& path);

  /// Initializes once, and again when the library says that it is not; then asks every device. Devices are not
  /// classified yet. What is asked for in vain is not asked for again. `pid_max` tells pids from garbage.
  host::NvmlAnswers ask(std::int64_t pid_max);

 private:
  struct Device {
    void* handle = nullptr;
    host::GpuDevice facts;
    std::array<bool, 3> has_list{true, true, true};
    bool has_memory = true;
  };

  explicit Library(void* handle) : handle_(handle) {}

  [[nodiscard]] void* symbol(std::string_view name);
  /// The first of these functions that is there and takes what it is given.
  template <class... Arguments>
  std::uint32_t call(std::initializer_list<std::string_view> names, Arguments... arguments);
  std::uint32_t initialize();
  std::uint32_t open_devices(std::string& failed_call);
  void ask_identity(Device& device);
  void ask_memory(Device& device);
  host::GpuList ask_list(Device& device, std::size_t which, std::int64_t pid_max);

  void* handle_;
  std::map<std::string, void*, std::less<>> symbols_;
  bool initialized_ = false;
  std::string driver_version_;
  std::vector<Device> devices_;
};

}  // namespace dgxmm::nvml
