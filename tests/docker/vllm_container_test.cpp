// vLLM in a container, with a double in its place (tests/tools/vllm_double.py): the whole daemon, a real Docker Engine.
#include "docker/dockerd.h"
#include "e2e/support/daemon.h"
#include "tools/hf_writer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

namespace dgxmm::docker {
namespace {

namespace fs = std::filesystem;
using e2e::at;
using e2e::Daemon;
using e2e::kMib;
using e2e::number;
using e2e::text;
using e2e::Words;
using ::testing::HasSubstr;
using ::testing::Not;

// Of the model below: weights that are held, and a pool of 8,192 tokens.
constexpr auto kWeights = 240 * kMib;
constexpr auto kPool = 128 * kMib;
constexpr auto kSlack = 24 * kMib;  // what Python takes and gives back
constexpr auto kOfficial = R"(["vllm", "serve"])";

class ContainedVllm : public e2e::EndToEnd {
 protected:
  void SetUp() override {
    e2e::EndToEnd::SetUp();
    if (HasFatalFailure()) return;
    if (const auto reason = reason_against_dockerd(); !reason.empty()) GTEST_SKIP() << "SKIPPED: " << reason;
    testing::write_dense_hf(
        model(), {.layers = 8, .hidden = 1024, .heads = 16, .kv_heads = 8, .intermediate = 4096, .vocabulary = 256});
    dockerd_ = std::make_unique<Dockerd>(std::vector<std::string>{"--live-restore"});
    daemon_ = std::make_unique<Daemon>(Daemon::Options{
        .flags = {"--docker-socket", dockerd_->socket(), "--docker-network", dockerd_->network(), "--stop-grace-s", "2",
                  "--vllm-runtime-fixed-gib", "5", "--start-floor-gib", "0.25", "--vllm-image", "vllm-double:1"}});
  }

  [[nodiscard]] fs::path model() const { return folder_.path() / "model"; }
  void behave(const std::string& members) const {
    const auto written = folder_.write("behaviour", "{" + members + "}");
    fs::rename(written, model() / "vllm_double.json");
  }

  /// With the image of the settings.
  [[nodiscard]] e2e::Run deploy(const fs::path& folder) const {
    return daemon_->run({"deploy", folder.string(), "--name", "one", "--sleep-mode", "--max-model-len", "4096",
                         "--max-num-seqs", "4", "--max-num-batched-tokens", "1024", "--enforce-eager"});
  }
  void deploy_ready() const {
    const auto deployed = deploy(model());
    if (deployed.exit_code != 0)
      throw std::runtime_error("deploy: " + deployed.all() + daemon_->run({"logs", "one"}).out);
  }
  [[nodiscard]] std::uint16_t port() const {
    const auto url = text(daemon_->deployment("one"), "url");
    return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
  }
  [[nodiscard]] int completes() const {
    return e2e::http(port(), "POST", "/v1/completions", R"({"model": "one", "prompt": "hello", "max_tokens": 1})")
        .status;
  }
  [[nodiscard]] std::int64_t measured() const {
    return number(at(daemon_->deployment("one"), "measured"), "total_bytes");
  }
  [[nodiscard]] std::string container() const { return text(daemon_->deployment("one"), "container"); }
  [[nodiscard]] boost::json::value inspected() const {
    return boost::json::parse(dockerd_->call("GET", "/containers/" + container() + "/json").body);
  }
  [[nodiscard]] std::int64_t committed() const { return number(daemon_->document("/budget"), "committed_bytes"); }

  e2e::TempDir folder_;
  std::unique_ptr<Dockerd> dockerd_;
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(ContainedVllm, ServesSleepsWakesAndIsMeasuredAndItsCallsForSleepingAreForDgxmmAlone) {
  dockerd_->import_vllm_double(kOfficial);
  deploy_ready();
  EXPECT_EQ(text(daemon_->deployment("one"), "runtime"), "docker");
  EXPECT_EQ(completes(), 200);
  const auto awake = measured();
  EXPECT_GE(awake, kWeights + kPool);

  const auto document = inspected();
  const auto& host = document.at("HostConfig");
  EXPECT_EQ(host.at("IpcMode"), "private");
  EXPECT_EQ(host.at("ShmSize"), std::int64_t{2} * 1024 * kMib);
  const auto published = boost::json::serialize(document.at("NetworkSettings").at("Ports"));
  EXPECT_THAT(published, HasSubstr(fmt::format(R"({{"HostIp":"127.0.0.1","HostPort":"{}"}})", port())));
  EXPECT_THAT(published, Not(HasSubstr("0.0.0.0")));
  EXPECT_THAT(boost::json::serialize(document.at("Config").at("Env")), HasSubstr("HF_HUB_OFFLINE=1"));
  EXPECT_EQ(document.at("Mounts").as_array().size(), 2U) << "the model's folder, and the cache";

  EXPECT_EQ(e2e::http(port(), "POST", "/sleep?level=1").status, 403);
  EXPECT_EQ(e2e::http(port(), "GET", "/is_sleeping").status, 403);
  const auto slept = daemon_->run({"sleep", "one"});
  ASSERT_EQ(slept.exit_code, 0) << slept.all();
  EXPECT_LE(measured(), awake - kPool + kSlack);
  ASSERT_EQ(daemon_->run({"wake", "one"}).exit_code, 0);
  EXPECT_EQ(completes(), 200);
  ASSERT_EQ(daemon_->run({"sleep", "one", "--level", "2"}).exit_code, 0);
  EXPECT_LE(measured(), awake - kPool + kSlack);
  ASSERT_EQ(daemon_->run({"wake", "one"}).exit_code, 0);
  EXPECT_EQ(completes(), 200);
  EXPECT_THAT(daemon_->run({"logs", "one"}).out, HasSubstr("Model loading took"));

  ASSERT_EQ(daemon_->run({"stop", "one"}).exit_code, 0);
  EXPECT_EQ(committed(), 0);
}

TEST_F(ContainedVllm, WhatItCompiledIsFoundByTheNextStart) {
  dockerd_->import_vllm_double(kOfficial);
  deploy_ready();
  EXPECT_THAT(daemon_->run({"logs", "one"}).out, HasSubstr("Compiling a graph"));
  ASSERT_EQ(daemon_->run({"stop", "one"}).exit_code, 0);
  const auto again = daemon_->run({"start", "one"});
  ASSERT_EQ(again.exit_code, 0) << again.all();
  EXPECT_THAT(daemon_->run({"logs", "one"}).out, HasSubstr("Directly load the compiled graph"));
}

TEST_F(ContainedVllm, AModelOfTheHuggingFaceCacheIsFoundBehindItsLinks) {
  dockerd_->import_vllm_double(kOfficial);
  const auto repository = folder_.path() / "hub" / "models--org--name";
  const auto snapshot = repository / "snapshots" / "0123456789abcdef0123456789abcdef01234567";
  fs::create_directories(snapshot);
  fs::create_directories(repository / "blobs");
  int number_of_blob = 0;
  for (const auto& file : fs::directory_iterator(model())) {
    const auto blob = fmt::format("blob{}", ++number_of_blob);
    fs::rename(file.path(), repository / "blobs" / blob);
    fs::create_symlink("../../blobs/" + blob, snapshot / file.path().filename());
  }
  const auto deployed = deploy(snapshot);
  ASSERT_EQ(deployed.exit_code, 0) << deployed.all() << daemon_->run({"logs", "one"}).out;
  EXPECT_GE(measured(), kWeights) << "the double holds as much as its files have";
  for (const auto& mount : inspected().at("Mounts").as_array()) {
    if (text(mount, "Type") == "bind") EXPECT_EQ(mount.at("RW"), false);
  }
}

TEST_F(ContainedVllm, AFailedStartIsOneSentenceAndNothingIsHeld) {
  dockerd_->import_vllm_double(kOfficial);
  behave(R"("start": "not_enough_free")");
  const auto deployed = deploy(model());
  EXPECT_EQ(deployed.exit_code, 1);
  EXPECT_THAT(deployed.err, HasSubstr("error: vLLM found 12.3 of 121.69 GiB"));
  EXPECT_EQ(text(at(daemon_->deployment("one"), "failure"), "code"), "not_enough_free");
  EXPECT_EQ(committed(), 0);
  EXPECT_TRUE(e2e::eventually([&] { return dockerd_->call("GET", "/containers/json?all=1").body == "[]\n"; }));
}

TEST_F(ContainedVllm, C5_KilledByTheKernelWhileWakingUpItIsProvenAndRemembered) {
  dockerd_->import_vllm_double(kOfficial);
  deploy_ready();
  const auto reserved = number(daemon_->deployment("one"), "reserved_bytes");
  ASSERT_EQ(daemon_->run({"sleep", "one", "--level", "2"}).exit_code, 0);
  const auto limit = 128 * kMib;  // less than the weights, which come back first
  const auto limited = dockerd_->call("POST", "/containers/" + container() + "/update",
                                      fmt::format(R"({{"Memory":{0},"MemorySwap":{0}}})", limit));
  ASSERT_EQ(limited.status, 200) << limited.body;
  const auto wake = daemon_->run({"wake", "one"});
  EXPECT_EQ(wake.exit_code, 1);
  ASSERT_TRUE(daemon_->becomes("one", "failed"));
  const auto failure = at(daemon_->deployment("one"), "failure");
  EXPECT_EQ(text(failure, "code"), "out_of_memory") << text(failure, "message");
  EXPECT_THAT(text(failure, "message"), HasSubstr("the kernel killed it for lack of memory"));
  const auto floors = at(daemon_->document("/calibration"), "oom_floors");
  ASSERT_EQ(floors.as_array().size(), 1U);
  EXPECT_EQ(number(floors.at(0), "killed_bytes"), reserved);
  EXPECT_EQ(committed(), 0);
}

TEST_F(ContainedVllm, OneThatSleepsOutlivesTheDaemonAndIsFoundAsleep) {
  dockerd_->import_vllm_double(kOfficial);
  deploy_ready();
  ASSERT_EQ(daemon_->run({"sleep", "one", "--level", "2"}).exit_code, 0);
  const auto before = container();
  daemon_->kill_hard();
  daemon_->start();
  ASSERT_TRUE(daemon_->becomes("one", "sleeping"));
  EXPECT_EQ(container(), before);
  EXPECT_EQ(number(daemon_->deployment("one"), "sleep_level"), 2);
  EXPECT_TRUE(at(daemon_->deployment("one"), "outdated").is_null());
  ASSERT_EQ(daemon_->run({"wake", "one"}).exit_code, 0);
  EXPECT_EQ(completes(), 200);
}

struct Entrypoint {
  const char* name;
  const char* words;
};

class ContainedVllmImage : public ContainedVllm, public ::testing::WithParamInterface<Entrypoint> {};

TEST_P(ContainedVllmImage, Serves) {
  dockerd_->import_vllm_double(GetParam().words);
  deploy_ready();
  EXPECT_EQ(completes(), 200);
}

INSTANTIATE_TEST_SUITE_P(Images, ContainedVllmImage,
                         ::testing::Values(Entrypoint{"Older",
                                                      R"(["python3", "-m", "vllm.entrypoints.openai.api_server"])"},
                                           Entrypoint{"Nvidia", R"(["/opt/nvidia/nvidia_entrypoint.sh"])"},
                                           Entrypoint{"WithoutEntrypoint", ""}),
                         [](const auto& info) { return std::string{info.param.name}; });

}  // namespace
}  // namespace dgxmm::docker
