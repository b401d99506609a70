#include "core/engine/cautions.h"

#include <gmock/gmock.h>

#include <string>

namespace dgxmm::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Cautions, AnNvfp4CacheIsWarnedOfWhoeverAsksForIt) {
  EXPECT_THAT(cautions(VllmConfig{.kv_cache_dtype = "nvfp4"}), ElementsAre(HasSubstr("use --kv-cache-dtype fp8")));
  EXPECT_THAT(cautions(VllmConfig{.kv_cache_dtype = "nvfp4_4over6"}), ElementsAre(HasSubstr("nvfp4")));
  EXPECT_THAT(cautions(VllmConfig{}, "nvfp4"), ElementsAre(HasSubstr("nvfp4"))) << "the checkpoint does";
  EXPECT_THAT(cautions(VllmConfig{.kv_cache_dtype = "fp8"}, "nvfp4"), IsEmpty()) << "it is not asked";
}

TEST(Cautions, AnFp8CacheIsWarnedOfWhereItIsToSleep) {
  EXPECT_THAT(cautions(VllmConfig{.kv_cache_dtype = "fp8_e4m3", .sleep_mode = true}),
              ElementsAre(HasSubstr("waking up with an fp8 KV cache")));
  EXPECT_THAT(cautions(VllmConfig{.sleep_mode = true}, "fp8"), ElementsAre(HasSubstr("waking up")));
  EXPECT_THAT(cautions(VllmConfig{.kv_cache_dtype = "fp8"}), IsEmpty());
  EXPECT_THAT(cautions(VllmConfig{.sleep_mode = true}), IsEmpty());
  EXPECT_THAT(cautions(LlamaCppConfig{}, "nvfp4"), IsEmpty());
}

}  // namespace
}  // namespace dgxmm::engine
