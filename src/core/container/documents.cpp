#include "core/container/documents.h"

#include "base/json_codec.h"
#include "base/masking.h"
#include "base/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace dgxmm::container {
namespace {

namespace bj = json::bj;

const bj::value* member(const bj::object& object, std::string_view name) {
  const auto* found = object.if_contains(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

std::string text(const bj::object& object, std::string_view name) {
  const auto* value = member(object, name);
  const auto* found = value == nullptr ? nullptr : value->if_string();
  return found == nullptr ? std::string{} : std::string{*found};
}

bool flag(const bj::object& object, std::string_view name) {
  const auto* value = member(object, name);
  const auto* found = value == nullptr ? nullptr : value->if_bool();
  return found != nullptr && *found;
}

std::optional<std::int64_t> number(const bj::object& object, std::string_view name) {
  const auto* value = member(object, name);
  if (value == nullptr) return std::nullopt;
  if (const auto* found = value->if_int64()) return *found;
  return std::nullopt;
}

const bj::object& child(const bj::object& object, std::string_view name) {
  static const bj::object kNone;
  const auto* value = member(object, name);
  const auto* found = value == nullptr ? nullptr : value->if_object();
  return found == nullptr ? kNone : *found;
}

const bj::array& list(const bj::object& object, std::string_view name) {
  static const bj::array kNone;
  const auto* value = member(object, name);
  const auto* found = value == nullptr ? nullptr : value->if_array();
  return found == nullptr ? kNone : *found;
}

std::vector<std::string> texts(const bj::array& items) {
  std::vector<std::string> result;
  for (const auto& item : items) {
    if (const auto* found = item.if_string()) result.emplace_back(*found);
  }
  return result;
}

std::map<std::string, std::string> labels_of(const bj::object& object) {
  std::map<std::string, std::string> result;
  for (const auto& [key, value] : child(object, "Labels")) {
    if (const auto* found = value.if_string()) result.emplace(key, *found);
  }
  return result;
}

Result<bj::value> parse_object(std::string_view json) {
  auto value = json::parse(json);
  if (value && !value->is_object()) return fail("bad_field", "the document: expected an object");
  return value;
}

Result<std::string> required(const bj::object& object, std::string_view name) {
  auto found = text(object, name);
  if (found.empty()) {
    return fail("bad_field", fmt::format("{}: expected text that is not empty", name), {}, std::string{name});
  }
  return found;
}

Status status_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Status>, 7> kNames{{{"created", Status::created},
                                                                       {"running", Status::running},
                                                                       {"paused", Status::paused},
                                                                       {"restarting", Status::restarting},
                                                                       {"removing", Status::removing},
                                                                       {"exited", Status::exited},
                                                                       {"dead", Status::dead}}};
  const auto* const found = std::ranges::find(kNames, name, &std::pair<std::string_view, Status>::first);
  return found == kNames.end() ? Status::other : found->second;
}

/// {"8080/tcp": [{"HostIp": "127.0.0.1", "HostPort": "18999"}], "9/tcp": null}
std::map<std::string, std::uint16_t> published_ports(const bj::object& ports) {
  std::map<std::string, std::uint16_t> result;
  for (const auto& [inside, bindings] : ports) {
    const auto* items = bindings.if_array();
    if (items == nullptr) continue;
    for (const auto& item : *items) {
      const auto* binding = item.if_object();
      if (binding == nullptr || text(*binding, "HostIp") != "127.0.0.1") continue;
      const auto port = parse_number<std::uint16_t>(text(*binding, "HostPort"));
      if (port && *port != 0) result.emplace(inside, *port);
    }
  }
  return result;
}

std::string variable_of(const std::vector<std::string>& environment, std::string_view beginning) {
  const auto found = std::ranges::find_if(environment, [&](const auto& entry) { return entry.starts_with(beginning); });
  return found == environment.end() ? std::string{} : found->substr(beginning.size());
}

Result<Image> image_of(const bj::object& object) {
  auto id = required(object, "Id");
  if (!id) return fail(id.error());
  return Image{.id = std::move(*id),
               .tags = texts(list(object, "RepoTags")),
               .digests = texts(list(object, "RepoDigests")),
               .entrypoint = texts(list(child(object, "Config"), "Entrypoint")),
               .architecture = text(object, "Architecture"),
               .python_path = variable_of(texts(list(child(object, "Config"), "Env")), "PYTHONPATH=")};
}

template <class T, class ReadOne>
Result<std::vector<T>> parse_list(std::string_view json, ReadOne read_one) {
  const auto value = json::parse(json);
  if (!value) return fail(value.error());
  const auto* items = value->if_array();
  if (items == nullptr) return fail("bad_field", "the document: expected a list");
  std::vector<T> result;
  for (const auto& item : *items) {
    const auto* object = item.if_object();
    if (object == nullptr) return fail("bad_field", "the document: expected a list of objects");
    auto one = read_one(*object);
    if (!one) return fail(one.error());
    result.push_back(std::move(*one));
  }
  return result;
}

/// Takes `count` digits off the front as a number in a range.
std::optional<int> take_digits(std::string_view& rest, std::size_t count, int least, int most) {
  if (rest.size() < count) return std::nullopt;
  const auto digits = rest.substr(0, count);
  if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  const auto value = parse_number<int>(digits);
  if (!value || *value < least || *value > most) return std::nullopt;
  rest.remove_prefix(count);
  return value;
}

bool take(std::string_view& rest, char wanted) {
  if (!rest.starts_with(wanted)) return false;
  rest.remove_prefix(1);
  return true;
}

/// ".34885045" -> nanoseconds; nothing there is 0.
std::optional<std::chrono::nanoseconds> take_fraction(std::string_view& rest) {
  if (!take(rest, '.')) return std::chrono::nanoseconds{0};
  std::int64_t value = 0;
  std::size_t digits = 0;
  for (; !rest.empty() && rest.front() >= '0' && rest.front() <= '9'; rest.remove_prefix(1), ++digits) {
    if (digits < 9) value = value * 10 + (rest.front() - '0');
  }
  if (digits == 0) return std::nullopt;
  for (; digits < 9; ++digits) value *= 10;
  return std::chrono::nanoseconds{value};
}

/// "Z" or "+01:00".
std::optional<std::chrono::minutes> take_offset(std::string_view& rest) {
  if (take(rest, 'Z')) return std::chrono::minutes{0};
  const bool west = rest.starts_with('-');
  if (!take(rest, west ? '-' : '+')) return std::nullopt;
  const auto hours = take_digits(rest, 2, 0, 23);
  if (!hours || !take(rest, ':')) return std::nullopt;
  const auto minutes = take_digits(rest, 2, 0, 59);
  if (!minutes) return std::nullopt;
  const std::chrono::minutes offset{*hours * 60 + *minutes};
  return west ? -offset : offset;
}

}  // namespace

std::optional<EngineTime> parse_time(std::string_view text) {
  using namespace std::chrono;
  // Before it a count of nanoseconds in 64 bits would not hold it; Go's zero time is of year 1.
  constexpr int kFirstYear = 1970;
  constexpr int kLastYear = 2261;
  const auto year_number = take_digits(text, 4, kFirstYear, kLastYear);
  if (!year_number || !take(text, '-')) return std::nullopt;
  const auto month_number = take_digits(text, 2, 1, 12);
  if (!month_number || !take(text, '-')) return std::nullopt;
  const auto day_number = take_digits(text, 2, 1, 31);
  if (!day_number || !take(text, 'T')) return std::nullopt;
  const auto hour = take_digits(text, 2, 0, 23);
  if (!hour || !take(text, ':')) return std::nullopt;
  const auto minute = take_digits(text, 2, 0, 59);
  if (!minute || !take(text, ':')) return std::nullopt;
  const auto second = take_digits(text, 2, 0, 60);
  if (!second) return std::nullopt;
  const auto fraction = take_fraction(text);
  if (!fraction) return std::nullopt;
  const auto offset = take_offset(text);
  if (!offset || !text.empty()) return std::nullopt;
  const year_month_day date{year{*year_number}, month{static_cast<unsigned>(*month_number)},
                            day{static_cast<unsigned>(*day_number)}};
  if (!date.ok()) return std::nullopt;
  return EngineTime{sys_days{date}} + hours{*hour} + minutes{*minute} + seconds{*second} + *fraction - *offset;
}

std::string since_parameter(EngineTime time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  return fmt::format("{}.{:09}", whole.time_since_epoch().count(), (time - whole).count());
}

Result<EngineInfo> parse_info(std::string_view json) {
  const auto value = parse_object(json);
  if (!value) return fail(value.error());
  const auto& object = value->get_object();
  EngineInfo info{.server_version = text(object, "ServerVersion"),
                  .cgroup_driver = text(object, "CgroupDriver"),
                  .cgroup_version = parse_number<int>(text(object, "CgroupVersion")).value_or(0),
                  .root_dir = text(object, "DockerRootDir"),
                  .storage_driver = text(object, "Driver"),
                  .default_runtime = text(object, "DefaultRuntime"),
                  .architecture = text(object, "Architecture"),
                  .runtimes = {},
                  .cdi_devices = {},
                  .rootless = false,
                  .live_restore = flag(object, "LiveRestoreEnabled")};
  for (const auto& [name, ignored] : child(object, "Runtimes")) info.runtimes.emplace_back(name);
  std::ranges::sort(info.runtimes);
  for (const auto& item : list(object, "DiscoveredDevices")) {
    const auto* device = item.if_object();
    if (device != nullptr && text(*device, "Source") == "cdi") info.cdi_devices.push_back(text(*device, "ID"));
  }
  for (const auto& option : texts(list(object, "SecurityOptions"))) {
    info.rootless = info.rootless || option == "name=rootless" || option.starts_with("name=rootless,");
  }
  return info;
}

Result<Container> parse_container(std::string_view json) {
  const auto value = parse_object(json);
  if (!value) return fail(value.error());
  const auto& object = value->get_object();
  auto id = required(object, "Id");
  if (!id) return fail(id.error());
  const auto& state = child(object, "State");
  const auto& config = child(object, "Config");
  Container container;
  container.id = std::move(*id);
  container.name = text(object, "Name");
  if (container.name.starts_with('/')) container.name.erase(0, 1);
  container.image = text(object, "Image");
  container.status = status_of(text(state, "Status"));
  if (const auto pid = number(state, "Pid"); pid && *pid > 0) container.pid = pid;
  container.created_at = parse_time(text(object, "Created"));
  container.started_at = parse_time(text(state, "StartedAt"));
  container.finished_at = parse_time(text(state, "FinishedAt"));
  const auto exit_code = number(state, "ExitCode");
  // Before its first end it is 0 as well, and after a failed start the exit code is not the program's.
  if (container.ended() && container.started_at && exit_code && std::in_range<int>(*exit_code)) {
    container.exit_code = static_cast<int>(*exit_code);
  }
  container.oom_killed = flag(state, "OOMKilled");
  container.error = text(state, "Error");
  container.tty = flag(config, "Tty");
  container.labels = labels_of(config);
  container.published = published_ports(child(child(object, "NetworkSettings"), "Ports"));
  return container;
}

Result<std::vector<ListedContainer>> parse_container_list(std::string_view json) {
  return parse_list<ListedContainer>(json, [](const bj::object& object) -> Result<ListedContainer> {
    auto id = required(object, "Id");
    if (!id) return fail(id.error());
    ListedContainer row{.id = std::move(*id),
                        .names = texts(list(object, "Names")),
                        .image = text(object, "Image"),
                        .labels = labels_of(object)};
    for (auto& name : row.names) {
      if (name.starts_with('/')) name.erase(0, 1);
    }
    return row;
  });
}

Result<Image> parse_image(std::string_view json) {
  const auto value = parse_object(json);
  if (!value) return fail(value.error());
  return image_of(value->get_object());
}

Result<std::vector<Image>> parse_image_list(std::string_view json) { return parse_list<Image>(json, image_of); }

Result<Event> parse_event(std::string_view json) {
  const auto value = parse_object(json);
  if (!value) return fail(value.error());
  const auto& object = value->get_object();
  auto type = required(object, "Type");
  if (!type) return fail(type.error());
  const auto& actor = child(object, "Actor");
  Event event{
      .type = std::move(*type), .action = text(object, "Action"), .id = text(actor, "ID"), .exit_code = {}, .time = {}};
  event.action.erase(std::min(event.action.find(':'), event.action.size()));
  event.exit_code = parse_number<int>(text(child(actor, "Attributes"), "exitCode"));
  if (const auto time = number(object, "timeNano"); time && *time > 0) {
    event.time = EngineTime{std::chrono::nanoseconds{*time}};
  }
  return event;
}

Result<Created> parse_created(std::string_view json) {
  const auto value = parse_object(json);
  if (!value) return fail(value.error());
  const auto& object = value->get_object();
  auto id = required(object, "Id");
  if (!id) return fail(id.error());
  return Created{.id = std::move(*id), .warnings = texts(list(object, "Warnings"))};
}

Result<ApiRange> parse_api_range(std::string_view json) {
  const auto value = parse_object(json);
  if (!value) return fail(value.error());
  const auto& object = value->get_object();
  return ApiRange{.least = text(object, "MinAPIVersion"), .most = text(object, "ApiVersion")};
}

std::string error_message(std::string_view body) {
  constexpr std::size_t kLongest = 1000;
  std::string message;
  if (const auto value = json::parse(body); value && value->is_object()) message = text(value->get_object(), "message");
  if (message.empty()) message = body;
  while (!message.empty() && (message.back() == '\n' || message.back() == ' ')) message.pop_back();
  return printable(std::string_view{message}.substr(0, kLongest));
}

}  // namespace dgxmm::container
