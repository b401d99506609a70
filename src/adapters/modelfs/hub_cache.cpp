#include "adapters/modelfs/hub_cache.h"

#include "adapters/modelfs/header_reader.h"
#include "adapters/modelfs/paths.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace dgxmm::modelfs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";
constexpr std::string_view kSeparator = "--";
constexpr std::uint64_t kMaxRefBytes = 256;
constexpr std::size_t kMaxRevisions = 64;

/// What refs/main says; nothing when it does not say the name of a folder beside the others.
std::optional<std::string> main_revision(const fs::path& repository) {
  auto revision = read_whole_file(repository / "refs" / "main", kMaxRefBytes);
  if (!revision) return std::nullopt;
  while (revision->ends_with('\n') || revision->ends_with(' ')) revision->pop_back();
  if (revision->empty() || revision->find('/') != std::string::npos || revision->starts_with('.') ||
      revision->find('\0') != std::string::npos) {
    return std::nullopt;
  }
  return std::move(*revision);
}

}  // namespace

std::optional<std::string> repository_of(std::string_view folder_name) {
  if (!folder_name.starts_with(kPrefix) || folder_name.size() == kPrefix.size()) return std::nullopt;
  std::string name{folder_name.substr(kPrefix.size())};
  // No part of a repository's name may hold "--": only the separator does.
  if (const auto at = name.find(kSeparator); at != std::string::npos) name.replace(at, kSeparator.size(), "/");
  return name;
}

bool is_other_repository(std::string_view folder_name) {
  return folder_name.starts_with("datasets--") || folder_name.starts_with("spaces--");
}

std::vector<std::string> revisions_in(const fs::path& repository) {
  const auto snapshots = repository / "snapshots";
  auto revisions = list_folder(snapshots, kMaxRevisions).folders;
  if (revisions.empty()) return revisions;
  auto chosen = revisions.end();
  if (const auto named = main_revision(repository)) chosen = std::ranges::find(revisions, *named);
  if (chosen == revisions.end()) {
    chosen = std::ranges::max_element(revisions, {}, [&](const std::string& revision) {
      std::error_code error;
      const auto time = fs::last_write_time(snapshots / revision, error);
      return error ? fs::file_time_type::min() : time;
    });
  }
  std::rotate(revisions.begin(), chosen, std::next(chosen));
  return revisions;
}

std::optional<fs::path> chosen_snapshot(const fs::path& folder) {
  const auto revisions = revisions_in(folder);
  if (revisions.empty()) return std::nullopt;
  return folder / "snapshots" / revisions.front();
}

std::optional<fs::path> repository_folder_of(const fs::path& snapshot) {
  const auto parent = snapshot.parent_path();
  if (parent.filename() != "snapshots" || !repository_of(parent.parent_path().filename().string())) return std::nullopt;
  return parent.parent_path();
}

Unfinished unfinished_in(const fs::path& repository) {
  Unfinished unfinished;
  std::error_code error;
  std::size_t names = 0;
  for (auto it = fs::directory_iterator{repository / "blobs", error};
       !error && it != fs::directory_iterator{} && names < kMaxNames; it.increment(error), ++names) {
    if (it->path().extension() != ".incomplete") continue;
    ++unfinished.files;
    unfinished.bytes += size_of(it->path());
  }
  return unfinished;
}

}  // namespace dgxmm::modelfs
