#include "core/container/api_version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgxmm::container {
namespace {

using testing::HasSubstr;

std::string chosen(std::string_view least, std::string_view most) {
  const auto api = choose_api(least, most);
  if (!api) return api.error().code;
  return to_text(api->version) + (api->warning.empty() ? "" : " with warning");
}

TEST(ApiVersion, D17_OursIfTheEngineTakesItElseTheNearestWithAWarning) {
  EXPECT_EQ(chosen("1.44", "1.52"), "1.44");
  EXPECT_EQ(chosen("1.24", "1.44"), "1.44");
  EXPECT_EQ(chosen("1.24", "1.43"), "1.43 with warning");
  EXPECT_EQ(chosen("1.50", "1.55"), "1.50 with warning");
  EXPECT_EQ(chosen("1.12", "1.41"), "1.41 with warning");
}

TEST(ApiVersion, VersionsAreNumbersNotText) {
  EXPECT_EQ(chosen("1.9", "1.100"), "1.44");
  EXPECT_LT((ApiVersion{1, 9}), (ApiVersion{1, 10}));
}

TEST(ApiVersion, AnEngineThatIsTooOldIsRefusedWithWhatToDo) {
  const auto api = choose_api("1.12", "1.39");
  ASSERT_FALSE(api);
  EXPECT_EQ(api.error().code, "engine_too_old");
  EXPECT_THAT(api.error().hint, HasSubstr("19.03"));
}

TEST(ApiVersion, WithoutAMinimumTheMaximumDecides) { EXPECT_EQ(chosen("", "1.47"), "1.44"); }

TEST(ApiVersion, WhatIsNoVersionIsAnError) {
  for (const auto* text : {"", "1", "1.", ".44", "1.x", "-1.44", "1.44.1", "1.99999999999", "1. 44"}) {
    EXPECT_EQ(chosen("1.24", text), "bad_field") << text;
  }
}

}  // namespace
}  // namespace dgxmm::container
