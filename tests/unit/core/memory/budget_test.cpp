#include "core/memory/budget.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace dgxmm::memory {
namespace {

using deployment::State;

constexpr State kStates[] = {State::starting, State::loading, State::ready,  State::sleeping,
                             State::stopping, State::stopped, State::failed, State::unknown};

Measured host_and_gpu(Bytes host, std::optional<Bytes> gpu) {
  return {.anon = host, .kernel = Bytes{}, .shmem = Bytes{}, .gpu = gpu};
}

DeploymentMemory one(State state, Bytes reserved, std::optional<Measured> measured) {
  return {.id = {1}, .state = state, .reserved = reserved, .measured = measured};
}

/// A host of 100 GiB with 88 GiB usable, of which `used` are taken.
Budget budget_of(std::vector<DeploymentMemory> deployments, Bytes used) {
  return compute_budget(gib(100), gib(100) - used, deployments, {});
}

std::string printed(Bytes bytes) { return fmt::format("{:.1f}", bytes.gib()); }

/// The specification's example prints 53.4 for 47.1 + 6.4: the figures behind it are rounded, so each is taken at the
/// second decimal that prints as it does.
struct WorkedExample {
  Bytes gpu = gib_from_decimal(47.06);
  Bytes cgroup = gib_from_decimal(6.38);
  Bytes reserved = gib_from_decimal(48.69);
  Bytes used = gib_from_decimal(64.90);
};

TEST(Budget, B9_WorkedExampleToThePrintedDigit_NvmlFigures) {
  const WorkedExample example;
  EXPECT_EQ(printed(example.gpu), "47.1");
  EXPECT_EQ(printed(example.cgroup), "6.4");
  EXPECT_EQ(printed(example.reserved), "48.7");
  const auto budget =
      budget_of({one(State::ready, example.reserved, host_and_gpu(example.cgroup, example.gpu))}, example.used);
  EXPECT_EQ(printed(budget.used), "64.9");
  EXPECT_EQ(printed(budget.measured_by_managed), "53.4");
  EXPECT_EQ(budget.ready_gap, Bytes{});
  EXPECT_EQ(printed(budget.external), "11.5");
}

TEST(Budget, B9_WorkedExampleToThePrintedDigit_CgroupOnly) {
  const WorkedExample example;
  const auto budget =
      budget_of({one(State::ready, example.reserved, host_and_gpu(example.cgroup, std::nullopt))}, example.used);
  EXPECT_EQ(printed(budget.measured_by_managed), "6.4");
  EXPECT_EQ(printed(budget.ready_gap), "42.3");
  EXPECT_EQ(printed(budget.external), "16.2");
}

TEST(Budget, B1_UsableIsTheTotalWithoutMarginAndReserve) {
  const auto budget = compute_budget(gib(128), gib(128), {}, {.safety_margin = gib(8), .os_reserve = gib(4)});
  EXPECT_EQ(budget.usable, gib(116));
  EXPECT_EQ(budget.free_for_new, gib(116));
}

TEST(Budget, B2_StatesThatGrowCountTheLargerOfReservedAndMeasured) {
  for (const auto state : {State::starting, State::loading, State::ready, State::unknown}) {
    SCOPED_TRACE(name_of(state));
    EXPECT_EQ(budget_of({one(state, gib(20), host_and_gpu(gib(5), Bytes{}))}, gib(5)).committed, gib(20));
    EXPECT_EQ(budget_of({one(state, gib(20), host_and_gpu(gib(25), Bytes{}))}, gib(25)).committed, gib(25));
    EXPECT_EQ(budget_of({one(state, gib(20), std::nullopt)}, gib(5)).committed, gib(20));
  }
}

TEST(Budget, B2_StatesThatShrinkCountWhatTheyHold) {
  for (const auto state : {State::sleeping, State::stopping}) {
    SCOPED_TRACE(name_of(state));
    EXPECT_EQ(budget_of({one(state, gib(20), host_and_gpu(gib(5), Bytes{}))}, gib(5)).committed, gib(5));
  }
}

TEST(Budget, B2_EndedDeploymentsCountNothingUnlessTheyStillHoldMemory) {
  for (const auto state : {State::stopped, State::failed}) {
    SCOPED_TRACE(name_of(state));
    auto ended = one(state, gib(20), host_and_gpu(gib(5), Bytes{}));
    EXPECT_EQ(budget_of({ended}, gib(5)).free_for_new, gib(83));
    EXPECT_EQ(budget_of({ended}, gib(5)).committed, gib(5));
    ended.holds_memory = false;
    EXPECT_EQ(budget_of({ended}, Bytes{}).committed, Bytes{});
    EXPECT_EQ(budget_of({ended}, Bytes{}).free_for_new, gib(88));
  }
}

TEST(Budget, B3_AReservationWithoutAContainerHasNoMeasure) {
  auto starting = one(State::starting, gib(20), host_and_gpu(gib(5), Bytes{}));
  starting.holds_memory = false;
  const auto budget = budget_of({starting}, gib(5));
  EXPECT_EQ(budget.measured_by_managed, Bytes{});
  EXPECT_EQ(budget.external, gib(5));
  EXPECT_EQ(budget.committed, gib(20));
}

TEST(Budget, B4_TheGapIsCreditedWhenReadyOnly) {
  for (const auto state : kStates) {
    SCOPED_TRACE(name_of(state));
    const auto budget = budget_of({one(state, gib(20), host_and_gpu(gib(5), std::nullopt))}, gib(30));
    EXPECT_EQ(budget.ready_gap, state == State::ready ? gib(15) : Bytes{});
  }
}

TEST(Budget, B4_NoCreditAboveTheReservation) {
  const auto budget = budget_of({one(State::ready, gib(20), host_and_gpu(gib(25), std::nullopt)),
                                 one(State::ready, gib(10), host_and_gpu(gib(4), std::nullopt))},
                                gib(40));
  EXPECT_EQ(budget.ready_gap, gib(6)) << "the 5 GiB above the first one's reservation are not taken from the second's";
}

TEST(Budget, B5_AnOvercommittedHostHasANegativeFreeFigure) {
  EXPECT_EQ(budget_of({one(State::starting, gib(90), std::nullopt)}, gib(10)).free_for_new, -gib(12));
}

TEST(Budget, B6_MeasuredIsTheSumOfItsFourParts) {
  const Measured measured{.anon = gib(1), .kernel = gib(2), .shmem = gib(4), .gpu = gib(8)};
  EXPECT_EQ(measured.total(), gib(15));
  EXPECT_EQ(measured.host(), gib(7));
}

TEST(Budget, B7_UnknownPartsAreLeftOutOfTheSum) {
  EXPECT_EQ((Measured{.anon = gib(1)}).total(), gib(1));
  EXPECT_EQ(Measured{}.total(), Bytes{});
  EXPECT_NE(Measured{}, (Measured{.gpu = Bytes{}})) << "unknown is not zero";
}

TEST(Budget, F30_APendingDeploymentKeepsWhatItHasNotTakenYet) {
  const auto budget = budget_of({one(State::loading, gib(20), host_and_gpu(gib(4), Bytes{}))}, gib(4));
  EXPECT_EQ(budget.free_for_new, gib(68));
}

/// The document's four lines, each on its own and as they are written.
Budget reference(Bytes total, Bytes available, const std::vector<DeploymentMemory>& deployments,
                 const BudgetSettings& settings) {
  std::int64_t committed = 0, managed = 0, gap = 0;
  for (const auto& d : deployments) {
    std::int64_t measured = 0;
    if (d.holds_memory && d.measured) {
      for (const auto& part : {d.measured->anon, d.measured->kernel, d.measured->shmem, d.measured->gpu}) {
        if (part) measured += part->count();
      }
    }
    managed += measured;
    switch (d.state) {
      case State::ready:
        committed += std::max(d.reserved.count(), measured);
        if (d.reserved.count() > measured) gap += d.reserved.count() - measured;
        break;
      case State::starting:
      case State::loading:
      case State::unknown: committed += std::max(d.reserved.count(), measured); break;
      default: committed += measured;
    }
  }
  const auto used = total.count() - available.count();
  const auto external = std::max<std::int64_t>(used - managed - gap, 0);
  const auto usable = total.count() - settings.safety_margin.count() - settings.os_reserve.count();
  return {.mem_total = total,
          .mem_available = available,
          .safety_margin = settings.safety_margin,
          .os_reserve = settings.os_reserve,
          .usable = Bytes{usable},
          .committed = Bytes{committed},
          .used = Bytes{used},
          .measured_by_managed = Bytes{managed},
          .ready_gap = Bytes{gap},
          .external = Bytes{external},
          .free_for_new = Bytes{usable - committed - external}};
}

class RandomHosts {
 public:
  explicit RandomHosts(unsigned seed) : random_(seed) {}

  Bytes upto(Bytes most) { return Bytes{std::uniform_int_distribution<std::int64_t>{0, most.count()}(random_)}; }
  bool one_in(int n) { return std::uniform_int_distribution{1, n}(random_) == 1; }

  std::vector<DeploymentMemory> deployments() {
    std::vector<DeploymentMemory> result(std::uniform_int_distribution<std::size_t>{0, 6}(random_));
    std::int64_t id = 0;
    for (auto& d : result) {
      d.id = {++id};
      d.state = kStates[std::uniform_int_distribution<std::size_t>{0, std::size(kStates) - 1}(random_)];
      d.reserved = upto(gib(60));
      d.holds_memory = !one_in(5);
      if (one_in(6)) continue;
      d.measured = Measured{};
      for (auto* part : {&d.measured->anon, &d.measured->kernel, &d.measured->shmem, &d.measured->gpu}) {
        if (!one_in(4)) *part = upto(gib(15));
      }
    }
    return result;
  }

 private:
  std::mt19937 random_;
};

TEST(Budget, B1toB5_AgreeWithTheDocumentOnAnyHost) {
  RandomHosts hosts{20260829};
  for (int i = 0; i < 5000; ++i) {
    const auto deployments = hosts.deployments();
    const Bytes available = hosts.upto(gib(128));
    const BudgetSettings settings{.safety_margin = hosts.upto(gib(16)), .os_reserve = hosts.upto(gib(8))};
    const auto budget = compute_budget(gib(128), available, deployments, settings);
    ASSERT_EQ(budget, reference(gib(128), available, deployments, settings)) << "case " << i;
    ASSERT_EQ(budget.free_for_new + budget.committed + budget.external, budget.usable);
    ASSERT_GE(budget.external, Bytes{});
  }
}

TEST(Budget, B5_OneMoreReservationNeverFreesMemory) {
  RandomHosts hosts{7};
  for (int i = 0; i < 5000; ++i) {
    auto deployments = hosts.deployments();
    const Bytes available = hosts.upto(gib(128));
    const auto before = compute_budget(gib(128), available, deployments, {});
    deployments.push_back({.id = {99}, .reserved = hosts.upto(gib(40)), .measured = {}, .holds_memory = false});
    const auto after = compute_budget(gib(128), available, deployments, {});
    ASSERT_EQ(after.free_for_new, before.free_for_new - deployments.back().reserved);
  }
}

}  // namespace
}  // namespace dgxmm::memory
