#include "adapters/store/migrations.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include <array>
#include <cstddef>

namespace dgxmm::store {
namespace {

// AUTOINCREMENT: a number is given once, also when the newest row was removed.
constexpr std::array<const char*, 4> kSteps{R"sql(
CREATE TABLE deployments (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL,
  document TEXT NOT NULL
) STRICT;

CREATE TABLE events (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  time_ms INTEGER NOT NULL,
  type TEXT NOT NULL,
  deployment INTEGER,  -- no foreign key: what happened outlives the deployment
  document TEXT NOT NULL
) STRICT;

CREATE TABLE calibrations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  fingerprint TEXT NOT NULL,
  configuration_key TEXT NOT NULL,
  measured_bytes INTEGER NOT NULL,
  formula_bytes INTEGER NOT NULL,
  recorded_at_ms INTEGER NOT NULL,
  image TEXT NOT NULL
) STRICT;

CREATE TABLE oom_floors (
  fingerprint TEXT NOT NULL,
  configuration_key TEXT NOT NULL,
  killed_bytes INTEGER NOT NULL,
  kills INTEGER NOT NULL,
  evidence TEXT NOT NULL,
  recorded_at_ms INTEGER NOT NULL,
  PRIMARY KEY (fingerprint, configuration_key)
) STRICT, WITHOUT ROWID;
)sql",
                                            R"sql(
CREATE TABLE operations (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  document TEXT NOT NULL
) STRICT;
)sql",
                                            R"sql(
CREATE TABLE sleep_records (
  fingerprint TEXT NOT NULL,
  configuration_key TEXT NOT NULL,
  level INTEGER NOT NULL,
  asleep_bytes INTEGER NOT NULL,
  freed_bytes INTEGER NOT NULL,
  recorded_at_ms INTEGER NOT NULL,
  PRIMARY KEY (fingerprint, configuration_key, level)
) STRICT, WITHOUT ROWID;
)sql",
                                            R"sql(
CREATE TABLE durations (
  fingerprint TEXT NOT NULL,
  action TEXT NOT NULL,  -- load, stop, sleep, wake
  level INTEGER NOT NULL,
  took_s INTEGER NOT NULL,
  recorded_at_ms INTEGER NOT NULL,
  PRIMARY KEY (fingerprint, action, level)
) STRICT, WITHOUT ROWID;
)sql"};

}  // namespace

std::span<const char* const> migration_steps() { return kSteps; }

int database_version(SQLite::Database& database) { return database.execAndGet("PRAGMA user_version").getInt(); }

void migrate(SQLite::Database& database, std::span<const char* const> steps) {
  for (auto done = static_cast<std::size_t>(database_version(database)); done < steps.size(); ++done) {
    SQLite::Transaction step{database};
    database.exec(steps[done]);
    database.exec(fmt::format("PRAGMA user_version = {}", done + 1));
    step.commit();
  }
}

}  // namespace dgxmm::store
