#include "docker/dockerd.h"

#include "adapters/net/http_text.h"
#include "base/files.h"
#include "base/numbers.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdexcept>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dgxmm::docker {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// What a command prints, with nothing between it and the shell but the test's own text.
std::string output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe{::popen(command.c_str(), "r"), &::pclose};
  if (!pipe) throw std::runtime_error("cannot run " + command);
  std::string text;
  std::vector<char> piece(1024 * 1024);
  for (;;) {
    const auto got = std::fread(piece.data(), 1, piece.size(), pipe.get());
    if (got == 0) return text;
    text.append(piece.data(), got);
  }
}

bool on_path(const std::string& program) {
  for (const auto* folder : {"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"}) {
    if (fs::exists(fs::path{folder} / program)) return true;
  }
  return false;
}

/// What a killed engine leaves mounted, the innermost first.
void unmount_below(const fs::path& folder) {
  const auto mounts = e2e::read_file("/proc/self/mounts");
  std::vector<std::string> points;
  std::istringstream lines{mounts};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words{line};
    std::string device, point;
    words >> device >> point;
    if (point.starts_with(folder.string() + "/")) points.push_back(point);
  }
  for (auto point = points.rbegin(); point != points.rend(); ++point) ::umount2(point->c_str(), MNT_DETACH);
}

/// One that an engine could not clear away: the next with its subnet would get its packets.
void delete_bridge(const std::string& name) {
  const FileDescriptor any{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (::ioctl(any.get(), SIOCSIFFLAGS, &request) == 0) ::ioctl(any.get(), SIOCBRDELBR, request.ifr_name);
}

}  // namespace

std::string reason_against_dockerd() {
  if (::geteuid() != 0) return "a Docker Engine can be started by root only";
  for (const auto* program : {"dockerd", "containerd", "runc", "docker-init", "docker-proxy"}) {
    if (!on_path(program)) return fmt::format("{} is not installed", program);
  }
  return {};
}

Dockerd::Dockerd(std::vector<std::string> options, std::int64_t disk_bytes)
    : network_(fmt::format("dgxmm-test-{}", ::getpid())),
      bridge_(fmt::format("dgxt{}", ::getpid())),
      options_(std::move(options)) {
  if (disk_bytes > 0) {
    const auto data = folder_.path() / "data";
    fs::create_directory(data);
    if (::mount("tmpfs", data.c_str(), "tmpfs", 0, fmt::format("size={}", disk_bytes).c_str()) != 0) {
      throw std::runtime_error("no small disk for the test");
    }
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what a killed engine leaves behind is ours to wait for
  start();
  // A network of its own: the default bridge is one for all engines of a host.
  const auto number = ::getpid();
  const auto subnet = fmt::format("10.{}.{}.0/24", 200 + number / 256 % 50, number % 256);
  const auto made = call(
      "POST", "/networks/create",
      fmt::format(
          R"({{"Name":"{}","IPAM":{{"Config":[{{"Subnet":"{}"}}]}},"Options":{{"com.docker.network.bridge.name":"{}"}}}})",
          network_, subnet, bridge_));
  if (made.status != 201) throw std::runtime_error("no network for the test: " + made.body);
}

Dockerd::~Dockerd() {
  try {
    if (!running()) start();
    freeze(false);
    const auto ids = call("GET", "/containers/json?all=1").body;
    for (auto at = ids.find(R"("Id":")"); at != std::string::npos; at = ids.find(R"("Id":")", at + 1)) {
      call("DELETE", fmt::format("/containers/{}?force=1&v=1", ids.substr(at + 6, 64)));
    }
    call("POST", "/networks/prune");
    process_->signal(SIGTERM);
    process_->wait(30s);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "the Docker Engine of the test could not be cleared away: " << error.what();
  }
  process_.reset();
  unmount_below(folder_.path());
  delete_bridge(bridge_);
}

void Dockerd::start() {
  const auto at = [this](const char* name) { return (folder_.path() / name).string(); };
  std::vector<std::string> arguments{
      "dockerd", "--data-root", at("data"),           "--exec-root",   at("exec"),         "--pidfile",
      at("pid"), "--host",      "unix://" + socket(), "--bridge=none", "--iptables=false", "--ip6tables=false"};
  arguments.insert(arguments.end(), options_.begin(), options_.end());
  fs::remove(folder_.path() / "pid");
  process_ = std::make_unique<e2e::Subprocess>(arguments, e2e::Variables{});
  const bool up = e2e::eventually([this] { return answers() || process_->wait(0ms); }, 60s);
  if (!up || !answers()) throw std::runtime_error("dockerd does not start: " + process_->err());
}

void Dockerd::kill() {
  process_->signal(SIGKILL);
  process_->wait(30s);
  process_.reset();
  // Its containerd ends with it, a moment later. An engine that finds it, even as a zombie, would wait for it in vain.
  const auto containerd = parse_number<pid_t>(e2e::read_file(folder_.path() / "exec/containerd/containerd.pid"));
  if (containerd) ::waitpid(*containerd, nullptr, 0);
}

bool Dockerd::answers() {
  ports::HttpCall ping;
  ping.target.unix_socket = socket();
  ping.path = "/_ping";
  const auto reply = loop_.run(http_.call(std::move(ping)));
  return reply && reply->status == 200;
}

ports::HttpReply Dockerd::call(std::string method, std::string path, std::string body, std::string type) {
  ports::HttpCall wanted;
  wanted.target.unix_socket = socket();
  wanted.method = std::move(method);
  wanted.path = std::move(path);
  if (!body.empty()) wanted.headers.emplace_back("Content-Type", std::move(type));
  wanted.body = std::move(body);
  wanted.deadline = 60s;
  const auto reply = loop_.run(http_.call(std::move(wanted)));
  if (!reply) throw std::runtime_error(reply.error().message);
  return *reply;
}

std::string Dockerd::import_image(const std::string& name, const std::string& tar, const std::string& entrypoint) {
  const auto change = net::percent_encode("ENTRYPOINT " + entrypoint);
  const auto made = call("POST",
                         fmt::format("/images/create?fromSrc=-&repo={}&tag=1{}", name,
                                     entrypoint.empty() ? std::string{} : "&changes=" + change),
                         tar, "application/x-tar");
  if (made.status != 200) throw std::runtime_error("the image could not be made: " + made.body);
  return name + ":1";
}

std::string Dockerd::import_vllm_double(const std::string& entrypoint) {
  const auto script = fs::path{DGXMM_VLLM_DOUBLE}.parent_path().parent_path() / "docker" / "vllm_double_image.sh";
  const auto tar = output_of(fmt::format("'{}' '{}'", script.string(), DGXMM_VLLM_DOUBLE));
  return import_image("vllm-double", tar, entrypoint);
}

std::string Dockerd::import_llama_cpp(bool with_entrypoint) {
  const auto program = e2e::environment().llama_server;
  const auto folder = program.parent_path().parent_path();
  // At its own place: the path of its loader is absolute.
  const auto tar = output_of(fmt::format("tar --create --directory / '{}'", folder.relative_path().string()));
  return import_image("dgxmm-test", tar, with_entrypoint ? fmt::format(R"(["{}"])", program.string()) : std::string{});
}

std::string Dockerd::push_away(const std::string& image, std::uint16_t port) {
  const auto name = fmt::format("127.0.0.1:{}/{}", port, image.substr(0, image.rfind(':')));
  const auto tagged = call("POST", fmt::format("/images/{}/tag?repo={}&tag=1", image, net::percent_encode(name)));
  if (tagged.status != 201) throw std::runtime_error("the image could not be tagged: " + tagged.body);
  ports::HttpCall push;
  push.target.unix_socket = socket();
  push.method = "POST";
  push.path = "/images/" + name + "/push?tag=1";
  push.headers.emplace_back("X-Registry-Auth", "e30=");  // {}
  push.deadline = 60s;
  const auto pushed = loop_.run(http_.call(std::move(push)));
  if (!pushed || pushed->status != 200 || pushed->body.find("\"error\"") != std::string::npos) {
    throw std::runtime_error("the image could not be pushed: " + (pushed ? pushed->body : pushed.error().message));
  }
  call("DELETE", "/images/" + name + ":1?force=1");
  call("DELETE", "/images/" + image + "?force=1");
  return name + ":1";
}

std::string Dockerd::create_foreign(const std::string& name, const std::string& image) {
  const auto made =
      call("POST", "/containers/create?name=" + name,
           fmt::format(R"({{"Image":"{}","Cmd":["--version"],"HostConfig":{{"NetworkMode":"none"}}}})", image));
  if (made.status != 201) throw std::runtime_error("no foreign container: " + made.body);
  return made.body.substr(made.body.find(R"("Id":")") + 6, 64);
}

}  // namespace dgxmm::docker
