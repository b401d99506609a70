// eat_memory ANON_MIB SHMEM_MIB: holds that much memory, prints "ready" and stays.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char** argv) {
  constexpr std::size_t kMib = 1024 * 1024;
  const std::size_t anon = argc > 1 ? std::strtoul(argv[1], nullptr, 10) * kMib : 0;
  const std::size_t shmem = argc > 2 ? std::strtoul(argv[2], nullptr, 10) * kMib : 0;
  if (anon > 0) {
    void* memory = ::mmap(nullptr, anon, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    std::memset(memory, 1, anon);
  }
  if (shmem > 0) {
    const int file = ::memfd_create("eaten", 0);
    if (file < 0 || ::ftruncate(file, static_cast<off_t>(shmem)) != 0) return 1;
    void* memory = ::mmap(nullptr, shmem, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) return 1;
    std::memset(memory, 1, shmem);
  }
  std::puts("ready");
  std::fflush(stdout);
  for (;;) ::pause();
}
