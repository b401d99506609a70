#include "adapters/modelfs/inotify_watch.h"

#include "tools/hf_writer.h"

#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>

namespace dgxmm::modelfs {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class FolderWatch : public ::testing::Test {
 protected:
  void SetUp() override {
    auto pattern = (fs::temp_directory_path() / "dgxmm-watch-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    watch_.emplace(loop_);
    watch_->begin([this] { ++told_; });
  }
  void TearDown() override {
    watch_.reset();
    loop_.restart();
    loop_.poll();
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  /// Whether it is told of what the action does: the kernel queues it before the action returns.
  bool tells(const std::function<void()>& action) {
    settle();
    told_ = 0;
    action();
    settle();
    return told_ > 0;
  }
  void settle() {
    loop_.restart();
    while (loop_.poll() > 0) {
    }
  }
  [[nodiscard]] std::string at(std::string_view name) const { return (root_ / name).string(); }

  fs::path root_;
  boost::asio::io_context loop_;
  std::optional<InotifyWatch> watch_;
  int told_ = 0;
};

TEST_F(FolderWatch, TellsOfFilesThatComeChangeAndGo) {
  ASSERT_EQ(watch_->watch({root_.string()}).added, 1U);
  EXPECT_TRUE(tells([&] { testing::write_text(at("m.gguf"), "x"); }));
  EXPECT_TRUE(tells([&] { testing::write_text(at("m.gguf"), "yy"); }));
  EXPECT_TRUE(tells([&] { fs::permissions(at("m.gguf"), fs::perms::owner_read); }));
  EXPECT_TRUE(tells([&] { fs::rename(at("m.gguf"), at("n.gguf")); }));
  EXPECT_TRUE(tells([&] { fs::create_symlink("nowhere", at("link")); }));
  EXPECT_TRUE(tells([&] { fs::remove(at("n.gguf")); }));
  EXPECT_FALSE(tells([&] { static_cast<void>(fs::exists(at("n.gguf"))); }));
}

TEST_F(FolderWatch, SaysWhichFoldersAreNewAndTellsNothingOfThoseThatAreWatchedNoLonger) {
  fs::create_directories(at("a"));
  fs::create_directories(at("b"));
  EXPECT_EQ(watch_->watch({at("a")}).added, 1U);
  EXPECT_EQ(watch_->watch({at("a"), at("b")}).added, 1U);
  EXPECT_EQ(watch_->watch({at("a"), at("b")}).added, 0U);
  EXPECT_FALSE(tells([&] { static_cast<void>(watch_->watch({at("b")})); })) << "its own doing is no change";
  EXPECT_FALSE(tells([&] { testing::write_text(at("a/m.gguf"), "x"); }));
  EXPECT_TRUE(tells([&] { testing::write_text(at("b/m.gguf"), "x"); }));
}

TEST_F(FolderWatch, AFolderThatIsDeletedAndComesBackIsANewOne) {
  fs::create_directories(at("a"));
  EXPECT_EQ(watch_->watch({root_.string(), at("a")}).added, 2U);
  EXPECT_TRUE(tells([&] { fs::remove_all(at("a")); }));
  EXPECT_EQ(watch_->watch({root_.string(), at("a")}).added, 0U);
  EXPECT_TRUE(tells([&] { fs::create_directories(at("a")); }));
  EXPECT_EQ(watch_->watch({root_.string(), at("a")}).added, 1U);
  EXPECT_TRUE(tells([&] { testing::write_text(at("a/m.gguf"), "x"); }));
}

TEST_F(FolderWatch, ALimitIsToldAndWhatIsBelowItIsWatched) {
  InotifyWatch limited{loop_, 1};
  limited.begin([this] { ++told_; });
  fs::create_directories(at("a"));
  const auto coverage = limited.watch({root_.string(), at("a")});
  EXPECT_THAT(coverage.problem, HasSubstr("only 1 of 2 model folders are watched"));
  EXPECT_TRUE(tells([&] { testing::write_text(at("m.gguf"), "x"); }));
  EXPECT_FALSE(tells([&] { testing::write_text(at("a/m.gguf"), "x"); }));
}

TEST_F(FolderWatch, EndsWhileItWaits) {
  ASSERT_EQ(watch_->watch({root_.string()}).added, 1U);
  testing::write_text(at("m.gguf"), "x");
  watch_.reset();
  settle();
  EXPECT_EQ(told_, 0);
}

}  // namespace
}  // namespace dgxmm::modelfs
