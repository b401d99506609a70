// The catalog on odd, hostile and half-finished folders. What a scan finds in ordinary ones: model_files_test.cpp.
#include "adapters/modelfs/model_files.h"
#include "tools/gguf_writer.h"
#include "tools/hf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace dgxmm::modelfs {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::GgmlType;
using testing::GgufWriter;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CatalogScan : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pattern = (fs::temp_directory_path() / "dgxmm-catalog-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  [[nodiscard]] ports::Catalog scan() { return models_.scan({{root_.string()}}); }
  /// "name" or "name: problem".
  [[nodiscard]] std::vector<std::string> listed() {
    std::vector<std::string> result;
    for (const auto& entry : scan().models) {
      result.push_back(entry.name + (entry.problem.empty() ? "" : ": " + entry.problem));
    }
    return result;
  }
  [[nodiscard]] Error failure(const fs::path& path) {
    const auto result = models_.describe(path.string());
    return result ? Error{"ok", "ok", {}, {}} : result.error();
  }

  fs::path root_;
  FileSystemModels models_;
};

/// A file of a snapshot: a link into the blobs, which the caller has written or not.
void link_blob(const fs::path& repository, const std::string& revision, const std::string& name,
               const std::string& blob) {
  const auto snapshot = repository / "snapshots" / revision;
  fs::create_directories((snapshot / name).parent_path());
  fs::create_symlink("../../blobs/" + blob, snapshot / name);
}

/// A repository with two quantizations of one model and a projector.
void write_gguf_repository(const fs::path& repository, const std::string& revision) {
  fs::create_directories(repository / "blobs");
  testing::write_dense_gguf(repository / "blobs" / "q4", {.name = "Tiny 1B"});
  testing::write_dense_gguf(repository / "blobs" / "q8", {.type = GgmlType::q8_0, .file_type = 7, .name = "Tiny 1B"});
  GgufWriter projector;
  projector.key_text("general.type", "mmproj").tensor("a", GgmlType::f32, {8});
  projector.write(repository / "blobs" / "projector");
  link_blob(repository, revision, "Tiny-1B-Q4_0.gguf", "q4");
  link_blob(repository, revision, "Tiny-1B-Q8_0.gguf", "q8");
  link_blob(repository, revision, "mmproj-F16.gguf", "projector");
  testing::write_text(repository / "refs" / "main", revision);
}

// P4: what is read less is found all the same.
TEST_F(CatalogScan, P4_TheOtherQuantizationsOfAModelAreThoseThatAScanFinds) {
  fs::create_directories(root_ / "a");
  fs::create_directories(root_ / "b");
  testing::write_dense_gguf(root_ / "a/one.gguf", {.type = GgmlType::q8_0, .file_type = 7});
  testing::write_dense_gguf(root_ / "b/two.gguf");
  testing::write_dense_gguf(root_ / "b/three.gguf", {.type = GgmlType::f16, .file_type = 1});
  testing::write_dense_gguf(root_ / "b/wider.gguf", {.n_embd = 512});
  testing::write_dense_gguf(root_ / "b/longer.gguf", {.n_ctx = 8192});
  testing::write_dense_gguf(root_ / "b/deeper.gguf", {.n_layer = 5});
  testing::write_dense_gguf(root_ / "b/other.gguf", {.name = "Another"});
  testing::write_text(root_ / "b/none.gguf", "no model");
  write_gguf_repository(root_ / "models--org--Tiny-1B-GGUF", "abcdef");
  testing::write_dense_hf(root_ / "base");
  testing::write_dense_hf(root_ / "more/base-fp8", {.dtype = "float32"});
  testing::write_dense_hf(root_ / "more/other");
  const auto catalog = scan();
  std::size_t found = 0;
  for (const auto& entry : catalog.models) {
    const auto model = models_.describe(entry.path);
    if (!model) continue;
    std::vector<std::string> expected, sooner;
    for (const auto* other : model::other_quantizations(catalog.models, *model)) expected.push_back(other->path);
    for (const auto& other : models_.quantizations_of(*model, {{root_.string()}})) sooner.push_back(other.path);
    EXPECT_EQ(sooner, expected) << entry.path;
    found += sooner.size();
  }
  EXPECT_EQ(found, 3U * 2 + 2 + 2) << "three files, two in the repository, two folders";
  EXPECT_THAT(models_.quantizations_of({}, {{root_.string()}}), IsEmpty()) << "unknown is not equal to unknown";
}

TEST_F(CatalogScan, ARepositoryWithSeveralQuantizationsListsEachUnderItsOwnName) {
  write_gguf_repository(root_ / "models--org--Tiny-1B-GGUF", "abcdef");
  const auto catalog = scan();
  ASSERT_THAT(listed(), ElementsAre("org/Tiny-1B-GGUF:Q4_0", "org/Tiny-1B-GGUF:Q8_0"));
  EXPECT_EQ(catalog.models[0].base_model, catalog.models[1].base_model);
  EXPECT_EQ(catalog.models[0].group, "tiny-1b/4x256");
  EXPECT_EQ(catalog.models[0].group, catalog.models[1].group);
  EXPECT_EQ(catalog.models[1].quantization, "Q8_0");
  EXPECT_EQ(catalog.models[1].revision, "abcdef");
  const auto path = model::find_model(catalog, "org/Tiny-1B-GGUF:q8_0");
  ASSERT_TRUE(path) << path.error().message;
  const auto model = models_.describe(*path);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->quantization, "Q8_0");
}

TEST_F(CatalogScan, ASafetensorsModelStandsInTheGroupOfItsGgufFiles) {
  testing::write_dense_gguf(root_ / "Tiny-1B-Q4_0.gguf", {.name = "Tiny 1B"});
  testing::write_dense_hf(root_ / "Tiny-1B", {.layers = 4, .hidden = 256, .heads = 8});
  const auto catalog = scan();
  ASSERT_EQ(catalog.models.size(), 2U);
  EXPECT_EQ(catalog.models[0].group, catalog.models[1].group);
  EXPECT_NE(catalog.models[0].base_model, catalog.models[1].base_model) << "one is no quantization of the other";
}

TEST_F(CatalogScan, AnotherRevisionIsFoundByItsFirstDigitsAndListedNowhere) {
  const auto repository = root_ / "models--org--Tiny-1B-GGUF";
  write_gguf_repository(repository, "aaaa1111");
  testing::write_dense_gguf(repository / "blobs" / "old", {.n_ctx = 1234});
  link_blob(repository, "bbbb2222", "Tiny-1B-Q4_0.gguf", "old");
  const auto catalog = scan();
  EXPECT_EQ(catalog.models.size(), 2U);
  const auto path = model::find_model(catalog, "org/Tiny-1B-GGUF@bb");
  ASSERT_TRUE(path) << path.error().message;
  EXPECT_EQ(models_.describe(*path)->training_context, 1234);
  EXPECT_FALSE(model::find_model(catalog, "org/Tiny-1B-GGUF@cc"));
}

TEST_F(CatalogScan, OtherRepositoriesOfACacheAreNoModels) {
  testing::write_dense_gguf(
      (fs::create_directories(root_ / "datasets--org--d"), root_ / "datasets--org--d" / "m.gguf"));
  fs::create_directories(root_ / ".locks" / "models--org--m");
  testing::write_text(root_ / "models--org--tokenizer" / "blobs" / "a", "{}");
  link_blob(root_ / "models--org--tokenizer", "1111", "config.json", "a");
  EXPECT_THAT(listed(), IsEmpty());
  EXPECT_THAT(scan().problems, IsEmpty());
}

TEST_F(CatalogScan, TheFoldersOfAPicturePipelineAreNoModels) {
  testing::write_text(root_ / "pipe" / "model_index.json", "{}");
  testing::write_dense_hf(root_ / "pipe" / "text_encoder");
  EXPECT_THAT(listed(), IsEmpty());
}

TEST_F(CatalogScan, H6_AHalfDownloadedRepositorySaysWhatIsMissingAndWhatIsThere) {
  const auto repository = root_ / "models--org--big";
  const auto shards = testing::dense_safetensors({}, 3);
  testing::write_text(repository / "blobs" / "config", testing::dense_config());
  testing::write_text(repository / "blobs" / "index",
                      R"({"weight_map":{"a":"model-00001-of-00003.safetensors","b":"model-00002-of-00003.safetensors",)"
                      R"("c":"model-00003-of-00003.safetensors"}})");
  shards[0].write(repository / "blobs" / "one");
  testing::write_text(repository / "blobs" / "two.incomplete", std::string(3000, 'x'));
  link_blob(repository, "1111", "config.json", "config");
  link_blob(repository, "1111", "model.safetensors.index.json", "index");
  link_blob(repository, "1111", "model-00001-of-00003.safetensors", "one");
  link_blob(repository, "1111", "model-00002-of-00003.safetensors", "gone");
  const auto models = scan().models;
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].name, "org/big");
  EXPECT_THAT(models[0].problem, AllOf(HasSubstr("incomplete: 2 of its 3 files are missing"), HasSubstr("are there"),
                                       HasSubstr("and 2.9 KiB of 1 unfinished download")));
  EXPECT_EQ(models[0].size, Bytes{static_cast<std::int64_t>(fs::file_size(repository / "blobs" / "one"))});
  EXPECT_EQ(failure(repository).code, "model_incomplete");

  testing::write_text(repository / "blobs" / "two.incomplete", std::string(5000, 'x'));
  EXPECT_THAT(scan().models.at(0).problem, HasSubstr("4.9 KiB of 1 unfinished")) << "it has gone on";
}

TEST_F(CatalogScan, H6_ADownloadThatHasJustBegunIsListed) {
  const auto repository = root_ / "models--org--new";
  testing::write_text(repository / "blobs" / "x.incomplete", std::string(2048, 'x'));
  testing::write_text(repository / "refs" / "main", "1111");
  const auto models = scan().models;
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].name, "org/new");
  EXPECT_FALSE(models[0].format);
  EXPECT_EQ(models[0].size, kib(2));
  EXPECT_THAT(models[0].problem, HasSubstr("incomplete: no model yet, only 2.0 KiB of 1 unfinished download"));
  EXPECT_EQ(failure(models[0].path).code, "model_incomplete");

  testing::write_text(repository / "blobs" / "config", testing::dense_config());
  link_blob(repository, "1111", "config.json", "config");
  EXPECT_THAT(listed(), ElementsAre(HasSubstr("org/new: "))) << "still no weights";
}

TEST_F(CatalogScan, H6_ADownloadBesideAWholeModelIsAWarningAndNoProblemOfTheModel) {
  const auto repository = root_ / "models--org--Tiny-1B-GGUF";
  write_gguf_repository(repository, "1111");
  testing::write_text(repository / "blobs" / "x.incomplete", std::string(2048, 'x'));
  EXPECT_THAT(listed(), ElementsAre("org/Tiny-1B-GGUF:Q4_0", "org/Tiny-1B-GGUF:Q8_0"));
  EXPECT_THAT(scan().problems,
              ElementsAre("org/Tiny-1B-GGUF: a download has not finished: 2.0 KiB of 1 more file are there"));
}

TEST_F(CatalogScan, H6_AHalfDownloadedFileIsNamedAsSuch) {
  testing::write_text(root_ / "m-Q4_0.gguf.part", std::string(1024, 'x'));
  EXPECT_THAT(listed(), ElementsAre(HasSubstr("m-Q4_0: ")));
  EXPECT_THAT(listed(), ElementsAre(HasSubstr("incomplete: a download that has not finished; 1.0 KiB are there")));
}

TEST_F(CatalogScan, AFileThatHasNotChangedIsNotReadAgain) {
  const auto file = root_ / "m.gguf";
  testing::write_dense_gguf(file, {.n_ctx = 4096});
  ASSERT_EQ(scan().models.at(0).training_context, 4096);
  // Read anew it could not be read: so what is listed is remembered. Access times tell the same where they are kept.
  const auto before = fs::last_write_time(file);
  EXPECT_EQ(scan().models.at(0).training_context, 4096);
  testing::write_dense_gguf(file, {.n_ctx = 8192});
  fs::last_write_time(file, before);
  EXPECT_EQ(scan().models.at(0).training_context, 8192) << "its time of change is that of the old file, and it is not";
}

TEST_F(CatalogScan, AModelThatWasRepairedLosesItsProblem) {
  testing::write_dense_gguf(root_ / "m.gguf");
  const auto size = fs::file_size(root_ / "m.gguf");
  fs::resize_file(root_ / "m.gguf", size - 100);
  EXPECT_THAT(listed(), ElementsAre(HasSubstr("half-downloaded")));
  fs::resize_file(root_ / "m.gguf", size);
  EXPECT_THAT(listed(), ElementsAre("m"));
}

TEST_F(CatalogScan, ALinkOutOfTheCacheShowsNothingOfAFileThatIsNoModel) {
  constexpr const char* kSecret = "hunter2-secret";
  testing::write_text(root_ / "elsewhere" / "secret", std::string{kSecret} + "\n" + kSecret + "\n");
  testing::write_text(root_ / "elsewhere" / "other-secret", std::string{kSecret} + kSecret);
  testing::write_text(root_ / "elsewhere" / "secret.json", std::string{R"({"password":")"} + kSecret + "\"}");
  const auto hub = root_ / "hub";
  const auto snapshot = hub / "models--org--m" / "snapshots" / "1";
  fs::create_directories(snapshot);
  fs::create_directories(hub / "models--org--n" / "snapshots" / "1");
  fs::create_symlink("../../../../elsewhere/secret", snapshot / "m.gguf");
  fs::create_symlink("../../../../elsewhere/secret.json", snapshot / "config.json");
  fs::create_symlink("../../../../elsewhere/other-secret", snapshot / "model.safetensors");
  for (const auto* config : {"secret", "secret.json"}) {
    const auto other = hub / "models--org--n" / "snapshots" / "1";
    fs::remove(other / "config.json");
    fs::create_symlink(std::string{"../../../../elsewhere/"} + config, other / "config.json");
    if (!fs::exists(other / "model.safetensors"))
      testing::dense_safetensors().front().write(other / "model.safetensors");
    const auto catalog = models_.scan({{hub.string()}});
    ASSERT_EQ(catalog.models.size(), 3U);
    for (const auto& entry : catalog.models) {
      EXPECT_FALSE(entry.problem.empty()) << entry.name;
      EXPECT_THAT(entry.problem, Not(HasSubstr("hunter2"))) << entry.name;
      EXPECT_THAT(failure(entry.path).message, Not(HasSubstr("hunter2"))) << entry.name;
    }
  }
}

TEST_F(CatalogScan, NothingWithTheNameOfAModelIsWaitedFor) {
  ASSERT_EQ(::mkfifo((root_ / "fifo.gguf").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((root_ / "fifo.gguf.part").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", root_ / "device.gguf");
  fs::create_symlink("/dev/tty", root_ / "terminal.gguf");
  fs::create_directories(root_ / "hf");
  ASSERT_EQ(::mkfifo((root_ / "hf" / "config.json").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((root_ / "hf" / "model.safetensors").c_str(), 0600), 0);
  fs::create_directories(root_ / "models--o--r" / "snapshots" / "1");
  fs::create_directories(root_ / "models--o--r" / "refs");
  ASSERT_EQ(::mkfifo((root_ / "models--o--r" / "refs" / "main").c_str(), 0600), 0);
  const auto models = scan().models;
  EXPECT_EQ(models.size(), 5U);
  for (const auto& entry : models) EXPECT_FALSE(entry.problem.empty()) << entry.name;
}

TEST_F(CatalogScan, LinksThatLoopEndTheirOwnWayAndNoOther) {
  fs::create_symlink("self.gguf", root_ / "self.gguf");
  fs::create_symlink("b", root_ / "a");
  fs::create_symlink("a", root_ / "b");
  fs::create_directories(root_ / "models--o--r" / "snapshots");
  fs::create_directory_symlink("../snapshots", root_ / "models--o--r" / "snapshots" / "1");
  testing::write_dense_gguf(root_ / "m.gguf");
  EXPECT_THAT(listed(), ElementsAre("m", HasSubstr("self: ")));
}

TEST_F(CatalogScan, NamesOfEveryKindAreListedPrintableAndCanBeDescribed) {
  const std::vector<std::string> stems{"new\nline",
                                       "tab\tand\x1b[2Jescape",
                                       "\xff\xfe invalid",
                                       std::string(250, 'n'),
                                       "'; rm -rf $HOME; '",
                                       "\xe2\x80\xae"
                                       "reversed",
                                       " "};
  for (const auto& stem : stems) testing::write_dense_gguf(root_ / (stem + ".gguf"));
  const auto models = scan().models;
  ASSERT_EQ(models.size(), stems.size());
  for (const auto& entry : models) {
    EXPECT_EQ(entry.problem, "") << entry.name;
    EXPECT_TRUE(std::ranges::none_of(entry.name, [](char c) { return c >= 0 && c < ' '; })) << entry.name;
    EXPECT_TRUE(models_.describe(entry.path)) << entry.name;
  }
}

TEST_F(CatalogScan, AFolderWithAHundredThousandFilesIsSearched) {
  // In memory where that is possible: a disk takes its time to make them.
  auto folder = (fs::exists("/dev/shm") ? fs::path{"/dev/shm"} : root_) / "dgxmm-many-XXXXXX";
  auto pattern = folder.string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_EQ(::mknod((pattern + "/f" + std::to_string(i)).c_str(), S_IFREG | 0644, 0), 0);
  }
  testing::write_dense_gguf(pattern + "/m.gguf");
  const auto catalog = models_.scan({{pattern}});
  fs::remove_all(pattern);
  ASSERT_EQ(catalog.models.size(), 1U);
  EXPECT_EQ(catalog.models[0].problem, "");
  EXPECT_THAT(catalog.problems, IsEmpty());
}

TEST_F(CatalogScan, ANameThatClaimsManyPartsDoesNotMakeUsLookForThem) {
  testing::write_dense_gguf(root_ / "m-00001-of-99999.gguf");
  const auto models = scan().models;
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].stem, "m-00001-of-99999") << "taken for a file of its own";
}

TEST_F(CatalogScan, ManyModelsAreReadOnSeveralThreadsAndAllAreListed) {
  constexpr std::size_t kModels = 300;
  for (std::size_t i = 0; i < kModels; ++i) {
    testing::write_dense_gguf(root_ / ("m" + std::to_string(i) + ".gguf"),
                              {.n_ctx = static_cast<std::uint32_t>(1000 + i)});
  }
  const auto models = scan().models;
  ASSERT_EQ(models.size(), kModels);
  for (const auto& entry : models) EXPECT_EQ("m" + std::to_string(entry.training_context - 1000), entry.name);
}

TEST_F(CatalogScan, AFileThatChangesWhileItIsReadIsSeenAsItIsInTheEnd) {
  const auto file = root_ / "m.gguf";
  const auto header = testing::dense_gguf({.n_vocab = 20'000}).header();
  std::atomic<bool> done{false};
  std::thread writer{[&] {
    for (std::size_t i = 0; !done; ++i) {
      std::ofstream{file, std::ios::binary} << header.substr(0, header.size() * (i % 7) / 7);
    }
  }};
  for (int i = 0; i < 50; ++i) EXPECT_LE(scan().models.size(), 1U);
  done = true;
  writer.join();
  testing::write_dense_gguf(file, {.n_ctx = 777});
  const auto models = scan().models;
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].problem, "");
  EXPECT_EQ(models[0].training_context, 777);
}

TEST_F(CatalogScan, FoldersToWatchAreAllThatWereSearchedAndWhereAMissingOneWillAppear) {
  testing::write_dense_gguf((fs::create_directories(root_ / "models" / "a"), root_ / "models" / "a" / "m.gguf"));
  write_gguf_repository(root_ / "models" / "models--o--r", "1");
  const auto catalog = models_.scan({{(root_ / "models").string()}, {(root_ / "later").string(), true}});
  const auto repository = (root_ / "models" / "models--o--r").string();
  EXPECT_THAT(catalog.problems, IsEmpty()) << "nobody asked for the folder that is missing";
  EXPECT_THAT(
      catalog.folders,
      ElementsAre(root_.string(), (root_ / "models").string(), (root_ / "models" / "a").string(), repository,
                  repository + "/blobs", repository + "/refs", repository + "/snapshots", repository + "/snapshots/1"));
}

}  // namespace
}  // namespace dgxmm::modelfs
