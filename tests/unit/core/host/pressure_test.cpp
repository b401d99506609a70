#include "core/host/readings.h"

#include <gtest/gtest.h>

namespace dgxmm::host {
namespace {

TEST(Pressure, AveragesAreHundredthsOfAPercent) {
  const auto pressure = parse_pressure(
      "some avg10=12.34 avg60=1.00 avg300=0.10 total=123456\nfull avg10=0.05 avg60=0.00 avg300=0.00 total=12\n");
  EXPECT_EQ(pressure.some_avg10_permyriad, 1234);
  EXPECT_EQ(pressure.full_avg10_permyriad, 5);
}

TEST(Pressure, AKernelWithoutItHasNoPressureRatherThanNone) {
  EXPECT_EQ(parse_pressure("").some_avg10_permyriad, std::nullopt);
  EXPECT_EQ(parse_pressure("").full_avg10_permyriad, std::nullopt);
  EXPECT_EQ(parse_pressure("some avg10=100.00 avg60=0.00\n").some_avg10_permyriad, 10000);
  EXPECT_EQ(parse_pressure("some avg10=1.00\n").full_avg10_permyriad, std::nullopt);
}

TEST(Pressure, WhatIsNoPercentageIsUnknown) {
  for (const auto* text : {"some avg10=", "some avg10=1", "some avg10=1.5", "some avg10=-1.00", "some avg10=101.00",
                           "some avg10=nan", "some avg100=1.00", "avg10=1.00", "some avg10=1.0000000000"}) {
    EXPECT_EQ(parse_pressure(text).some_avg10_permyriad, std::nullopt) << text;
  }
}

}  // namespace
}  // namespace dgxmm::host
