// The catalog of the daemon: when it looks at the disk, and what a request gets meanwhile.
#include "unit/app/support/daemon.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dgxmm::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

model::CatalogEntry entry(const std::string& name, const std::string& path) {
  return {.name = name,
          .path = path,
          .format = model::Format::gguf,
          .size = gib(4),
          .architecture = "llama",
          .quantization = "Q4_K_M",
          .base_model = {},
          .problem = {}};
}

class CatalogService : public ::testing::Test {
 protected:
  CatalogService() {
    world_.models.catalog.models = {entry("a", "/models/a.gguf")};
    world_.models.catalog.folders = {"/models"};
  }
  /// The names that the API lists.
  std::vector<std::string> names(Daemon& daemon) {
    std::vector<std::string> result;
    const auto document = json_of(daemon.request("GET", "/api/v1/models"));
    for (const auto& model : document.at("models").as_array()) {
      result.emplace_back(std::string{model.at("name").as_string()});
    }
    return result;
  }

  World world_;
};

TEST_F(CatalogService, RequestsGetTheLastLookAndDoNotReadTheDisk) {
  Daemon daemon{world_};
  EXPECT_THAT(names(daemon), ElementsAre("a"));
  const auto scans = world_.models.scans;
  EXPECT_THAT(names(daemon), ElementsAre("a"));
  EXPECT_EQ(daemon.request("POST", "/api/v1/fit", R"({"model": "a"})").status, 200);
  EXPECT_EQ(world_.models.scans, scans);
}

TEST_F(CatalogService, TheAnswerSaysHowOldItIs) {
  Daemon daemon{world_};
  static_cast<void>(names(daemon));
  daemon.loop->run_for(std::chrono::seconds{20});
  const auto document = json_of(daemon.request("GET", "/api/v1/models"));
  EXPECT_EQ(document.at("age_s").to_number<std::int64_t>(), 20);
  EXPECT_FALSE(document.at("scanned_at").as_string().empty());
}

TEST_F(CatalogService, ARequestBeforeTheFirstLookWaitsForIt) {
  Daemon daemon{world_};
  const auto response = daemon.send("GET", "/api/v1/models");
  EXPECT_FALSE(response->has_value());
  daemon.loop->run_ready();
  ASSERT_TRUE(response->has_value());
  EXPECT_EQ((*response)->status, 200);
}

TEST_F(CatalogService, WhatChangesIsSeenAfterAQuietMoment) {
  Daemon daemon{world_};
  static_cast<void>(names(daemon));
  const auto scans = world_.models.scans;
  world_.models.catalog.models.push_back(entry("b", "/models/b.gguf"));
  for (int i = 0; i < 100; ++i) daemon.folder_watch.changed();
  daemon.loop->run_for(std::chrono::seconds{1});
  EXPECT_THAT(names(daemon), ElementsAre("a", "b"));
  EXPECT_EQ(world_.models.scans, scans + 1) << "one look for all of them";
}

TEST_F(CatalogService, AFolderThatIsNeverQuietIsLookedAtAllTheSame) {
  Daemon daemon{world_};
  static_cast<void>(names(daemon));
  const auto scans = world_.models.scans;
  for (int i = 0; i < 100; ++i) {
    daemon.folder_watch.changed();
    daemon.loop->run_for(std::chrono::milliseconds{100});
  }
  EXPECT_GE(world_.models.scans, scans + 3);
  EXPECT_LE(world_.models.scans, scans + 5);
}

TEST_F(CatalogService, WhatNobodyToldOfIsSeenAtTheNextRegularLook) {
  settings::Settings settings;
  settings.catalog_rescan_s = 7;
  Daemon daemon{world_, settings};
  static_cast<void>(names(daemon));
  world_.models.catalog.models.clear();
  daemon.loop->run_for(std::chrono::seconds{8});
  EXPECT_THAT(names(daemon), IsEmpty());
}

TEST_F(CatalogService, AChangeDuringALookIsSeenByTheNext) {
  Daemon daemon{world_};
  static_cast<void>(names(daemon));
  bool once = true;
  world_.models.on_scan = [&] {
    if (std::exchange(once, false)) daemon.folder_watch.changed();
  };
  const auto scans = world_.models.scans;
  daemon.folder_watch.changed();
  daemon.loop->run_for(std::chrono::seconds{2});
  EXPECT_EQ(world_.models.scans, scans + 2);
}

TEST_F(CatalogService, FoldersThatWereNotWatchedYetAreSearchedOnceMore) {
  Daemon daemon{world_};
  static_cast<void>(names(daemon));
  EXPECT_EQ(world_.models.scans, 2) << "what appeared between the look and the watch is seen";
  EXPECT_THAT(daemon.folder_watch.watched, ElementsAre("/models"));
}

TEST_F(CatalogService, ANameThatIsNotKnownIsLookedForOnDisk) {
  Daemon daemon{world_};
  static_cast<void>(names(daemon));
  world_.models.catalog.models.push_back(entry("b", "/models/b.gguf"));  // just copied, and not told yet
  EXPECT_EQ(daemon.request("POST", "/api/v1/fit", R"({"model": "b"})").status, 200);
  EXPECT_EQ(daemon.request("POST", "/api/v1/fit", R"({"model": "c"})").status, 404);
}

TEST_F(CatalogService, AChangedCatalogIsAnEventOfCountsAndADownloadThatGoesOnIsNone) {
  Daemon daemon{world_};
  static_cast<void>(names(daemon));
  EXPECT_THAT(daemon.events(), IsEmpty()) << "the first look changes nothing";
  auto unfinished = entry("b", "/models/b.gguf");
  unfinished.problem = "incomplete: 1 MiB are there";
  world_.models.catalog.models = {unfinished};
  daemon.folder_watch.changed();
  daemon.loop->run_for(std::chrono::seconds{1});
  EXPECT_THAT(daemon.events(), ElementsAre("catalog.changed: the catalog has 1 model: 1 new, 1 gone, 1 unusable"));
  const auto data = daemon.service->events.after(0, 10).at(0).data;
  EXPECT_EQ(data.at("models"), "1");
  EXPECT_EQ(data.at("added"), "1");
  EXPECT_EQ(data.at("removed"), "1");
  EXPECT_EQ(data.at("unusable"), "1");

  world_.models.catalog.models[0].problem = "incomplete: 2 MiB are there";
  world_.models.catalog.models[0].size = mib(2);
  daemon.folder_watch.changed();
  daemon.loop->run_for(std::chrono::seconds{1});
  EXPECT_EQ(daemon.events().size(), 1U);
  EXPECT_EQ(json_of(daemon.request("GET", "/api/v1/models")).at("models").at(0).at("problem").as_string(),
            "incomplete: 2 MiB are there");
}

TEST_F(CatalogService, FoldersThatCannotBeWatchedAreAWarningThatSaysWhenChangesAreSeen) {
  Daemon daemon{world_};
  daemon.folder_watch.problem = "only 3 model folders are watched";
  const auto document = json_of(daemon.request("GET", "/api/v1/models"));
  ASSERT_EQ(document.at("warnings").as_array().size(), 1U);
  EXPECT_EQ(document.at("warnings").at(0).as_string(),
            "only 3 model folders are watched; changes in the others are seen within 60 s");
}

TEST_F(CatalogService, ALookThatFailsKeepsTheLastAndIsTriedAgain) {
  Daemon daemon{world_};
  static_cast<void>(names(daemon));
  bool once = true;
  world_.models.on_scan = [&] {
    if (std::exchange(once, false)) throw std::runtime_error("expected by the test");
  };
  world_.models.catalog.models.clear();
  daemon.folder_watch.changed();
  daemon.loop->run_for(std::chrono::seconds{1});
  EXPECT_THAT(names(daemon), ElementsAre("a"));
  daemon.loop->run_for(std::chrono::seconds{61});
  EXPECT_THAT(names(daemon), IsEmpty());
}

}  // namespace
}  // namespace dgxmm::testing
