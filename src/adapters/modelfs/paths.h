#pragma once
#include "core/model/identity.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

// What more than one file here asks of the filesystem.
namespace dgxmm::modelfs {

inline constexpr std::string_view kGgufEnding = ".gguf";
inline constexpr std::string_view kSafetensorsEnding = ".safetensors";
inline constexpr std::string_view kConfig = "config.json";
inline constexpr std::string_view kParams = "params.json";  ///< of Mistral's own format

// A walk ends somewhere, even when someone names "/". A Hugging Face cache is 4 folders deep.
inline constexpr int kMaxDepth = 8;
inline constexpr std::size_t kMaxNames = 200'000;

/// What a path leads to in the end: equal for all links to one file.
using Identity = std::pair<std::uint64_t, std::uint64_t>;  // device, inode
std::optional<Identity> identity_of(const std::filesystem::path& path);

/// Adds what tells a file from what it was before: where it lies, its size and times, or that it is not there.
void add_stamp(model::Hasher& hasher, const std::filesystem::path& path);

bool is_there(const std::filesystem::path& path);
bool is_folder(const std::filesystem::path& path);

/// The size of a file in bytes; 0 when it is not there.
std::uint64_t size_of(const std::filesystem::path& file);

/// Names in a folder that may matter for models, sorted.
struct Listing {
  std::vector<std::string> files;  ///< GGUF, safetensors, their indexes, config files, and half-downloaded GGUF files
  std::vector<std::string> folders;
  std::size_t names = 0;  ///< all that were looked at
  std::error_code error;  ///< why it cannot be read

  [[nodiscard]] bool has(std::string_view file) const;
};
/// Looks at no more than `limit` names.
Listing list_folder(const std::filesystem::path& folder, std::size_t limit = kMaxNames);

/// "FOLDER: cannot be read: …"
std::string cannot_be_read(const std::filesystem::path& folder, const std::error_code& error);

/// Without "." and trailing slashes, so that the last name is the folder's.
std::filesystem::path tidied(const std::string& path);

}  // namespace dgxmm::modelfs
