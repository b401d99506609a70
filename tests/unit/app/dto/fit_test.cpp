#include "app/dto/fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace dgxmm::dto {
namespace {

using engine::LlamaCppConfig;

/// 1 GiB and 1 MiB a token, half of that in q8_0.
SizedModel sized(std::string name, Bytes weights, std::int64_t ctx_size) {
  auto model = std::make_shared<model::ModelDescription>();
  model->name = std::move(name);
  model->training_context = 8192;
  model->weights.files = weights;
  const auto estimator = [weights](const engine::EngineConfig& config) -> Result<memory::Estimate> {
    const auto& llamacpp = std::get<LlamaCppConfig>(config);
    const bool half = llamacpp.cache_type_k == engine::CacheType::q8_0;
    const auto total = weights + kib(half ? 512 : 1024) * llamacpp.ctx_size;
    return memory::Estimate{.total = total, .formula = total};
  };
  const LlamaCppConfig config{.ctx_size = ctx_size, .parallel = 1};
  return {model, config, estimator(config).value(), estimator};
}

Fit fit_in(Bytes free, std::int64_t ctx_size = 4096, std::vector<SizedModel> others = {}) {
  FitQuestion question{.asked = sized("asked", gib(1), ctx_size), .others = std::move(others)};
  question.place({.mem_total = {}, .free = free}, {});
  return make_fit(std::move(question)).value();
}

TEST(Fit, VerdictTurnsExactlyWhereNothingIsLeft) {
  const auto fits = fit_in(gib(5));
  EXPECT_EQ(fits.verdict, "fits");
  EXPECT_EQ(fits.left_bytes, Bytes{0});
  EXPECT_EQ(fits.shortfall_bytes, Bytes{0});
  EXPECT_FALSE(fits.after);
  const auto short_by_one = fit_in(gib(5) - Bytes{1});
  EXPECT_EQ(short_by_one.verdict, "fits_after");
  EXPECT_EQ(short_by_one.shortfall_bytes, Bytes{1});
  EXPECT_EQ(short_by_one.left_bytes, -Bytes{1});
}

TEST(Fit, P12_FitsAfterNamesTheRecommendedPlan) {
  const auto fit = fit_in(gib(6), 8192);  // 9 GiB asked, 5 in q8_0: leaves less than the headroom; ctx:4096 as well
  ASSERT_TRUE(fit.after);
  EXPECT_EQ(fit.after->id, "kv:q8_0");
  EXPECT_TRUE(fit.after->fits);
  const auto roomy = fit_in(gib(8), 8192);
  ASSERT_TRUE(roomy.after);
  EXPECT_TRUE(roomy.after->recommended);
}

TEST(Fit, NothingHelpsWhenNoPlanFits) {
  const auto fit = fit_in(gib(1));
  EXPECT_EQ(fit.verdict, "does_not_fit");
  EXPECT_FALSE(fit.after);
  EXPECT_FALSE(fit.reach.longest_context);
}

TEST(Fit, ReachIsOfTheSameFreeMemory) {
  const auto fit = fit_in(gib(5), 1024);
  ASSERT_TRUE(fit.reach.longest_context);
  EXPECT_EQ(fit.reach.longest_context->value, 4096);
  EXPECT_EQ(fit.reach.longest_context->needed_bytes, gib(5));
  EXPECT_EQ(fit.reach.longest_context->config.ctx_size, 4096);
  ASSERT_TRUE(fit.reach.most_sequences);
  EXPECT_EQ(fit.reach.most_sequences->value, 4);
}

TEST(Fit, OtherQuantizationsAreSizedLargestFirst) {
  const auto fit = fit_in(gib(5), 4096, {sized("small", mib(512), 4096), sized("large", gib(3), 4096)});
  ASSERT_EQ(fit.reach.quantizations.size(), 2U);
  const auto& large = fit.reach.quantizations[0];
  EXPECT_EQ(large.name, "large");
  EXPECT_EQ(large.needed_bytes, gib(7));
  EXPECT_FALSE(large.fits);
  EXPECT_EQ(large.longest_context, 2048);
  EXPECT_TRUE(fit.reach.quantizations[1].fits);
}

TEST(Fit, B1_ADescribedHostKeepsItsMargins) {
  FitQuestion question{.asked = sized("asked", gib(1), 4096)};
  question.place({.mem_total = gib(16), .free = {}}, {});
  const auto fit = make_fit(std::move(question)).value();
  EXPECT_EQ(fit.free_for_new_bytes, gib(4));
  ASSERT_TRUE(fit.budget);
  EXPECT_EQ(fit.budget->source, fit.host);
  EXPECT_THAT(fit.host, testing::HasSubstr("a host of 16.0 GiB"));
}

TEST(Fit, FreeMemoryAloneIsNotAHost) {
  const auto fit = fit_in(gib(5));
  EXPECT_FALSE(fit.budget) << "its MemTotal is not known";
  EXPECT_EQ(fit.host, "given: 5.0 GiB free");
}

TEST(Fit, NamesAProjectorThatIsNotLoaded) {
  const auto notes_with = [](const std::string& mmproj) {
    auto asked = sized("asked", gib(1), 4096);
    auto model = *asked.model;
    model.projectors = {"/models/mmproj-F16.gguf"};
    asked.model = std::make_shared<const model::ModelDescription>(model);
    std::get<LlamaCppConfig>(asked.config).mmproj = mmproj;
    FitQuestion question{.asked = std::move(asked)};
    question.place({.mem_total = gib(64), .free = {}}, {});
    return make_fit(std::move(question)).value().notes;
  };
  EXPECT_THAT(notes_with(""), testing::ElementsAre(testing::HasSubstr("/models/mmproj-F16.gguf")));
  EXPECT_THAT(notes_with("/models/mmproj-F16.gguf"), testing::IsEmpty());
}

TEST(Fit, NamesKnownTroubleWithWhatIsAskedFor) {
  auto asked = sized("asked", gib(1), 4096);
  asked.config = engine::VllmConfig{.max_model_len = 4096, .max_num_seqs = 1, .kv_cache_dtype = "nvfp4"};
  asked.estimator = [](const engine::EngineConfig&) -> Result<memory::Estimate> { return memory::Estimate{}; };
  FitQuestion question{.asked = asked, .others = {}};
  question.place({.mem_total = {}, .free = gib(5)}, {});
  const auto notes = make_fit(std::move(question)).value().notes;
  EXPECT_THAT(notes, ::testing::ElementsAre(::testing::HasSubstr("nvfp4 KV cache")));
}

TEST(GivenHost, IsASizeOrNothing) {
  EXPECT_FALSE(read_given_host({}, {}).value());
  EXPECT_EQ(read_given_host("121.69GiB", {}).value()->mem_total, gib_from_decimal(121.69));
  EXPECT_EQ(read_given_host({}, "8G").value()->free, gib(8));
  for (const auto* wrong : {"", "x", "0", "-5GiB", "4000000000GiB"}) {
    const auto host = read_given_host(wrong, {});
    ASSERT_FALSE(host) << wrong;
    EXPECT_EQ(host.error().where, "host") << wrong;
    EXPECT_FALSE(read_given_host({}, wrong)) << wrong;
  }
  EXPECT_FALSE(read_given_host("8G", "8G"));
}

}  // namespace
}  // namespace dgxmm::dto
