#include "app/service/ledger.h"

#include "base/masking.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace dgxmm::service {
namespace {

using Kind = host::GroupOwner::Kind;

Bytes held_by(const host::ProcessGroup& group) { return group.anon + group.gpu.value_or(group.gpu_at_least); }

/// What an engine holds that was started as a process inside of somebody's container is in that container's figures.
void take_out(memory::Measured& container, const memory::Measured& engine) {
  const auto reduce = [](std::optional<Bytes>& part, std::optional<Bytes> by) {
    if (part && by) part = std::max(*part - *by, Bytes{});
  };
  reduce(container.anon, engine.anon);
  reduce(container.kernel, engine.kernel);
  reduce(container.shmem, engine.shmem);
}

}  // namespace

LedgerReader::LedgerReader(Sampler& sampler, DeploymentTable& table, ports::HostProbe& host,
                           const ports::MemoryGroups& groups, ports::ContainerNames& names, Orphans& orphans,
                           ports::EventLoop& loop)
    : sampler_(sampler),
      table_(table),
      host_(host),
      groups_(groups),
      names_(names),
      orphans_(orphans),
      loop_(loop) {}

ports::Task<LedgerReading> LedgerReader::read(std::size_t rows, std::shared_ptr<const HostSnapshot> snapshot) {
  LedgerReading reading;
  const auto named = co_await names_.running();
  // The host and the deployments, then everybody else.
  if (!snapshot) snapshot = sampler_.refresh();
  reading.snapshot = snapshot;
  const auto managed = members_of(*reading.snapshot);
  std::vector<std::int64_t> managed_pids;
  for (const auto& members : managed) {
    managed_pids.insert(managed_pids.end(), members.pids.begin(), members.pids.end());
  }
  host::ProcessList list;
  co_await loop_.on_pool([&] {
    list = host_.processes(rows, managed_pids, snapshot->gpu);
    reading.ownerless = host_.ownerless_memory();
  });
  take_groups(reading, list, managed);
  reading.orphans = orphans_.find();
  reading.largest = std::move(list.rows);
  put_orphans_first(reading, rows);
  for (auto& container : reading.containers) {
    const auto orphan = std::ranges::find(reading.orphans, container.owner.name,
                                          [](const Orphan& each) { return each.instance.container_id; });
    if (orphan != reading.orphans.end()) container.orphan_id = orphan->id;
  }

  if (named) {
    for (auto& container : reading.containers) {
      const auto found = std::ranges::find(*named, container.owner.name, &container::ListedContainer::id);
      if (found == named->end()) continue;
      if (!found->names.empty()) container.name = printable(found->names.front());
      container.image = printable(found->image);
    }
  } else {
    reading.names_problem = named.error().message;
  }

  reading.warnings = snapshot->warnings;
  for (const auto& orphan : reading.orphans) {
    const auto holds = orphan.measured ? format_bytes(orphan.measured->total()) : std::string{"an unknown amount"};
    reading.warnings.push_back(
        {.code = "orphan",
         .message = fmt::format("{} is an engine of dgxmm that no deployment knows, and holds {}",
                                orphan.instance.shown(), holds),
         .hint = fmt::format("`dgxmm orphans --stop {}` ends it", orphan.id)});
  }
  if (snapshot->problem) co_return reading;
  std::vector<memory::Measured> containers;
  std::ranges::transform(reading.containers, std::back_inserter(containers), &ForeignContainer::measured);
  std::vector<memory::Measured> processes;
  for (const auto& group : reading.processes) {
    processes.push_back({.anon = group.anon,
                         .kernel = {},
                         .shmem = {},
                         .gpu = group.gpu,
                         .gpu_at_least = group.gpu_at_least,
                         .approximate = true});
  }
  std::optional<Bytes> ownerless;
  if (reading.ownerless) {
    ownerless = Bytes{};
    for (const auto& memory : reading.ownerless->items) *ownerless += memory.size;
  }
  reading.sums = memory::make_ledger({.mem_total = snapshot->mem_total,
                                      .mem_available = snapshot->mem_available,
                                      .mem_free = snapshot->meminfo.mem_free,
                                      .shmem = snapshot->meminfo.shmem,
                                      .hugetlb = snapshot->meminfo.hugetlb,
                                      .deployments = snapshot->deployments,
                                      .containers = containers,
                                      .processes = processes,
                                      .ownerless = ownerless,
                                      .gpu_shares_memory = snapshot->gpu.host_class != host::HostClass::discrete});
  for (auto& warning : memory::ledger_warnings(reading.sums)) reading.warnings.push_back(std::move(warning));
  co_return reading;
}

void LedgerReader::put_orphans_first(LedgerReading& reading, std::size_t rows) const {
  if (rows == 0) return;
  std::vector<host::ProcessRow> first;
  for (const auto& orphan : reading.orphans) {
    for (auto& row : host_.rows_of(orphan.pids, reading.snapshot->gpu)) first.push_back(std::move(row));
  }
  std::erase_if(reading.largest, [&](const host::ProcessRow& row) {
    return std::ranges::find(first, row.pid, &host::ProcessRow::pid) != first.end();
  });
  first.insert(first.end(), std::make_move_iterator(reading.largest.begin()),
               std::make_move_iterator(reading.largest.end()));
  reading.largest = std::move(first);
}

std::vector<LedgerReader::Members> LedgerReader::members_of(const HostSnapshot& snapshot) const {
  std::vector<Members> result;
  for (const auto& entry : snapshot.deployments) {
    const auto* deployment = table_.find(entry.id);
    const auto pids = snapshot.pids.find(entry.id);
    if (deployment == nullptr || !deployment->instance || pids == snapshot.pids.end()) continue;
    result.push_back({.memory = &entry, .container_id = deployment->instance->container_id, .pids = pids->second});
  }
  return result;
}

ForeignContainer LedgerReader::measure(const host::ProcessGroup& group) const {
  ForeignContainer container{.owner = group.owner,
                             .name = {},
                             .image = {},
                             .processes = group.processes,
                             .measured = {.gpu = group.gpu, .gpu_at_least = group.gpu_at_least},
                             .own = group.own};
  auto& measured = container.measured;
  const auto memory = group.owner.below_mount ? groups_.read({group.cgroup_version, group.owner.path}) : std::nullopt;
  if (memory && memory->anon) {
    measured.anon = memory->anon;
    measured.kernel = memory->kernel;
    if (memory->kernel && memory->sock) *measured.kernel += *memory->sock;
    measured.shmem = memory->shmem;
  } else {
    measured.approximate = true;
    measured.anon = group.anon;
    measured.shmem = group.shmem;
  }
  return container;
}

void LedgerReader::take_groups(LedgerReading& reading, const host::ProcessList& list,
                               const std::vector<Members>& managed) const {
  for (const auto& group : list.groups) {
    if (group.owner.kind != Kind::container) {
      reading.processes.push_back(group);
      continue;
    }
    // A process of a deployment's container that started after its others were listed.
    const bool is_managed = std::ranges::any_of(managed, [&](const Members& members) {
      return !members.container_id.empty() && members.container_id == group.owner.name;
    });
    if (is_managed) continue;
    auto container = measure(group);
    for (const auto& members : managed) {
      const bool inside = !members.pids.empty() && members.memory->measured &&
                          std::ranges::any_of(list.left_out, [&](const auto& left_out) {
                            return left_out.first == members.pids.front() && left_out.second.path == group.owner.path;
                          });
      if (inside && !container.measured.approximate) take_out(container.measured, *members.memory->measured);
    }
    reading.containers.push_back(std::move(container));
  }
  std::ranges::sort(reading.containers, {}, [](const ForeignContainer& container) {
    return std::pair{-container.measured.total().count(), container.owner.path};
  });
  std::ranges::sort(reading.processes, {}, [](const host::ProcessGroup& group) {
    return std::pair{-held_by(group).count(), group.owner.path};
  });
}

}  // namespace dgxmm::service
