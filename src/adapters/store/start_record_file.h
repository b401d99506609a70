#pragma once
#include "ports/start_record.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace dgxmm::store {

/// A file that is replaced as a whole: after a crash it is what it was before, or what was written.
class StartRecordFile final : public ports::StartRecord {
 public:
  explicit StartRecordFile(std::filesystem::path path) : path_(std::move(path)) {}

  Result<void> write(const std::string& document) override;
  std::optional<std::string> read() override;
  void clear() override;

 private:
  std::filesystem::path path_;
};

}  // namespace dgxmm::store
