#include "adapters/store/sqlite_store.h"

#include "adapters/store/migrations.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <SQLiteCpp/VariadicBind.h>
#include <fmt/format.h>
#include <sqlite3.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <stdexcept>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace dgxmm::store {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0600;
constexpr int kBusyTimeoutMs = 2000;
constexpr std::int64_t kPruneEvery = 500;
constexpr std::string_view kFolderHint =
    "give a folder that this user may write to and that has space, with --state-dir or `state_dir` in the settings";

Error unusable(const fs::path& path, std::string_view reason) {
  return {"state_unusable", fmt::format("cannot keep state in {}: {}", path.string(), reason), std::string{kFolderHint},
          path.string()};
}

Error unusable_by_errno(const fs::path& path) { return unusable(path, std::strerror(errno)); }

std::optional<Error> make_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), kFolderMode) == 0) return std::nullopt;
  if (errno == ENOENT) {
    std::error_code failed;
    fs::create_directories(folder.parent_path(), failed);
    if (failed) return unusable(folder, failed.message());
    if (::mkdir(folder.c_str(), kFolderMode) == 0) return std::nullopt;
  }
  if (errno != EEXIST) return unusable_by_errno(folder);
  std::error_code failed;
  return fs::is_directory(folder, failed) ? std::nullopt : std::optional{unusable(folder, "it is not a folder")};
}

Result<FileDescriptor> lock_folder(const fs::path& folder) {
  const fs::path path = folder / "lock";
  FileDescriptor lock{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kFileMode)};
  if (!lock) return fail(unusable_by_errno(path));
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return fail(unusable_by_errno(path));
    std::string pid = read_text_file(path).value_or("");
    while (!pid.empty() && pid.back() == '\n') pid.pop_back();
    return fail(
        "state_in_use",
        fmt::format("another dgxmm daemon (pid {}) uses the state folder {}", pid.empty() ? "?" : pid, folder.string()),
        "stop it, or give this one a folder of its own with --state-dir", folder.string());
  }
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(lock.get(), 0) != 0 || ::pwrite(lock.get(), pid.data(), pid.size(), 0) != std::ssize(pid)) {
    return fail(unusable_by_errno(path));
  }
  return lock;
}

Error describe(const SQLite::Exception& problem, const fs::path& file) {
  const int code = problem.getErrorCode();
  if (code == SQLITE_CORRUPT || code == SQLITE_NOTADB) {
    return {"state_corrupt", fmt::format("the state in {} is damaged: {}", file.string(), problem.what()),
            "move the file away (with its -wal and -shm) to start afresh; engines that still run have to be stopped by "
            "hand then",
            file.string()};
  }
  return unusable(file, problem.what());
}

std::unique_ptr<SQLite::Database> open_database(const fs::path& file) {
  auto database = std::make_unique<SQLite::Database>(file.string(), SQLite::OPEN_READWRITE, kBusyTimeoutMs);
  database->exec("PRAGMA journal_mode = WAL");
  database->exec(
      "PRAGMA synchronous = NORMAL");  // of WAL: a crash of the host may cost the last writes, never the file
  database->exec("PRAGMA foreign_keys = ON");
  const std::string found = database->execAndGet("PRAGMA quick_check(1)").getString();
  if (found != "ok") throw SQLite::Exception(found, SQLITE_CORRUPT);
  return database;
}

std::int64_t to_ms(WallTime time) { return time.time_since_epoch().count(); }
WallTime from_ms(std::int64_t ms) { return WallTime{std::chrono::milliseconds{ms}}; }

/// The contract of ports::Store: what fails throws, and names the file.
template <class Work>
auto naming(const std::string& file, Work work) {
  try {
    return work();
  } catch (const SQLite::Exception& problem) {
    throw std::runtime_error(fmt::format("cannot use {}: {}; {}", file, problem.what(), kFolderHint));
  }
}

}  // namespace

Result<std::unique_ptr<ports::Store>> SqliteStore::open(const fs::path& folder) {
  if (auto failed = make_folder(folder)) return fail(std::move(*failed));
  auto lock = lock_folder(folder);
  if (!lock) return fail(std::move(lock.error()));

  const fs::path file = folder / "dgxmm.sqlite3";
  // Made here, because SQLite would give it the permissions of the umask; its -wal and -shm copy those of the file.
  const FileDescriptor made{::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kFileMode)};
  if (!made || ::fchmod(made.get(), kFileMode) != 0) return fail(unusable_by_errno(file));
  try {
    auto database = open_database(file);
    if (const auto known = std::ssize(migration_steps()); database_version(*database) > known) {
      return fail("state_newer",
                  fmt::format("{} was written by a newer dgxmm (version {} of its tables, this one knows {})",
                              file.string(), database_version(*database), known),
                  "install that version again, or give another folder with --state-dir", file.string());
    }
    migrate(*database, migration_steps());
    return std::unique_ptr<ports::Store>{new SqliteStore{std::move(*lock), std::move(database), file.string()}};
  } catch (const SQLite::Exception& problem) {
    return fail(describe(problem, file));
  }
}

SqliteStore::SqliteStore(FileDescriptor lock, std::unique_ptr<SQLite::Database> database, std::string file)
    : lock_(std::move(lock)),
      database_(std::move(database)),
      file_(std::move(file)) {}

SqliteStore::~SqliteStore() = default;

DeploymentId SqliteStore::add_deployment(const std::string& name, const std::string& document) {
  return naming(file_, [&] {
    SQLite::Statement insert{*database_, "INSERT INTO deployments (name, document) VALUES (?, ?)"};
    SQLite::bind(insert, name, document);
    insert.exec();
    return DeploymentId{database_->getLastInsertRowid()};
  });
}

void SqliteStore::update_deployment(const ports::StoredDeployment& deployment) {
  const int changed = naming(file_, [&] {
    SQLite::Statement update{*database_, "UPDATE deployments SET name = ?, document = ? WHERE id = ?"};
    SQLite::bind(update, deployment.name, deployment.document, deployment.id.value);
    return update.exec();
  });
  if (changed == 0) throw std::runtime_error(fmt::format("{} has no deployment {}.", file_, deployment.id.value));
}

void SqliteStore::remove_deployment(DeploymentId id) {
  naming(file_, [&] {
    SQLite::Statement remove{*database_, "DELETE FROM deployments WHERE id = ?"};
    SQLite::bind(remove, id.value);
    remove.exec();
  });
}

std::vector<ports::StoredDeployment> SqliteStore::deployments() {
  return naming(file_, [&] {
    std::vector<ports::StoredDeployment> found;
    SQLite::Statement rows{*database_, "SELECT id, name, document FROM deployments ORDER BY id"};
    while (rows.executeStep()) {
      found.push_back({.id = DeploymentId{rows.getColumn(0).getInt64()},
                       .name = rows.getColumn(1).getString(),
                       .document = rows.getColumn(2).getString()});
    }
    return found;
  });
}

std::int64_t SqliteStore::add_event(const ports::StoredEvent& event) {
  return naming(file_, [&] {
    SQLite::Statement insert{*database_,
                             "INSERT INTO events (time_ms, type, deployment, document) VALUES (?, ?, ?, ?)"};
    insert.bind(1, to_ms(event.time));
    insert.bind(2, event.type);
    if (event.deployment) insert.bind(3, event.deployment->value);
    insert.bind(4, event.document);
    insert.exec();
    const std::int64_t id = database_->getLastInsertRowid();
    if (id % kPruneEvery == 0) {
      SQLite::Statement prune{*database_, "DELETE FROM events WHERE id <= ?"};
      prune.bind(1, id - kKeptEvents);
      prune.exec();
    }
    return id;
  });
}

std::vector<ports::StoredEvent> SqliteStore::events_after(std::int64_t id, std::size_t limit) {
  return naming(file_, [&] {
    std::vector<ports::StoredEvent> found;
    SQLite::Statement rows{
        *database_, "SELECT id, time_ms, type, deployment, document FROM events WHERE id > ? ORDER BY id LIMIT ?"};
    SQLite::bind(rows, id, static_cast<std::int64_t>(limit));
    while (rows.executeStep()) {
      ports::StoredEvent event{.id = rows.getColumn(0).getInt64(),
                               .time = from_ms(rows.getColumn(1).getInt64()),
                               .type = rows.getColumn(2).getString(),
                               .deployment = {},
                               .document = rows.getColumn(4).getString()};
      if (!rows.getColumn(3).isNull()) event.deployment = DeploymentId{rows.getColumn(3).getInt64()};
      found.push_back(std::move(event));
    }
    return found;
  });
}

std::int64_t SqliteStore::last_event_id() {
  return naming(file_, [&] {
    return static_cast<std::int64_t>(database_->execAndGet("SELECT coalesce(max(id), 0) FROM events").getInt64());
  });
}

std::int64_t SqliteStore::add_operation(const std::string& document) {
  return naming(file_, [&] {
    SQLite::Statement insert{*database_, "INSERT INTO operations (document) VALUES (?)"};
    SQLite::bind(insert, document);
    insert.exec();
    return static_cast<std::int64_t>(database_->getLastInsertRowid());
  });
}

void SqliteStore::update_operation(const ports::StoredOperation& operation) {
  const int changed = naming(file_, [&] {
    SQLite::Statement update{*database_, "UPDATE operations SET document = ? WHERE id = ?"};
    SQLite::bind(update, operation.document, operation.id);
    return update.exec();
  });
  if (changed == 0) throw std::runtime_error(fmt::format("{} has no operation {}.", file_, operation.id));
}

void SqliteStore::remove_operation(std::int64_t id) {
  naming(file_, [&] {
    SQLite::Statement remove{*database_, "DELETE FROM operations WHERE id = ?"};
    SQLite::bind(remove, id);
    remove.exec();
  });
}

std::vector<ports::StoredOperation> SqliteStore::operations() {
  return naming(file_, [&] {
    std::vector<ports::StoredOperation> found;
    SQLite::Statement rows{*database_, "SELECT id, document FROM operations ORDER BY id"};
    while (rows.executeStep()) {
      found.push_back({.id = rows.getColumn(0).getInt64(), .document = rows.getColumn(1).getString()});
    }
    return found;
  });
}

void SqliteStore::add_calibration(const memory::CalibrationRecord& record) {
  naming(file_, [&] {
    SQLite::Statement insert{*database_,
                             "INSERT INTO calibrations (fingerprint, configuration_key, measured_bytes, formula_bytes, "
                             "recorded_at_ms, image) VALUES (?, ?, ?, ?, ?, ?)"};
    SQLite::bind(insert, record.fingerprint, record.configuration_key, record.measured.count(), record.formula.count(),
                 to_ms(record.recorded_at), record.image);
    insert.exec();
  });
}

std::vector<memory::CalibrationRecord> SqliteStore::calibrations() {
  return naming(file_, [&] {
    std::vector<memory::CalibrationRecord> found;
    SQLite::Statement rows{
        *database_,
        "SELECT fingerprint, configuration_key, measured_bytes, formula_bytes, recorded_at_ms, image "
        "FROM calibrations ORDER BY id"};
    while (rows.executeStep()) {
      found.push_back({.fingerprint = rows.getColumn(0).getString(),
                       .configuration_key = rows.getColumn(1).getString(),
                       .measured = Bytes{rows.getColumn(2).getInt64()},
                       .formula = Bytes{rows.getColumn(3).getInt64()},
                       .recorded_at = from_ms(rows.getColumn(4).getInt64()),
                       .image = rows.getColumn(5).getString()});
    }
    return found;
  });
}

void SqliteStore::put_oom_floor(const memory::OomFloor& floor) {
  naming(file_, [&] {
    SQLite::Statement put{*database_,
                          "INSERT OR REPLACE INTO oom_floors (fingerprint, configuration_key, killed_bytes, kills, "
                          "evidence, recorded_at_ms) VALUES (?, ?, ?, ?, ?, ?)"};
    SQLite::bind(put, floor.fingerprint, floor.configuration_key, floor.killed_size.count(), floor.kills,
                 floor.evidence, to_ms(floor.recorded_at));
    put.exec();
  });
}

std::vector<memory::OomFloor> SqliteStore::oom_floors() {
  return naming(file_, [&] {
    std::vector<memory::OomFloor> found;
    SQLite::Statement rows{*database_,
                           "SELECT fingerprint, configuration_key, killed_bytes, kills, evidence, recorded_at_ms FROM "
                           "oom_floors ORDER BY fingerprint, configuration_key"};
    while (rows.executeStep()) {
      found.push_back({.fingerprint = rows.getColumn(0).getString(),
                       .configuration_key = rows.getColumn(1).getString(),
                       .killed_size = Bytes{rows.getColumn(2).getInt64()},
                       .kills = rows.getColumn(3).getInt64(),
                       .evidence = rows.getColumn(4).getString(),
                       .recorded_at = from_ms(rows.getColumn(5).getInt64())});
    }
    return found;
  });
}

void SqliteStore::put_sleep_record(const memory::SleepRecord& record) {
  naming(file_, [&] {
    SQLite::Statement put{*database_,
                          "INSERT OR REPLACE INTO sleep_records (fingerprint, configuration_key, level, asleep_bytes, "
                          "freed_bytes, recorded_at_ms) VALUES (?, ?, ?, ?, ?, ?)"};
    SQLite::bind(put, record.fingerprint, record.configuration_key, record.level, record.asleep.count(),
                 record.freed.count(), to_ms(record.recorded_at));
    put.exec();
  });
}

std::vector<memory::SleepRecord> SqliteStore::sleep_records() {
  return naming(file_, [&] {
    std::vector<memory::SleepRecord> found;
    SQLite::Statement rows{*database_,
                           "SELECT fingerprint, configuration_key, level, asleep_bytes, freed_bytes, recorded_at_ms "
                           "FROM sleep_records ORDER BY recorded_at_ms"};
    while (rows.executeStep()) {
      found.push_back({.fingerprint = rows.getColumn(0).getString(),
                       .configuration_key = rows.getColumn(1).getString(),
                       .level = rows.getColumn(2).getInt(),
                       .asleep = Bytes{rows.getColumn(3).getInt64()},
                       .freed = Bytes{rows.getColumn(4).getInt64()},
                       .recorded_at = from_ms(rows.getColumn(5).getInt64())});
    }
    return found;
  });
}

void SqliteStore::put_duration(const planner::DurationRecord& record) {
  naming(file_, [&] {
    SQLite::Statement put{*database_,
                          "INSERT OR REPLACE INTO durations (fingerprint, action, level, took_s, recorded_at_ms) "
                          "VALUES (?, ?, ?, ?, ?)"};
    SQLite::bind(put, record.fingerprint, std::string{planner::name_of(record.action)}, record.level,
                 static_cast<std::int64_t>(record.took.count()), to_ms(record.recorded_at));
    put.exec();
  });
}

std::vector<planner::DurationRecord> SqliteStore::durations() {
  return naming(file_, [&] {
    std::vector<planner::DurationRecord> found;
    SQLite::Statement rows{*database_,
                           "SELECT fingerprint, action, level, took_s, recorded_at_ms FROM durations "
                           "ORDER BY fingerprint, action, level"};
    while (rows.executeStep()) {
      const auto action = planner::parse_action(rows.getColumn(1).getString());
      if (!action) continue;  // of a later version
      found.push_back({.fingerprint = rows.getColumn(0).getString(),
                       .action = *action,
                       .level = rows.getColumn(2).getInt(),
                       .took = std::chrono::seconds{rows.getColumn(3).getInt64()},
                       .recorded_at = from_ms(rows.getColumn(4).getInt64())});
    }
    return found;
  });
}

void SqliteStore::forget(const ports::Learned& those) {
  naming(file_, [&] {
    SQLite::Transaction all{*database_};
    for (const auto& record : those.records) {
      SQLite::Statement remove{*database_,
                               "DELETE FROM calibrations WHERE fingerprint = ? AND configuration_key = ? AND "
                               "measured_bytes = ? AND formula_bytes = ? AND recorded_at_ms = ?"};
      SQLite::bind(remove, record.fingerprint, record.configuration_key, record.measured.count(),
                   record.formula.count(), to_ms(record.recorded_at));
      remove.exec();
    }
    for (const auto& floor : those.oom_floors) {
      SQLite::Statement remove{*database_, "DELETE FROM oom_floors WHERE fingerprint = ? AND configuration_key = ?"};
      SQLite::bind(remove, floor.fingerprint, floor.configuration_key);
      remove.exec();
    }
    for (const auto& record : those.sleep_records) {
      SQLite::Statement remove{
          *database_, "DELETE FROM sleep_records WHERE fingerprint = ? AND configuration_key = ? AND level = ?"};
      SQLite::bind(remove, record.fingerprint, record.configuration_key, record.level);
      remove.exec();
    }
    for (const auto& record : those.durations) {
      SQLite::Statement remove{*database_, "DELETE FROM durations WHERE fingerprint = ? AND action = ? AND level = ?"};
      SQLite::bind(remove, record.fingerprint, std::string{planner::name_of(record.action)}, record.level);
      remove.exec();
    }
    all.commit();
  });
}

}  // namespace dgxmm::store
