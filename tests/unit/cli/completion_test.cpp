#include "cli/completion.h"

#include "fake_daemon.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace dgxmm::cli {
namespace {

TEST(Completion, HasEveryCommandAndEveryOption) {
  const auto described = grammar();
  for (const auto* shell : {"bash", "zsh", "fish"}) {
    const auto script = completion_script(shell, described);
    const auto expect = [&](const std::string& word) {
      EXPECT_NE(script.find(word), std::string::npos) << shell << ": " << word;
    };
    const bool fish = std::string{shell} == "fish";
    const auto spelled = [fish](const std::string& name) {
      if (!fish) return name;
      return name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
    };
    for (const auto& option : described.global_options) {
      for (const auto& name : option.names) expect(spelled(name));
    }
    ASSERT_GE(described.commands.size(), 18U);
    for (const auto& command : described.commands) {
      expect(command.name);
      for (const auto& option : command.options) {
        for (const auto& name : option.names) expect(spelled(name));
      }
    }
  }
}

TEST(Completion, AnApostropheDoesNotEndAWord) {
  Grammar described;
  described.commands.push_back({.name = "x", .description = "the model's [a:b]"});
  EXPECT_NE(completion_script("zsh", described).find(R"('x:the model'\''s \[a\:b\]')"), std::string::npos);
  EXPECT_NE(completion_script("fish", described).find(R"('the model'\''s [a:b]')"), std::string::npos);
}

using CompletionCli = CliTest;

TEST_F(CompletionCli, BashAcceptsItsScriptAndCompletes) {
  const auto script = run_cli({"completion", "bash"});
  ASSERT_EQ(script.exit_code, 0);
  const auto path = folder_ / "completion.bash";
  std::ofstream{path} << script.out;
  const auto complete = [&](const std::string& words, const std::string& expected) {
    const auto command =
        fmt::format(R"(bash -c 'source "{}" && COMP_WORDS=({}) && COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) && _dgxmm &&)"
                    R"( [[ "${{COMPREPLY[*]}}" == "{}" ]]')",
                    path.string(), words, expected);
    return std::system(command.c_str());
  };
  EXPECT_EQ(complete("dgxmm dep", "deploy"), 0);
  EXPECT_EQ(complete("dgxmm fit --flash-attn o", "on off"), 0);
  EXPECT_EQ(complete("dgxmm --json fit --max-model", "--max-model-len"), 0);
  EXPECT_EQ(complete("dgxmm completion z", "zsh"), 0);
}

}  // namespace
}  // namespace dgxmm::cli
