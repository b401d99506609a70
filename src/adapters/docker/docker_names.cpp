#include "adapters/docker/docker_names.h"

#include <utility>

namespace dgxmm::docker {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr auto kDeadline = 3s;
constexpr auto kPatience = 300ms;  // of whoever asks
constexpr auto kKeepAnswer = 2s;
constexpr auto kKeepFailure = 10s;

}  // namespace

DockerNames::DockerNames(ports::EventLoop& loop, ports::HttpClient& http, std::string socket)
    : loop_(loop),
      client_(http, std::move(socket), kDeadline),
      answered_(loop.make_wakeup()),
      last_(fail("docker_unreachable", "the Docker Engine has not answered yet")) {}

ports::Task<Result<std::vector<container::ListedContainer>>> DockerNames::running() {
  if (steady_clock::now() >= good_until_ && !asking_) {
    asking_ = true;
    loop_.spawn("ask Docker for names", ask());
  }
  if (asking_) co_await answered_->wait_for(kPatience);
  co_return last_;
}

ports::Task<> DockerNames::ask() {
  if (!agreed_) {
    auto api = co_await client_.negotiate();
    agreed_ = api.has_value();
    if (!api) last_ = fail(api.error());
  }
  if (agreed_) {
    last_ = co_await client_.list_running();
    agreed_ = last_.has_value();
  }
  good_until_ = steady_clock::now() + (last_ ? kKeepAnswer : kKeepFailure);
  asking_ = false;
  answered_->notify_all();
}

}  // namespace dgxmm::docker
