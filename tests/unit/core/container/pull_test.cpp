#include "core/container/pull.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgxmm::container {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Messages of Docker 20.10 and 28, shortened.
constexpr auto kBegins = R"({"status":"Pulling fs layer","progressDetail":{},"id":"a1"})";

std::string downloading(const char* id, std::int64_t current, std::int64_t total) {
  return R"({"status":"Downloading","progressDetail":{"current":)" + std::to_string(current) + R"(,"total":)" +
         std::to_string(total) + R"(},"progress":"[=>  ]","id":")" + id + "\"}";
}
std::string unpacking(const char* id, std::int64_t current, std::int64_t total) {
  return R"({"status":"Extracting","progressDetail":{"current":)" + std::to_string(current) + R"(,"total":)" +
         std::to_string(total) + R"(},"id":")" + id + "\"}";
}
std::string of_layer(const char* status, const char* id) {
  return std::string{R"({"status":")"} + status + R"(","progressDetail":{},"id":")" + id + "\"}";
}

TEST(PullProgress, CountsBytesOverTheLayersAndSaysWhenASizeIsMissing) {
  PullProgress progress;
  EXPECT_EQ(progress.phase(), "pulling the image");
  ASSERT_TRUE(progress.take(R"({"status":"Pulling from vllm/vllm-openai","id":"v0.32.0"})"));
  ASSERT_TRUE(progress.take(kBegins));
  ASSERT_TRUE(progress.take(of_layer("Pulling fs layer", "b2")));
  ASSERT_TRUE(progress.take(downloading("a1", gib(1).count(), gib(4).count())));
  EXPECT_EQ(progress.phase(), "pulling the image, 1.0 GiB of at least 4.0 GiB");
  ASSERT_TRUE(progress.take(downloading("b2", gib(1).count(), gib(2).count())));
  EXPECT_EQ(progress.phase(), "pulling the image, 2.0 GiB of 6.0 GiB");
  ASSERT_TRUE(progress.take(of_layer("Download complete", "a1")));
  ASSERT_TRUE(progress.take(of_layer("Verifying Checksum", "b2")));
  EXPECT_EQ(progress.phase(), "pulling the image, 5.0 GiB of 6.0 GiB");
  ASSERT_TRUE(progress.take(of_layer("Download complete", "b2")));
  ASSERT_TRUE(progress.take(unpacking("a1", gib(3).count(), gib(4).count())));
  EXPECT_EQ(progress.phase(), "unpacking the image, 3.0 GiB of 6.0 GiB");
  ASSERT_TRUE(progress.take(of_layer("Pull complete", "a1")));
  EXPECT_EQ(progress.phase(), "unpacking the image, 4.0 GiB of 6.0 GiB");
}

TEST(PullProgress, OnlyWhatGetsFurtherThanBeforeIsAStep) {
  PullProgress progress;
  ASSERT_TRUE(progress.take(kBegins));
  ASSERT_TRUE(progress.take(downloading("a1", 100, 1000)));
  const auto before = progress.steps();
  for (const auto& again : {downloading("a1", 100, 1000), of_layer("Retrying in 5 seconds", "a1"),
                            downloading("a1", 10, 1000), std::string{R"({"status":"Waiting","id":"a1"})"}}) {
    ASSERT_TRUE(progress.take(again));
    EXPECT_EQ(progress.steps(), before) << again;
  }
  ASSERT_TRUE(progress.take(downloading("a1", 101, 1000)));
  EXPECT_GT(progress.steps(), before);
}

TEST(PullProgress, TheEnginesErrorIsOneAndNoTextIsTooOdd) {
  PullProgress progress;
  for (const auto* odd : {"", "nonsense", "[]", "{}", R"({"status":7,"id":[]})", R"({"status":"Downloading","id":"x"})",
                          R"({"status":"Downloading","id":"x","progressDetail":{"current":-1,"total":"many"}})",
                          R"({"status":"Extracting","id":"x","progressDetail":null})"}) {
    EXPECT_TRUE(progress.take(odd)) << odd;
  }
  const auto taken = progress.take(
      R"({"errorDetail":{"message":"write /var/lib/x: no space left on device"},"error":"write /var/lib/x: no space left on device"})");
  ASSERT_FALSE(taken);
  EXPECT_EQ(explain_pull_error("a:1", taken.error().message).code, "disk_full");
}

struct Words {
  const char* message;
  const char* code;
};

class PullError : public testing::TestWithParam<Words> {};

TEST_P(PullError, IsOneSentenceWithAFix) {
  const auto error = explain_pull_error("nvcr.io/nvidia/vllm:26.01-py3", GetParam().message);
  EXPECT_EQ(error.code, GetParam().code);
  EXPECT_THAT(error.message, StartsWith("the image nvcr.io/nvidia/vllm:26.01-py3 "));
  EXPECT_THAT(error.message, HasSubstr(GetParam().message));
  EXPECT_FALSE(error.hint.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Engines, PullError,
    testing::Values(
        Words{"manifest for nvcr.io/nvidia/vllm:26.01-py3 not found: manifest unknown: manifest unknown",
              "image_not_found"},
        Words{"pull access denied for nobody/nothing, repository does not exist or may require 'docker login': denied: "
              "requested access to the resource is denied",
              "registry_denied"},
        Words{"Head \"https://nvcr.io/v2/nvidia/vllm/manifests/26.01-py3\": unauthorized: authentication required",
              "registry_denied"},
        Words{"Get \"https://nvcr.io/v2/\": dial tcp: lookup nvcr.io on 127.0.0.53:53: no such host",
              "registry_unreachable"},
        Words{"Get \"http://127.0.0.1:9/v2/\": dial tcp 127.0.0.1:9: connect: connection refused",
              "registry_unreachable"},
        Words{"Get \"https://nvcr.io/v2/\": net/http: TLS handshake timeout", "registry_unreachable"},
        Words{"failed to register layer: write /usr/lib/x.so: no space left on device", "disk_full"},
        Words{"no matching manifest for linux/arm64/v8 in the manifest list entries", "image_wrong_platform"},
        Words{"toomanyrequests: You have reached your unauthenticated pull rate limit.", "registry_busy"},
        Words{"something that nobody foresaw", "pull_failed"}),
    [](const auto& info) { return std::string{info.param.code} + std::to_string(info.index); });

TEST(ImageReference, WithoutATagTheLatestIsMeantAndNotAllOfThem) {
  EXPECT_EQ(parse_reference("vllm/vllm-openai"), (ImageReference{"vllm/vllm-openai", "latest"}));
  EXPECT_EQ(parse_reference("vllm/vllm-openai:v0.32.0"), (ImageReference{"vllm/vllm-openai", "v0.32.0"}));
  EXPECT_EQ(parse_reference("localhost:5000/llama"), (ImageReference{"localhost:5000/llama", "latest"}));
  EXPECT_EQ(parse_reference("localhost:5000/llama:1"), (ImageReference{"localhost:5000/llama", "1"}));
  EXPECT_EQ(parse_reference("a/b@sha256:12"), (ImageReference{"a/b", "sha256:12"}));
  EXPECT_TRUE(is_image_id("sha256:f24b"));
  EXPECT_FALSE(is_image_id("llama:1"));
}

TEST(Platform, AnImageOfAnotherArchitectureDoesNotRunAndAnUnknownOneMay) {
  EXPECT_TRUE(runs_on("arm64", "aarch64"));
  EXPECT_TRUE(runs_on("amd64", "x86_64"));
  EXPECT_FALSE(runs_on("amd64", "aarch64"));
  EXPECT_TRUE(runs_on("", "aarch64"));
  EXPECT_TRUE(runs_on("riscv64", "aarch64"));
}

}  // namespace
}  // namespace dgxmm::container
