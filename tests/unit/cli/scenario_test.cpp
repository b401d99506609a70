#include "app/dto/dto.h"
#include "base/files.h"
#include "cli/documents.h"
#include "fake_daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace dgxmm::cli {
namespace {

using testing::HasSubstr;

class Scenario : public CliTest {
 public:
  ~Scenario() override { std::filesystem::remove(file_); }

 protected:
  Scenario() {
    composition_.offline = [] { return OfflineParts{}; };
    file_ =
        (std::filesystem::temp_directory_path() / ("dgxmm_scenario_" + std::to_string(::getpid()) + ".json")).string();
  }

  void write(const std::string& text) const { std::ofstream{file_} << text; }

  std::string file_;
};

std::string documentation() {
  return read_text_file(std::filesystem::path{DGXMM_TEST_DATA} / ".." / "docs" / "scenario.md").value();
}

/// What stands in the first block of that kind.
std::string block(const std::string& text, const std::string& kind) {
  const auto begin = text.find("```" + kind + "\n") + kind.size() + 4;
  return text.substr(begin, text.find("```", begin) - begin);
}

TEST_F(Scenario, P0_TheExampleOfTheDocumentationIsAnsweredAsItSays) {
  const auto text = documentation();
  write(block(text, "json"));
  const auto outcome = run_cli({"plan", "--scenario", file_});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, block(text, "text"));
}

TEST_F(Scenario, P0_TheAnswerIsAPlansDocumentThatNothingCanBeAppliedFrom) {
  write(block(documentation(), "json"));
  const auto outcome = run_cli({"plan", "--scenario", file_, "--json"});
  const auto plans = from_json<dto::Plans>(outcome.out);
  ASSERT_TRUE(plans) << outcome.out;
  EXPECT_EQ(plans->plan_set, "");
  EXPECT_FALSE(plans->plans.empty());
}

TEST_F(Scenario, P0_AnotherRequestOfItsModelsCanBeAsked) {
  write(block(documentation(), "json"));
  const auto outcome = run_cli({"plan", "large-Q2_K", "--scenario", file_, "--ctx-size", "4096", "--parallel", "1"});
  EXPECT_THAT(outcome.out, testing::StartsWith("does not fit: needs "));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("quant:"))) << "there is no smaller one";
  EXPECT_EQ(run_cli({"plan", "none", "--scenario", file_}).exit_code, 1);
}

TEST_F(Scenario, P0_WhatIsWrongWithAFileIsSaid) {
  auto outcome = run_cli({"plan", "--scenario", file_});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(file_ + ": cannot be read"));
  write(R"({"scenario": 1, "host": {"mem_total_bytes": 1, "mem_available_bytes": 1, "mem": 3}})");
  outcome = run_cli({"plan", "--scenario", file_});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr(file_ + ": host.mem: there is no such field"));
  write(R"({"scenario": 1, "host": {"mem_total_bytes": 1, "mem_available_bytes": 1}})");
  outcome = run_cli({"plan", "--scenario", file_});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("has no request"));
  write("{");
  EXPECT_EQ(run_cli({"plan", "--scenario", file_}).exit_code, 2);
  EXPECT_EQ(run_cli({"plan"}).exit_code, 2);
}

}  // namespace
}  // namespace dgxmm::cli
