// Who holds the memory, warnings, orphans and `dgxmm top`, with the real daemon, engine and terminal.
#include "e2e/support/daemon.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace dgxmm::e2e {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class Memory : public EndToEnd {
 protected:
  void deploy(const Daemon& daemon, const std::string& name) const {
    const auto deployed = daemon.run(Request{.name = name}.deploy());
    ASSERT_EQ(deployed.exit_code, 0) << deployed.all();
  }
};

TEST_F(Memory, ThePartsOfTheRealHostAddUpAndAllOfThemAreShown) {
  const Daemon daemon;
  deploy(daemon, "one");
  const auto memory = daemon.document("/memory");
  std::int64_t sum = 0;
  for (const auto* part :
       {"deployments_bytes", "containers_bytes", "processes_bytes", "shared_memory_bytes",
        "ownerless_shared_memory_bytes", "hugepages_bytes", "rest_bytes", "page_cache_bytes", "free_bytes"}) {
    if (!at(memory, part).is_null()) sum += number(memory, part);
  }
  EXPECT_EQ(sum, number(memory, "mem_total_bytes"));
  EXPECT_GT(number(memory, "deployments_bytes"), 20 * kMib);
  EXPECT_EQ(text(at(memory, "deployments").as_array().at(0), "name"), "one");
  bool own = false;
  for (const auto* list : {"processes", "containers"}) {
    for (const auto& row : at(memory, list).as_array()) own = own || at(row, "own").as_bool();
  }
  EXPECT_TRUE(own) << "the daemon is in its own ledger";
  const auto shown = daemon.run_on_terminal({"memory"}, 80);
  EXPECT_EQ(shown.exit_code, 0);
  EXPECT_THAT(shown.out, HasSubstr("one "));
}

TEST_F(Memory, D14_AFileInSharedMemoryThatNobodyHasOpenIsNamed) {
  const auto file = fs::path{"/dev/shm"} / fmt::format("dgxmm-test-{}", ::getpid());
  struct Remove {
    fs::path file;
    ~Remove() { fs::remove(file); }
  } const remove{file};
  std::ofstream{file, std::ios::binary} << std::string(32 * kMib, 'x');
  const Daemon daemon;
  EXPECT_THAT(daemon.run({"memory"}).out, HasSubstr(file.string()));
  const Subprocess opener{{"sleep", "1000"}, {}};
  EXPECT_GE(number(daemon.document("/memory"), "ownerless_shared_memory_bytes"), 32 * kMib);
}

TEST_F(Memory, D1_AnEngineThatNoDeploymentKnowsIsAnOrphanAndCanBeStopped) {
  Daemon daemon;
  deploy(daemon, "lost");
  const auto engine = static_cast<pid_t>(number(daemon.deployment("lost"), "pid"));
  daemon.kill_hard();
  for (const auto& entry : fs::directory_iterator{daemon.state_dir()}) {
    if (entry.path().filename().string().starts_with("dgxmm.sqlite3")) fs::remove(entry.path());
  }
  daemon.start();
  EXPECT_TRUE(process_runs(engine));
  const Subprocess foreign{{"sleep", "1000"}, {}};
  const auto listed = daemon.document("/orphans").as_array();
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(number(listed[0], "pid"), engine);
  const auto id = text(listed[0], "id");
  EXPECT_THAT(daemon.run({"processes"}).out, HasSubstr("dgxmm orphans --stop " + id));
  EXPECT_THAT(daemon.run({"memory"}).out, HasSubstr("dgxmm orphans --stop " + id));

  EXPECT_EQ(daemon.post(fmt::format("/orphans/{}-1/stop", engine)).status, 404) << "another process of that number";
  EXPECT_EQ(daemon.post(fmt::format("/orphans/{}/stop", foreign.pid())).status, 404);
  EXPECT_TRUE(process_runs(engine));
  const auto stopped = daemon.run({"orphans", "--stop", id});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.all();
  EXPECT_THAT(stopped.out, HasSubstr("stopped " + id));
  EXPECT_FALSE(process_runs(engine));
  EXPECT_TRUE(process_runs(foreign.pid()));
  EXPECT_THAT(daemon.run({"orphans"}).err, HasSubstr("none"));
}

TEST_F(Memory, AGuardThatWouldEndEnginesIsWarnedOfByTheDaemon) {
  const TempDir folder;
  const auto guard = folder.path() / "earlyoom";
  fs::copy_file("/bin/sleep", guard);
  const Subprocess running{{guard.string(), "1000", "-m", "90"}, {}};
  const Daemon daemon;
  EXPECT_TRUE(eventually([&] { return daemon.run({"budget"}).out.find("earlyoom") != std::string::npos; }));
  bool found = false;
  const auto budget = daemon.document("/budget");
  for (const auto& warning : at(budget, "warnings").as_array()) {
    if (text(warning, "code") != "memory_guards") continue;
    found = true;
    EXPECT_THAT(text(warning, "hint"), HasSubstr("safety_margin_gib"));
  }
  EXPECT_TRUE(found);
  EXPECT_THAT(daemon.run({"ps"}).out, HasSubstr("warning: memory guards: earlyoom"));
}

/// A terminal of its own, by tmux.
class Terminal {
 public:
  Terminal(const std::string& command, int columns, int lines) {
    tmux({"new-session", "-d", "-x", std::to_string(columns), "-y", std::to_string(lines), command});
  }
  ~Terminal() { tmux({"kill-server"}); }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void press(const std::string& key) const { tmux({"send-keys", "-t", "0", key}); }
  void resize(int columns, int lines) const {
    tmux({"resize-window", "-t", "0", "-x", std::to_string(columns), "-y", std::to_string(lines)});
  }
  [[nodiscard]] std::string screen() const { return tmux({"capture-pane", "-p", "-t", "0"}); }
  [[nodiscard]] bool on_alternate_screen() const {
    return tmux({"display-message", "-p", "-t", "0", "#{alternate_on}"}) == "1\n";
  }
  [[nodiscard]] bool shows(const std::string& text) const {
    return eventually([&] { return screen().find(text) != std::string::npos; });
  }

 private:
  std::string tmux(Words arguments) const {
    arguments.insert(arguments.begin(), {"tmux", "-S", (folder_.path() / "socket").string(), "-f", "/dev/null"});
    const auto done = run_program(arguments, {{"TERM", "xterm-256color"}, {"LC_ALL", "C.UTF-8"}});
    return done.out;
  }

  TempDir folder_;
};

class TopOnATerminal : public Memory {
 protected:
  /// What `dgxmm top` leaves behind is shown after it.
  std::string command(const Daemon& daemon) const {
    return fmt::format("sh -c 'echo before; {} --address 127.0.0.1:{} top; echo code $?; stty -a; sleep 1000'",
                       environment().dgxmm.string(), daemon.port());
  }
  void expect_restored(const Terminal& terminal, const std::string& code) const {
    EXPECT_TRUE(terminal.shows("code " + code)) << terminal.screen();
    EXPECT_FALSE(terminal.on_alternate_screen());
    EXPECT_THAT(terminal.screen(), HasSubstr("before"));
    EXPECT_THAT(terminal.screen(), HasSubstr(" echo "));
    EXPECT_THAT(terminal.screen(), HasSubstr(" icanon "));
  }
  /// The program in that terminal.
  static pid_t pid_of(const Daemon& daemon) {
    const auto mark = fmt::format("127.0.0.1:{}", daemon.port());
    for (const auto& entry : fs::directory_iterator{"/proc"}) {
      const auto arguments = read_file(entry.path() / "cmdline");
      if (!arguments.starts_with(environment().dgxmm.string()) || arguments.find(mark) == std::string::npos) continue;
      if (arguments.ends_with(std::string{"\0top\0", 5})) return std::stoi(entry.path().filename().string());
    }
    return -1;
  }
};

TEST_F(TopOnATerminal, ShowsWhatRunsResizesStopsItAfterAYesAndGivesTheTerminalBack) {
  const Daemon daemon;
  deploy(daemon, "chat");
  const Terminal terminal{command(daemon), 80, 24};
  ASSERT_TRUE(terminal.shows("chat")) << terminal.screen();
  EXPECT_TRUE(terminal.on_alternate_screen());
  EXPECT_THAT(terminal.screen(), HasSubstr("free for new models"));
  terminal.press("?");
  EXPECT_TRUE(terminal.shows("nothing is stopped by that"));
  terminal.press("x");
  terminal.press("l");
  EXPECT_TRUE(terminal.shows("log of chat"));
  terminal.press("q");
  terminal.resize(50, 12);
  EXPECT_TRUE(eventually([&] {
    const auto screen = terminal.screen();
    return screen.find("chat") != std::string::npos && std::ranges::count(screen, '\n') == 12;
  }));
  terminal.resize(100, 30);
  terminal.press("s");
  EXPECT_TRUE(terminal.shows("stop chat? y/n"));
  terminal.press("n");
  EXPECT_TRUE(terminal.shows("nothing was done"));
  EXPECT_EQ(daemon.state_of("chat"), "ready");
  terminal.press("s");
  EXPECT_TRUE(terminal.shows("stop chat? y/n"));
  terminal.press("y");
  EXPECT_TRUE(daemon.becomes("chat", "stopped"));
  EXPECT_TRUE(terminal.shows("no deployments"));
  terminal.press("q");
  expect_restored(terminal, "0");
}

TEST_F(TopOnATerminal, WhatHappensElsewhereShowsByItselfAndALostDaemonIsFoundAgain) {
  const auto port = Daemon{}.port();  // free by then; of the next one too, after its restart
  Daemon daemon{Daemon::Options{.flags = {"--listen", fmt::format("127.0.0.1:{}", port)}}};
  const Terminal terminal{command(daemon), 80, 24};
  ASSERT_TRUE(terminal.shows("no deployments"));
  deploy(daemon, "later");
  EXPECT_TRUE(terminal.shows("later")) << terminal.screen();
  daemon.kill_hard();
  EXPECT_TRUE(terminal.shows("no connection"));
  daemon.start();
  EXPECT_TRUE(eventually([&] { return terminal.screen().find("no connection") == std::string::npos; }));
}

TEST_F(TopOnATerminal, EverySignalThatEndsItGivesTheTerminalBack) {
  const Daemon daemon;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    const Terminal terminal{command(daemon), 80, 24};
    ASSERT_TRUE(terminal.shows("free for new models"));
    const auto pid = pid_of(daemon);
    ASSERT_GT(pid, 0);
    ASSERT_EQ(::kill(pid, signal), 0);
    expect_restored(terminal, "0");
  }
}

}  // namespace
}  // namespace dgxmm::e2e
