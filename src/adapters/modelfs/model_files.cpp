#include "adapters/modelfs/model_files.h"

#include "adapters/modelfs/header_reader.h"
#include "adapters/modelfs/model_sets.h"
#include "adapters/modelfs/paths.h"
#include "base/masking.h"

#include <filesystem>
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

ports::Catalog FileSystemModels::scan(const std::vector<ports::SearchedFolder>& folders) {
  return scan_folders(folders, memory_);
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
