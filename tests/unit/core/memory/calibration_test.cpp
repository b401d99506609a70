#include "core/memory/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace dgxmm::memory {
namespace {

using testing::HasSubstr;

constexpr auto kModel = "model-a";
constexpr auto kConfiguration = "llamacpp ctx_size=8192";
constexpr auto kOther = "llamacpp ctx_size=4096";

Estimate formula_of(Bytes size) { return {.total = size, .formula = size, .total_source = "sum of the parts"}; }

CalibrationRecord record(Bytes measured, Bytes formula, std::string configuration = kConfiguration,
                         std::string model = kModel) {
  return {.fingerprint = std::move(model),
          .configuration_key = std::move(configuration),
          .measured = measured,
          .formula = formula};
}

Estimate calibrated(Bytes formula, const std::vector<CalibrationRecord>& records,
                    const std::vector<OomFloor>& floors = {}) {
  return calibrate(formula_of(formula), kModel, kConfiguration, records, floors);
}

OomFloor killed(std::optional<OomFloor> before, Bytes size) {
  return raise_floor(std::move(before), kModel, kConfiguration, size, "oom_kill 1", {});
}

TEST(Calibration, C2_FootprintIsTheEnginesAccountingAndTheHostPart) {
  const Measured measured{.anon = gib(3), .kernel = gib(1), .shmem = gib(2), .gpu = gib(40)};
  EXPECT_EQ(footprint(measured, gib(38)), gib(44));
  EXPECT_EQ(footprint(measured, std::nullopt), gib(46));
  EXPECT_EQ(footprint({.anon = gib(3)}, gib(38)), gib(41)) << "the same with and without NVML";
}

TEST(Calibration, C3_SameConfigurationTakesTheMeasureAndATwentieth) {
  const auto result = calibrated(gib(30), {record(gib(40), gib(30))});
  EXPECT_EQ(result.total, gib(42));
  EXPECT_EQ(result.formula, gib(30));
  EXPECT_EQ(result.confidence, Confidence::measured);
  EXPECT_EQ(result.total_source, "measured once with this configuration, 40.0 GiB x 1.05");
}

TEST(Calibration, C3_OfSeveralTheLargestOfTheLastFive) {
  const std::vector<CalibrationRecord> records{record(gib(90), gib(30)), record(gib(40), gib(30)),
                                               record(gib(60), gib(30)), record(gib(41), gib(30)),
                                               record(gib(42), gib(30)), record(gib(43), gib(30))};
  const auto result = calibrated(gib(30), records);
  EXPECT_EQ(result.total, gib(63)) << "the first of six no longer counts";
  EXPECT_EQ(result.total_source, "measured 5 times with this configuration, largest 60.0 GiB x 1.05");
}

TEST(Calibration, C3_RecordsOfOtherConfigurationsDoNotPushOutThoseOfThisOne) {
  std::vector<CalibrationRecord> records{record(gib(40), gib(30))};
  for (int i = 0; i < 9; ++i) records.push_back(record(gib(10), gib(10), kOther));
  const auto result = calibrated(gib(30), records);
  EXPECT_EQ(result.total, gib(42));
  EXPECT_EQ(result.confidence, Confidence::measured);
}

TEST(Calibration, C4_OtherConfigurationsScaleTheFormulaByTheirMeanRatio) {
  const auto result = calibrated(gib(20), {record(gib(11), gib(10), kOther), record(gib(13), gib(10), kOther)});
  EXPECT_EQ(result.total, gib(24));
  EXPECT_EQ(result.confidence, Confidence::calibrated);
  EXPECT_THAT(result.total_source, HasSubstr("x 1.20"));
}

TEST(Calibration, C4_TheRatioIsTakenOfTheLastFive) {
  std::vector<CalibrationRecord> records{record(gib(50), gib(10), kOther)};
  for (int i = 0; i < 5; ++i) records.push_back(record(gib(11), gib(10), kOther));
  EXPECT_EQ(calibrated(gib(10), records).total, gib(11));
}

TEST(Calibration, C4_TheRatioIsClamped) {
  EXPECT_EQ(calibrated(gib(20), {record(gib(90), gib(10), kOther)}).total, gib(30));
  const auto lower = calibrated(gib(20), {record(gib(5), gib(10), kOther)});
  EXPECT_EQ(lower.total, gib(20));
  EXPECT_EQ(lower.confidence, Confidence::calibrated);
}

TEST(Calibration, C4_TheMeanIsClampedNotEachRatio) {
  EXPECT_EQ(calibrated(gib(10), {record(gib(6), gib(10), kOther), record(gib(18), gib(10), kOther)}).total, gib(12));
}

TEST(Calibration, C6_AMeasureBelowTheFormulaDoesNotLowerIt) {
  const auto result = calibrated(gib(30), {record(gib(20), gib(30))});
  EXPECT_EQ(result.total, gib(30));
  EXPECT_EQ(result.confidence, Confidence::measured);
  EXPECT_THAT(result.total_source, HasSubstr("is not more"));
}

TEST(Calibration, C7_OtherModelsDoNotSpeak) {
  const auto result = calibrated(gib(30), {record(gib(60), gib(30), kConfiguration, "model-b")});
  EXPECT_EQ(result.total, gib(30));
  EXPECT_EQ(result.confidence, Confidence::estimated);
}

TEST(Calibration, C4_RecordsWithoutSizesSayNothing) {
  const auto result = calibrated(gib(30), {record(gib(60), Bytes{}, kOther), record(Bytes{}, gib(30), kOther)});
  EXPECT_EQ(result.total, gib(30));
  EXPECT_EQ(result.confidence, Confidence::estimated);
}

TEST(Calibration, C5_TheNextEstimateAfterAKillIsATenthMore) {
  const auto floor = killed(std::nullopt, gib(40));
  EXPECT_EQ(floor.kills, 1);
  const auto result = calibrated(gib(40), {}, {floor});
  EXPECT_EQ(result.total, gib(44));
  EXPECT_THAT(result.total_source, HasSubstr("40.0 GiB was not enough"));
}

TEST(Calibration, C5_NeverAgainBelowWhateverIsMeasuredLater) {
  const std::vector<OomFloor> floors{killed(std::nullopt, gib(40))};
  EXPECT_EQ(calibrated(gib(10), {record(gib(10), gib(10))}, floors).total, gib(44));
  EXPECT_EQ(calibrated(gib(60), {}, floors).total, gib(60)) << "a larger formula stays";
}

TEST(Calibration, C5_EveryFurtherKillRaisesIt) {
  auto floor = killed(std::nullopt, gib(100));
  floor = killed(floor, gib(110));
  EXPECT_EQ(calibrated(gib(10), {}, {floor}).total, gib(121));
  floor = killed(floor, gib(100));
  EXPECT_EQ(floor.kills, 3);
  EXPECT_EQ(calibrated(gib(10), {}, {floor}).total, scale_up(gib(121), 11, 10))
      << "also when a smaller one, started before, is killed after";
}

TEST(Calibration, C5_CountsForThatConfigurationOnly) {
  auto floor = killed(std::nullopt, gib(40));
  floor.configuration_key = kOther;
  EXPECT_EQ(calibrated(gib(30), {}, {floor}).total, gib(30));
  floor = killed(std::nullopt, gib(40));
  floor.fingerprint = "model-b";
  EXPECT_EQ(calibrated(gib(30), {}, {floor}).total, gib(30));
}

TEST(Calibration, C3toC6_OnAnyHistoryNeverBelowFormulaFloorOrMeasureAndMonotone) {
  std::mt19937 random{42};
  const auto size = [&] { return Bytes{std::uniform_int_distribution<std::int64_t>{1, gib(100).count()}(random)}; };
  for (int i = 0; i < 3000; ++i) {
    std::vector<CalibrationRecord> records;
    const auto count = std::uniform_int_distribution{0, 12}(random);
    for (int n = 0; n < count; ++n) records.push_back(record(size(), size(), n % 3 == 0 ? kConfiguration : kOther));
    std::optional<OomFloor> floor;
    for (int n = std::uniform_int_distribution{0, 3}(random); n > 0; --n) {
      const auto before = floor ? floor->killed_size : Bytes{};
      floor = killed(floor, size());
      ASSERT_GE(floor->killed_size, scale_up(before, 11, 10));
    }
    const std::vector<OomFloor> floors = floor ? std::vector{*floor} : std::vector<OomFloor>{};
    const Bytes formula = size();
    const auto result = calibrated(formula, records, floors);
    ASSERT_GE(result.total, formula);
    ASSERT_EQ(result.formula, formula);
    if (floor) {
      ASSERT_GE(result.total, scale_up(floor->killed_size, 11, 10));
    }
    if (floors.empty() && result.confidence == Confidence::calibrated) {
      ASSERT_LE(result.total, scale_up(formula, 3, 2));
    }
    ASSERT_GE(calibrated(formula + mib(1), records, floors).total, result.total) << "a larger formula is not less";
    auto larger = records;
    for (auto& r : larger) r.measured += gib(1);
    ASSERT_GE(calibrated(formula, larger, floors).total, result.total) << "larger measures are not less";
  }
}

}  // namespace
}  // namespace dgxmm::memory
