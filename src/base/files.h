#pragma once
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace dgxmm {

/// An open file of the operating system, closed with this object.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int number) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    reset(other.release());
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor() { reset(); }

  [[nodiscard]] int get() const { return number_; }
  [[nodiscard]] explicit operator bool() const { return number_ >= 0; }
  [[nodiscard]] int release() { return std::exchange(number_, -1); }
  void reset(int number = -1);

 private:
  int number_ = -1;
};

/// What a small file holds, at most `limit` bytes of it; absent when it cannot be read. Works for /proc and /sys, whose
/// files say that their size is 0.
std::optional<std::string> read_text_file(const std::filesystem::path& path, std::size_t limit = 1024 * 1024);

}  // namespace dgxmm
