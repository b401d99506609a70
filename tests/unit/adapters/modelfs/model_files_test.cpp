#include "adapters/modelfs/model_files.h"

#include "tools/gguf_writer.h"
#include "tools/hf_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

namespace dgxmm::modelfs {
namespace {

namespace fs = std::filesystem;
using testing::DenseGguf;
using ::testing::ElementsAre;
using testing::GgmlType;
using testing::GgufWriter;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

/// While it lives, a test that runs as root runs as a user to whom permissions apply.
class AsOrdinaryUser {
 public:
  AsOrdinaryUser() : changed_(::geteuid() == 0 && ::seteuid(kNobody) == 0) {}
  ~AsOrdinaryUser() {
    if (changed_) static_cast<void>(::seteuid(0));
  }
  AsOrdinaryUser(const AsOrdinaryUser&) = delete;
  AsOrdinaryUser& operator=(const AsOrdinaryUser&) = delete;
  explicit operator bool() const { return ::geteuid() != 0; }

 private:
  static constexpr uid_t kNobody = 65534;
  bool changed_;
};

class ModelFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pattern = (fs::temp_directory_path() / "dgxmm-models-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  [[nodiscard]] std::string at(std::string_view name) const { return (root_ / name).string(); }
  [[nodiscard]] std::string code(const std::string& path) { return failure(path).code; }
  [[nodiscard]] std::string message(const std::string& path) { return failure(path).message; }
  [[nodiscard]] Error failure(const std::string& path) {
    auto result = models_.describe(path);
    return result ? Error{"ok", "ok", {}, {}} : result.error();
  }
  [[nodiscard]] ports::Catalog catalog() { return models_.scan({{root_.string()}}); }
  [[nodiscard]] std::vector<ports::CatalogEntry> scan() { return catalog().models; }
  [[nodiscard]] std::vector<std::string> names(const std::vector<ports::CatalogEntry>& entries) {
    std::vector<std::string> result;
    for (const auto& entry : entries) result.push_back(entry.name);
    return result;
  }

  /// Three parts with the keys in the first; returns the sum of their sizes.
  std::uint64_t write_split(std::string_view prefix) {
    GgufWriter first;
    testing::add_dense_keys(first, {});
    testing::add_tokenizer(first, 500);
    first.key_u16("split.no", 0).key_u16("split.count", 3).key_i32("split.tensors.count", 2);
    first.write(at(std::string{prefix} + "-00001-of-00003.gguf"));
    std::uint64_t size = first.file_size();
    for (std::uint16_t number = 1; number <= 2; ++number) {
      GgufWriter part;
      part.key_u16("split.no", number).key_u16("split.count", 3);
      part.tensor("part." + std::to_string(number) + ".x", GgmlType::f16, {64, 64});
      part.write(at(std::string{prefix} + "-0000" + std::to_string(number + 1) + "-of-00003.gguf"));
      size += part.file_size();
    }
    return size;
  }

  fs::path root_;
  FileSystemModels models_;
};

TEST_F(ModelFiles, AGgufFileIsDescribedFromItsHeaderAlone) {
  const DenseGguf big{.n_layer = 32, .n_embd = 4096, .n_head = 32, .n_head_kv = 8, .n_ff = 14336, .n_vocab = 150'000};
  testing::write_dense_gguf(at("big.gguf"), big);  // larger than one window; its 4 GB of data are a hole
  const auto model = models_.describe(at("big.gguf"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->path, at("big.gguf"));
  EXPECT_EQ(model->vocabulary, 150'000);
  EXPECT_EQ(model->layers.size(), 32U);
  EXPECT_EQ(model->weights.files, Bytes{static_cast<std::int64_t>(fs::file_size(at("big.gguf")))});
}

TEST_F(ModelFiles, AMissingModelIsNotFoundUnderItsName) {
  EXPECT_EQ(code(at("no.gguf")), "model_not_found");
  EXPECT_THAT(message(at("no.gguf")), HasSubstr(at("no.gguf")));
  EXPECT_EQ(code(at("no-00001-of-00002.gguf")), "model_not_found");
  EXPECT_EQ(code(at("no.gguf/inside.gguf")), "model_not_found");
}

TEST_F(ModelFiles, ATruncatedGgufIsNamedHalfDownloadedWithBothSizes) {
  testing::write_dense_gguf(at("m.gguf"));
  const auto whole = fs::file_size(at("m.gguf"));
  fs::resize_file(at("m.gguf"), whole - 1000);
  EXPECT_EQ(code(at("m.gguf")), "model_incomplete");
  EXPECT_THAT(message(at("m.gguf")), HasSubstr("half-downloaded"));
  EXPECT_THAT(message(at("m.gguf")), HasSubstr(std::to_string(whole)));
  EXPECT_THAT(message(at("m.gguf")), HasSubstr(std::to_string(whole - 1000)));
  fs::resize_file(at("m.gguf"), 100);
  EXPECT_EQ(code(at("m.gguf")), "model_incomplete");
  fs::resize_file(at("m.gguf"), 0);
  EXPECT_EQ(code(at("m.gguf")), "model_incomplete");
}

TEST_F(ModelFiles, WhatIsNoModelFileIsToldAndNeverWaitedFor) {
  testing::write_text(at("text.gguf"), std::string(1000, 'x'));
  EXPECT_EQ(code(at("text.gguf")), "bad_model_file");
  ASSERT_EQ(::mkfifo(at("fifo.gguf").c_str(), 0600), 0);
  EXPECT_EQ(code(at("fifo.gguf")), "bad_model_file");
  EXPECT_EQ(code("/dev/null"), "bad_model_file");
  EXPECT_EQ(code(""), "model_not_found");
}

TEST_F(ModelFiles, AFileThatMayNotBeReadSaysSo) {
  testing::write_dense_gguf(at("m.gguf"));
  fs::permissions(at("m.gguf"), fs::perms::none);
  fs::permissions(root_, fs::perms{0755});
  const AsOrdinaryUser ordinary;
  if (!ordinary) GTEST_SKIP() << "root reads everything, and this process may not become another user";
  EXPECT_EQ(code(at("m.gguf")), "bad_model_file");
  EXPECT_THAT(message(at("m.gguf")), HasSubstr("Permission denied"));
}

TEST_F(ModelFiles, G9_AnyPartOfASplitLeadsToAllOfThem) {
  const auto size = write_split("m");
  for (const auto* part : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const auto model = models_.describe(at(part));
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->weights.files, Bytes{static_cast<std::int64_t>(size)});
    EXPECT_EQ(model->files.at(0).path, at("m-00001-of-00003.gguf")) << "what llama-server is given";
    EXPECT_EQ(model->path, at(part));
  }
}

TEST_F(ModelFiles, AMissingPartIsNamed) {
  write_split("m");
  fs::remove(at("m-00003-of-00003.gguf"));
  EXPECT_EQ(code(at("m-00001-of-00003.gguf")), "model_incomplete");
  EXPECT_THAT(message(at("m-00001-of-00003.gguf")), HasSubstr("1 of its 3 files is missing: m-00003-of-00003.gguf"));
  fs::remove(at("m-00001-of-00003.gguf"));
  EXPECT_THAT(message(at("m-00002-of-00003.gguf")), HasSubstr("2 of its 3 files are missing"));
}

TEST_F(ModelFiles, ARenamedPartOfASplitIsNotTakenForAWholeModel) {
  write_split("m");
  fs::rename(at("m-00001-of-00003.gguf"), at("renamed.gguf"));
  EXPECT_NE(code(at("renamed.gguf")), "ok");
}

TEST_F(ModelFiles, AFolderWithOneGgufModelIsThatModel) {
  testing::write_dense_gguf(at("m.gguf"));
  GgufWriter projector;
  projector.key_text("general.architecture", "clip").key_text("general.type", "mmproj").tensor("a", GgmlType::f32, {8});
  projector.write(at("mmproj.gguf"));
  const auto model = models_.describe(root_.string() + "/");
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->files.at(0).path, at("m.gguf"));

  testing::write_dense_gguf(at("n.gguf"));
  EXPECT_EQ(code(root_.string()), "model_not_found");
  EXPECT_THAT(message(root_.string()), HasSubstr("holds 2 models: m, n"));
}

TEST_F(ModelFiles, AProjectorIsToldFromAModel) {
  GgufWriter projector;
  projector.key_text("general.architecture", "clip").key_text("general.type", "mmproj").tensor("a", GgmlType::f32, {8});
  projector.write(at("mmproj.gguf"));
  EXPECT_THAT(message(at("mmproj.gguf")), HasSubstr("this is a projector, not a model"));
}

TEST_F(ModelFiles, AProjectorIsDescribedAndAnythingElseIsRefusedAsOne) {
  GgufWriter projector;
  projector.key_text("general.architecture", "clip").tensor("a", GgmlType::f32, {8});
  projector.write(at("mmproj.gguf"));
  const auto described = models_.describe_projector(at("mmproj.gguf"));
  ASSERT_TRUE(described) << described.error().message;
  EXPECT_EQ(described->path, at("mmproj.gguf"));
  EXPECT_EQ(described->tensors, Bytes{32});

  testing::write_dense_gguf(at("m.gguf"));
  testing::write_text(at("text.gguf"), "no model at all");
  EXPECT_EQ(models_.describe_projector(at("m.gguf")).error().code, "bad_model_file");
  EXPECT_EQ(models_.describe_projector(at("no.gguf")).error().code, "model_not_found");
  EXPECT_FALSE(models_.describe_projector(at("text.gguf")));
  EXPECT_FALSE(models_.describe_projector(root_.string()));
}

TEST_F(ModelFiles, AProjectorBesideAModelIsNamedByTheModel) {
  testing::write_dense_gguf(at("m.gguf"));
  EXPECT_THAT(models_.describe(at("m.gguf"))->projectors, ::testing::IsEmpty());
  GgufWriter projector;
  projector.key_text("general.architecture", "clip").tensor("a", GgmlType::f32, {8});
  projector.write(at("m-mmproj-F16.gguf"));
  testing::write_dense_gguf(at("mmproj-only-by-name.gguf"));
  EXPECT_THAT(models_.describe(at("m.gguf"))->projectors, ::testing::ElementsAre(at("m-mmproj-F16.gguf")));
}

TEST_F(ModelFiles, AnEmptyFolderHoldsNoModel) {
  EXPECT_EQ(code(root_.string()), "model_not_found");
  testing::write_text(at("adapter_config.json"), "{}");
  EXPECT_EQ(code(root_.string()), "model_not_supported");
  testing::write_text(at("config.json"), testing::dense_config());
  EXPECT_EQ(code(root_.string()), "model_not_supported") << "config.json without weights";
}

TEST_F(ModelFiles, ASafetensorsFolderIsDescribed) {
  testing::write_dense_hf(at("model"));
  for (const auto* path : {"model", "model/", "./model", "model/../model//"}) {
    const auto model = models_.describe((root_ / path).string());
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->format, model::Format::safetensors);
    EXPECT_EQ(model->name, "model");
    EXPECT_EQ(model->weights.files, Bytes{static_cast<std::int64_t>(fs::file_size(at("model/model.safetensors")))});
  }
}

TEST_F(ModelFiles, TheFileOfAQuantizerIsReadWhenConfigJsonSaysNothing) {
  testing::write_dense_hf(root_);
  testing::write_text(at("hf_quant_config.json"),
                      R"({"quantization":{"quant_algo":"FP8","kv_cache_quant_algo":"FP8"}})");
  const auto model = models_.describe(root_.string());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->quantization, "FP8");
  EXPECT_EQ(model->kv_cache_dtype, "fp8_e4m3");
  testing::write_text(at("hf_quant_config.json"), "{");
  EXPECT_THAT(message(root_.string()), HasSubstr("hf_quant_config.json"));
}

TEST_F(ModelFiles, AFolderWithConfigAndGgufOnlyIsAGgufModel) {
  testing::write_text(at("config.json"), testing::dense_config());
  testing::write_dense_gguf(at("m.gguf"));
  const auto model = models_.describe(root_.string());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->format, model::Format::gguf);
}

/// Two shards and their index.
void write_shards(const fs::path& folder) {
  testing::write_text(folder / "config.json", testing::dense_config());
  const auto shards = testing::dense_safetensors({}, 2);
  shards[0].write(folder / "model-00001-of-00002.safetensors");
  shards[1].write(folder / "model-00002-of-00002.safetensors");
  testing::write_text(
      folder / "model.safetensors.index.json",
      R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}})");
}

TEST_F(ModelFiles, ShardsOfTheIndexAreSummedAndOthersAreNot) {
  write_shards(root_);
  const auto expected =
      fs::file_size(at("model-00001-of-00002.safetensors")) + fs::file_size(at("model-00002-of-00002.safetensors"));
  testing::dense_safetensors().front().write(at("extra.safetensors"));
  const auto model = models_.describe(root_.string());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->weights.files, Bytes{static_cast<std::int64_t>(expected)});
}

TEST_F(ModelFiles, H1_ConsolidatedBesideShardsIsNotCountedTwice) {
  write_shards(root_);
  testing::dense_safetensors().front().write(at("consolidated.safetensors"));
  const auto model = models_.describe(root_.string());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->weights.files, Bytes{static_cast<std::int64_t>(fs::file_size(at("consolidated.safetensors")))});
}

TEST_F(ModelFiles, H1_WhatIsNotLoadedIsSaid) {
  write_shards(root_);
  EXPECT_THAT(models_.describe(root_.string())->notes, IsEmpty());
  testing::dense_safetensors().front().write(at("extra.safetensors"));
  EXPECT_THAT(models_.describe(root_.string())->notes, ElementsAre("vLLM does not load extra.safetensors"));
  fs::remove(at("extra.safetensors"));
  testing::dense_safetensors().front().write(at("consolidated.safetensors"));
  EXPECT_THAT(models_.describe(root_.string())->notes,
              ElementsAre("vLLM does not load model-00001-of-00002.safetensors, model-00002-of-00002.safetensors"));
}

TEST_F(ModelFiles, H1_AFolderInMistralsOwnFormatIsDescribedByItsParams) {
  const auto params = R"({"dim":64,"n_layers":2,"n_heads":4,"n_kv_heads":2,"hidden_dim":128,"vocab_size":256,
                          "max_position_embeddings":4096})";
  testing::write_text(at("own/params.json"), params);
  testing::SafetensorsWriter{}
      .tensor("tok_embeddings.weight", "BF16", {256, 64})
      .tensor("layers.0.attention.wq.weight", "BF16", {64, 64})
      .tensor("layers.1.attention.wk.weight", "BF16", {32, 64})
      .tensor("output.weight", "BF16", {256, 64})
      .write(at("own/consolidated.safetensors"));
  const auto model = models_.describe(at("own"));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->architecture, "MistralForCausalLM");
  EXPECT_EQ(model->layers.size(), 2U);
  EXPECT_EQ(model->weights.token_embedding, Bytes{256 * 64 * 2});
  EXPECT_EQ(model->weight_dtype, "bfloat16");
  EXPECT_THAT(names(scan()), ElementsAre("own"));

  testing::write_text(at("own/config.json"), testing::dense_config());
  EXPECT_EQ(models_.describe(at("own"))->architecture, "LlamaForCausalLM") << "config.json counts where it is";
  fs::remove(at("own/config.json"));
  fs::remove(at("own/consolidated.safetensors"));
  EXPECT_EQ(code(at("own")), "model_not_found") << "params.json alone describes many other things";
}

TEST_F(ModelFiles, E9_AConfigOfAnotherModelIsRefused) {
  testing::write_dense_hf(root_);
  testing::write_text(at("config.json"), testing::dense_config({.layers = 3}));
  EXPECT_EQ(code(root_.string()), "bad_model_file");
  EXPECT_THAT(message(root_.string()), HasSubstr("config.json says 3 layers"));
}

TEST_F(ModelFiles, H6_DanglingLinksOfAPartialDownloadAreNamed) {
  write_shards(root_);
  fs::remove(at("model-00002-of-00002.safetensors"));
  fs::create_symlink("../../blobs/not-there", at("model-00002-of-00002.safetensors"));
  EXPECT_EQ(code(root_.string()), "model_incomplete");
  EXPECT_THAT(message(root_.string()), HasSubstr("1 of its 2 files is missing: model-00002-of-00002.safetensors"));
  fs::create_symlink("nowhere", at("link.gguf"));
  EXPECT_EQ(code(at("link.gguf")), "model_incomplete");
  EXPECT_THAT(message(at("link.gguf")), HasSubstr("link to a file that is not there"));
}

TEST_F(ModelFiles, ATruncatedShardIsNamedItself) {
  write_shards(root_);
  fs::resize_file(at("model-00002-of-00002.safetensors"), 600);
  EXPECT_EQ(code(root_.string()), "model_incomplete");
  EXPECT_THAT(message(root_.string()), StartsWith(at("model-00002-of-00002.safetensors")));
}

TEST_F(ModelFiles, AnOversizedConfigIsNotRead) {
  testing::write_dense_hf(root_);
  fs::resize_file(at("config.json"), 5 * 1024 * 1024);
  EXPECT_EQ(code(root_.string()), "bad_model_file");
  EXPECT_THAT(message(root_.string()), HasSubstr("config.json"));
}

/// The layout of a Hugging Face cache: files are links from a revision into the blobs.
void write_cache(const fs::path& repository, const std::vector<std::string>& revisions, std::string_view main) {
  testing::write_text(repository / "blobs" / "aaa", testing::dense_config());
  testing::dense_safetensors().front().write(repository / "blobs" / "bbb");
  for (const auto& revision : revisions) {
    const auto snapshot = repository / "snapshots" / revision;
    fs::create_directories(snapshot);
    fs::create_symlink("../../blobs/aaa", snapshot / "config.json");
    fs::create_symlink("../../blobs/bbb", snapshot / "model.safetensors");
  }
  if (!main.empty()) testing::write_text(repository / "refs" / "main", main);
}

TEST_F(ModelFiles, H4_ARepositoryOfACacheIsOneModelOfItsChosenRevision) {
  const auto repository = root_ / "models--org--Nice-Model";
  write_cache(repository, {"1111", "2222"}, "2222");
  const auto model = models_.describe(repository.string());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->name, "Nice-Model");
  const auto found = scan();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "org/Nice-Model");
  EXPECT_EQ(found[0].revision, "2222");
  EXPECT_EQ(found[0].path, (repository / "snapshots" / "2222").string());
  EXPECT_EQ(found[0].size, Bytes{static_cast<std::int64_t>(fs::file_size(repository / "blobs" / "bbb"))});
  EXPECT_EQ(found[0].problem, "");
}

TEST_F(ModelFiles, H4_RevisionsThatShareTheirBlobsAreListedOnce) {
  write_cache(root_ / "models--org--m", {"1111", "2222"}, "");
  EXPECT_THAT(names(scan()), ElementsAre("org/m"));
}

TEST_F(ModelFiles, ARefThatLeavesTheCacheIsNotFollowed) {
  write_cache(root_ / "models--org--m", {"1111"}, "../../../..");
  testing::write_dense_hf(root_ / "outside", {.context = 77});
  for (const auto* ref : {"../../../..", "../../../../outside", ".", "..", "nowhere", ""}) {
    testing::write_text(root_ / "models--org--m" / "refs" / "main", ref);
    const auto model = models_.describe((root_ / "models--org--m").string());
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->training_context, 4096) << ref;
  }
}

TEST_F(ModelFiles, AScanFindsModelsOfBothKindsWithWhatPeopleChooseBy) {
  fs::create_directories(at("a/b"));
  testing::write_dense_gguf(at("a/b/deep-Q4_0.gguf"), {.n_ctx = 8192});
  testing::write_dense_hf(at("hf-model"));
  fs::create_directories(at("split"));
  write_split("split/big");
  const auto found = scan();
  ASSERT_THAT(names(found), ElementsAre("big", "deep-Q4_0", "hf-model"));
  EXPECT_EQ(found[0].path, at("split/big-00001-of-00003.gguf"));
  EXPECT_EQ(found[1].architecture, "llama");
  EXPECT_EQ(found[1].quantization, "Q4_0");
  EXPECT_EQ(found[1].training_context, 8192);
  EXPECT_EQ(found[1].format, model::Format::gguf);
  EXPECT_FALSE(found[1].base_model.empty());
  EXPECT_EQ(found[2].format, model::Format::safetensors);
  for (const auto& entry : found) EXPECT_EQ(entry.problem, "");
}

TEST_F(ModelFiles, AScanListsBrokenModelsWithTheirProblem) {
  testing::write_text(at("broken.gguf"), "GGUF");
  testing::write_dense_gguf(at("unsupported.gguf"), {.arch = "t5"});
  write_split("split");
  fs::remove(at("split-00001-of-00003.gguf"));
  fs::create_symlink("nowhere", at("dangling.gguf"));
  const auto found = scan();
  ASSERT_THAT(names(found), ElementsAre("broken", "dangling", "split", "unsupported"));
  EXPECT_THAT(found[0].problem, HasSubstr("truncated"));
  EXPECT_THAT(found[1].problem, HasSubstr("link"));
  EXPECT_THAT(found[2].problem, HasSubstr("1 of its 3 files is missing"));
  EXPECT_EQ(found[2].path, at("split-00002-of-00003.gguf"));
  EXPECT_THAT(found[3].problem, HasSubstr("'t5' is not supported yet"));
}

TEST_F(ModelFiles, AScanLeavesOutProjectorsHiddenFoldersAndOtherFiles) {
  GgufWriter projector;
  projector.key_text("general.type", "mmproj").tensor("a", GgmlType::f32, {8});
  projector.write(at("mmproj-model.gguf"));
  fs::create_directories(at(".hidden"));
  testing::write_dense_gguf(at(".hidden/m.gguf"));
  testing::write_text(at("readme.txt"), "hello");
  testing::write_text(at("tokenizer-only/config.json"), "{}");
  EXPECT_THAT(scan(), IsEmpty());
}

TEST_F(ModelFiles, AScanEndsOnFoldersThatLinkToThemselves) {
  fs::create_directories(at("a"));
  testing::write_dense_gguf(at("a/m.gguf"));
  fs::create_directory_symlink(root_, at("a/loop"));
  fs::create_directory_symlink(at("a"), at("again"));
  EXPECT_THAT(names(scan()), ElementsAre("m"));
  EXPECT_THAT(names(models_.scan({{root_.string()}, {root_.string() + "/"}, {at("a")}}).models), ElementsAre("m"));
}

TEST_F(ModelFiles, AScanOfWhatIsNotThereSaysSo) {
  const auto found = models_.scan({{at("nothing")}, {""}, {"/dev/null"}});
  EXPECT_THAT(found.models, IsEmpty());
  EXPECT_THAT(found.problems,
              ElementsAre(at("nothing") + ": does not exist", ": does not exist", "/dev/null: is not a folder"));
  EXPECT_THAT(models_.scan({}).problems, IsEmpty());
}

TEST_F(ModelFiles, AFolderThatCannotBeReadIsNotTakenForAnEmptyOne) {
  fs::create_directories(at("closed"));
  testing::write_dense_gguf(at("open.gguf"));
  fs::permissions(at("closed"), fs::perms::none);
  fs::permissions(root_, fs::perms{0755});
  {
    const AsOrdinaryUser ordinary;
    if (!ordinary) GTEST_SKIP() << "root reads everything, and this process may not become another user";
    const auto reason = at("closed") + ": cannot be read: Permission denied";
    EXPECT_EQ(message(at("closed")), reason);
    EXPECT_EQ(failure(at("closed")).hint, "let the user that runs dgxmm read it");
    const auto found = models_.scan({{root_.string()}});
    EXPECT_THAT(names(found.models), ElementsAre("open"));
    EXPECT_THAT(found.problems, ElementsAre(reason));
  }
  fs::permissions(at("closed"), fs::perms::owner_all);
}

TEST_F(ModelFiles, LinksOutOfAFolderAreNamedWithTheFilesBehindThem) {
  const auto snapshot = root_ / "hub" / "models--a--b" / "snapshots" / "1";
  const auto blobs = root_ / "hub" / "models--a--b" / "blobs";
  const auto disk = root_ / "other disk";
  for (const auto& folder : {snapshot / "inner", blobs, disk}) fs::create_directories(folder);
  for (const auto& file : {blobs / "12", disk / "34", snapshot / "plain"}) std::ofstream{file} << "x";
  fs::create_symlink(disk / "34", blobs / "34");  // a blob that was moved
  fs::create_symlink("../../blobs/12", snapshot / "config.json");
  fs::create_symlink("../../blobs/34", snapshot / "model.safetensors");
  fs::create_symlink("../../../blobs/12", snapshot / "inner" / "again.json");
  fs::create_symlink("plain", snapshot / "inside");
  fs::create_symlink("../../blobs/56", snapshot / "dangling");
  fs::create_symlink(blobs, snapshot / "folder");
  fs::create_symlink("/etc/passwd", snapshot / "passwd");
  fs::create_symlink("/proc/self/environ", snapshot / "environ");
  using ports::LinkedFile;
  const auto real = fs::canonical(root_);
  const auto canonical_blob = (real / "hub" / "models--a--b" / "blobs" / "12").string();
  EXPECT_THAT(models_.linked_files(snapshot.string()),
              ElementsAre(LinkedFile{(blobs / "12").string(), canonical_blob},
                          LinkedFile{(blobs / "34").string(), (real / "other disk" / "34").string()}));
  EXPECT_THAT(models_.linked_files(snapshot.string() + "/"), ::testing::SizeIs(2));
  EXPECT_THAT(models_.linked_files((snapshot / "plain").string()), IsEmpty());
  EXPECT_THAT(models_.linked_files(at("nowhere")), IsEmpty());
}

}  // namespace
}  // namespace dgxmm::modelfs
