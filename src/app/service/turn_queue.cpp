#include "app/service/turn_queue.h"

#include <fmt/format.h>

#include <algorithm>

namespace dgxmm::service {
namespace {

using namespace std::chrono_literals;

// A free turn is taken within the same round of the loop, and nobody waits past the limit: what is later is lost.
constexpr auto kLate = 5s;

std::int64_t whole_seconds(SteadyTime::duration duration) {
  return std::chrono::duration_cast<std::chrono::seconds>(duration).count();
}

}  // namespace

/// A place in the queue that is given up however the task ends.
class TurnQueue::Place {
 public:
  Place(TurnQueue& queue, Claim claim) : queue_(queue), entry_(queue.enter(std::move(claim))) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    if (!taken_) queue_.leave(entry_);
  }
  [[nodiscard]] const Entry& entry() const { return *entry_; }
  Turn take() {
    taken_ = true;
    return Turn{queue_};
  }

 private:
  TurnQueue& queue_;
  std::shared_ptr<Entry> entry_;
  bool taken_ = false;
};

TurnQueue::TurnQueue(std::string name, std::chrono::milliseconds limit, ports::EventLoop& loop, const Clock& clock)
    : name_(std::move(name)),
      limit_(limit),
      loop_(loop),
      clock_(clock),
      wakeup_(loop.make_wakeup()) {}

ports::Task<Result<TurnQueue::Turn>> TurnQueue::take(Claim claim) {
  Place place{*this, std::move(claim)};
  const auto& entry = place.entry();
  while (!entry.granted && !entry.taken_out && !loop_.stopping()) {
    const auto waited = clock_.steady() - entry.asked_at;
    if (!entry.claim.patient && waited >= limit_) break;
    const auto rest = entry.claim.patient ? std::chrono::milliseconds{1h}
                                          : std::chrono::ceil<std::chrono::milliseconds>(limit_ - waited);
    co_await wakeup_->wait_for(rest);
  }
  if (entry.granted) {
    Result<Turn> turn = place.take();
    co_return turn;
  }
  if (loop_.stopping()) {
    co_return fail("shutting_down", "dgxmm is shutting down", "try again when it has been restarted");
  }
  if (entry.taken_out) co_return fail("cancelled", fmt::format("{}: taken out of the queue", entry.claim.what));
  // The first that may not wait for ever: those before it may.
  const auto first = std::ranges::find_if(entries_, [](const auto& other) { return !other->claim.patient; });
  stalled_ = stalled_ || (first != entries_.end() && (*first)->number == entry.number);
  co_return fail("queue_timeout",
                 fmt::format("{}: its turn did not come within {} s{}", entry.claim.what,
                             std::chrono::duration_cast<std::chrono::seconds>(limit_).count(),
                             holder_ ? fmt::format("; the turn was with: {}", holder_->what) : std::string{}),
                 "`dgxmm queue` shows who waits for what; try again, or raise queue_limit_s");
}

std::shared_ptr<TurnQueue::Entry> TurnQueue::enter(Claim claim) {
  auto entry = std::make_shared<Entry>();
  entry->number = ++entered_;
  entry->claim = std::move(claim);
  entry->since = clock_.wall();
  entry->asked_at = clock_.steady();
  const auto behind =
      std::ranges::find_if(entries_, [&](const auto& other) { return other->claim.priority < entry->claim.priority; });
  entries_.insert(behind, entry);
  hand_over();
  changed();
  return entry;
}

void TurnQueue::leave(const std::shared_ptr<Entry>& entry) {
  if (entry->granted) {  // its task ended before it could take it
    give_back();
    return;
  }
  entries_.remove(entry);
  changed();
}

void TurnQueue::give_back() {
  holder_.reset();
  stalled_ = false;
  hand_over();
  changed();
}

/// To the first; who has it is no longer among those that wait.
void TurnQueue::hand_over() {
  const auto next = std::ranges::find_if(entries_, [](const auto& entry) { return !entry->taken_out; });
  if (holder_ || next == entries_.end()) return;
  (*next)->granted = true;
  holder_ = (*next)->claim;
  held_since_ = clock_.steady();
  entries_.erase(next);
  wakeup_->notify_all();
}

void TurnQueue::take_out(const std::function<bool(const Claim&)>& chosen) {
  for (const auto& entry : entries_) {
    if (!entry->claim.patient && chosen(entry->claim)) entry->taken_out = true;
  }
  wakeup_->notify_all();
}

bool TurnQueue::cancel(const std::string& id) {
  const auto found = std::ranges::find_if(entries_, [&](const auto& entry) { return id_of(*entry) == id; });
  if (found == entries_.end() || (*found)->claim.patient) return false;
  (*found)->taken_out = true;
  wakeup_->notify_all();
  return true;
}

void TurnQueue::cancel(DeploymentId deployment) {
  take_out([&](const Claim& claim) { return claim.deployment == deployment; });
}

void TurnQueue::cancel_operation(const std::string& operation) {
  take_out([&](const Claim& claim) { return claim.operation == operation; });
}

void TurnQueue::changed() {
  ++revision_;
  if (tell_) tell_();
}

std::string TurnQueue::id_of(const Entry& entry) const { return fmt::format("{}-{}", name_, entry.number); }

std::vector<TurnQueue::Waiting> TurnQueue::waiting() const {
  std::vector<Waiting> result;
  for (const auto& entry : entries_) {
    if (entry->taken_out) continue;
    const auto place = static_cast<std::int64_t>(result.size()) + 1;
    result.push_back({.id = id_of(*entry), .claim = entry->claim, .place = place, .since = entry->since});
  }
  return result;
}

std::optional<std::int64_t> TurnQueue::place_of(DeploymentId deployment) const {
  for (const auto& one : waiting()) {
    if (one.claim.deployment == deployment) return one.place;
  }
  return std::nullopt;
}

std::optional<std::int64_t> TurnQueue::place_of_operation(const std::string& operation) const {
  for (const auto& one : waiting()) {
    if (one.claim.operation == operation) return one.place;
  }
  return std::nullopt;
}

std::optional<std::string> TurnQueue::trouble() const {
  if (stalled_ && holder_) {
    return fmt::format("the {} queue does not move: {} has had the turn for {} s", name_, holder_->what,
                       whole_seconds(clock_.steady() - held_since_));
  }
  if (entries_.empty()) return std::nullopt;
  const auto& first = *entries_.front();
  const auto waited = clock_.steady() - first.asked_at;
  const bool overdue = !first.claim.patient && waited > limit_ + kLate;
  const bool forgotten = !holder_ && waited > kLate;
  if (!overdue && !forgotten) return std::nullopt;
  return fmt::format("the {} queue does not move: {} has waited for {} s", name_, first.claim.what,
                     whole_seconds(waited));
}

}  // namespace dgxmm::service
