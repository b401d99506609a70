#include "adapters/nvml/nvml_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <dlfcn.h>
#include <optional>
#include <span>

namespace dgxmm::nvml {
namespace {

using host::NvmlState;

// Layouts of nvml.h.
struct MemoryV2 {
  std::uint32_t version = 0;
  std::uint64_t total = 0, reserved = 0, free = 0, used = 0;
};
struct MemoryV1 {
  std::uint64_t total = 0, free = 0, used = 0;
};
struct AddressingMode {
  std::uint32_t version = 0;
  std::uint32_t value = 0;
};
/// nvmlPciInfo_t of _v3 and of _v2 begin alike; the room behind is for the longer one.
struct PciInfo {
  std::array<char, 16> bus_id_legacy{};
  std::uint32_t domain = 0, bus = 0, device = 0, pci_device_id = 0;
  std::array<std::byte, 128> rest{};
};
static_assert(sizeof(MemoryV2) == 40 && sizeof(MemoryV1) == 24 && sizeof(AddressingMode) == 8);

constexpr std::uint32_t kFunctionNotFound = 13;
constexpr std::uint32_t kInsufficientSize = 7;
constexpr std::uint32_t kDoNotFailWithoutGpus = 1;
constexpr std::size_t kTextRoom = 96;
constexpr std::uint32_t kMostDevices = 64;
// The kernel's part stops at 950.
constexpr std::uint32_t kMostProcesses = 4096;
constexpr int kMostTries = 5;

/// nvml.h: NVML_STRUCT_VERSION
template <class Struct>
constexpr std::uint32_t struct_version(std::uint32_t number) {
  return static_cast<std::uint32_t>(sizeof(Struct)) | (number << 24U);
}

struct ListNames {
  std::array<std::string_view, 3> functions;  ///< newest first
  std::array<std::size_t, 3> record_sizes;
};
// The _v3 functions take the _v2 structure.
constexpr std::array<ListNames, 3> kLists{{
    {{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
      "nvmlDeviceGetComputeRunningProcesses"},
     {24, 24, 16}},
    {{"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2",
      "nvmlDeviceGetGraphicsRunningProcesses"},
     {24, 24, 16}},
    {{"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2",
      "nvmlDeviceGetMPSComputeRunningProcesses"},
     {24, 24, 16}},
}};

bool is_success(std::uint32_t code) { return host::nvml_state(code) == NvmlState::success; }

/// An older function may do.
bool asks_for_older(std::uint32_t code) {
  const auto state = host::nvml_state(code);
  return state == NvmlState::wrong_version || state == NvmlState::no_function;
}

/// Will never answer otherwise.
bool is_for_good(std::uint32_t code) {
  return asks_for_older(code) || host::nvml_state(code) == NvmlState::not_supported;
}

/// Ends at the first NUL, wherever the library put it.
std::string text_of(std::span<const char> buffer) { return {buffer.begin(), std::ranges::find(buffer, '\0')}; }

std::optional<Bytes> bytes_of(std::uint64_t amount) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 60U;
  return amount <= kMost ? std::optional{Bytes{static_cast<std::int64_t>(amount)}} : std::nullopt;
}

}  // namespace

Result<std::shared_ptr<Library>> Library::load(const std::string& path) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    return fail(
        "nvml_unusable",
        fmt::format("NVIDIA's management library cannot be loaded: {}", reason == nullptr ? path : std::string{reason}),
        "it comes with the driver; in a container it takes the driver capability `utility`", path);
  }
  std::shared_ptr<Library> library{new Library{handle}};
  const auto has = [&](std::initializer_list<std::string_view> names) {
    return std::ranges::any_of(names, [&](auto name) { return library->symbol(name) != nullptr; });
  };
  if (!has({"nvmlInitWithFlags", "nvmlInit_v2", "nvmlInit"}) || !has({"nvmlShutdown"}) ||
      !has({"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}) ||
      !has({"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"})) {
    ::dlclose(handle);
    return fail("nvml_unusable", fmt::format("{} is not NVIDIA's management library: functions are missing", path),
                "set `nvml_library`, or leave it to the default", path);
  }
  return library;
}

void* Library::symbol(std::string_view name) {
  const auto known = symbols_.find(name);
  if (known != symbols_.end()) return known->second;
  auto* address = ::dlsym(handle_, std::string{name}.c_str());
  symbols_.emplace(name, address);
  return address;
}

// The library's own names of its structures are not ours: the sanitizer takes their functions for others.
#if defined(__clang__)
#define DGXMM_CALLS_FOREIGN_TYPES __attribute__((no_sanitize("function")))
#else
#define DGXMM_CALLS_FOREIGN_TYPES
#endif

template <class... Arguments>
DGXMM_CALLS_FOREIGN_TYPES std::uint32_t Library::call(std::initializer_list<std::string_view> names,
                                                      Arguments... arguments) {
  std::uint32_t code = kFunctionNotFound;
  for (const auto name : names) {
    auto* function = symbol(name);
    if (function == nullptr) continue;
    code = reinterpret_cast<std::uint32_t (*)(Arguments...)>(function)(arguments...);
    if (!asks_for_older(code)) return code;
    symbols_.insert_or_assign(std::string{name}, nullptr);
  }
  return code;
}

std::uint32_t Library::initialize() {
  if (initialized_) return 0;
  auto code = call({"nvmlInitWithFlags"}, kDoNotFailWithoutGpus);
  if (asks_for_older(code)) code = call({"nvmlInit_v2", "nvmlInit"});
  initialized_ = is_success(code);
  return code;
}

std::uint32_t Library::open_devices(std::string& failed_call) {
  std::array<char, kTextRoom> version{};
  call({"nvmlSystemGetDriverVersion"}, version.data(), static_cast<std::uint32_t>(version.size()));
  driver_version_ = text_of(version);

  std::uint32_t count = 0;
  auto code = call({"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}, &count);
  if (host::nvml_state(code) == NvmlState::not_found) return 0;
  failed_call = "nvmlDeviceGetCount";
  std::vector<Device> devices;
  for (std::uint32_t i = 0; is_success(code) && i < std::min(count, kMostDevices); ++i) {
    Device device;
    code = call({"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}, i, &device.handle);
    failed_call = "nvmlDeviceGetHandleByIndex";
    if (!is_success(code)) break;
    ask_identity(device);
    devices.push_back(std::move(device));
  }
  if (!is_success(code)) return code;
  devices_ = std::move(devices);
  return 0;
}

void Library::ask_identity(Device& device) {
  auto& facts = device.facts;
  std::array<char, kTextRoom> text{};
  const auto room = static_cast<std::uint32_t>(text.size());
  if (is_success(call({"nvmlDeviceGetName"}, device.handle, text.data(), room))) facts.name = text_of(text);
  if (facts.name.empty()) facts.name = "unnamed GPU";
  text = {};
  if (is_success(call({"nvmlDeviceGetUUID"}, device.handle, text.data(), room))) facts.uuid = text_of(text);
  PciInfo pci;
  if (is_success(call({"nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2"}, device.handle, &pci))) {
    facts.pci_device_id = pci.pci_device_id;
    facts.bus_id = text_of(pci.bus_id_legacy);
  }
  int major = 0;
  int minor = 0;
  if (is_success(call({"nvmlDeviceGetCudaComputeCapability"}, device.handle, &major, &minor))) {
    facts.compute_major = major;
    facts.compute_minor = minor;
  }
  AddressingMode mode{.version = struct_version<AddressingMode>(1)};
  if (is_success(call({"nvmlDeviceGetAddressingMode"}, device.handle, &mode))) facts.addressing_mode = mode.value;
}

void Library::ask_memory(Device& device) {
  if (!device.has_memory) return;
  auto& facts = device.facts;
  facts.memory_total.reset();
  facts.memory_free.reset();
  MemoryV2 newer{.version = struct_version<MemoryV2>(2)};
  facts.memory_code = call({"nvmlDeviceGetMemoryInfo_v2"}, device.handle, &newer);
  if (is_success(facts.memory_code)) {
    facts.memory_total = bytes_of(newer.total);
    facts.memory_free = bytes_of(newer.free);
  } else if (asks_for_older(facts.memory_code)) {
    MemoryV1 older;
    facts.memory_code = call({"nvmlDeviceGetMemoryInfo"}, device.handle, &older);
    if (is_success(facts.memory_code)) {
      facts.memory_total = bytes_of(older.total);
      facts.memory_free = bytes_of(older.free);
    }
  }
  if (is_for_good(facts.memory_code)) device.has_memory = false;
}

host::GpuList Library::ask_list(Device& device, std::size_t which, std::int64_t pid_max) {
  const auto& names = kLists.at(which);
  host::GpuList list{.code = kFunctionNotFound, .records = {}};
  for (std::size_t version = 0; version < names.functions.size(); ++version) {
    std::uint32_t capacity = 0;
    for (int tries = 0; tries < kMostTries; ++tries) {
      // The list changes while it is asked for.
      std::vector<std::byte> buffer(capacity * host::kRecordRoom, host::kRecordFiller);
      std::uint32_t count = capacity;
      list.code = call({names.functions.at(version)}, device.handle, &count,
                       static_cast<void*>(capacity == 0 ? nullptr : buffer.data()));
      if (is_success(list.code)) {
        list.records = host::read_records(buffer, count, names.record_sizes.at(version), pid_max);
        return list;
      }
      if (list.code != kInsufficientSize) break;
      capacity = std::min(count, kMostProcesses) + 16;
    }
    if (!asks_for_older(list.code)) break;
  }
  if (is_for_good(list.code)) device.has_list.at(which) = false;
  return list;
}

host::NvmlAnswers Library::ask(std::int64_t pid_max) {
  host::NvmlAnswers answers;
  for (int tries = 0; tries < 2; ++tries) {
    answers = {};
    answers.failed_code = initialize();
    if (!is_success(answers.failed_code)) {
      answers.failed_call = "nvmlInit";
      return answers;
    }
    std::string failed_call;
    if (devices_.empty()) answers.failed_code = open_devices(failed_call);
    bool lost_its_state = host::nvml_state(answers.failed_code) == NvmlState::uninitialized;
    if (!is_success(answers.failed_code)) answers.failed_call = failed_call;
    answers.driver_version = driver_version_;
    for (auto& device : devices_) {
      ask_memory(device);
      lost_its_state = lost_its_state || host::nvml_state(device.facts.memory_code) == NvmlState::uninitialized;
      std::vector<host::GpuList> lists;
      for (std::size_t which = 0; which < kLists.size(); ++which) {
        if (!device.has_list.at(which)) continue;
        lists.push_back(ask_list(device, which, pid_max));
        lost_its_state = lost_its_state || host::nvml_state(lists.back().code) == NvmlState::uninitialized;
      }
      answers.devices.push_back(device.facts);
      answers.lists.push_back(std::move(lists));
    }
    if (!lost_its_state) break;
    initialized_ = false;
    devices_.clear();
  }
  return answers;
}

}  // namespace dgxmm::nvml
