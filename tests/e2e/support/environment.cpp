#include "e2e/support/environment.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace dgxmm::e2e {
namespace {

namespace fs = std::filesystem;

constexpr auto kPoll = 20ms;

fs::path from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? fs::path{} : fs::path{value};
}

}  // namespace

const Environment& environment() {
  static const Environment kEnvironment{.dgxmm = DGXMM_BINARY,
                                        .llama_server = from_environment("DGXMM_LLAMA_SERVER"),
                                        .model = from_environment("DGXMM_TEST_MODEL")};
  return kEnvironment;
}

void EndToEnd::SetUp() {
  const auto& real = environment();
  std::error_code error;
  ASSERT_TRUE(fs::exists(real.dgxmm, error)) << real.dgxmm << " is not built: run ./dev test";
  ASSERT_TRUE(!real.llama_server.empty() && fs::exists(real.llama_server, error))
      << "DGXMM_LLAMA_SERVER does not name a llama-server: run ./dev test, which gets one";
  ASSERT_TRUE(!real.model.empty() && fs::exists(real.model, error))
      << "DGXMM_TEST_MODEL does not name a model: run ./dev test, which gets one";
}

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit) {
  const auto give_up_at = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up_at) return false;
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

TempDir::TempDir() {
  auto name = (fs::temp_directory_path() / "dgxmm-e2e-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder for the test");
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

fs::path TempDir::write(const std::string& name, const std::string& text) const {
  auto path = path_ / name;
  std::ofstream{path} << text;
  return path;
}

std::string read_file(const fs::path& path) {
  const std::ifstream file{path};
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace dgxmm::e2e
