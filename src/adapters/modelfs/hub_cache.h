#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The cache that huggingface_hub keeps: models--ORG--NAME/{blobs,refs,snapshots/COMMIT}, where the files of a snapshot
// are links to blobs, and a blob that is being downloaded ends with .incomplete (huggingface_hub/file_download.py).
namespace dgxmm::modelfs {

/// "ORG/NAME" of a folder named "models--ORG--NAME"; nothing for any other name.
std::optional<std::string> repository_of(std::string_view folder_name);

/// Folders of the same cache that hold no models: data sets and spaces.
bool is_other_repository(std::string_view folder_name);

/// The commits of which there are files, the chosen one first: that of `refs/main`, or else the newest folder.
std::vector<std::string> revisions_in(const std::filesystem::path& repository);

/// The folder of the chosen revision; nothing when `folder` is no repository or has none.
std::optional<std::filesystem::path> chosen_snapshot(const std::filesystem::path& folder);

/// The repository's folder, when `snapshot` is the folder of one of its revisions.
std::optional<std::filesystem::path> repository_folder_of(const std::filesystem::path& snapshot);

/// Downloads that have not finished.
struct Unfinished {
  std::size_t files = 0;
  std::uint64_t bytes = 0;  ///< that are there already
};
Unfinished unfinished_in(const std::filesystem::path& repository);

}  // namespace dgxmm::modelfs
