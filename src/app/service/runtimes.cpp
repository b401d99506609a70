#include "app/service/runtimes.h"

#include <iterator>

namespace dgxmm::service {

using ports::Instance;
using ports::Task;

Task<Result<container::Image>> Runtimes::provide_image(std::string reference, ports::PullWatcher watcher) {
  return containers_.provide_image(std::move(reference), std::move(watcher));
}

bool Runtimes::is_as_specified(const Instance& instance, const ports::InstanceSpec& spec,
                               const container::Image& image) {
  return of(instance).is_as_specified(instance, spec, image);
}

Task<Result<Instance>> Runtimes::start(ports::InstanceSpec spec) {
  auto& runtime = spec.container ? containers_ : processes_;
  return runtime.start(std::move(spec));
}

Task<Result<std::string>> Runtimes::output_of(std::vector<std::string> arguments, std::chrono::milliseconds deadline,
                                              std::string image) {
  auto& runtime = image.empty() ? processes_ : containers_;
  return runtime.output_of(std::move(arguments), deadline, std::move(image));
}

ports::Presence Runtimes::presence(const Instance& instance) { return of(instance).presence(instance); }

Task<> Runtimes::until_known() {
  co_await processes_.until_known();
  co_await containers_.until_known();
}

namespace {

using Named = std::vector<std::pair<std::string, Instance>>;

Named both(Named some, Named others) {
  some.insert(some.end(), std::make_move_iterator(others.begin()), std::make_move_iterator(others.end()));
  return some;
}

}  // namespace

Named Runtimes::find_owned() { return both(processes_.find_owned(), containers_.find_owned()); }

Named Runtimes::find_remains() { return both(processes_.find_remains(), containers_.find_remains()); }

Task<ports::ExitStatus> Runtimes::wait(Instance instance) {
  auto& runtime = of(instance);
  return runtime.wait(std::move(instance));
}

Task<Result<void>> Runtimes::stop(Instance instance, std::chrono::milliseconds grace) {
  auto& runtime = of(instance);
  return runtime.stop(std::move(instance), grace);
}

std::optional<memory::Measured> Runtimes::measure(const Instance& instance, const std::vector<std::int64_t>& pids) {
  return of(instance).measure(instance, pids);
}

std::vector<std::int64_t> Runtimes::pids(const Instance& instance) { return of(instance).pids(instance); }

void Runtimes::forget(const Instance& instance) { of(instance).forget(instance); }

void Runtimes::remove_leftovers() {
  processes_.remove_leftovers();
  containers_.remove_leftovers();
}

}  // namespace dgxmm::service
