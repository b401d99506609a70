#pragma once
#include <span>

namespace SQLite {  // NOLINT(readability-identifier-naming): the library's own
class Database;
}

namespace dgxmm::store {

/// The steps that make the tables, oldest first. A step that was released is never changed; a change is a new step.
std::span<const char* const> migration_steps();

/// Brings the database to the newest version, each step in a transaction of its own together with the version (`PRAGMA
/// user_version`, the number of steps done). A database newer than `steps` is left alone. Throws SQLite::Exception;
/// the steps before the failing one remain.
void migrate(SQLite::Database& database, std::span<const char* const> steps);

int database_version(SQLite::Database& database);

}  // namespace dgxmm::store
