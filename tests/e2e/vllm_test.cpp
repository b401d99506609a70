// vLLM with a double in its place that speaks, fails and holds memory as a real one does; at the end a real one.
#include "e2e/support/daemon.h"
#include "tools/hf_writer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <string>
#include <vector>

namespace dgxmm::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// Of the models below: weights that are held, and a pool of 8,192 tokens.
constexpr auto kWeights = 240 * kMib;
constexpr auto kPool = 128 * kMib;
constexpr auto kSlack = 24 * kMib;  // what Python takes and gives back

class Vllm : public EndToEnd {
 protected:
  Vllm() {
    const testing::DenseHf shape{
        .layers = 8, .hidden = 1024, .heads = 16, .kv_heads = 8, .intermediate = 4096, .vocabulary = 256};
    for (const auto* name : {"one", "two"}) testing::write_dense_hf(model(name), shape);
  }
  [[nodiscard]] fs::path model(const std::string& name) const { return folder_.path() / name; }

  /// How the double of that model behaves from now on.
  void behave(const std::string& name, const std::string& members) const {
    const auto written = folder_.write("behaviour", "{" + members + "}");
    fs::rename(written, model(name) / "vllm_double.json");
  }

  Daemon& start_daemon(std::optional<std::int64_t> room_bytes = {}) {
    daemon_ = std::make_unique<Daemon>(Daemon::Options{
        .room_bytes = room_bytes,
        .flags = {"--vllm", DGXMM_VLLM_DOUBLE, "--vllm-runtime-fixed-gib", "5", "--start-floor-gib", "0.25"}});
    return *daemon_;
  }
  [[nodiscard]] Words words(const std::string& command, const std::string& name, const Words& options = {}) const {
    Words all{
        command, model(name).string(), "--max-model-len", "4096", "--max-num-seqs", "4", "--max-num-batched-tokens",
        "1024",  "--enforce-eager"};
    all.insert(all.end(), options.begin(), options.end());
    return all;
  }
  e2e::Run deploy(const std::string& name) const {
    return daemon_->run(words("deploy", name, {"--name", name, "--sleep-mode"}));
  }
  void deploy_ready(const std::string& name) const {
    const auto deployed = deploy(name);
    if (deployed.exit_code != 0) throw std::runtime_error("deploy: " + deployed.all());
  }
  [[nodiscard]] std::int64_t measured(const std::string& name) const {
    return number(at(daemon_->deployment(name), "measured"), "total_bytes");
  }
  [[nodiscard]] std::uint16_t engine_port(const std::string& name) const {
    const auto url = text(daemon_->deployment(name), "url");
    const auto colon = url.rfind(':');
    return static_cast<std::uint16_t>(std::stoi(url.substr(colon + 1)));
  }
  [[nodiscard]] std::string secret_of(const std::string& name) const {
    const auto pid = static_cast<pid_t>(number(daemon_->deployment(name), "pid"));
    const auto environment = read_file(fmt::format("/proc/{}/environ", pid));
    const std::string beginning = "DGXMM_GUARD_SECRET=";
    const auto at = environment.find(beginning);
    if (at == std::string::npos) throw std::runtime_error("the engine has no secret");
    const auto begin = at + beginning.size();
    return environment.substr(begin, environment.find('\0', begin) - begin);
  }
  [[nodiscard]] HttpAnswer complete(const std::string& name) const {
    return http(engine_port(name), "POST", "/v1/completions",
                fmt::format(R"({{"model": "{}", "prompt": "hello", "max_tokens": 1}})", name));
  }

  TempDir folder_;
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(Vllm, SleepsAndWakesAndItsMemoryComesBackMeasurably) {
  start_daemon();
  deploy_ready("one");
  const auto awake = measured("one");
  EXPECT_GE(awake, kWeights + kPool);
  EXPECT_EQ(complete("one").status, 200);

  // Level 1: the pool; the weights stay, as copies.
  const auto slept = daemon_->run({"sleep", "one"});
  ASSERT_EQ(slept.exit_code, 0) << slept.all();
  EXPECT_THAT(slept.out, HasSubstr("one sleeps (id 1, level 1)"));
  EXPECT_THAT(daemon_->run({"ps"}).out, HasSubstr("sleeping (1)"));
  EXPECT_LE(measured("one"), awake - kPool + kSlack);
  EXPECT_GE(measured("one"), kWeights);
  const auto asleep = daemon_->deployment("one");
  EXPECT_NEAR(static_cast<double>(number(asleep, "sleep_freed_bytes")), static_cast<double>(kPool), kSlack);
  EXPECT_EQ(number(daemon_->document("/budget"), "committed_bytes"), measured("one")) << "B2";

  const auto woken = daemon_->run({"wake", "one"});
  ASSERT_EQ(woken.exit_code, 0) << woken.all();
  EXPECT_THAT(woken.out, HasSubstr("one is ready"));
  EXPECT_EQ(complete("one").status, 200);
  ASSERT_TRUE(eventually([&] { return measured("one") >= awake + kWeights - kSlack; }))
      << "E8: the copies of the weights stay, and are counted";

  // Level 2: the weights too.
  const auto deeply = daemon_->run({"sleep", "one", "--level", "2", "--json"});
  ASSERT_EQ(deeply.exit_code, 0) << deeply.all();
  EXPECT_EQ(number(boost::json::parse(deeply.out), "sleep_level"), 2);
  EXPECT_GE(number(boost::json::parse(deeply.out), "sleep_freed_bytes"), kWeights + kPool - kSlack);
  ASSERT_EQ(daemon_->run({"wake", "one"}).exit_code, 0);
  EXPECT_EQ(complete("one").status, 200);
  EXPECT_THAT(daemon_->run({"events", "--all"}).out, HasSubstr("one: awake after"));

  ASSERT_EQ(daemon_->run({"stop", "one"}).exit_code, 0);
  EXPECT_EQ(number(daemon_->document("/budget"), "committed_bytes"), 0);
}

TEST_F(Vllm, AWakeThatDoesNotFitIsRefusedWithAPlanThatMakesItFit) {
  start_daemon();
  const auto fit = daemon_->run(words("fit", "one", {"--sleep-mode", "--json"}));
  const auto needed = number(boost::json::parse(fit.out), "total_bytes");
  start_daemon(needed * 3 / 2);
  deploy_ready("one");
  EXPECT_EQ(deploy("two").exit_code, 3) << "there is room for one of them";
  ASSERT_EQ(daemon_->run({"sleep", "one", "--level", "2"}).exit_code, 0);
  deploy_ready("two");
  // Until its engine has said so it may be busy, and the plan that stops it is unsafe.
  ASSERT_TRUE(eventually([&] { return at(daemon_->deployment("two"), "busy") == boost::json::value(false); }));

  const auto refused = daemon_->run({"wake", "one"});
  EXPECT_EQ(refused.exit_code, 3);
  EXPECT_THAT(refused.err, HasSubstr("waking up: Needs "));
  const auto two = number(daemon_->deployment("two"), "id");
  const auto plan = fmt::format("stop:{}", two);
  EXPECT_THAT(refused.out, HasSubstr(plan));
  EXPECT_EQ(daemon_->state_of("one"), "sleeping");

  const auto applied = daemon_->run({"apply", plan});
  EXPECT_EQ(applied.exit_code, 0) << applied.all();
  EXPECT_THAT(applied.err, HasSubstr("wake one: done"));
  EXPECT_THAT(applied.out, HasSubstr("one is ready"));
  EXPECT_EQ(daemon_->state_of("two"), "stopped");
  EXPECT_EQ(complete("one").status, 200);
}

/// A host with memory for one of two; what the first really holds asleep is known from its first sleep.
class VllmSleepPlans : public Vllm {
 protected:
  VllmSleepPlans() {
    start_daemon();
    const auto fit = daemon_->run(words("fit", "one", {"--sleep-mode", "--json"}));
    const auto needed = number(boost::json::parse(fit.out), "total_bytes");
    daemon_ =
        std::make_unique<Daemon>(Daemon::Options{.room_bytes = needed * 3 / 2,
                                                 .flags = {"--vllm", DGXMM_VLLM_DOUBLE, "--vllm-runtime-fixed-gib", "5",
                                                           "--start-floor-gib", "0.25", "--min-headroom-gib", "0"}});
    deploy_ready("one");
  }
  void learn() const {
    for (const auto* command : {"sleep", "wake"}) {
      const auto done = daemon_->run({command, "one"});
      if (done.exit_code != 0) throw std::runtime_error(done.all());
    }
    ASSERT_TRUE(eventually([&] { return at(daemon_->deployment("one"), "busy") == boost::json::value(false); }));
  }
  [[nodiscard]] e2e::Run deploy_two(const Words& options) const {
    auto all = words("deploy", "two", {"--name", "two"});
    all.insert(all.end(), options.begin(), options.end());
    return daemon_->run(all);
  }
};

TEST_F(VllmSleepPlans, P5_WhatItReallyFreedAsleepIsLearnedAndMakesAPlanThatIsCarriedOut) {
  const auto unknown = deploy_two({});
  EXPECT_EQ(unknown.exit_code, 3) << unknown.all();
  EXPECT_THAT(unknown.out, Not(HasSubstr("sleep:1   yes"))) << "the formula takes what it keeps for more";
  learn();

  const auto deployed = deploy_two({"--yes"});
  ASSERT_EQ(deployed.exit_code, 0) << deployed.all();
  EXPECT_THAT(deployed.err, HasSubstr("put one to sleep (level 1): done"));
  EXPECT_THAT(deployed.err, HasSubstr("start two: done"));
  EXPECT_EQ(daemon_->state_of("one"), "sleeping");
  EXPECT_EQ(complete("two").status, 200);

  // And the way back: a plan for the wake.
  ASSERT_TRUE(eventually([&] { return at(daemon_->deployment("two"), "busy") == boost::json::value(false); }));
  const auto woken = daemon_->run({"wake", "one", "--yes"});
  EXPECT_EQ(woken.exit_code, 0) << woken.all();
  EXPECT_EQ(daemon_->state_of("two"), "stopped");
  EXPECT_EQ(complete("one").status, 200);
}

TEST_F(VllmSleepPlans, P11_WhenTheNewOneDiesWhileLoadingTheSleeperIsWokenAgain) {
  learn();
  behave("two", R"("start": "dies")");
  const auto deployed = deploy_two({"--yes"});
  EXPECT_EQ(deployed.exit_code, 1) << deployed.all();
  EXPECT_THAT(deployed.err, HasSubstr("put one to sleep (level 1): undone (awake again)"));
  EXPECT_EQ(text(daemon_->document("/operations").at(0), "state"), "failed");
  EXPECT_EQ(daemon_->state_of("one"), "ready");
  EXPECT_EQ(complete("one").status, 200);
}

TEST_F(VllmSleepPlans, P11_OneThatBecameBusyIsNotPutToSleep) {
  learn();
  const auto refused = deploy_two({});
  ASSERT_THAT(refused.out, HasSubstr("sleep:1"));
  behave("one", R"("hold": true)");
  auto answer = std::async(std::launch::async, [&] { return complete("one"); });
  ASSERT_TRUE(eventually([&] { return at(daemon_->deployment("one"), "busy") == boost::json::value(true); }));
  const auto applied = daemon_->run({"apply", "sleep:1"});
  EXPECT_EQ(applied.exit_code, 1) << applied.all();
  EXPECT_THAT(applied.err, HasSubstr("one is busy by now"));
  EXPECT_EQ(daemon_->state_of("one"), "ready");
  behave("one", R"("hold": false)");
  EXPECT_EQ(answer.get().status, 200);
}

TEST_F(Vllm, KilledWhileOneSleepsTheNextDaemonFindsItAsleep) {
  start_daemon();
  deploy_ready("one");
  ASSERT_EQ(daemon_->run({"sleep", "one", "--level", "2"}).exit_code, 0);
  const auto pid = number(daemon_->deployment("one"), "pid");
  daemon_->kill_hard();
  daemon_->start();
  ASSERT_TRUE(daemon_->becomes("one", "sleeping"));
  const auto found = daemon_->deployment("one");
  EXPECT_EQ(number(found, "pid"), pid);
  EXPECT_EQ(number(found, "sleep_level"), 2);
  EXPECT_LT(number(daemon_->document("/budget"), "committed_bytes"), kWeights);
  ASSERT_EQ(daemon_->run({"wake", "one"}).exit_code, 0);
  EXPECT_EQ(complete("one").status, 200);
}

TEST_F(Vllm, RequestsInFlightAreFinishedBeforeItSleepsAndRefuseItUnforced) {
  start_daemon();
  deploy_ready("one");
  behave("one", R"("hold": true)");
  auto answer = std::async(std::launch::async, [&] { return complete("one"); });
  ASSERT_TRUE(eventually([&] { return at(daemon_->deployment("one"), "busy") == boost::json::value(true); }));
  const auto refused = daemon_->run({"sleep", "one"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("one has 1 request in flight"));
  const auto forced = daemon_->spawn({"sleep", "one", "--force"});
  behave("one", R"("hold": false)");
  EXPECT_EQ(forced->wait(), 0) << forced->err();
  EXPECT_EQ(answer.get().status, 200);
  EXPECT_EQ(daemon_->state_of("one"), "sleeping");
}

TEST_F(Vllm, PutToSleepByAnotherCallItIsSeenAsleepAndAwakeAgain) {
  start_daemon();
  deploy_ready("one");
  const Headers secret{{"X-Dgxmm-Secret", secret_of("one")}};
  ASSERT_EQ(http(engine_port("one"), "POST", "/sleep?level=1", {}, secret).status, 200);
  EXPECT_TRUE(daemon_->becomes("one", "sleeping"));
  ASSERT_EQ(http(engine_port("one"), "POST", "/wake_up", {}, secret).status, 200);
  EXPECT_TRUE(daemon_->becomes("one", "ready"));
}

TEST_F(Vllm, ItsCallsForSleepingAreReachableByDgxmmAlone) {
  start_daemon();
  deploy_ready("one");
  const auto port = engine_port("one");
  for (const auto* path : {"/sleep?level=1", "/wake_up", "/collective_rpc", "/%73leep?level=1", "//sleep", "/sleep/",
                           "/reset_prefix_cache", "/what_a_later_version_has"}) {
    EXPECT_EQ(http(port, "POST", path).status, 403) << path;
    EXPECT_EQ(http(port, "POST", path, {}, {{"X-Dgxmm-Secret", "guessed"}}).status, 403) << path;
    EXPECT_EQ(http(port, "POST", path, {}, {{"X-Dgxmm-Secret", ""}}).status, 403) << path;
  }
  EXPECT_EQ(http(port, "GET", "/is_sleeping").status, 403);
  for (const auto* path : {"/health", "/version", "/metrics", "/v1/models"}) {
    EXPECT_EQ(http(port, "GET", path).status, 200) << path;
  }
  EXPECT_EQ(complete("one").status, 200);
  EXPECT_EQ(daemon_->state_of("one"), "ready");

  const auto secret = secret_of("one");
  ASSERT_EQ(secret.size(), 32U);
  daemon_->kill_hard();
  daemon_->start();
  ASSERT_TRUE(daemon_->becomes("one", "ready"));
  EXPECT_EQ(daemon_->run({"sleep", "one"}).exit_code, 0) << "the next daemon knows it";
  for (const Words& command : {Words{"ps", "--json"}, Words{"processes", "--json"}, Words{"memory", "--json"},
                               Words{"logs", "one"}, Words{"scenario", "export"}, Words{"events", "--json"}}) {
    const auto shown = daemon_->run(command);
    EXPECT_EQ(shown.exit_code, 0) << shown.all();
    EXPECT_THAT(shown.all(), Not(HasSubstr(secret))) << command.front();
  }
  EXPECT_THAT(boost::json::serialize(daemon_->deployment("one")), Not(HasSubstr(secret)));
}

TEST_F(Vllm, OneThatDoesNotLoadTheGuardIsNotServed) {
  start_daemon();
  behave("one", R"("middleware": "ignored")");
  const auto deployed = deploy("one");
  EXPECT_EQ(deployed.exit_code, 1);
  EXPECT_THAT(deployed.err, HasSubstr("did not load dgxmm's guard"));
  EXPECT_THAT(deployed.err, HasSubstr("--sleep-mode"));
  EXPECT_EQ(number(daemon_->document("/budget"), "committed_bytes"), 0);
}

TEST_F(Vllm, OneThatWillNotSleepStillServes) {
  start_daemon();
  deploy_ready("one");
  behave("one", R"("sleep": "refuses")");
  const auto sleep = daemon_->run({"sleep", "one"});
  EXPECT_EQ(sleep.exit_code, 1);
  EXPECT_THAT(sleep.err, HasSubstr("the engine answered with status 500"));
  EXPECT_EQ(daemon_->state_of("one"), "ready");
  EXPECT_EQ(complete("one").status, 200);
}

TEST_F(Vllm, OneThatDiesAsleepHasFailedAndItsMemoryIsBack) {
  start_daemon();
  deploy_ready("one");
  behave("one", R"("sleep": "dies")");
  static_cast<void>(daemon_->run({"sleep", "one"}));  // it may die before it has been asked whether it sleeps
  ASSERT_TRUE(daemon_->becomes("one", "failed"));
  EXPECT_EQ(number(daemon_->document("/budget"), "committed_bytes"), 0);
  EXPECT_TRUE(daemon_->engines().empty());
}

TEST_F(Vllm, OneThatDiesOfItsWakeHasFailedAndSaysWhy) {
  start_daemon();
  deploy_ready("one");
  ASSERT_EQ(daemon_->run({"sleep", "one"}).exit_code, 0);
  behave("one", R"("wake": "dies")");
  const auto wake = daemon_->run({"wake", "one"});
  EXPECT_EQ(wake.exit_code, 1);
  EXPECT_THAT(wake.err, HasSubstr("ran out of memory"));
  EXPECT_EQ(daemon_->state_of("one"), "failed");
  EXPECT_EQ(number(daemon_->document("/budget"), "committed_bytes"), 0);
}

TEST_F(Vllm, B2_OneThatAnswersWithErrorsIsUnknownAndCountedInFull) {
  start_daemon();
  deploy_ready("one");
  ASSERT_EQ(daemon_->run({"sleep", "one"}).exit_code, 0);
  behave("one", R"("serve": "unavailable")");
  ASSERT_TRUE(daemon_->becomes("one", "unknown"));
  EXPECT_GE(number(daemon_->document("/budget"), "committed_bytes"),
            number(daemon_->deployment("one"), "reserved_bytes"));
  behave("one", {});
  EXPECT_TRUE(daemon_->becomes("one", "sleeping"));
}

TEST_F(Vllm, WithoutSleepModeNobodyCanPutItToSleep) {
  start_daemon();
  ASSERT_EQ(daemon_->run(words("deploy", "one", {"--name", "one"})).exit_code, 0);
  const auto sleep = daemon_->run({"sleep", "one"});
  EXPECT_EQ(sleep.exit_code, 1);
  EXPECT_THAT(sleep.err, HasSubstr("--sleep-mode"));
  EXPECT_EQ(http(engine_port("one"), "POST", "/sleep").status, 404);
}

struct FailingStart {
  const char* name;
  const char* behaviour;
  const char* code;
  const char* sentence;
};

class VllmStart : public Vllm, public ::testing::WithParamInterface<FailingStart> {};

TEST_P(VllmStart, FailsWithOneClearSentence) {
  const auto& expected = GetParam();
  start_daemon();
  behave("one", fmt::format(R"("start": "{}")", expected.behaviour));
  const auto deployed = deploy("one");
  EXPECT_EQ(deployed.exit_code, 1);
  EXPECT_THAT(deployed.err, HasSubstr(fmt::format("error: {}", expected.sentence)));
  EXPECT_THAT(deployed.err, HasSubstr("hint: "));
  const auto failure = at(daemon_->deployment("one"), "failure");
  EXPECT_EQ(text(failure, "code"), expected.code);
  EXPECT_THAT(text(failure, "message"), Not(HasSubstr("\n")));
  EXPECT_EQ(number(daemon_->document("/budget"), "committed_bytes"), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, VllmStart,
    ::testing::Values(
        FailingStart{"NotEnoughFree", "not_enough_free", "not_enough_free", "vLLM found 12.3 of 121.69 GiB"},
        FailingStart{"PoolTooSmall", "pool_too_small", "kv_cache_too_small", "one request of 1024 tokens"},
        FailingStart{"OutOfMemory", "dies", "out_of_memory", "vLLM ran out of memory while"},
        FailingStart{"CannotSleep", "cannot_sleep", "bad_option", "this vLLM cannot put a model to sleep"}),
    [](const auto& info) { return info.param.name; });

TEST_F(Vllm, StoppedWhileItLoadsNothingIsLeft) {
  start_daemon();
  behave("one", R"("start": "slow")");
  ASSERT_EQ(daemon_->run(words("deploy", "one", {"--name", "one", "--no-wait"})).exit_code, 0);
  ASSERT_TRUE(eventually([&] { return text(daemon_->deployment("one"), "phase") == "reading weights"; }));
  ASSERT_EQ(daemon_->run({"stop", "one"}).exit_code, 0);
  EXPECT_TRUE(daemon_->engines().empty());
}

// --- the real one

/// A model with a vocabulary of single characters; its weights are all 0.
void write_tiny_model(const fs::path& folder) {
  const testing::DenseHf shape{
      .layers = 2, .hidden = 256, .heads = 4, .kv_heads = 2, .vocabulary = 512, .context = 2048};
  auto weights = testing::dense_safetensors(shape).front();
  for (std::uint64_t i = 0; i < shape.layers; ++i) {
    for (const auto* norm : {"input_layernorm", "post_attention_layernorm"}) {
      weights.tensor(fmt::format("model.layers.{}.{}.weight", i, norm), "BF16", {shape.hidden});
    }
  }
  fs::create_directories(folder);
  weights.write(folder / "model.safetensors");
  auto config = boost::json::parse(testing::dense_config(shape)).as_object();
  config["model_type"] = "llama";
  testing::write_text(folder / "config.json", boost::json::serialize(config));
  boost::json::object vocabulary{{"<unk>", 0}, {"<s>", 1}, {"</s>", 2}};
  for (char c = '!'; c <= '~'; ++c) vocabulary[std::string{c}] = vocabulary.size();
  while (vocabulary.size() < shape.vocabulary) {
    vocabulary[fmt::format("<x{}>", vocabulary.size())] = vocabulary.size();
  }
  const boost::json::object tokenizer{
      {"version", "1.0"},
      {"added_tokens", boost::json::array{}},
      {"model", {{"type", "BPE"}, {"unk_token", "<unk>"}, {"vocab", vocabulary}, {"merges", boost::json::array{}}}}};
  testing::write_text(folder / "tokenizer.json", boost::json::serialize(tokenizer));
  testing::write_text(folder / "tokenizer_config.json",
                      R"({"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "eos_token": "</s>"})");
}

TEST_F(EndToEnd, ARealVllmServesAndSaysThatItCannotSleepHere) {
  const char* vllm = std::getenv("DGXMM_TEST_VLLM");
  if (vllm == nullptr) GTEST_SKIP() << "DGXMM_TEST_VLLM does not name a vLLM: ./dev test --vllm gets one";
  const TempDir folder;
  const auto model = folder.path() / "tiny";
  write_tiny_model(model);
  const Daemon daemon{{.flags = {"--vllm", vllm, "--start-floor-gib", "0.5"}}};
  const Words words{"deploy",
                    model.string(),
                    "--name",
                    "tiny",
                    "--max-model-len",
                    "1024",
                    "--max-num-seqs",
                    "4",
                    "--max-num-batched-tokens",
                    "1024",
                    "--enforce-eager"};
  const auto deployed = daemon.run(words);
  ASSERT_EQ(deployed.exit_code, 0) << deployed.all() << daemon.run({"logs", "tiny"}).out;
  const auto url = text(daemon.deployment("tiny"), "url");
  const auto port = static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':', url.rfind('/')) + 1)));
  const auto answer = http(port, "POST", "/v1/completions", R"({"model": "tiny", "prompt": "hello", "max_tokens": 2})");
  EXPECT_EQ(answer.status, 200) << answer.body;
  EXPECT_TRUE(eventually([&] { return at(daemon.deployment("tiny"), "busy") == boost::json::value(false); }));
  EXPECT_EQ(daemon.run({"stop", "tiny"}).exit_code, 0);
  EXPECT_EQ(number(daemon.document("/budget"), "committed_bytes"), 0);

  auto with_sleep = words;
  with_sleep[3] = "sleeper";
  with_sleep.emplace_back("--sleep-mode");
  const auto refused = daemon.run(with_sleep);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("this vLLM cannot put a model to sleep on this host"));

  // It cannot sleep on a CPU, but has the calls for it; and the guard that was written for the one above.
  const Subprocess guarded{
      {vllm, "serve", model.string(), "--host", "127.0.0.1", "--port", std::to_string(port), "--max-model-len", "1024",
       "--max-num-seqs", "4", "--enforce-eager", "--kv-cache-memory-bytes", "67108864", "--gpu-memory-utilization",
       "0.1", "--middleware", "dgxmm_guard.Guard"},
      {{"VLLM_SERVER_DEV_MODE", "1"},
       {"HF_HUB_OFFLINE", "1"},
       {"VLLM_NO_USAGE_STATS", "1"},
       {"DGXMM_GUARD_SECRET", "0123456789abcdef"},
       {"PYTHONPATH", (daemon.state_dir() / "engine-modules").string()}}};
  const auto status = [port](const std::string& path, const Headers& headers = {}) {
    try {
      return http(port, "GET", path, {}, headers).status;
    } catch (const std::runtime_error&) {
      return 0;  // not listening yet
    }
  };
  ASSERT_TRUE(eventually([&] { return status("/health") == 200; }, std::chrono::minutes{3})) << guarded.err();
  EXPECT_EQ(status("/is_sleeping"), 403);
  EXPECT_EQ(status("/is_sleeping", {{"X-Dgxmm-Secret", "0123456789abcdef"}}), 200);
  EXPECT_EQ(status("/server_info"), 403);
  EXPECT_EQ(status("/v1/models"), 200);
}

}  // namespace
}  // namespace dgxmm::e2e
