#include "cli/table.h"
#include "cli/top/state.h"
#include "cli/top/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgxmm::cli::top {
namespace {

using testing::HasSubstr;
using testing::Not;
using Kind = Action::Kind;

dto::Memory memory_of_a_spark() {
  dto::Memory memory;
  memory.mem_total_bytes = gib(120);
  memory.mem_available_bytes = gib(50);
  memory.used_bytes = gib(70);
  memory.deployments_bytes = gib(40);
  memory.containers_bytes = gib(10);
  memory.processes_bytes = gib(15);
  memory.page_cache_bytes = gib(20);
  memory.free_bytes = gib(30);
  memory.safety_margin_bytes = gib(8);
  memory.os_reserve_bytes = gib(4);
  memory.free_for_new_bytes = gib(38);
  return memory;
}

dto::Deployment deployment(std::int64_t id, std::string name, std::string state, Bytes held) {
  dto::Deployment result;
  result.id = {id};
  result.name = std::move(name);
  result.state = std::move(state);
  result.model_name = "m";
  result.reserved_bytes = gib(50);
  result.measured = dto::Measured{.total_bytes = held,
                                  .anon_bytes = held,
                                  .kernel_bytes = Bytes{},
                                  .shmem_bytes = Bytes{},
                                  .gpu_bytes = Bytes{},
                                  .approximate = false,
                                  .complete = true};
  result.busy = false;
  return result;
}

dto::Process process(std::int64_t pid, Bytes held, std::string command, std::string orphan_id = {}) {
  dto::Process result{.pid = pid, .user = "jo", .command = std::move(command), .container = {}, .held_bytes = held};
  result.gpu_bytes = Bytes{};
  result.orphan_id = std::move(orphan_id);
  return result;
}

/// Two deployments, of which the larger is chosen, and three processes, of which one is an orphan.
State a_state() {
  State state;
  state.address = "127.0.0.1:8484";
  state.take(memory_of_a_spark());
  state.take(std::vector{deployment(1, "small", "ready", gib(4)), deployment(2, "large", "ready", gib(36)),
                         deployment(3, "gone", "stopped", gib(1))});
  state.take(dto::Processes{.processes = {process(10, gib(9), "train"), process(11, gib(1), "left", "11-777"),
                                          process(12, gib(12), "notebook")}});
  return state;
}

std::string text_of(const Picture& picture) {
  std::string text;
  for (const auto& line : picture) {
    for (const auto& piece : line) text += piece.text;
    text += '\n';
  }
  return text;
}

std::string shown(const State& state, Size size = {}) { return text_of(draw(state, size, WallTime{})); }
Action type(State& state, char letter) { return state.press({.letter = letter}); }

TEST(TopBar, IsToScaleAndFillsTheLineExactly) {
  for (std::size_t columns = 0; columns <= 200; ++columns) {
    std::size_t sum = 0;
    for (const auto& piece : memory_bar(memory_of_a_spark(), columns)) sum += piece.text.size();
    ASSERT_EQ(sum, columns);
  }
  const auto bar = memory_bar(memory_of_a_spark(), 120);
  ASSERT_EQ(bar.size(), 6U);
  EXPECT_EQ(bar[0], (Piece{std::string(40, 'D'), Style::deployments}));
  EXPECT_EQ(bar[3].text.size(), 5U) << "what is used and belongs to none of the others";
  EXPECT_EQ(bar[5].text.size(), 30U);
}

TEST(TopBar, WhatIsNegativeOrUnknownHasNoColumns) {
  auto memory = memory_of_a_spark();
  memory.processes_bytes = gib(30);  // counted twice: more than is used
  memory.page_cache_bytes.reset();
  std::size_t sum = 0;
  for (const auto& piece : memory_bar(memory, 80)) sum += piece.text.size();
  EXPECT_EQ(sum, 80U);
  EXPECT_TRUE(memory_bar({}, 80).empty()) << "of nothing";
}

TEST(TopView, FitsEveryTerminalExactly) {
  auto state = a_state();
  state.memory->warnings.assign(9, {"swap_activity", std::string(300, 'x'), "stop something", "warning"});
  for (const bool help : {false, true}) {
    state.help = help;
    for (std::size_t columns = 1; columns <= 130; columns += 3) {
      for (std::size_t lines = 1; lines <= 40; ++lines) {
        const auto picture = draw(state, {.columns = columns, .lines = lines}, WallTime{});
        ASSERT_EQ(picture.size(), lines);
        for (const auto& line : picture) {
          std::size_t width = 0;
          for (const auto& piece : line) width += width_of(piece.text);
          ASSERT_LE(width, columns);
        }
      }
    }
  }
}

TEST(TopView, ShowsMemoryDeploymentsProcessesAndWarningsAt80x24) {
  auto state = a_state();
  state.memory->warnings = {{"fragmentation", "fragmentation: few large blocks", "", "warning"}};
  const auto screen = shown(state);
  EXPECT_THAT(screen, HasSubstr("70.0 GiB used of 120.0 GiB; 38.0 GiB free for new models, 12.0 GiB kept"));
  EXPECT_THAT(screen, HasSubstr("D deployments 40.0 GiB"));
  EXPECT_THAT(screen, HasSubstr("! fragmentation: few large blocks\n"));
  EXPECT_THAT(screen, HasSubstr("  2 large          ready         36.0 GiB  50.0 GiB"));
  EXPECT_THAT(screen, Not(HasSubstr("gone")));
  EXPECT_LT(screen.find("large"), screen.find("small"));
  EXPECT_LT(screen.find("orphan: left"), screen.find("notebook")) << "D1: first, whatever its size";
  EXPECT_LT(screen.find("notebook"), screen.find("train"));
}

TEST(TopView, AHostileNameIsOnlyText) {
  auto state = a_state();
  state.take(std::vector{deployment(1, "\x1b[2Jevil\n\xff", "ready", gib(4))});
  state.message = "\x1b]0;title\x07";
  for (const char byte : shown(state))
    EXPECT_TRUE(byte == '\n' || byte >= ' ' || static_cast<unsigned char>(byte) > 127);
}

TEST(TopView, OverCommitAndALostConnectionAreSaid) {
  auto state = a_state();
  state.memory->free_for_new_bytes = -gib(3);
  EXPECT_THAT(shown(state), HasSubstr("over-committed by 3.0 GiB"));
  state.lost = "no daemon at 127.0.0.1:8484";
  EXPECT_THAT(shown(state), HasSubstr("no connection: no daemon at 127.0.0.1:8484; trying again"));
  EXPECT_THAT(shown(state), HasSubstr("large")) << "what was known stays";
  EXPECT_THAT(shown(State{}), HasSubstr("asking the daemon"));
}

TEST(TopView, TheChosenRowIsAlwaysAmongTheShown) {
  State state;
  state.take(memory_of_a_spark());
  std::vector<dto::Deployment> many;
  for (std::int64_t id = 1; id <= 200; ++id)
    many.push_back(deployment(id, "d" + std::to_string(id) + "!", "ready", gib(1)));
  state.take(many);
  state.press({.key = Key::end});
  EXPECT_THAT(shown(state), HasSubstr("d200!"));
  state.press({.key = Key::home});
  EXPECT_THAT(shown(state), HasSubstr("d1!"));
}

TEST(TopKeys, ADestructiveActionIsDoneOnlyAfterAYes) {
  auto state = a_state();
  EXPECT_EQ(type(state, 's').kind, Kind::none);
  EXPECT_THAT(shown(state), HasSubstr("stop large? y/n"));
  EXPECT_EQ(type(state, 'n').kind, Kind::none);
  EXPECT_THAT(shown(state), HasSubstr("nothing was done"));
  type(state, 's');
  EXPECT_EQ(type(state, 's').kind, Kind::none) << "anything but yes is no";
  type(state, 's');
  const auto action = type(state, 'y');
  EXPECT_EQ(action.kind, Kind::stop);
  EXPECT_EQ(action.target, "2");
  EXPECT_EQ(type(state, 'y').kind, Kind::none);
}

TEST(TopKeys, ABusyOneIsNamedAsSuch) {
  auto state = a_state();
  auto busy = deployment(2, "large", "ready", gib(36));
  busy.busy = true;
  state.take(std::vector{busy});
  type(state, 's');
  EXPECT_THAT(shown(state), HasSubstr("stop large, which is answering requests? y/n"));
}

TEST(TopKeys, TheQuestionStaysAboutTheOneItWasAskedOfWhenRowsMove) {
  auto state = a_state();
  type(state, 's');
  state.take(std::vector{deployment(1, "small", "ready", gib(90)), deployment(2, "large", "ready", gib(36))});
  EXPECT_EQ(type(state, 'y').target, "2");
}

TEST(TopKeys, WhoeverIsToBeWokenIsShownWithWhatThatNeeds) {
  auto state = a_state();
  auto asleep = deployment(1, "chat", "sleeping", gib(4));
  asleep.wake_needs_bytes = gib(3);
  asleep.can_wake_now = false;
  state.take(std::vector{asleep});
  EXPECT_THAT(shown(state, {.columns = 160, .lines = 24}),
              HasSubstr(": to wake up it needs 3.0 GiB, which is not free"));
  type(state, 'w');
  EXPECT_THAT(shown(state), HasSubstr("wake chat (to wake up it needs 3.0 GiB, which is not free now)? y/n"));
}

TEST(TopKeys, OnlyWhatCanSleepOrWakeIsAskedAbout) {
  auto state = a_state();
  state.take(std::vector{deployment(1, "chat", "sleeping", gib(4))});
  type(state, 'z');
  EXPECT_THAT(shown(state), HasSubstr("chat is sleeping: only one that is ready can sleep"));
  type(state, 'w');
  EXPECT_EQ(type(state, 'y').kind, Kind::wake);
  state.take(std::vector{deployment(1, "chat", "ready", gib(4))});
  type(state, 'w');
  EXPECT_THAT(shown(state), HasSubstr("it does not sleep"));
  type(state, 'z');
  EXPECT_EQ(type(state, 'Y').kind, Kind::sleep);
}

TEST(TopKeys, OfProcessesOnlyOrphansOfDgxmmCanBeStopped) {
  auto state = a_state();
  state.press({.key = Key::tab});
  type(state, 's');
  EXPECT_EQ(type(state, 'y').target, "11-777");
  state.press({.key = Key::down});
  EXPECT_EQ(type(state, 's').kind, Kind::none);
  EXPECT_FALSE(state.asked);
  EXPECT_THAT(shown(state), HasSubstr("process 12 is not dgxmm's to stop"));
  EXPECT_EQ(type(state, 'z').kind, Kind::none);
  EXPECT_FALSE(state.asked) << "the chosen deployment is not what is looked at";
}

TEST(TopKeys, SortingGoesThroughTheOrdersAndKeepsTheChosenRow) {
  auto state = a_state();
  const auto chosen = state.selected_deployment;
  type(state, 'o');
  EXPECT_EQ(state.deployments.front().name, "large");
  state.take(std::vector{deployment(1, "b", "ready", gib(4)), deployment(2, "a", "loading", gib(1))});
  EXPECT_EQ(state.deployments.front().name, "a");
  EXPECT_EQ(state.selected_deployment, chosen);
  type(state, 'o');
  EXPECT_EQ(state.deployments.front().state, "loading");
  type(state, 'o');
  EXPECT_EQ(state.deployments.front().name, "b");
}

TEST(TopKeys, HelpLogAndLeaving) {
  auto state = a_state();
  type(state, '?');
  EXPECT_THAT(shown(state), HasSubstr("put the deployment to sleep"));
  EXPECT_EQ(type(state, 'q').kind, Kind::none) << "any key closes the help";
  EXPECT_EQ(state.press({.key = Key::enter}).kind, Kind::show_log);
  state.log = {"first", "\x1b[31mlast"};
  EXPECT_THAT(shown(state), HasSubstr("log of large; q goes back\nfirst\n"));
  EXPECT_EQ(type(state, 'q').kind, Kind::none);
  EXPECT_EQ(type(state, 'q').kind, Kind::quit);
}

TEST(TopKeys, WithoutAnythingThereNothingBreaks) {
  State state;
  for (int key = 0; key <= static_cast<int>(Key::escape); ++key) state.press({.key = static_cast<Key>(key)});
  for (const char letter : std::string{"jkszwol?x"}) type(state, letter);
  EXPECT_FALSE(state.asked);
}

}  // namespace
}  // namespace dgxmm::cli::top
