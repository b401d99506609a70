#include "adapters/modelfs/model_files.h"

#include "adapters/modelfs/header_reader.h"
#include "adapters/modelfs/model_sets.h"
#include "adapters/modelfs/paths.h"
#include "base/masking.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace dgxmm::modelfs {
namespace {

namespace fs = std::filesystem;

/// Projectors in a folder, by their usual name: the headers of all other files would take too long to read.
std::vector<std::string> projectors_in(const fs::path& folder) {
  constexpr std::size_t kMost = 16;
  std::vector<std::string> found;
  for (const auto& name : list_folder(folder).files) {
    if (!name.ends_with(kGgufEnding) || name.find("mmproj") == std::string::npos || found.size() == kMost) continue;
    const auto part = read_gguf_file(folder / name);
    if (part && model::describe_projector(*part)) found.push_back((folder / name).string());
  }
  return found;
}

/// Nothing that a program needs to run, or that tells about the host, is handed on because a link names it.
bool is_of_the_system(const fs::path& path) {
  constexpr std::array<std::string_view, 5> kFolders{"dev", "etc", "proc", "run", "sys"};
  const auto first = path.relative_path().begin();
  return first == path.relative_path().end() || std::ranges::find(kFolders, first->string()) != kFolders.end();
}

void add_linked_file(const fs::path& root, const fs::path& link, std::vector<ports::LinkedFile>& found) {
  std::error_code error;
  const auto target = fs::read_symlink(link, error);
  if (error) return;
  const auto path = (link.parent_path() / target).lexically_normal();
  const auto inside = path.lexically_relative(root);
  if (!inside.empty() && *inside.begin() != "..") return;
  const auto file = fs::canonical(link, error);
  if (error || !fs::is_regular_file(file, error) || is_of_the_system(file) || is_of_the_system(path)) return;
  found.push_back({.path = path.string(), .file = file.string()});
}

}  // namespace

Result<model::ModelDescription> FileSystemModels::describe(const std::string& path) {
  const auto tidy = tidied(path);
  auto description = is_folder(tidy) ? describe_folder(tidy) : describe_gguf_set(tidy, gguf_set_of(tidy));
  if (!description) return description;
  description->path = path;
  if (description->format == model::Format::gguf && !description->files.empty()) {
    const auto folder = fs::path{description->files.front().path}.parent_path();
    description->projectors = projectors_in(folder.empty() ? "." : folder);
  }
  return description;
}

Result<model::Projector> FileSystemModels::describe_projector(const std::string& path) {
  const auto part = read_gguf_file(tidied(path));
  if (!part) return fail(part.error());
  auto projector = model::describe_projector(*part);
  if (projector) projector->path = path;
  return projector;
}

std::vector<ports::LinkedFile> FileSystemModels::linked_files(const std::string& folder) {
  std::vector<ports::LinkedFile> found;
  const auto root = tidied(folder).lexically_normal();
  std::error_code error;
  auto entry = fs::recursive_directory_iterator{root, fs::directory_options::skip_permission_denied, error};
  for (std::size_t names = 0; !error && entry != fs::recursive_directory_iterator{} && names < kMaxNames; ++names) {
    if (entry.depth() >= kMaxDepth) entry.disable_recursion_pending();
    std::error_code unreadable;
    if (entry->is_symlink(unreadable)) add_linked_file(root, entry->path(), found);
    entry.increment(error);
  }
  std::ranges::sort(found, {}, &ports::LinkedFile::path);
  const auto same = std::ranges::unique(found);
  found.erase(same.begin(), same.end());
  return found;
}

ports::Catalog FileSystemModels::scan(const std::vector<ports::SearchedFolder>& folders) {
  return scan_folders(folders, memory_);
}

std::vector<ports::CatalogEntry> FileSystemModels::quantizations_of(const model::ModelDescription& model,
                                                                    const std::vector<ports::SearchedFolder>& folders) {
  return find_quantizations(folders, model);
}

std::optional<std::string> folder_problem(const std::string& folder) {
  std::error_code error;
  const fs::directory_iterator opened{folder, error};
  if (!error) return std::nullopt;
  if (error == std::errc::no_such_file_or_directory) return printable(folder) + ": does not exist";
  if (error == std::errc::not_a_directory) return printable(folder) + ": is not a folder";
  return cannot_be_read(folder, error);
}

}  // namespace dgxmm::modelfs
