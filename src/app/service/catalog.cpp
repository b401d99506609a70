#include "app/service/catalog.h"

#include "base/counted.h"
#include "base/log.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <map>
#include <utility>

namespace dgxmm::service {
namespace {

using std::chrono::milliseconds;

// Who copies a model makes many changes: one look after the last of them is enough, but not for ever.
constexpr milliseconds kQuiet{300};
constexpr milliseconds kLongestUnquiet{3000};
// Folders that were not watched while they were searched are searched once more, and so are those found then.
constexpr int kMostRounds = 4;
// A folder on a server that does not answer holds a look for minutes.
constexpr std::chrono::seconds kPatience{30};

/// What makes a catalog another one: not how far a download has come.
std::map<std::string, model::CatalogEntry> essence(const ports::Catalog& catalog) {
  std::map<std::string, model::CatalogEntry> entries;
  for (auto entry : catalog.models) {
    if (!entry.problem.empty()) {
      entry.problem = "some";
      entry.size = {};
    }
    auto path = entry.path;
    entries.emplace(std::move(path), std::move(entry));
  }
  return entries;
}

}  // namespace

Catalog::Catalog(ports::ModelFiles& files, ports::FolderWatch& watch, EventLog& events,
                 const settings::Settings& settings, const Clock& clock, ports::EventLoop& loop)
    : files_(files),
      watch_(watch),
      events_(events),
      settings_(settings),
      clock_(clock),
      loop_(loop),
      wanted_(loop.make_wakeup()),
      done_(loop.make_wakeup()) {}

void Catalog::begin() {
  watch_.begin([this] {
    changed_ = true;
    wanted_->notify_all();
  });
  loop_.spawn("look at the model folders", keep_fresh());
}

ports::Task<> Catalog::keep_fresh() {
  while (!loop_.stopping()) {
    co_await scan();
    co_await wait_for_change();
  }
}

ports::Task<> Catalog::scan() {
  ++begun_;
  changed_ = false;
  hurry_ = false;
  ports::Catalog found;
  ports::FolderWatch::Coverage coverage;
  std::string failure;
  try {
    co_await loop_.on_pool([&] {
      for (int round = 0; round < kMostRounds; ++round) {
        found = files_.scan(settings_.searched_folders());
        coverage = watch_.watch(found.folders);
        if (coverage.added == 0) break;
      }
    });
  } catch (const std::exception& error) {
    failure = error.what();
  }
  if (failure.empty()) {
    take(std::move(found), coverage);
  } else {
    log::error("the model folders could not be searched: {}", failure);
  }
  ended_ = begun_;
  done_->notify_all();
}

void Catalog::take(ports::Catalog found, const ports::FolderWatch::Coverage& coverage) {
  if (!coverage.problem.empty()) {
    auto warning =
        fmt::format("{}; changes in the others are seen within {:g} s", coverage.problem, settings_.catalog_rescan_s);
    if (watch_problem_ != coverage.problem) log::warning("{}", warning);
    found.problems.push_back(std::move(warning));
  }
  watch_problem_ = coverage.problem;
  found.folders = {};
  const auto before = std::exchange(latest_, nullptr);
  latest_ = std::make_shared<const CatalogSnapshot>(
      CatalogSnapshot{.found = std::move(found), .finished = clock_.steady(), .time = clock_.wall()});
  if (before == nullptr) return;

  const auto old_entries = essence(before->found);
  const auto new_entries = essence(latest_->found);
  if (old_entries == new_entries) return;
  const auto missing_in = [](const auto& entries) {
    return [&entries](const auto& entry) { return !entries.contains(entry.first); };
  };
  const auto added = static_cast<std::size_t>(std::ranges::count_if(new_entries, missing_in(old_entries)));
  const auto removed = static_cast<std::size_t>(std::ranges::count_if(old_entries, missing_in(new_entries)));
  const auto unusable = static_cast<std::size_t>(
      std::ranges::count_if(new_entries, [](const auto& entry) { return !entry.second.problem.empty(); }));
  events_.publish("catalog.changed", std::nullopt,
                  fmt::format("the catalog has {}: {} new, {} gone, {} unusable",
                              counted(std::ssize(new_entries), "model"), added, removed, unusable),
                  {{"models", fmt::to_string(new_entries.size())},
                   {"added", fmt::to_string(added)},
                   {"removed", fmt::to_string(removed)},
                   {"unusable", fmt::to_string(unusable)}});
}

ports::Task<> Catalog::wait_for_change() {
  const auto left = [this](SteadyTime until) {
    return std::chrono::duration_cast<milliseconds>(until - clock_.steady());
  };
  const auto next_look = clock_.steady() + milliseconds{static_cast<std::int64_t>(settings_.catalog_rescan_s * 1000)};
  while (!loop_.stopping() && !changed_ && !hurry_) {
    if (left(next_look) <= milliseconds{0}) co_return;
    co_await wanted_->wait_for(left(next_look));
  }
  const auto longest = clock_.steady() + kLongestUnquiet;
  while (!loop_.stopping() && changed_ && !hurry_ && left(longest) > milliseconds{0}) {
    changed_ = false;
    co_await wanted_->wait_for(kQuiet);
  }
}

ports::Task<Result<std::shared_ptr<const CatalogSnapshot>>> Catalog::latest() {
  const auto until = clock_.steady() + kPatience;
  while (latest_ == nullptr && !loop_.stopping() && clock_.steady() < until) {
    co_await done_->wait_for(std::chrono::duration_cast<milliseconds>(until - clock_.steady()));
  }
  if (latest_ == nullptr) {
    co_return fail("catalog_not_ready", "the model folders have not been searched yet",
                   "try again later, or give a path; one of `model_folders` may be on a server that does not answer");
  }
  co_return latest_;
}

ports::Task<> Catalog::look_again() {
  // A look that is under way may have passed the place already.
  const auto look = begun_ + 1;
  const auto until = clock_.steady() + kPatience;
  hurry_ = true;
  wanted_->notify_all();
  while (ended_ < look && !loop_.stopping() && clock_.steady() < until) {
    hurry_ = true;
    co_await done_->wait_for(std::chrono::duration_cast<milliseconds>(until - clock_.steady()));
  }
}

ports::Task<Result<std::string>> Catalog::find(std::string name, std::string field) {
  auto snapshot = co_await latest();
  if (!snapshot) co_return fail(snapshot.error());
  auto path = model::find_model((*snapshot)->found, name, field);
  if (path || path.error().code != "model_not_found") co_return path;
  co_await look_again();
  snapshot = co_await latest();
  if (!snapshot) co_return fail(snapshot.error());
  co_return model::find_model((*snapshot)->found, name, field);
}

}  // namespace dgxmm::service
