#pragma once
#include "app/service/events.h"
#include "base/clock.h"
#include "base/result.h"
#include "core/settings/settings.h"
#include "ports/event_loop.h"
#include "ports/folder_watch.h"
#include "ports/model_files.h"

#include <cstdint>
#include <memory>
#include <string>

namespace dgxmm::service {

/// One finished look at the model folders.
struct CatalogSnapshot {
  ports::Catalog found;
  SteadyTime finished;
  WallTime time;
};

/// The models on disk, kept fresh: scanned at the start, when a folder changes, and now and then all the same. A
/// request gets the last finished look and waits for no disk.
class Catalog {
 public:
  Catalog(ports::ModelFiles& files, ports::FolderWatch& watch, EventLog& events, const settings::Settings& settings,
          const Clock& clock, ports::EventLoop& loop);

  void begin();

  /// The last finished look; before there is one, that one. Errors: `catalog_not_ready` when it does not end.
  ports::Task<Result<std::shared_ptr<const CatalogSnapshot>>> latest();

  /// The path of the model with that name, see model::find_model. A name that is not known is looked for on disk once
  /// more. Errors: those of find_model and of `latest`.
  ports::Task<Result<std::string>> find(std::string name, std::string field);

 private:
  ports::Task<> keep_fresh();
  ports::Task<> scan();
  ports::Task<> wait_for_change();
  ports::Task<> look_again();
  void take(ports::Catalog found, const ports::FolderWatch::Coverage& coverage);

  ports::ModelFiles& files_;
  ports::FolderWatch& watch_;
  EventLog& events_;
  const settings::Settings& settings_;
  const Clock& clock_;
  ports::EventLoop& loop_;
  std::unique_ptr<ports::Wakeup> wanted_;  ///< notified when there is a reason to look
  std::unique_ptr<ports::Wakeup> done_;    ///< notified after each look
  std::shared_ptr<const CatalogSnapshot> latest_;
  std::string watch_problem_;
  std::int64_t begun_ = 0, ended_ = 0;  ///< looks
  bool changed_ = false;                ///< since the last look began
  bool hurry_ = false;                  ///< someone waits for the next look
};

}  // namespace dgxmm::service
