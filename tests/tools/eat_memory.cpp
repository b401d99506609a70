// eat_memory ANON_MIB SHMEM_MIB [MORE_MIB]: holds that much memory, prints "ready" and stays; at SIGUSR1 it takes
// MORE_MIB and prints "more".
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace {

volatile std::sig_atomic_t more_wanted = 0;

bool eat(std::size_t bytes) {
  if (bytes == 0) return true;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  std::memset(memory, 1, bytes);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr std::size_t kMib = 1024 * 1024;
  const auto mib_of = [&](int i) { return argc > i ? std::strtoul(argv[i], nullptr, 10) * kMib : 0; };
  const std::size_t shmem = mib_of(2);
  if (!eat(mib_of(1))) return 1;
  if (shmem > 0) {
    const int file = ::memfd_create("eaten", 0);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(shmem)) != 0) return 1;
    void* memory = ::mmap(nullptr, shmem, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) return 1;
    std::memset(memory, 1, shmem);
  }
  // Blocked but while waiting, or one that comes before the wait would be lost.
  sigset_t usual{};
  sigset_t blocked{};
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &blocked, &usual);
  std::signal(SIGUSR1, [](int) { more_wanted = 1; });
  std::puts("ready");
  std::fflush(stdout);
  for (;;) {
    ::sigsuspend(&usual);
    if (more_wanted == 0) continue;
    more_wanted = 0;
    if (!eat(mib_of(3))) return 1;
    std::puts("more");
    std::fflush(stdout);
  }
}
