#include "core/model/catalog.h"

#include "core/model/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace dgxmm::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CatalogEntry entry(std::string stem, std::string path, std::string quantization = {}) {
  return {.name = {},
          .path = std::move(path),
          .format = Format::gguf,
          .size = {},
          .architecture = {},
          .quantization = std::move(quantization),
          .base_model = {},
          .problem = {},
          .stem = std::move(stem)};
}

CatalogEntry of_repository(std::string repository, std::string revision, std::string stem, std::string path,
                           std::string quantization = {}) {
  auto result = entry(std::move(stem), std::move(path), std::move(quantization));
  result.repository = std::move(repository);
  result.revision = std::move(revision);
  return result;
}

Catalog named(std::vector<CatalogEntry> models, std::vector<CatalogEntry> other_revisions = {}) {
  Catalog catalog{
      .models = std::move(models), .other_revisions = std::move(other_revisions), .problems = {}, .folders = {}};
  name_entries(catalog);
  return catalog;
}

std::vector<std::string> names(const std::vector<CatalogEntry>& entries) {
  std::vector<std::string> result;
  for (const auto& each : entries) result.push_back(each.name);
  return result;
}

/// The path that is found, or the code of the error.
std::string found(const Catalog& catalog, std::string_view name) {
  const auto path = find_model(catalog, name);
  return path ? *path : path.error().code;
}

/// A repository with quantizations of one model, one with safetensors, and a file.
Catalog example() {
  auto safetensors = of_repository("Qwen/Qwen3-8B", "aaaa1111", "Qwen3-8B", "/hub/st");
  safetensors.format = Format::safetensors;
  auto older = of_repository("Qwen/Qwen3-8B", "bbbb2222", "Qwen3-8B", "/hub/st-old");
  older.format = Format::safetensors;
  return named({of_repository("unsloth/Qwen3-8B-GGUF", "cccc", "Qwen3-8B-Q4_K_M", "/hub/q4", "Q4_K_M"),
                of_repository("unsloth/Qwen3-8B-GGUF", "cccc", "Qwen3-8B-UD-Q4_K_XL", "/hub/ud", "Q4_K_M"),
                of_repository("unsloth/Qwen3-8B-GGUF", "cccc", "Qwen3-8B-Q8_0", "/hub/q8", "Q8_0"),
                std::move(safetensors), entry("SmolLM2-135M.Q4_1", "/models/smol", "Q4_1")},
               {std::move(older), of_repository("unsloth/Qwen3-8B-GGUF", "dddd", "Qwen3-8B-Q8_0", "/hub/q8-old")});
}

TEST(CatalogNames, AModelOfARepositoryIsCalledByItAndByItsQuantizationWhenThereAreSeveral) {
  const auto catalog = example();
  EXPECT_THAT(names(catalog.models), ElementsAre("Qwen/Qwen3-8B", "SmolLM2-135M.Q4_1", "unsloth/Qwen3-8B-GGUF:Q4_K_M",
                                                 "unsloth/Qwen3-8B-GGUF:Q8_0", "unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL"));
  EXPECT_THAT(names(catalog.other_revisions), ElementsAre("Qwen/Qwen3-8B@bbbb2222", "unsloth/Qwen3-8B-GGUF@dddd"));
}

TEST(CatalogNames, FilesThatTheirQuantizationDoesNotTellApartAreCalledByTheirNames) {
  const auto catalog = named({of_repository("o/r", "1", "small-Q8_0", "/a"),
                              of_repository("o/r", "1", "large-Q8_0", "/b"), of_repository("o/r", "1", "plain", "/c")});
  EXPECT_THAT(names(catalog.models), ElementsAre("o/r:large-Q8_0", "o/r:plain", "o/r:small-Q8_0"));
}

TEST(CatalogNames, GgufFilesBesideSafetensorsLeaveThemTheNameOfTheRepository) {
  auto safetensors = of_repository("google/gemma", "1", "gemma", "/st");
  safetensors.format = Format::safetensors;
  const auto catalog = named({safetensors, of_repository("google/gemma", "1", "gemma", "/gguf")});
  EXPECT_EQ(found(catalog, "google/gemma"), "/st");
  EXPECT_EQ(found(catalog, "google/gemma:gemma"), "/gguf");
}

TEST(CatalogNames, WhatATerminalMustNotSeeIsNotInAName) {
  const auto catalog = named({entry("a\nb\x1b[2J", "/a"), entry("\xff\xfe", "/b")});
  EXPECT_THAT(names(catalog.models), ElementsAre("\\xff\\xfe", "a\\x0ab\\x1b[2J"));
}

TEST(FindModel, ByTheNameThatIsListed) {
  const auto catalog = example();
  for (const auto& each : catalog.models) EXPECT_EQ(found(catalog, each.name), each.path) << each.name;
  for (const auto& each : catalog.other_revisions) EXPECT_EQ(found(catalog, each.name), each.path) << each.name;
}

TEST(FindModel, AsPeopleWriteIt) {
  const auto catalog = example();
  EXPECT_EQ(found(catalog, "unsloth/qwen3-8b-gguf:q8_0"), "/hub/q8");
  EXPECT_EQ(found(catalog, "Qwen3-8B-GGUF:Q8_0"), "/hub/q8") << "without ORG/";
  EXPECT_EQ(found(catalog, "unsloth/Qwen3-8B-GGUF:UD-Q4_K_XL"), "/hub/ud");
  EXPECT_EQ(found(catalog, "unsloth/Qwen3-8B-GGUF:Q4_K_M"), "/hub/q4") << "not also the UD one, which is labelled so";
  EXPECT_EQ(found(catalog, "unsloth/Qwen3-8B-GGUF:Qwen3-8B-Q8_0"), "/hub/q8");
  EXPECT_EQ(found(catalog, "Qwen3-8B-Q8_0"), "/hub/q8") << "the file's name";
  EXPECT_EQ(found(catalog, "Qwen3-8B"), "/hub/st");
  EXPECT_EQ(found(catalog, "SmolLM2-135M.Q4_1"), "/models/smol");
}

TEST(FindModel, AnotherRevisionByItsFirstDigits) {
  const auto catalog = example();
  EXPECT_EQ(found(catalog, "Qwen/Qwen3-8B@bb"), "/hub/st-old");
  EXPECT_EQ(found(catalog, "Qwen/Qwen3-8B@aaaa"), "/hub/st");
  EXPECT_EQ(found(catalog, "unsloth/Qwen3-8B-GGUF@dd:Q8_0"), "/hub/q8-old");
  EXPECT_EQ(found(catalog, "Qwen/Qwen3-8B@cc"), "model_not_found");
}

TEST(FindModel, WhatMayBeSeveralIsRefusedWithAllOfThem) {
  const auto catalog = example();
  const auto several = find_model(catalog, "unsloth/Qwen3-8B-GGUF");
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().code, "model_ambiguous");
  EXPECT_THAT(several.error().message, HasSubstr("unsloth/Qwen3-8B-GGUF:Q8_0"));
  const auto twins = find_model(named({entry("twin", "/x"), entry("twin", "/y")}), "twin");
  ASSERT_FALSE(twins);
  EXPECT_THAT(twins.error().message, HasSubstr("/x, /y"));
  EXPECT_EQ(twins.error().hint, "give the path");
}

TEST(FindModel, WhatIsNotThereIsNotGuessed) {
  for (const auto* name : {"Qwen", "Qwen/", "", ":", "@", ":Q8_0", "@cccc", "unsloth/Qwen3-8B-GGUF:Q5_K_M", "/"}) {
    EXPECT_EQ(found(example(), name), "model_not_found") << name;
  }
}

TEST(RepositoryName, IsToldFromAPath) {
  for (const auto* name : {"org/name", "org/name:Q4_K_M", "org/name@abc", "org/name@abc:Q8_0"}) {
    EXPECT_TRUE(is_repository_name(name)) << name;
  }
  for (const auto* path :
       {"name", "/models/m", "./m", "../m", "a/b/c", "models/m.gguf", "models/", "~/m", "", "/", "a//b"}) {
    EXPECT_FALSE(is_repository_name(path)) << path;
  }
}

CatalogEntry sized(std::string base_model, Bytes size, std::string path, std::string problem = {}) {
  auto result = entry("m", std::move(path));
  result.base_model = std::move(base_model);
  result.size = size;
  result.problem = std::move(problem);
  return result;
}

TEST(OtherQuantizations, P4_AreOfTheSameBaseModelUsableAndTheMildestFirst) {
  std::vector<CatalogEntry> models{sized("base", gib(4), "/q4"),      sized("base", gib(8), "/q8"),
                                   sized("base", gib(16), "/f16"),    sized("other", gib(2), "/finetune"),
                                   sized("", gib(1), "/unknown"),     sized("base", gib(3), "/bad", "incomplete"),
                                   sized("base", gib(4), "/q4-again")};
  models.push_back(sized("base", gib(5), "/folder"));
  models.back().format = Format::safetensors;
  ModelDescription asked{.path = "/f16", .base_model = "base"};
  std::vector<std::string> paths;
  for (const auto* each : other_quantizations(models, asked)) paths.push_back(each->path);
  EXPECT_THAT(paths, ElementsAre("/q8", "/q4"));
  asked.base_model = "";
  EXPECT_THAT(other_quantizations(models, asked), IsEmpty()) << "unknown is not equal to unknown";
}

TEST(WorthReading, P4_TheLargestThatCanFitComeFirstAndTheSmallestIsAmongThem) {
  std::vector<CatalogEntry> models;
  for (int i = 1; i <= 40; ++i) models.push_back(sized("base", gib(i), std::to_string(i)));
  const auto smaller = other_quantizations(models, {.base_model = "base"});
  const auto paths = [&](std::optional<Bytes> room, std::size_t most) {
    std::vector<std::string> result;
    for (const auto* entry : worth_reading(smaller, room, most)) result.push_back(entry->path);
    return result;
  };
  EXPECT_THAT(paths(gib(20), 3), ElementsAre("20", "19", "1"));
  EXPECT_THAT(paths(std::nullopt, 3), ElementsAre("40", "39", "1"));
  EXPECT_THAT(paths(gib(2), 3), ElementsAre("2", "1"));
  EXPECT_THAT(paths(mib(1), 3), ElementsAre("1")) << "to say what is missing";
  EXPECT_THAT(paths(-gib(1), 1), ElementsAre("1"));
  EXPECT_THAT(worth_reading({}, gib(1), 3), IsEmpty());
}

TEST(Group, HoldsTheQuantizationsOfAModelInEveryFormat) {
  ModelDescription gguf{.architecture = "qwen3", .embedding_length = 4096, .vocabulary = 151'936};
  gguf.layers.assign(36, Layer{});
  auto safetensors = gguf;
  safetensors.format = Format::safetensors;
  safetensors.architecture = "Qwen3ForCausalLM";
  gguf.base_model = base_model_identity(gguf, "Qwen3 8B", 7);
  safetensors.base_model = base_model_identity(safetensors, "Qwen3-8B-FP8", 0);
  EXPECT_EQ(group_key(gguf), "qwen3-8b/36x4096");
  EXPECT_EQ(group_key(safetensors), group_key(gguf));
  EXPECT_EQ(group_title(group_key(gguf)), "qwen3-8b");
  gguf.base_model = base_model_identity(gguf, "Qwen3 8B Coder", 7);
  EXPECT_NE(group_key(safetensors), group_key(gguf)) << "a finetune is another model";
  gguf.base_model = "";
  EXPECT_EQ(group_key(gguf), "");
}

TEST(QuantizationInName, IsWhatStandsAtItsEnd) {
  for (const auto& [name, tag] :
       std::vector<std::pair<std::string_view, std::string_view>>{{"Qwen3-8B-Q4_K_M", "Q4_K_M"},
                                                                  {"Qwen3-8B-UD-Q4_K_XL", "UD-Q4_K_XL"},
                                                                  {"SmolLM2.Q4_1", "Q4_1"},
                                                                  {"qwen3_8b_Q8_0", "Q8_0"},
                                                                  {"gpt-oss-20b-mxfp4", "mxfp4"},
                                                                  {"Q8_0", "Q8_0"},
                                                                  {"Qwen3-8B", ""},
                                                                  {"Q4_K_M-merged", ""},
                                                                  {"", ""},
                                                                  {"-", ""}}) {
    EXPECT_EQ(quantization_in_name(name), tag) << name;
  }
}

}  // namespace
}  // namespace dgxmm::model
