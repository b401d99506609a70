#pragma once
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>

namespace dgxmm::e2e {

using namespace std::chrono_literals;

/// Long enough for a busy machine, short enough to end before ctest's own limit.
inline constexpr std::chrono::seconds kPatience{120};

/// The real things that the tests drive.
struct Environment {
  std::filesystem::path dgxmm;
  std::filesystem::path llama_server;
  std::filesystem::path model;  ///< SmolLM2-135M-Instruct
};
const Environment& environment();

/// Every test of this program: fails, rather than being left out, where the real things are missing.
class EndToEnd : public ::testing::Test {
 protected:
  void SetUp() override;
};

/// Asks again and again until the answer is yes. False: it never was, within `limit`.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit = kPatience);

/// A folder that is gone when the test is over.
class TempDir {
 public:
  TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// A new file in it, with that text.
  [[nodiscard]] std::filesystem::path write(const std::string& name, const std::string& text) const;

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& path);

}  // namespace dgxmm::e2e
