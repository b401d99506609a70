#include "docker/engine_proxy.h"

#include <array>
#include <poll.h>
#include <stdexcept>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace dgxmm::docker {
namespace {

FileDescriptor unix_socket() { return FileDescriptor{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)}; }

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

void send_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

}  // namespace

EngineProxy::EngineProxy(std::string path, std::string engine, Judge judge)
    : path_(std::move(path)),
      engine_(std::move(engine)),
      judge_(std::move(judge)),
      listener_(unix_socket()) {
  const auto address = address_of(path_);
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_.get(), 64) != 0) {
    throw std::runtime_error("cannot listen at " + path_);
  }
  threads_.emplace_back([this] { accept_all(); });
}

EngineProxy::~EngineProxy() {
  ::shutdown(listener_.get(), SHUT_RDWR);
  threads_.front().join();  // from here on no thread is added
  {
    const std::scoped_lock lock{mutex_};
    for (const auto& file : files_) ::shutdown(file.get(), SHUT_RDWR);
  }
  threads_.clear();
}

int EngineProxy::keep(FileDescriptor file) {
  const std::scoped_lock lock{mutex_};
  files_.push_back(std::move(file));
  return files_.back().get();
}

void EngineProxy::accept_all() {
  for (;;) {
    FileDescriptor client{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    if (!client) return;
    const int file = keep(std::move(client));
    threads_.emplace_back([this, file] { relay(file); });
  }
}

void EngineProxy::relay(int client) {
  std::array<char, 16384> piece{};
  const auto got = ::recv(client, piece.data(), piece.size(), 0);
  const std::string request{piece.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
  const auto answer = request.empty() ? std::string{} : judge_(request.substr(0, request.find("\r\n")));
  if (answer) {
    send_all(client, *answer);
    ::shutdown(client, SHUT_RDWR);
    return;
  }
  const int engine = keep(unix_socket());
  const auto address = address_of(engine_);
  if (::connect(engine, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    send_all(engine, request);
    std::array<pollfd, 2> sides{{{.fd = client, .events = POLLIN, .revents = 0},  //
                                 {.fd = engine, .events = POLLIN, .revents = 0}}};
    for (bool open = true; open && ::poll(sides.data(), sides.size(), -1) > 0;) {
      for (std::size_t from = 0; from < sides.size() && open; ++from) {
        if (sides.at(from).revents == 0) continue;
        const auto count = ::recv(sides.at(from).fd, piece.data(), piece.size(), 0);
        if (count > 0) send_all(sides.at(1 - from).fd, {piece.data(), static_cast<std::size_t>(count)});
        open = count > 0;
      }
    }
  }
  ::shutdown(client, SHUT_RDWR);
  ::shutdown(engine, SHUT_RDWR);
}

std::string inspected_id(const std::string& request) {
  constexpr std::string_view kBefore = "/containers/", kAfter = "/json ";
  constexpr std::size_t kIdLength = 64;
  const auto begin = request.find(kBefore);
  if (!request.starts_with("GET ") || begin == std::string::npos) return {};
  const auto id = request.substr(begin + kBefore.size(), kIdLength);
  return request.substr(begin + kBefore.size() + id.size()).starts_with(kAfter) ? id : std::string{};
}

}  // namespace dgxmm::docker
