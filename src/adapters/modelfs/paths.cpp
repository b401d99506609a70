#include "adapters/modelfs/paths.h"

#include "base/masking.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sys/stat.h>

namespace dgxmm::modelfs {
namespace {

namespace fs = std::filesystem;

std::uint64_t nanoseconds(const timespec& time) {
  constexpr std::uint64_t kPerSecond = 1'000'000'000;
  return static_cast<std::uint64_t>(time.tv_sec) * kPerSecond + static_cast<std::uint64_t>(time.tv_nsec);
}

/// Endings that downloaders give a file while it is not complete.
constexpr auto kUnfinishedEndings =
    std::to_array<std::string_view>({".gguf.part", ".gguf.incomplete", ".gguf.crdownload", ".gguf.downloadInProgress"});

bool matters(std::string_view name) {
  return name.ends_with(kGgufEnding) || name.ends_with(kSafetensorsEnding) ||
         name.ends_with(".safetensors.index.json") || name == kConfig || name == kParams ||
         name == "adapter_config.json" || name == "model_index.json" ||
         std::ranges::any_of(kUnfinishedEndings, [name](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

std::optional<Identity> identity_of(const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return Identity{status.st_dev, status.st_ino};
}

void add_stamp(model::Hasher& hasher, const fs::path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) {
    const auto error = static_cast<std::uint64_t>(errno);
    const bool dangles = ::lstat(path.c_str(), &status) == 0;
    hasher.add(error);
    hasher.add(std::uint64_t{dangles ? 1U : 0U});
    return;
  }
  hasher.add(std::uint64_t{status.st_dev});
  hasher.add(std::uint64_t{status.st_ino});
  hasher.add(static_cast<std::uint64_t>(status.st_size));
  hasher.add(nanoseconds(status.st_mtim));
  hasher.add(nanoseconds(status.st_ctim));  // changes with permissions, and with contents under an old time
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : size;
}

bool Listing::has(std::string_view file) const { return std::ranges::binary_search(files, file); }

Listing list_folder(const fs::path& folder, std::size_t limit) {
  Listing listing;
  auto it = fs::directory_iterator{folder, listing.error};
  for (; !listing.error && it != fs::directory_iterator{} && listing.names < limit; it.increment(listing.error)) {
    ++listing.names;
    std::error_code ignored;
    auto name = it->path().filename().string();
    if (it->is_directory(ignored)) {
      listing.folders.push_back(std::move(name));
    } else if (matters(name)) {
      listing.files.push_back(std::move(name));
    }
  }
  std::ranges::sort(listing.files);
  std::ranges::sort(listing.folders);
  return listing;
}

std::string cannot_be_read(const fs::path& folder, const std::error_code& error) {
  return fmt::format("{}: cannot be read: {}", printable(folder.string()), error.message());
}

fs::path tidied(const std::string& path) {
  auto result = fs::path{path}.lexically_normal();
  if (!result.has_filename() && result.has_parent_path() && result != result.root_path()) result = result.parent_path();
  return result;
}

}  // namespace dgxmm::modelfs
