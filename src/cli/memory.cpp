#include "base/masking.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/report.h"
#include "cli/table.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace dgxmm::cli {
namespace {

constexpr std::size_t kRowsOfAKind = 12;
constexpr std::size_t kShortId = 12;

std::string counted(std::int64_t processes, const std::string& user) {
  const auto what = fmt::format("{} process{}", processes, processes == 1 ? "" : "es");
  return user.empty() ? what : fmt::format("{} of {}", what, user);
}

std::string name_of(const dto::MemoryContainer& container) {
  return container.name.empty() ? container.id.substr(0, kShortId) : container.name;
}

std::string detail_of(const dto::MemoryContainer& container) {
  auto text = container.runtime.empty() ? std::string{"container"} : container.runtime;
  if (container.rootless_uid) text += fmt::format(" of user {}", *container.rootless_uid);
  if (!container.image.empty()) text += ", " + container.image;
  if (container.own) text += ", dgxmm itself";
  return text;
}

/// All but what lies on the GPU.
Bytes host_part(const dto::Measured& measured) {
  return measured.total_bytes - measured.gpu_bytes.value_or(measured.gpu_at_least_bytes.value_or(Bytes{}));
}

class Rows {
 public:
  void heading(std::string name, std::optional<Bytes> sum, std::string detail = {}) {
    table_.add({std::move(name), size_text(sum), {}, {}, std::move(detail)});
  }
  void holder(const std::string& name, const dto::Measured& measured, std::string detail) {
    mark(measured);
    table_.add({"  " + name, measured_text(measured), format_bytes(host_part(measured)),
                size_text(measured.gpu_bytes, measured.gpu_at_least_bytes), std::move(detail)});
  }
  void unmeasured(const std::string& name, std::string detail) {
    unknown_ = true;
    table_.add({"  " + name, "?", "?", "?", std::move(detail)});
  }
  void processes(const dto::MemoryProcesses& group) {
    incomplete_ = incomplete_ || !group.gpu_bytes;
    unknown_ = unknown_ || (!group.gpu_bytes && !group.gpu_at_least_bytes);
    auto detail = counted(group.processes, group.user);
    if (group.own) detail += ", dgxmm itself";
    table_.add({"  " + (group.unit.empty() ? std::string{"in no unit"} : group.unit),
                format_bytes(group.held_bytes) + (group.gpu_bytes ? "" : "+?"), format_bytes(group.anon_bytes),
                size_text(group.gpu_bytes, group.gpu_at_least_bytes), std::move(detail)});
  }
  void file(const std::string& name, Bytes size, const std::string& user) {
    table_.add({"  " + name, format_bytes(size), {}, {}, "of " + user});
  }
  void rest(std::size_t left_out, Bytes sum) {
    if (left_out > 0) table_.add({fmt::format("  {} more", left_out), format_bytes(sum)});
  }
  [[nodiscard]] std::string render(std::size_t width) const {
    return table_.render(width) + wrap(measured_footnote(approximate_, incomplete_, unknown_), width);
  }

 private:
  void mark(const dto::Measured& measured) {
    approximate_ = approximate_ || measured.approximate;
    incomplete_ = incomplete_ || !measured.complete;
    unknown_ = unknown_ || (!measured.gpu_bytes && !measured.gpu_at_least_bytes);
  }

  Table table_{{{"WHO", Align::left, 14},
                {"HOLDS", Align::right},
                {"HOST", Align::right},
                {"GPU", Align::right},
                {"DETAIL", Align::left, 12}}};
  bool approximate_ = false, incomplete_ = false, unknown_ = false;
};

/// At most so many rows; what is left out is added up.
template <class T, class Show, class Size>
void add_some(Rows& rows, const std::vector<T>& all, Show show, Size size) {
  Bytes left_out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    i < kRowsOfAKind ? show(all[i]) : static_cast<void>(left_out += size(all[i]));
  }
  rows.rest(all.size() > kRowsOfAKind ? all.size() - kRowsOfAKind : 0, left_out);
}

std::string ledger_text(const dto::Memory& memory, std::size_t width) {
  Rows rows;
  rows.heading("deployments", memory.deployments_bytes);
  for (const auto& deployment : memory.deployments) {
    const auto detail = fmt::format("{}, reserved {}", deployment.state, format_bytes(deployment.reserved_bytes));
    deployment.measured ? rows.holder(deployment.name, *deployment.measured, detail)
                        : rows.unmeasured(deployment.name, detail);
  }
  rows.heading("other containers", memory.containers_bytes, memory.names_unknown.empty() ? "" : "without names");
  add_some(
      rows, memory.containers,
      [&](const auto& container) { rows.holder(name_of(container), container.measured, detail_of(container)); },
      [](const auto& container) { return container.measured.total_bytes; });
  rows.heading("other processes", memory.processes_bytes);
  add_some(
      rows, memory.processes, [&](const auto& group) { rows.processes(group); },
      [](const auto& group) { return group.held_bytes; });
  rows.heading("shared memory", memory.shared_memory_bytes, "of processes outside containers");
  if (memory.ownerless_shared_memory_bytes != Bytes{}) {
    rows.heading("ownerless", memory.ownerless_shared_memory_bytes,
                 memory.ownerless_certain ? "shared memory that no process has open"
                                          : "no process that may be looked at has it open");
    add_some(
        rows, memory.ownerless_shared_memory, [&](const auto& file) { rows.file(file.name, file.bytes, file.user); },
        [](const auto& file) { return file.bytes; });
  }
  if (memory.hugepages_bytes != Bytes{}) rows.heading("hugepages", memory.hugepages_bytes, "the pool, used or not");
  rows.heading(memory.unattributed_bytes ? "unattributed" : "rest", memory.rest_bytes,
               memory.unattributed_bytes ? "kernel, drivers, what nobody owns" : "with what is unknown above");
  rows.heading("page cache", memory.page_cache_bytes, "given back when it is needed");
  rows.heading("free", memory.free_bytes);
  rows.heading("total", memory.mem_total_bytes);
  return rows.render(width);
}

}  // namespace

int run(const MemoryCommand& /*command*/, Context& context) {
  const auto memory = context.api.get<dto::Memory>("/memory");
  if (!memory) return report(context, memory.error());
  if (context.json) {
    print_json(context, *memory);
    return kExitOk;
  }
  auto& console = context.console;
  const auto headline =
      fmt::format("{} used, {} available", format_bytes(memory->used_bytes), format_bytes(memory->mem_available_bytes));
  console.out << paint(console.colour, Colour::bold, headline) << '\n';
  const auto promised = memory->promised_bytes > Bytes{}
                            ? fmt::format(", {} promised to starts", format_bytes(memory->promised_bytes))
                            : "";
  const auto kept =
      fmt::format("of it {} safety margin, {} for the system{}; {}", format_bytes(memory->safety_margin_bytes),
                  format_bytes(memory->os_reserve_bytes), promised,
                  memory->free_for_new_bytes < Bytes{}
                      ? fmt::format("over-committed by {}", format_bytes(-memory->free_for_new_bytes))
                      : fmt::format("{} free for new models", format_bytes(memory->free_for_new_bytes)));
  console.out << wrap(kept, console.width) << '\n' << ledger_text(*memory, console.width);
  console.out << warnings_text(memory->warnings, console);
  return kExitOk;
}

}  // namespace dgxmm::cli
