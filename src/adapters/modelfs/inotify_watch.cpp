#include "adapters/modelfs/inotify_watch.h"

#include "base/files.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <set>
#include <sys/inotify.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace dgxmm::modelfs {
namespace {

namespace asio = boost::asio;

// Not IN_MODIFY: a download writes for hours, and what was written matters when it is complete.
constexpr std::uint32_t kEvents = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_ATTRIB |
                                  IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;

std::string too_many(int error, std::size_t watched) {
  if (error == ENOSPC) {
    return fmt::format(
        "only {} model folders are watched: the limit fs.inotify.max_user_watches of this host is reached", watched);
  }
  return fmt::format("only {} model folders are watched: {}", watched, std::generic_category().message(error));
}

}  // namespace

struct InotifyWatch::State : std::enable_shared_from_this<State> {
  State(asio::io_context& loop, std::size_t most) : descriptor(loop), most_folders(most) {
    FileDescriptor opened{::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
    error = opened ? 0 : errno;
    if (opened) descriptor.assign(opened.release());
  }

  void wait() {
    descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                          [self = shared_from_this()](const boost::system::error_code& failure) {
                            if (failure) return;
                            if (self->take_events()) self->changed();
                            self->wait();
                          });
  }

  /// Empties the queue; whether any of it tells of a change.
  bool take_events() {
    bool any = false;
    alignas(inotify_event) std::array<char, 16 * 1024> buffer{};
    while (true) {
      const auto got = ::read(descriptor.native_handle(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return any;
      for (std::size_t at = 0; at + sizeof(inotify_event) <= static_cast<std::size_t>(got);) {
        inotify_event event{};
        std::memcpy(&event, buffer.data() + at, sizeof event);
        at += sizeof event + event.len;
        // That a watch has ended says nothing new: the end of its folder was told before, or we ended it ourselves.
        any = any || (event.mask & ~static_cast<std::uint32_t>(IN_IGNORED | IN_ISDIR)) != 0;
      }
    }
  }

  asio::posix::stream_descriptor descriptor;
  std::size_t most_folders;
  int error = 0;  ///< why there is no inotify
  std::function<void()> changed;
  std::set<int> watched;  ///< used by `watch` alone
};

InotifyWatch::InotifyWatch(asio::io_context& loop, std::size_t most_folders)
    : state_(std::make_shared<State>(loop, most_folders)) {}

InotifyWatch::~InotifyWatch() {
  boost::system::error_code ignored;
  state_->descriptor.close(ignored);
}

void InotifyWatch::begin(std::function<void()> changed) {
  state_->changed = std::move(changed);
  if (state_->descriptor.is_open()) state_->wait();
}

ports::FolderWatch::Coverage InotifyWatch::watch(const std::vector<std::string>& folders) {
  Coverage coverage;
  if (!state_->descriptor.is_open()) {
    coverage.problem = too_many(state_->error, 0);
    return coverage;
  }
  const int inotify = state_->descriptor.native_handle();
  std::set<int> now;
  for (const auto& folder : folders) {
    if (now.size() >= state_->most_folders) {
      coverage.problem = fmt::format("only {} of {} model folders are watched", now.size(), folders.size());
      break;
    }
    const int number = ::inotify_add_watch(inotify, folder.c_str(), kEvents);
    if (number >= 0) {
      now.insert(number);
    } else if (errno == ENOSPC || errno == ENOMEM) {
      coverage.problem = too_many(errno, now.size());
      break;
    }  // else it has gone, or may not be read: the scan says so
  }
  coverage.added = static_cast<std::size_t>(
      std::ranges::count_if(now, [this](int number) { return !state_->watched.contains(number); }));
  for (const int number : state_->watched) {
    if (!now.contains(number)) ::inotify_rm_watch(inotify, number);
  }
  state_->watched = std::move(now);
  return coverage;
}

}  // namespace dgxmm::modelfs
