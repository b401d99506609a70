#include "base/bytes.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace dgxmm {
namespace {

TEST(Bytes, AreSignedAndOrdered) {
  EXPECT_EQ(gib(1) - gib(3), -gib(2));
  EXPECT_LT(gib(1) - gib(3), Bytes{});
  EXPECT_EQ(3 * mib(2) + kib(1), Bytes{6 * 1024 * 1024 + 1024});
}

TEST(Bytes, GibWithDecimalsIsRoundedToTheNearestByte) {
  EXPECT_EQ(gib_from_decimal(0.5), mib(512));
  EXPECT_EQ(gib_from_decimal(1.0 / 3.0), Bytes{357913941});
  EXPECT_EQ(gib_from_decimal(-1.5), -mib(1536));
}

TEST(Bytes, ScalingRoundsUpAndDoesNotOverflowInBetween) {
  EXPECT_EQ(scale_up(Bytes{10}, 105, 100), Bytes{11});
  EXPECT_EQ(scale_up(Bytes{100}, 105, 100), Bytes{105});
  EXPECT_EQ(scale_up(Bytes{}, 105, 100), Bytes{});
  EXPECT_EQ(scale_up(Bytes{std::numeric_limits<std::int64_t>::max() / 2}, 1500, 1500),
            Bytes{std::numeric_limits<std::int64_t>::max() / 2});
}

TEST(Bytes, AreShownWithOneDecimalAndABinaryUnit) {
  EXPECT_EQ(format_bytes(Bytes{}), "0 B");
  EXPECT_EQ(format_bytes(Bytes{1023}), "1023 B");
  EXPECT_EQ(format_bytes(kib(1)), "1.0 KiB");
  EXPECT_EQ(format_bytes(mib(312)), "312.0 MiB");
  EXPECT_EQ(format_bytes(gib_from_decimal(48.7)), "48.7 GiB");
  EXPECT_EQ(format_bytes(-gib_from_decimal(1.25)), "-1.2 GiB");
  EXPECT_EQ(format_bytes(-Bytes{5}), "-5 B");
}

TEST(Bytes, TheUnitNeverReads1024) {
  EXPECT_EQ(format_bytes(mib(1) - Bytes{1}), "1.0 MiB");
  EXPECT_EQ(format_bytes(gib(1) - Bytes{1}), "1.0 GiB");
  EXPECT_EQ(format_bytes(gib(2048)), "2048.0 GiB");
}

TEST(Bytes, TheExtremesCanBeShown) {
  EXPECT_EQ(format_bytes(Bytes{std::numeric_limits<std::int64_t>::min()}), "-8589934592.0 GiB");
  EXPECT_EQ(format_bytes(Bytes{std::numeric_limits<std::int64_t>::max()}), "8589934592.0 GiB");
}

TEST(Bytes, SizesAreReadWithBinaryUnits) {
  EXPECT_EQ(parse_bytes("8GiB"), gib(8));
  EXPECT_EQ(parse_bytes("8 G"), gib(8));
  EXPECT_EQ(parse_bytes("0.5M"), kib(512));
  EXPECT_EQ(parse_bytes("4096"), Bytes{4096});
  EXPECT_EQ(parse_bytes("12 B"), Bytes{12});
  EXPECT_EQ(parse_bytes("1T"), gib(1024));
}

TEST(Bytes, WhatIsNotASizeIsRefused) {
  // GB is refused because it would mean 10^9 to some and 2^30 to others.
  for (const std::string text : {"", " ", "GiB", "8GB", "8gib", "-1", "nan", "inf", "1e30", "9000000T", "8GiB!", "0x10",
                                 "8 GiB ", "+8", "1,5G"}) {
    const auto parsed = parse_bytes(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, "bad_size") << text;
    EXPECT_FALSE(parsed.error().hint.empty());
  }
}

}  // namespace
}  // namespace dgxmm
