// A library with the interface of NVIDIA's libnvidia-ml.so.1 that answers what the file `scenario` beside it says. The
// file is read at every call, so that a test changes the driver by writing it anew. Built three times: whole, as an old
// driver has it (NVML_DOUBLE_OLD: only the first functions) and as a stub (NVML_DOUBLE_STUB: not even those).
//
// A line each; numbers in decimal or with 0x, bytes may be `unknown` (all ones):
//   driver TEXT                 version of the driver
//   answer FUNCTION CODE        the function answers that, and does nothing
//   wait FUNCTION FILE          the function hangs while FILE is there
//   lose-state                  lists answer UNINITIALIZED until the library is initialized a second time
//   grow N                      the first N filled calls of a list find that it has grown
//   record-size 16|24|32        what _v2 and _v3 write for each process; 24 unless told otherwise
//   clear-room                  lists clear all the room they are given before they write
//   device NAME                 the next device; the lines below are its own
//   uuid TEXT | pci NUMBER | capability MAJOR MINOR | addressing NUMBER
//   memory TOTAL FREE           else the query is NOT_SUPPORTED
//   compute PID BYTES [GPU-INSTANCE COMPUTE-INSTANCE], graphics …, mps …
// Without a scenario the driver is not loaded.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::uint32_t kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3, kNotFound = 6,
                        kInsufficientSize = 7, kDriverNotLoaded = 9, kVersionMismatch = 25;

struct Process {
  std::uint32_t pid = 0;
  std::uint64_t used = 0;
  std::uint32_t gpu_instance = 0xFFFFFFFF, compute_instance = 0xFFFFFFFF;
};

struct Device {
  std::string name, uuid;
  std::uint32_t pci = 0, addressing = 0;
  int major = 0, minor = 0;
  bool has_addressing = false, has_memory = false;
  std::uint64_t total = 0, free = 0;
  std::map<std::string, std::vector<Process>> lists;
};

struct Scenario {
  bool there = false, lose_state = false, clear_room = false;
  std::string driver;
  std::map<std::string, std::uint32_t> answers;
  std::map<std::string, std::string> waits;
  int grow = 0;
  std::size_t record_size = 24;
  std::vector<Device> devices;
};

int initializations = 0;         // NOLINT: the library has a state, as the real one
int grown = 0;                   // NOLINT
std::array<char, 64> handles{};  // NOLINT: a device's handle is the address of its place here

std::filesystem::path own_folder() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<void*>(&own_folder), &info);
  return std::filesystem::path{info.dli_fname}.parent_path();
}

std::uint64_t number(std::istream& words) {
  std::string text;
  words >> text;
  return text == "unknown" ? UINT64_MAX : std::stoull(text, nullptr, 0);
}

Scenario read_scenario() {
  Scenario scenario;
  std::ifstream file{own_folder() / "scenario"};
  scenario.there = file.is_open();
  for (std::string line; std::getline(file, line);) {
    std::istringstream words{line};
    std::string key;
    words >> key;
    auto* device = scenario.devices.empty() ? nullptr : &scenario.devices.back();
    std::string text;
    if (key == "driver") {
      words >> scenario.driver;
    } else if (key == "answer") {
      words >> text;
      scenario.answers[text] = static_cast<std::uint32_t>(number(words));
    } else if (key == "wait") {
      words >> text;
      words >> scenario.waits[text];
    } else if (key == "lose-state") {
      scenario.lose_state = true;
    } else if (key == "clear-room") {
      scenario.clear_room = true;
    } else if (key == "grow") {
      words >> scenario.grow;
    } else if (key == "record-size") {
      words >> scenario.record_size;
    } else if (key == "device") {
      std::getline(words >> std::ws, scenario.devices.emplace_back().name);
    } else if (device == nullptr) {
      continue;
    } else if (key == "uuid") {
      words >> device->uuid;
    } else if (key == "pci") {
      device->pci = static_cast<std::uint32_t>(number(words));
    } else if (key == "capability") {
      words >> device->major >> device->minor;
    } else if (key == "addressing") {
      device->has_addressing = true;
      words >> device->addressing;
    } else if (key == "memory") {
      device->has_memory = true;
      device->total = number(words);
      device->free = number(words);
    } else if (key == "compute" || key == "graphics" || key == "mps") {
      Process process;
      process.pid = static_cast<std::uint32_t>(number(words));
      process.used = number(words);
      words >> process.gpu_instance >> process.compute_instance;
      if (!words) process.gpu_instance = process.compute_instance = 0xFFFFFFFF;
      device->lists[key].push_back(process);
    }
  }
  return scenario;
}

/// What the scenario says before a function does its work; `scenario` is what it works on.
std::uint32_t begin(const char* function, Scenario& scenario) {
  scenario = read_scenario();
  while (scenario.waits.contains(function) && std::filesystem::exists(scenario.waits[function])) {
    std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  if (!scenario.there) return kDriverNotLoaded;
  const auto answer = scenario.answers.find(function);
  return answer == scenario.answers.end() ? kSuccess : answer->second;
}

Device* device_of(void* handle, Scenario& scenario) {
  const auto index = static_cast<std::size_t>(static_cast<char*>(handle) - handles.data());
  return index < scenario.devices.size() ? &scenario.devices[index] : nullptr;
}

/// `begin` for a function of a device.
std::uint32_t begin(const char* function, void* handle, Scenario& scenario, Device*& device) {
  const auto code = begin(function, scenario);
  device = device_of(handle, scenario);
  if (code != kSuccess) return code;
  return device == nullptr ? kInvalidArgument : kSuccess;
}

std::uint32_t put_text(const std::string& text, char* to, std::uint32_t room) {
  if (text.size() >= room) return kInsufficientSize;
  std::copy_n(text.c_str(), text.size() + 1, to);
  return kSuccess;
}

std::uint32_t initialize(const char* function) {
  Scenario scenario;
  const auto code = begin(function, scenario);
  if (code == kSuccess) ++initializations;
  return code;
}

std::uint32_t get_count(const char* function, std::uint32_t* count) {
  Scenario scenario;
  const auto code = begin(function, scenario);
  *count = static_cast<std::uint32_t>(scenario.devices.size());
  return code;
}

std::uint32_t get_handle(const char* function, std::uint32_t index, void** handle) {
  Scenario scenario;
  const auto code = begin(function, scenario);
  if (code != kSuccess) return code;
  if (index >= std::min(scenario.devices.size(), handles.size())) return kNotFound;
  *handle = handles.data() + index;
  return kSuccess;
}

std::uint32_t list(const char* function, const char* key, void* handle, std::uint32_t* count, void* to,
                   bool is_first_form) {
  Scenario scenario;
  Device* device = nullptr;
  const auto code = begin(function, handle, scenario, device);
  if (code != kSuccess) return code;
  if (scenario.lose_state && initializations < 2) return kUninitialized;
  const auto& processes = device->lists[key];
  const auto there = static_cast<std::uint32_t>(processes.size());
  const auto room = *count;
  *count = there;
  if (there == 0) return kSuccess;
  if (to != nullptr && grown < scenario.grow) {
    ++grown;
    *count = room + 1;
    return kInsufficientSize;
  }
  if (room < there || to == nullptr) return kInsufficientSize;
  const std::size_t size = is_first_form ? 16 : scenario.record_size;
  auto* bytes = static_cast<std::byte*>(to);
  if (scenario.clear_room) std::memset(bytes, 0, size * room);
  for (const auto& process : processes) {
    std::memcpy(bytes, &process.pid, sizeof process.pid);
    std::memcpy(bytes + 8, &process.used, sizeof process.used);
    if (size >= 24) {
      std::memcpy(bytes + 16, &process.gpu_instance, sizeof process.gpu_instance);
      std::memcpy(bytes + 20, &process.compute_instance, sizeof process.compute_instance);
    }
    if (size == 32) std::memset(bytes + 24, 0, 8);
    bytes += size;
  }
  return kSuccess;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the names are NVIDIA's.
extern "C" {

// What a variant lacks is there, and cannot be found by its name.
#pragma GCC visibility push(default)
std::uint32_t nvmlInit() { return initialize("nvmlInit"); }
std::uint32_t nvmlShutdown() { return kSuccess; }

#ifdef NVML_DOUBLE_STUB
#pragma GCC visibility push(hidden)
#endif
std::uint32_t nvmlDeviceGetCount(std::uint32_t* count) { return get_count("nvmlDeviceGetCount", count); }
std::uint32_t nvmlDeviceGetHandleByIndex(std::uint32_t index, void** handle) {
  return get_handle("nvmlDeviceGetHandleByIndex", index, handle);
}

std::uint32_t nvmlSystemGetDriverVersion(char* to, std::uint32_t room) {
  Scenario scenario;
  const auto code = begin("nvmlSystemGetDriverVersion", scenario);
  return code == kSuccess ? put_text(scenario.driver, to, room) : code;
}

std::uint32_t nvmlDeviceGetName(void* handle, char* to, std::uint32_t room) {
  Scenario scenario;
  Device* device = nullptr;
  const auto code = begin("nvmlDeviceGetName", handle, scenario, device);
  return code == kSuccess ? put_text(device->name, to, room) : code;
}

std::uint32_t nvmlDeviceGetUUID(void* handle, char* to, std::uint32_t room) {
  Scenario scenario;
  Device* device = nullptr;
  const auto code = begin("nvmlDeviceGetUUID", handle, scenario, device);
  return code == kSuccess ? put_text(device->uuid, to, room) : code;
}

std::uint32_t nvmlDeviceGetMemoryInfo(void* handle, void* to) {
  Scenario scenario;
  Device* device = nullptr;
  const auto code = begin("nvmlDeviceGetMemoryInfo", handle, scenario, device);
  if (code != kSuccess) return code;
  if (!device->has_memory) return kNotSupported;
  const std::array<std::uint64_t, 3> memory{device->total, device->free, device->total - device->free};
  std::memcpy(to, memory.data(), sizeof memory);
  return kSuccess;
}

std::uint32_t nvmlDeviceGetComputeRunningProcesses(void* handle, std::uint32_t* count, void* to) {
  return list("nvmlDeviceGetComputeRunningProcesses", "compute", handle, count, to, true);
}

#ifdef NVML_DOUBLE_OLD
#pragma GCC visibility push(hidden)
#endif
std::uint32_t nvmlInitWithFlags(std::uint32_t flags) {
  return flags == 1 ? initialize("nvmlInitWithFlags") : kInvalidArgument;
}
std::uint32_t nvmlInit_v2() { return initialize("nvmlInit_v2"); }
std::uint32_t nvmlDeviceGetCount_v2(std::uint32_t* count) { return get_count("nvmlDeviceGetCount_v2", count); }
std::uint32_t nvmlDeviceGetHandleByIndex_v2(std::uint32_t index, void** handle) {
  return get_handle("nvmlDeviceGetHandleByIndex_v2", index, handle);
}

std::uint32_t nvmlDeviceGetPciInfo_v3(void* handle, void* to) {
  Scenario scenario;
  Device* device = nullptr;
  const auto code = begin("nvmlDeviceGetPciInfo_v3", handle, scenario, device);
  if (code != kSuccess) return code;
  std::memset(to, 0, 68);
  std::memcpy(static_cast<std::byte*>(to) + 28, &device->pci, sizeof device->pci);
  return kSuccess;
}

std::uint32_t nvmlDeviceGetMemoryInfo_v2(void* handle, void* to) {
  Scenario scenario;
  Device* device = nullptr;
  const auto code = begin("nvmlDeviceGetMemoryInfo_v2", handle, scenario, device);
  if (code != kSuccess) return code;
  std::uint32_t version = 0;
  std::memcpy(&version, to, sizeof version);
  if (version != 0x02000028) return kVersionMismatch;
  if (!device->has_memory) return kNotSupported;
  const std::array<std::uint64_t, 4> memory{device->total, 0, device->free, device->total - device->free};
  std::memcpy(static_cast<std::byte*>(to) + 8, memory.data(), sizeof memory);
  return kSuccess;
}

std::uint32_t nvmlDeviceGetAddressingMode(void* handle, void* to) {
  Scenario scenario;
  Device* device = nullptr;
  const auto code = begin("nvmlDeviceGetAddressingMode", handle, scenario, device);
  if (code != kSuccess) return code;
  std::uint32_t version = 0;
  std::memcpy(&version, to, sizeof version);
  if (version != 0x01000008) return kVersionMismatch;
  if (!device->has_addressing) return kNotSupported;
  std::memcpy(static_cast<std::byte*>(to) + 4, &device->addressing, sizeof device->addressing);
  return kSuccess;
}

std::uint32_t nvmlDeviceGetCudaComputeCapability(void* handle, int* major, int* minor) {
  Scenario scenario;
  Device* device = nullptr;
  const auto code = begin("nvmlDeviceGetCudaComputeCapability", handle, scenario, device);
  if (code != kSuccess) return code;
  *major = device->major;
  *minor = device->minor;
  return kSuccess;
}

std::uint32_t nvmlDeviceGetComputeRunningProcesses_v3(void* handle, std::uint32_t* count, void* to) {
  return list("nvmlDeviceGetComputeRunningProcesses_v3", "compute", handle, count, to, false);
}
std::uint32_t nvmlDeviceGetComputeRunningProcesses_v2(void* handle, std::uint32_t* count, void* to) {
  return list("nvmlDeviceGetComputeRunningProcesses_v2", "compute", handle, count, to, false);
}
std::uint32_t nvmlDeviceGetGraphicsRunningProcesses_v3(void* handle, std::uint32_t* count, void* to) {
  return list("nvmlDeviceGetGraphicsRunningProcesses_v3", "graphics", handle, count, to, false);
}
std::uint32_t nvmlDeviceGetMPSComputeRunningProcesses_v3(void* handle, std::uint32_t* count, void* to) {
  return list("nvmlDeviceGetMPSComputeRunningProcesses_v3", "mps", handle, count, to, false);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
