#include "adapters/store/sqlite_store.h"

#include "adapters/store/migrations.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dgxmm::store {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

WallTime at(std::int64_t ms) { return WallTime{std::chrono::milliseconds{ms}}; }

class SqliteStoreTest : public testing::Test {
 public:
  SqliteStoreTest() {
    std::string pattern = (fs::temp_directory_path() / "dgxmm-store-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    base_ = pattern;
  }
  ~SqliteStoreTest() override {
    std::error_code ignored;
    fs::remove_all(base_, ignored);
  }

 protected:
  [[nodiscard]] fs::path folder() const { return base_ / "made" / "state"; }
  [[nodiscard]] fs::path file() const { return folder() / "dgxmm.sqlite3"; }
  std::unique_ptr<ports::Store> open() const {
    auto store = SqliteStore::open(folder());
    if (!store) throw std::runtime_error(store.error().message);
    return std::move(*store);
  }
  Error open_error() const {
    const auto store = SqliteStore::open(folder());
    return store ? Error{} : store.error();
  }
  static ports::StoredEvent event(const std::string& document) {
    return {.id = 0, .time = at(5), .type = "deployment.state", .deployment = DeploymentId{3}, .document = document};
  }

  fs::path base_;
};

TEST_F(SqliteStoreTest, MakesAFolderAndFilesForTheirOwnerOnly) {
  const auto store = open();
  store->add_deployment("a", "{}");
  struct stat status{};
  ASSERT_EQ(::stat(folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  for (const auto& entry : fs::directory_iterator{folder()}) {
    ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U) << entry.path();
  }
}

TEST_F(SqliteStoreTest, DeploymentsSurviveAndTheirNumbersAreNeverUsedAgain) {
  DeploymentId second;
  {
    const auto store = open();
    const auto first = store->add_deployment("a", "{\"x\":1}");
    second = store->add_deployment("b'; DROP TABLE deployments; --", "ünï\n");
    store->update_deployment({.id = first, .name = "a2", .document = "{}"});
    store->remove_deployment(second);
  }
  const auto store = open();
  const auto found = store->deployments();
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].name, "a2");
  EXPECT_EQ(found[0].document, "{}");
  EXPECT_GT(store->add_deployment("c", "{}"), second);
}

TEST_F(SqliteStoreTest, P11_OperationsSurviveAndTheirNumbersAreNeverUsedAgain) {
  std::int64_t third = 0;
  {
    const auto store = open();
    const auto first = store->add_operation("{\"x\":1}");
    store->add_operation("ünï\n");
    third = store->add_operation("{}");
    store->update_operation({.id = first, .document = "{\"x\":2}"});
    store->remove_operation(third);
    EXPECT_THROW(store->update_operation({.id = third, .document = "{}"}), std::runtime_error);
  }
  const auto store = open();
  const auto found = store->operations();
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].document, "{\"x\":2}");
  EXPECT_EQ(found[1].document, "ünï\n");
  EXPECT_LT(found[0].id, found[1].id);
  EXPECT_GT(store->add_operation("{}"), third);
}

TEST_F(SqliteStoreTest, TextIsKeptByteForByte) {
  const std::string odd{"a\0b'\"\xc3\xa9", 7};
  open()->add_deployment("n", odd);
  EXPECT_EQ(open()->deployments().at(0).document, odd);
}

TEST_F(SqliteStoreTest, UpdatingWhatIsNotThereThrows) {
  const auto store = open();
  EXPECT_THROW(store->update_deployment({.id = DeploymentId{9}, .name = "x", .document = "{}"}), std::runtime_error);
}

TEST_F(SqliteStoreTest, EventsAscendAndAreReadFromAnyPoint) {
  const auto store = open();
  EXPECT_EQ(store->last_event_id(), 0);
  const auto first = store->add_event(event("1"));
  auto general = event("2");
  general.deployment.reset();
  const auto second = store->add_event(general);
  const auto third = store->add_event(event("3"));
  EXPECT_LT(first, second);
  EXPECT_LT(second, third);
  EXPECT_EQ(store->last_event_id(), third);

  const auto later = store->events_after(first, 1);
  ASSERT_THAT(later, SizeIs(1));
  EXPECT_EQ(later[0].id, second);
  EXPECT_EQ(later[0].document, "2");
  EXPECT_EQ(later[0].deployment, std::nullopt);
  EXPECT_EQ(later[0].time, at(5));
  EXPECT_EQ(store->events_after(second, 10).at(0).deployment, DeploymentId{3});
  EXPECT_THAT(store->events_after(third, 10), IsEmpty());
}

TEST_F(SqliteStoreTest, OldEventsArePrunedAndNumbersGoOn) {
  const auto store = open();
  for (std::int64_t i = 0; i < kKeptEvents + 700; ++i) store->add_event(event("x"));
  const auto kept = store->events_after(0, 1'000'000);
  EXPECT_GE(std::ssize(kept), kKeptEvents);
  EXPECT_LT(std::ssize(kept), kKeptEvents + 700);
  EXPECT_EQ(kept.back().id, kKeptEvents + 700);
  EXPECT_EQ(store->last_event_id(), kKeptEvents + 700);
}

TEST_F(SqliteStoreTest, C3_CalibrationRecordsComeBackOldestFirst) {
  {
    const auto store = open();
    for (const std::int64_t n : {7, 3, 5}) {
      store->add_calibration({.fingerprint = "f",
                              .configuration_key = "k",
                              .measured = gib(n),
                              .formula = gib(1),
                              .recorded_at = at(n),
                              .image = "i"});
    }
  }
  const auto found = open()->calibrations();
  ASSERT_THAT(found, SizeIs(3));
  EXPECT_EQ(found[0].measured, gib(7));
  EXPECT_EQ(found[1].measured, gib(3));
  EXPECT_EQ(found[2].recorded_at, at(5));
  EXPECT_EQ(found[2].image, "i");
}

TEST_F(SqliteStoreTest, C5_OneOomFloorForEachConfiguration) {
  const auto store = open();
  store->put_oom_floor({.fingerprint = "f",
                        .configuration_key = "k",
                        .killed_size = gib(5),
                        .kills = 1,
                        .evidence = "a",
                        .recorded_at = at(1)});
  store->put_oom_floor({.fingerprint = "f",
                        .configuration_key = "k",
                        .killed_size = gib(6),
                        .kills = 2,
                        .evidence = "b",
                        .recorded_at = at(2)});
  store->put_oom_floor({.fingerprint = "f",
                        .configuration_key = "l",
                        .killed_size = gib(1),
                        .kills = 1,
                        .evidence = "c",
                        .recorded_at = at(3)});
  const auto floors = store->oom_floors();
  ASSERT_THAT(floors, SizeIs(2));
  EXPECT_EQ(floors[0].killed_size, gib(6));
  EXPECT_EQ(floors[0].kills, 2);
  EXPECT_EQ(floors[0].evidence, "b");
}

TEST_F(SqliteStoreTest, P10_OneSleepRecordForEachConfigurationAndLevel) {
  const auto record = [](const char* key, int level, Bytes asleep, Bytes freed, int when) {
    return memory::SleepRecord{.fingerprint = "f",
                               .configuration_key = key,
                               .level = level,
                               .asleep = asleep,
                               .freed = freed,
                               .recorded_at = at(when)};
  };
  open()->put_sleep_record(record("k", 1, gib(5), gib(2), 1));
  open()->put_sleep_record(record("k", 2, gib(1), gib(6), 2));
  open()->put_sleep_record(record("k", 1, gib(4), -gib(1), 3));
  const auto records = open()->sleep_records();
  ASSERT_THAT(records, SizeIs(2));
  EXPECT_EQ(records[0].level, 2);
  EXPECT_EQ(records[1].fingerprint, "f");
  EXPECT_EQ(records[1].configuration_key, "k");
  EXPECT_EQ(records[1].asleep, gib(4));
  EXPECT_EQ(records[1].freed, -gib(1));
  EXPECT_EQ(records[1].recorded_at, at(3));
}

TEST_F(SqliteStoreTest, OneDurationForEachModelActionAndLevel) {
  using planner::Action;
  const auto record = [](const char* fingerprint, Action action, int level, int seconds) {
    return planner::DurationRecord{.fingerprint = fingerprint,
                                   .action = action,
                                   .level = level,
                                   .took = std::chrono::seconds{seconds},
                                   .recorded_at = at(seconds)};
  };
  open()->put_duration(record("f", Action::load, 0, 40));
  open()->put_duration(record("f", Action::load, 0, 30));
  open()->put_duration(record("f", Action::wake, 2, 7));
  open()->put_duration(record("g", Action::stop, 0, 3));
  const auto records = open()->durations();
  ASSERT_THAT(records, SizeIs(3));
  EXPECT_EQ(planner::measured(records, "f", Action::load), std::chrono::seconds{30});
  EXPECT_EQ(planner::measured(records, "f", Action::wake, 2), std::chrono::seconds{7});
  EXPECT_EQ(planner::measured(records, "f", Action::wake, 1), std::nullopt);
  EXPECT_EQ(planner::measured(records, "g", Action::stop), std::chrono::seconds{3});
  EXPECT_EQ(records.front().recorded_at, at(30));
}

TEST_F(SqliteStoreTest, WhatIsForgottenIsGoneAndNothingElse) {
  using planner::Action;
  const auto record = [](int n) {
    return memory::CalibrationRecord{.fingerprint = "f",
                                     .configuration_key = "k",
                                     .measured = gib(2),
                                     .formula = gib(1),
                                     .recorded_at = at(n),
                                     .image = ""};
  };
  const auto floor = [](const char* key) {
    return memory::OomFloor{.fingerprint = "f",
                            .configuration_key = key,
                            .killed_size = gib(5),
                            .kills = 1,
                            .evidence = "a",
                            .recorded_at = at(1)};
  };
  const auto asleep = [](int level) {
    return memory::SleepRecord{.fingerprint = "f",
                               .configuration_key = "k",
                               .level = level,
                               .asleep = gib(5),
                               .freed = gib(2),
                               .recorded_at = at(1)};
  };
  const auto duration = [](Action action) {
    return planner::DurationRecord{
        .fingerprint = "f", .action = action, .level = 0, .took = std::chrono::seconds{3}, .recorded_at = at(1)};
  };
  {
    const auto store = open();
    for (const int n : {1, 2}) store->add_calibration(record(n));
    for (const auto* key : {"k", "l"}) store->put_oom_floor(floor(key));
    for (const int level : {1, 2}) store->put_sleep_record(asleep(level));
    for (const auto action : {Action::load, Action::stop}) store->put_duration(duration(action));
    store->forget({.records = {record(1)},
                   .oom_floors = {floor("k")},
                   .sleep_records = {asleep(1)},
                   .durations = {duration(Action::load)}});
  }
  const auto store = open();
  ASSERT_THAT(store->calibrations(), SizeIs(1));
  EXPECT_EQ(store->calibrations().front().recorded_at, at(2));
  ASSERT_THAT(store->oom_floors(), SizeIs(1));
  EXPECT_EQ(store->oom_floors().front().configuration_key, "l");
  ASSERT_THAT(store->sleep_records(), SizeIs(1));
  EXPECT_EQ(store->sleep_records().front().level, 2);
  ASSERT_THAT(store->durations(), SizeIs(1));
  EXPECT_EQ(store->durations().front().action, Action::stop);
}

TEST_F(SqliteStoreTest, ASecondDaemonIsToldWhoUsesTheFolder) {
  const auto store = open();
  const auto error = open_error();
  EXPECT_EQ(error.code, "state_in_use");
  EXPECT_THAT(error.message, HasSubstr(fmt::format("pid {}", ::getpid())));
}

TEST_F(SqliteStoreTest, TheLockEndsWithTheStore) {
  open();
  EXPECT_NO_THROW(open());
}

TEST_F(SqliteStoreTest, WhatWasWrittenSurvivesKillMinusNine) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t writer = ::fork();
  if (writer == 0) {
    ::close(pipe[0]);
    const auto store = open();
    for (;;) {  // says a number only after the write has returned
      const std::int64_t id = store->add_event(event("x"));
      store->add_deployment("d", std::string(1000, 'y'));
      if (::write(pipe[1], &id, sizeof id) != sizeof id) ::_exit(1);
    }
  }
  ::close(pipe[1]);
  std::int64_t told = 0;
  for (int i = 0; i < 200; ++i) ASSERT_EQ(::read(pipe[0], &told, sizeof told), static_cast<ssize_t>(sizeof told));
  ::kill(writer, SIGKILL);
  ::waitpid(writer, nullptr, 0);
  for (std::int64_t more = 0; ::read(pipe[0], &more, sizeof more) == sizeof more;) told = more;
  ::close(pipe[0]);

  const auto store = open();  // the lock of the dead is no obstacle
  EXPECT_GE(store->last_event_id(), told);
  EXPECT_EQ(std::ssize(store->events_after(0, 1'000'000)), store->last_event_id()) << "no gap";
  EXPECT_GE(std::ssize(store->deployments()), told);
  for (const auto& deployment : store->deployments()) EXPECT_EQ(deployment.document.size(), 1000U);
}

TEST_F(SqliteStoreTest, AFileWhereTheFolderShouldBeIsNamed) {
  fs::create_directories(folder().parent_path());
  std::ofstream{folder()} << "x";
  const auto error = open_error();
  EXPECT_EQ(error.code, "state_unusable");
  EXPECT_EQ(error.where, folder().string());
  EXPECT_THAT(error.hint, HasSubstr("--state-dir"));
}

TEST_F(SqliteStoreTest, AFileOnTheWayToTheFolderIsAnError) {
  std::ofstream{base_ / "made"} << "x";
  EXPECT_EQ(open_error().code, "state_unusable");
}

TEST_F(SqliteStoreTest, ALinkInPlaceOfTheDatabaseIsNotFollowed) {
  fs::create_directories(folder());
  std::ofstream{base_ / "precious"} << "x";
  fs::create_symlink(base_ / "precious", file());
  EXPECT_EQ(open_error().code, "state_unusable");
}

TEST_F(SqliteStoreTest, SomethingElseInPlaceOfTheDatabaseIsSaidToBeDamaged) {
  fs::create_directories(folder());
  std::ofstream{file()} << std::string(5000, 'x');
  const auto error = open_error();
  EXPECT_EQ(error.code, "state_corrupt");
  EXPECT_EQ(error.where, file().string());
  EXPECT_THAT(error.hint, HasSubstr("move the file away"));
}

TEST_F(SqliteStoreTest, ADamagedPageIsFoundWhenTheFileIsOpened) {
  {
    const auto store = open();
    for (int i = 0; i < 200; ++i) store->add_deployment("d", std::string(500, 'y'));
  }
  std::fstream damaged{file(), std::ios::in | std::ios::out | std::ios::binary};
  damaged.seekp(static_cast<std::streamoff>(fs::file_size(file()) - 8192));
  damaged << std::string(4096, '\x55');
  damaged.close();
  EXPECT_EQ(open_error().code, "state_corrupt");
}

TEST_F(SqliteStoreTest, ATruncatedFileIsSaidToBeDamaged) {
  {
    const auto store = open();
    for (int i = 0; i < 200; ++i) store->add_deployment("d", std::string(500, 'y'));
  }
  fs::resize_file(file(), 5000);
  EXPECT_EQ(open_error().code, "state_corrupt");
}

TEST_F(SqliteStoreTest, AnEmptyFileIsAFreshStart) {
  fs::create_directories(folder());
  std::ofstream empty{file()};
  EXPECT_THAT(open()->deployments(), IsEmpty());
}

TEST_F(SqliteStoreTest, ANewerDatabaseIsRefusedAndLeftAsItIs) {
  open()->add_deployment("a", "{}");
  SQLite::Database{file().string(), SQLite::OPEN_READWRITE}.exec("PRAGMA user_version = 999");
  const auto error = open_error();
  EXPECT_EQ(error.code, "state_newer");
  EXPECT_THAT(error.message, HasSubstr("999"));
  SQLite::Database database{file().string(), SQLite::OPEN_READWRITE};
  EXPECT_EQ(database_version(database), 999);
  EXPECT_EQ(database.execAndGet("SELECT count(*) FROM deployments").getInt(), 1);
}

/// Root writes through permissions: only another file system says no.
class SmallFileSystem {
 public:
  explicit SmallFileSystem(fs::path where) : where_(std::move(where)) {
    fs::create_directories(where_);
    mounted_ = ::mount("none", where_.c_str(), "tmpfs", 0, "size=256k") == 0;
  }
  ~SmallFileSystem() {
    if (mounted_) ::umount2(where_.c_str(), MNT_DETACH);
  }
  SmallFileSystem(const SmallFileSystem&) = delete;
  SmallFileSystem& operator=(const SmallFileSystem&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }
  bool make_read_only() { return ::mount("none", where_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=256k") == 0; }

 private:
  fs::path where_;
  bool mounted_ = false;
};

TEST_F(SqliteStoreTest, AReadOnlyFolderIsNamedWithWhatToDo) {
  SmallFileSystem disk{folder()};
  if (!disk.mounted() || !disk.make_read_only()) GTEST_SKIP() << "file systems cannot be mounted here";
  const auto error = open_error();
  EXPECT_EQ(error.code, "state_unusable");
  EXPECT_THAT(error.message, HasSubstr("Read-only file system"));
  EXPECT_THAT(error.hint, HasSubstr("--state-dir"));
}

TEST_F(SqliteStoreTest, AFullDiskThrowsNamesTheFileAndLosesNothing) {
  SmallFileSystem disk{folder()};
  if (!disk.mounted()) GTEST_SKIP() << "file systems cannot be mounted here";
  auto store = open();
  std::int64_t stored = 0;
  std::string reason;
  try {
    for (; stored < 10'000; ++stored) store->add_deployment("d", std::string(1000, 'y'));
  } catch (const std::runtime_error& full) {
    reason = full.what();
  }
  EXPECT_GT(stored, 0);
  EXPECT_THAT(reason, HasSubstr(file().string()));
  EXPECT_EQ(std::ssize(store->deployments()), stored);
}

TEST(Migrations, RunOnceEachAndInOrder) {
  SQLite::Database database{":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
  const std::array<const char*, 2> steps{"CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (1)",
                                         "ALTER TABLE t ADD COLUMN b INTEGER DEFAULT 7"};
  migrate(database, std::span{steps}.first(1));
  EXPECT_EQ(database_version(database), 1);
  migrate(database, steps);
  migrate(database, steps);
  EXPECT_EQ(database_version(database), 2);
  EXPECT_EQ(database.execAndGet("SELECT sum(b) FROM t").getInt(), 7);
}

TEST(Migrations, AFailingStepLeavesNothingOfItself) {
  SQLite::Database database{":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
  const std::array<const char*, 2> steps{"CREATE TABLE t (a INTEGER)",
                                         "INSERT INTO t VALUES (1); SELECT no_such_function()"};
  EXPECT_THROW(migrate(database, steps), SQLite::Exception);
  EXPECT_EQ(database_version(database), 1);
  EXPECT_EQ(database.execAndGet("SELECT count(*) FROM t").getInt(), 0);
}

TEST(Migrations, TheFirstVersionsStateIsKeptByTheLaterSteps) {
  SQLite::Database database{":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
  migrate(database, migration_steps().first(1));
  database.exec("INSERT INTO deployments (name, document) VALUES ('a', '{}')");
  migrate(database, migration_steps());
  EXPECT_EQ(database_version(database), std::ssize(migration_steps()));
  EXPECT_EQ(database.execAndGet("SELECT name FROM deployments WHERE id = 1").getString(), "a");
  EXPECT_EQ(database.execAndGet("SELECT count(*) FROM operations").getInt(), 0);
}

TEST(Migrations, ANewerDatabaseIsLeftAlone) {
  SQLite::Database database{":memory:", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE};
  database.exec("PRAGMA user_version = 7");
  migrate(database, migration_steps());
  EXPECT_EQ(database_version(database), 7);
}

}  // namespace
}  // namespace dgxmm::store
