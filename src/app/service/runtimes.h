#pragma once
#include "ports/container_runtime.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dgxmm::service {

/// Plain processes and containers behind one port: whoever started an instance is asked about it.
class Runtimes final : public ports::ContainerRuntime {
 public:
  /// Both outlive this object.
  Runtimes(ports::ContainerRuntime& processes, ports::ContainerRuntime& containers)
      : processes_(processes),
        containers_(containers) {}

  ports::Task<Result<container::Image>> provide_image(std::string reference, ports::PullWatcher watcher) override;
  bool is_as_specified(const ports::Instance& instance, const ports::InstanceSpec& spec,
                       const container::Image& image) override;
  ports::Task<Result<ports::Instance>> start(ports::InstanceSpec spec) override;
  ports::Task<Result<std::string>> output_of(std::vector<std::string> arguments, std::chrono::milliseconds deadline,
                                             std::string image) override;
  ports::Presence presence(const ports::Instance& instance) override;
  ports::Task<> until_known() override;
  std::vector<std::pair<std::string, ports::Instance>> find_owned() override;
  std::vector<std::pair<std::string, ports::Instance>> find_remains() override;
  ports::Task<ports::ExitStatus> wait(ports::Instance instance) override;
  ports::Task<Result<void>> stop(ports::Instance instance, std::chrono::milliseconds grace) override;
  std::optional<memory::Measured> measure(const ports::Instance& instance,
                                          const std::vector<std::int64_t>& pids) override;
  std::vector<std::int64_t> pids(const ports::Instance& instance) override;
  void forget(const ports::Instance& instance) override;
  void remove_leftovers() override;

 private:
  [[nodiscard]] ports::ContainerRuntime& of(const ports::Instance& instance) const {
    return instance.is_container() ? containers_ : processes_;
  }

  ports::ContainerRuntime& processes_;
  ports::ContainerRuntime& containers_;
};

}  // namespace dgxmm::service
