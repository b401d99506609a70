#include "core/memory/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace dgxmm::memory {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using State = deployment::State;

Measured held(Bytes anon, Bytes gpu, Bytes shmem = {}, Bytes kernel = {}) {
  return {.anon = anon, .kernel = kernel, .shmem = shmem, .gpu = gpu};
}

DeploymentMemory deployed(std::optional<Measured> measured, State state = State::ready, Bytes reserved = {}) {
  return {.id = {1}, .state = state, .reserved = reserved, .measured = std::move(measured)};
}

/// A host on which nothing is unknown.
LedgerReadings host_with(Bytes used) {
  return {.mem_total = gib(120),
          .mem_available = gib(120) - used,
          .mem_free = gib(1),
          .shmem = Bytes{0},
          .hugetlb = Bytes{0},
          .deployments = {},
          .containers = {},
          .processes = {},
          .ownerless = Bytes{0}};
}

Bytes or_none(std::optional<Bytes> part) { return part.value_or(Bytes{}); }

TEST(Ledger, A13_GpuAndHostMemoryAreToldApartAndNothingCountsTwice) {
  // GiB: 98.695 used, 89.276 of it on the GPU.
  auto readings = host_with(gib_from_decimal(98.695));
  const std::vector processes{held({}, gib_from_decimal(89.276))};
  readings.processes = processes;
  const auto ledger = make_ledger(readings);
  EXPECT_EQ(ledger.processes, gib_from_decimal(89.276));
  EXPECT_EQ(ledger.unattributed, gib_from_decimal(98.695) - gib_from_decimal(89.276));
}

TEST(Ledger, B6_ManagedCudaMemoryIsInTheKernelPartOfItsContainer) {
  auto readings = host_with(gib(100));
  const std::vector containers{held(gib(40), {}, {}, gib(55))};
  readings.containers = containers;
  EXPECT_EQ(make_ledger(readings).containers, gib(95));
  EXPECT_EQ(make_ledger(readings).unattributed, gib(5));
}

TEST(Ledger, SharedMemoryCountsOnceForTheHost) {
  auto readings = host_with(gib(50));
  const std::vector deployments{deployed(held(gib(10), gib(6), gib(4)))};
  const std::vector containers{held(gib(1), {}, gib(1))};
  const std::vector processes{held(gib(5), gib(10), gib(77))};  // what they say themselves does not count
  readings.deployments = deployments;
  readings.containers = containers;
  readings.processes = processes;
  readings.shmem = gib(7);
  readings.hugetlb = gib(8);
  const auto ledger = make_ledger(readings);
  EXPECT_EQ(ledger.shared_memory, gib(7 - 4 - 1));
  EXPECT_EQ(ledger.unattributed, gib(50 - 20 - 2 - 15 - 2 - 8));
}

TEST(Ledger, D14_SharedMemoryWithoutOwnerIsALineOfItsOwn) {
  auto readings = host_with(gib(60));
  const std::vector deployments{deployed(held(gib(10), {}, gib(5)))};
  readings.deployments = deployments;
  readings.shmem = gib(40);
  readings.ownerless = gib(32);
  const auto ledger = make_ledger(readings);
  EXPECT_EQ(ledger.ownerless, gib(32));
  EXPECT_EQ(ledger.shared_memory, gib(3));
  EXPECT_EQ(ledger.unattributed, gib(60 - 15 - 35));
  EXPECT_THAT(ledger_warnings(ledger), ElementsAre(Field(&host::Warning::code, "ownerless_shared_memory")));
  readings.ownerless = gib(39);  // some of it is charged to the engine that lives on
  EXPECT_EQ(make_ledger(readings).ownerless, gib(35));
  EXPECT_EQ(make_ledger(readings).shared_memory, gib(0));
}

TEST(Ledger, B7_WhatIsUnknownIsInTheRestAndNotCalledUnattributed) {
  auto readings = host_with(gib(60));
  Measured unknown_gpu = held(gib(2), {});
  unknown_gpu.gpu.reset();
  const std::vector containers{unknown_gpu};
  readings.containers = containers;
  const auto ledger = make_ledger(readings);
  EXPECT_EQ(ledger.containers, gib(2));
  EXPECT_EQ(ledger.rest, gib(58));
  EXPECT_EQ(ledger.unattributed, std::nullopt);
  EXPECT_THAT(ledger_warnings(ledger), IsEmpty());

  readings.gpu_shares_memory = false;
  EXPECT_EQ(make_ledger(readings).unattributed, gib(58)) << "a card's memory is none of the host's";
}

TEST(Ledger, WhatTheHostDoesNotSayIsAbsent) {
  auto readings = host_with(gib(60));
  readings.shmem.reset();
  readings.mem_free.reset();
  const auto ledger = make_ledger(readings);
  EXPECT_EQ(ledger.shared_memory, std::nullopt);
  EXPECT_EQ(ledger.ownerless, std::nullopt);
  EXPECT_EQ(ledger.unattributed, std::nullopt);
  EXPECT_EQ(ledger.free, std::nullopt);
  EXPECT_EQ(ledger.page_cache, std::nullopt);
  readings = host_with(gib(60));
  readings.hugetlb.reset();
  EXPECT_EQ(make_ledger(readings).unattributed, std::nullopt);
  const std::vector deployments{deployed(std::nullopt)};
  readings = host_with(gib(60));
  readings.deployments = deployments;
  EXPECT_EQ(make_ledger(readings).unattributed, std::nullopt) << "a deployment that cannot be measured";
}

TEST(Ledger, PromisedIsWhatStartsHaveNotTakenYet) {
  auto readings = host_with(gib(60));
  const std::vector deployments{
      deployed(held(gib(4), {}), State::loading, gib(10)), deployed(held(gib(4), {}), State::ready, gib(10)),
      deployed(held(gib(4), {}), State::sleeping, gib(10)), deployed(held(gib(12), {}), State::loading, gib(10)),
      deployed(std::nullopt, State::unknown, gib(3))};
  readings.deployments = deployments;
  EXPECT_EQ(make_ledger(readings).promised, gib(6 + 3));
}

TEST(Ledger, MuchAndLessThanNothingAreWarnings) {
  const auto warnings = [](Bytes unattributed) { return ledger_warnings({.unattributed = unattributed}); };
  EXPECT_THAT(warnings(gib(12)), IsEmpty());
  EXPECT_THAT(warnings(gib(12) + Bytes{1}),
              ElementsAre(Field(&host::Warning::message, HasSubstr("belong to no process"))));
  EXPECT_THAT(warnings(-mib(512)), IsEmpty());
  EXPECT_THAT(warnings(-gib(1)), ElementsAre(Field(&host::Warning::code, "counted_twice")));
}

TEST(Ledger, KernelReservesAreNotFreeTwice) {
  auto readings = host_with(gib(20));
  readings.mem_free = gib(101);  // MemAvailable is 100: the kernel keeps a part of the free pages
  const auto ledger = make_ledger(readings);
  EXPECT_EQ(ledger.free, gib(100));
  EXPECT_EQ(ledger.page_cache, gib(0));
}

/// Host-memory's identity, on whatever a host may say: the parts add up, and what is unknown makes nothing disappear.
TEST(LedgerProperty, ThePartsAddUpToAllMemoryToTheByte) {
  std::mt19937_64 random{20261130};
  const auto bytes = [&](std::int64_t most) {
    return Bytes{std::uniform_int_distribution<std::int64_t>{0, most}(random)};
  };
  const auto maybe = [&](std::int64_t most) { return random() % 5 == 0 ? std::nullopt : std::optional{bytes(most)}; };
  const auto some_holder = [&] {
    return Measured{.anon = maybe(1LL << 34),
                    .kernel = maybe(1LL << 30),
                    .shmem = maybe(1LL << 32),
                    .gpu = maybe(1LL << 36),
                    .approximate = random() % 4 == 0};
  };
  for (int round = 0; round < 2000; ++round) {
    LedgerReadings readings;
    readings.mem_total = bytes(1LL << 37) + gib(1);
    readings.mem_available = bytes(readings.mem_total.count());
    readings.mem_free = maybe(readings.mem_total.count());
    readings.shmem = maybe(1LL << 35);
    readings.hugetlb = maybe(1LL << 33);
    readings.ownerless = maybe(1LL << 35);
    readings.gpu_shares_memory = random() % 4 != 0;
    std::vector<DeploymentMemory> deployments;
    std::vector<Measured> containers, processes;
    for (auto n = random() % 5; n > 0; --n) {
      auto entry = deployed(random() % 6 == 0 ? std::nullopt : std::optional{some_holder()},
                            static_cast<State>(random() % 5), bytes(1LL << 35));
      entry.holds_memory = random() % 4 != 0;
      deployments.push_back(entry);
    }
    for (auto n = random() % 5; n > 0; --n) containers.push_back(some_holder());
    for (auto n = random() % 5; n > 0; --n) processes.push_back(some_holder());
    readings.deployments = deployments;
    readings.containers = containers;
    readings.processes = processes;

    const auto ledger = make_ledger(readings);
    const auto used = ledger.deployments + ledger.containers + ledger.processes + or_none(ledger.shared_memory) +
                      or_none(ledger.ownerless) + or_none(ledger.hugepages) + ledger.rest;
    ASSERT_EQ(used, ledger.used) << "round " << round;
    const auto available = ledger.free ? *ledger.free + *ledger.page_cache : ledger.mem_available;
    ASSERT_EQ(used + available, readings.mem_total) << "round " << round;
    ASSERT_GE(or_none(ledger.page_cache), Bytes{0});
    ASSERT_GE(or_none(ledger.ownerless), Bytes{0});
    if (ledger.unattributed) ASSERT_EQ(*ledger.unattributed, ledger.rest);

    // Of what is available: kept, promised and free for new, by the budget's own sum.
    const auto budget = compute_budget(readings.mem_total, readings.mem_available, deployments, {});
    if (budget.external > Bytes{0}) {
      ASSERT_EQ(budget.safety_margin + budget.os_reserve + ledger.promised + budget.free_for_new,
                readings.mem_available)
          << "round " << round;
    }
  }
}

}  // namespace
}  // namespace dgxmm::memory
