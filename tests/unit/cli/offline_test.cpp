#include "cli/offline.h"

#include "cli/documents.h"
#include "fake_daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace dgxmm::cli {
namespace {

class OneModel final : public ports::ModelFiles {
 public:
  Result<model::ModelDescription> describe(const std::string& path) override {
    if (!path.ends_with("/m.gguf")) return fail("model_not_found", "there is no " + path, {}, path);
    model::ModelDescription description;
    description.path = path;
    description.name = "small";
    description.architecture = "llama";
    const model::Attention attention{.n_head = 9, .n_head_kv = 3, .key_length = 64, .value_length = 64};
    description.layers.assign(2, {.attention = attention, .recurrent = {}, .feed_forward_length = 1536});
    description.embedding_length = 576;
    description.vocabulary = 49152;
    description.training_context = 8192;
    description.weight_dtype = "f16";
    description.files = {{path, mib(100)}};
    description.weights = {.files = mib(100), .tensors = mib(99), .input_tensors = mib(50), .token_embedding = mib(50)};
    return description;
  }
  Result<model::Projector> describe_projector(const std::string& path) override {
    if (path.ends_with("/mmproj.gguf")) return model::Projector{.path = path, .file = mib(50), .tensors = mib(49)};
    return fail("model_not_found", "there is no " + path, {}, path);
  }
  std::vector<ports::LinkedFile> linked_files(const std::string& /*folder*/) override { return {}; }
  ports::Catalog scan(const std::vector<ports::SearchedFolder>& folders) override {
    ports::Catalog found;
    for (const auto& folder : folders) found.models.push_back({.name = "m", .path = folder.path + "/m.gguf"});
    return found;
  }
  std::vector<ports::CatalogEntry> quantizations_of(const model::ModelDescription&,
                                                    const std::vector<ports::SearchedFolder>&) override {
    return {};
  }
};

/// A model for vLLM.
class OneFolder final : public ports::ModelFiles {
 public:
  Result<model::ModelDescription> describe(const std::string& path) override {
    auto description = OneModel{}.describe(path + "/m.gguf");
    if (description) description->format = model::Format::safetensors;
    return description;
  }
  Result<model::Projector> describe_projector(const std::string& path) override {
    return OneModel{}.describe_projector(path);
  }
  std::vector<ports::LinkedFile> linked_files(const std::string& /*folder*/) override { return {}; }
  ports::Catalog scan(const std::vector<ports::SearchedFolder>&) override { return {}; }
  std::vector<ports::CatalogEntry> quantizations_of(const model::ModelDescription&,
                                                    const std::vector<ports::SearchedFolder>&) override {
    return {};
  }
};

class HostOf final : public ports::HostProbe {
 public:
  explicit HostOf(Bytes total) : total_(total) {}
  Result<host::Meminfo> meminfo() override {
    if (total_ == Bytes{0}) return fail("meminfo_unusable", "no MemTotal");
    return host::Meminfo{.mem_total = total_, .mem_available = total_ - gib(1)};
  }
  host::Pressure pressure() override { return {}; }
  std::optional<host::SwapCounters> swap_counters() override { return std::nullopt; }
  host::ExaminedHost examined() override { return {}; }
  host::ProcessList processes(std::size_t, const std::vector<std::int64_t>&, const host::GpuReading&) override {
    return {};
  }
  std::vector<host::ProcessRow> rows_of(const std::vector<std::int64_t>&, const host::GpuReading&) override {
    return {};
  }
  std::optional<host::OwnerlessList> ownerless_memory() override { return std::nullopt; }
  bool has_nvidia_driver() override { return false; }

 private:
  Bytes total_;
};

class Offline : public CliTest {
 protected:
  Offline() { use_host_of(gib(32)); }
  void use_host_of(Bytes total) {
    composition_.offline = [this, total] {
      ++readings_;
      return OfflineParts{std::make_unique<OneModel>(), std::make_unique<HostOf>(total)};
    };
  }
  int readings_ = 0;
};

TEST_F(Offline, FitSaysSoInOneLineAndFits) {
  const auto outcome = run_cli({"fit", "/models/m.gguf", "-c", "4096"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "no daemon at 127.0.0.1:0: direct reading, nothing learned yet is applied\n");
  EXPECT_TRUE(outcome.out.starts_with("fits: needs ")) << outcome.out;
  for (const auto* part : {"weights", "kv", "state", "activations", "runtime", "margin"}) {
    EXPECT_NE(outcome.out.find(std::string{"\n"} + part + " "), std::string::npos) << part;
  }
}

// A folder for vLLM would say more; what counts is that the reason of the estimate gets to a person and to a script.
TEST_F(Offline, E9_WhatTheEngineWouldRefuseSaysWhatWouldWork) {
  composition_.offline = [] { return OfflineParts{std::make_unique<OneFolder>(), std::make_unique<HostOf>(gib(32))}; };
  const std::vector<std::string> arguments{"fit", "/models/folder", "--max-model-len", "8192", "--kv-tokens", "4090"};
  const auto outcome = run_cli(arguments);
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("cannot hold one request of max_model_len 8192"));
  EXPECT_THAT(outcome.err,
              testing::HasSubstr("hint: set kv_tokens to at least 8192, or max_model_len to at most 4096"));
  auto as_json = arguments;
  as_json.emplace_back("--json");
  const auto document = run_cli(as_json).out;
  EXPECT_THAT(document, testing::HasSubstr(R"("code":"bad_configuration")"));
  EXPECT_THAT(document, testing::HasSubstr(R"("where":"kv_tokens")"));
}

TEST_F(Offline, FitDoesNotFitOnASmallHost) {
  use_host_of(gib(13));
  const auto outcome = run_cli({"fit", "/models/m.gguf"});
  EXPECT_EQ(outcome.exit_code, 3);
  EXPECT_TRUE(outcome.out.starts_with("does not fit: needs ")) << outcome.out;
}

TEST_F(Offline, TheDocumentIsTheOneOfTheDaemon) {
  const auto outcome = run_cli({"fit", "--json", "/models/m.gguf"});
  const auto fit = from_json<dto::Fit>(outcome.out);
  ASSERT_TRUE(fit) << fit.error().message;
  EXPECT_EQ(fit->verdict, "fits");
  EXPECT_EQ(fit->parts.size(), 6U);
  ASSERT_TRUE(fit->budget);
  EXPECT_EQ(fit->budget->source, "direct reading");
  EXPECT_EQ(fit->budget->mem_total_bytes, gib(32));
  // B1, B3, B5 with no deployments: 32 - 8 - 4 - 1 GiB.
  EXPECT_EQ(fit->free_for_new_bytes, gib(19));
  EXPECT_EQ(fit->config.ctx_size, 8192);
}

TEST_F(Offline, FitOnAnotherHostNeedsNothingOfThisOne) {
  use_host_of(gib(13));
  const auto outcome = run_cli({"fit", "--json", "--host", "121.69GiB", "/models/m.gguf"});
  const auto fit = from_json<dto::Fit>(outcome.out);
  ASSERT_TRUE(fit) << fit.error().message;
  EXPECT_EQ(fit->verdict, "fits");
  ASSERT_TRUE(fit->budget);
  EXPECT_EQ(fit->budget->mem_total_bytes, gib_from_decimal(121.69));
  EXPECT_EQ(fit->free_for_new_bytes, gib_from_decimal(121.69) - gib(12));  // B1: nothing runs there
  EXPECT_THAT(fit->host, testing::HasSubstr("121.7 GiB"));
  EXPECT_FALSE(fit->budget->time) << "nothing was measured at any time";
  EXPECT_FALSE(fit->budget->gpu_age_s);
}

TEST_F(Offline, FitOfWhatIsFreeNeedsNoHost) {
  const auto outcome = run_cli({"fit", "--json", "--free", "2 GiB", "/models/m.gguf"});
  const auto fit = from_json<dto::Fit>(outcome.out);
  ASSERT_TRUE(fit) << fit.error().message;
  EXPECT_EQ(fit->free_for_new_bytes, gib(2));
  EXPECT_FALSE(fit->budget);
}

TEST_F(Offline, ASizeThatIsNoneIsAUsageError) {
  for (const auto* size : {"", "lots", "-1GiB", "0", "99999999999GiB"}) {
    EXPECT_EQ(run_cli({"fit", "/models/m.gguf", "--host", size}).exit_code, 2) << size;
    EXPECT_EQ(run_cli({"fit", "/models/m.gguf", "--free", size}).exit_code, 2) << size;
  }
  EXPECT_EQ(run_cli({"fit", "/models/m.gguf", "--free", "1GiB", "--host", "2GiB"}).exit_code, 2);
}

TEST_F(Offline, FitSaysWhatWouldMoveIt) {
  const auto outcome = run_cli({"fit", "/models/m.gguf", "--free", "100GiB"});
  EXPECT_THAT(outcome.out, testing::HasSubstr("longest context: 8192 tokens, all of it, needs "));
  EXPECT_THAT(outcome.out, testing::HasSubstr("most sequences: "));
  EXPECT_THAT(outcome.out, testing::HasSubstr("\nKV cache q8_0 "));
  EXPECT_THAT(outcome.out, testing::HasSubstr("8192 tokens\n"));
}

TEST_F(Offline, WhatIsLoadedBesideTheModelIsCounted) {
  const auto total = [this](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"fit", "--json", "/models/m.gguf"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const auto outcome = run_cli(arguments);
    const auto fit = from_json<dto::Fit>(outcome.out);
    EXPECT_TRUE(fit) << outcome.out;
    return fit ? fit->total_bytes : Bytes{};
  };
  const auto alone = total({});
  EXPECT_GT(total({"--draft-model", "/small/m.gguf"}), alone + mib(100));
  EXPECT_EQ(total({"--mmproj", "/models/mmproj.gguf"}), alone + mib(50) + mib(512));
  EXPECT_EQ(total({"--mmproj", "none"}), alone);
}

TEST_F(Offline, AMissingCompanionIsNamedWithItsField) {
  const auto draft = run_cli({"fit", "/models/m.gguf", "--draft-model", "/models/none.gguf"});
  EXPECT_EQ(draft.exit_code, 1);
  EXPECT_NE(draft.err.find("error: draft_model: there is no /models/none.gguf"), std::string::npos) << draft.err;
  const auto projector = run_cli({"fit", "/models/m.gguf", "--mmproj", "/models/none.gguf"});
  EXPECT_EQ(projector.exit_code, 1);
  EXPECT_NE(projector.err.find("error: mmproj: there is no /models/none.gguf"), std::string::npos) << projector.err;
  EXPECT_EQ(run_cli({"fit", "/models/m.gguf", "--spec-type", "draft-mtp"}).exit_code, 2);
}

TEST_F(Offline, SettingsApply) {
  ::setenv("DGXMM_SAFETY_MARGIN_GIB", "1", 1);
  const auto outcome = run_cli({"budget", "--json"});
  ::unsetenv("DGXMM_SAFETY_MARGIN_GIB");
  const auto budget = from_json<dto::Budget>(outcome.out);
  ASSERT_TRUE(budget) << outcome.out;
  EXPECT_EQ(budget->free_for_new_bytes, gib(26));
  EXPECT_EQ(budget->source, "direct reading");
}

TEST_F(Offline, BudgetShowsEveryQuantity) {
  const auto outcome = run_cli({"budget"});
  EXPECT_EQ(outcome.exit_code, 0);
  for (const auto* name : {"total", "safety margin", "os reserve", "usable", "committed", "used", "managed",
                           "ready gap", "external", "free for new"}) {
    EXPECT_NE(outcome.out.find(name), std::string::npos) << name;
  }
}

TEST_F(Offline, B5_AnOvercommittedHostIsSaidInWords) {
  use_host_of(gib(12));
  const auto outcome = run_cli({"budget"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.out.starts_with("over-committed by 1.0 GiB")) << outcome.out;
}

TEST_F(Offline, ACatalogNameIsLookedForInTheModelFolders) {
  ::setenv("DGXMM_MODEL_FOLDERS", "/one", 1);
  EXPECT_EQ(run_cli({"fit", "m"}).exit_code, 0);
  EXPECT_EQ(run_cli({"fit", "x"}).exit_code, 1);
  ::setenv("DGXMM_MODEL_FOLDERS", "/one:/two", 1);
  const auto outcome = run_cli({"fit", "m"});
  ::unsetenv("DGXMM_MODEL_FOLDERS");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("error: 'm' may be any of 2 models: /one/m.gguf, /two/m.gguf"), std::string::npos)
      << outcome.err;
}

TEST_F(Offline, ACatalogNameIsLookedForInTheHuggingFaceCache) {
  ::unsetenv("DGXMM_HUGGING_FACE_CACHE");
  ::setenv("HF_HUB_CACHE", "/hub", 1);
  const auto outcome = run_cli({"fit", "m", "--json"});
  ::unsetenv("HF_HUB_CACHE");
  const auto fit = from_json<dto::Fit>(outcome.out);
  ASSERT_TRUE(fit) << outcome.out;
  EXPECT_EQ(fit->model.path, "/hub/m.gguf");
}

TEST_F(Offline, AnOrganizationAndANameAreANameUnlessSomethingHereIsCalledSo) {
  ::setenv("DGXMM_MODEL_FOLDERS", "/one", 1);
  EXPECT_NE(run_cli({"fit", "org/none"}).err.find("there is no model named 'org/none'"), std::string::npos);
  EXPECT_NE(run_cli({"fit", "./org"}).err.find("there is no " + std::filesystem::current_path().string() + "/org"),
            std::string::npos);
  ::unsetenv("DGXMM_MODEL_FOLDERS");
}

TEST_F(Offline, ModelsAreLookedForWithoutADaemonToo) {
  ::setenv("DGXMM_MODEL_FOLDERS", "/one:/two", 1);
  const auto outcome = run_cli({"models", "--json"});
  ::unsetenv("DGXMM_MODEL_FOLDERS");
  const auto models = from_json<dto::Models>(outcome.out);
  ASSERT_TRUE(models) << outcome.out;
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(models->models.size(), 2U);
  EXPECT_THAT(models->folders, testing::IsSupersetOf({"/one", "/two"}));
  EXPECT_EQ(outcome.err, "no daemon at 127.0.0.1:0: direct reading\n");
}

TEST_F(Offline, WrongSettingsAreUsageErrors) {
  EXPECT_EQ(run_cli({"fit", "/models/m.gguf", "--max-model-len", "1"}).exit_code, 2);
  EXPECT_EQ(run_cli({"fit", "/models/m.gguf", "-c", "1"}).exit_code, 2);
}

TEST_F(Offline, OneBrokenModelDoesNotHideTheOthers) {
  const auto outcome = run_cli({"fit", "/models/m.gguf", "/models/none.gguf", "/other/m.gguf"});
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.out.find("small"), std::string::npos);
  EXPECT_NE(outcome.out.find("/models/none.gguf"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("    there is no /models/none.gguf\n"), std::string::npos) << outcome.out;
  EXPECT_EQ(readings_, 1);
}

TEST_F(Offline, OfSeveralModelsEachHasItsOwnEntryInJson) {
  const auto outcome = run_cli({"fit", "--json", "/models/m.gguf", "/models/none.gguf", "/other/m.gguf"});
  EXPECT_EQ(outcome.exit_code, 1) << "one of them could not be answered";
  const auto entries = from_json<std::vector<dto::FitOfModel>>(outcome.out);
  ASSERT_TRUE(entries) << outcome.out;
  ASSERT_EQ(entries->size(), 3U);
  EXPECT_EQ(entries->at(1).model, "/models/none.gguf");
  ASSERT_TRUE(entries->at(1).error);
  EXPECT_EQ(entries->at(1).error->code, "model_not_found");
  EXPECT_FALSE(entries->at(1).fit);
  for (const auto i : {0U, 2U}) {
    ASSERT_TRUE(entries->at(i).fit);
    EXPECT_EQ(entries->at(i).fit->verdict, "fits");
    EXPECT_FALSE(entries->at(i).error);
  }
}

TEST_F(Offline, TheProblemOfTheOnlyModelIsTheDocument) {
  const auto outcome = run_cli({"fit", "--json", "/models/none.gguf"});
  EXPECT_EQ(outcome.exit_code, 1);
  const auto problem = from_json<dto::Problem>(outcome.out);
  ASSERT_TRUE(problem) << outcome.out;
  EXPECT_EQ(problem->code, "model_not_found");
}

TEST_F(Offline, AnUnusableHostIsAnError) {
  use_host_of(Bytes{0});
  EXPECT_EQ(run_cli({"budget"}).exit_code, 1);
  EXPECT_EQ(run_cli({"fit", "/models/m.gguf"}).exit_code, 1);
}

}  // namespace
}  // namespace dgxmm::cli
