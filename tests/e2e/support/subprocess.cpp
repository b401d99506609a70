#include "e2e/support/subprocess.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <pty.h>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace dgxmm::e2e {
namespace {

namespace fs = std::filesystem;

constexpr int kCannotRun = 127;

/// The settings of whoever runs the tests must not change their outcome.
std::vector<std::string> environment_of_child(const Variables& added) {
  std::vector<std::string> result;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text{*variable};
    const bool concerns_dgxmm = text.starts_with("DGXMM_") || text.starts_with("XDG_") || text.starts_with("HOME=") ||
                                text.starts_with("HF_") || text.starts_with("HUGGINGFACE_");
    if (!concerns_dgxmm && !text.starts_with("COLUMNS=")) result.emplace_back(text);
  }
  for (const auto& [name, value] : added) result.push_back(name + "=" + value);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (auto& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

int as_shell_code(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

void redirect(const fs::path& file, int descriptor) {
  const int opened = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (opened < 0 || ::dup2(opened, descriptor) < 0) ::_exit(kCannotRun);
}

}  // namespace

Subprocess::Subprocess(const std::vector<std::string>& arguments, const Variables& added) {
  auto words = arguments;
  auto variables = environment_of_child(added);
  const auto argv = pointers(words);
  const auto envp = pointers(variables);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error(std::string{"cannot fork: "} + std::strerror(errno));
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    redirect("/dev/null", STDIN_FILENO);
    redirect(folder_.path() / "out", STDOUT_FILENO);
    redirect(folder_.path() / "err", STDERR_FILENO);
    ::execvpe(argv[0], argv.data(), envp.data());
    ::_exit(kCannotRun);
  }
}

Subprocess::~Subprocess() {
  if (wait(0ms)) return;
  signal(SIGKILL);
  wait();
}

void Subprocess::signal(int number) const {
  if (!ended_) ::kill(pid_, number);
}

std::optional<int> Subprocess::wait(std::chrono::milliseconds limit) {
  eventually(
      [&] {
        int status = 0;
        if (!ended_ && ::waitpid(pid_, &status, WNOHANG) == pid_) ended_ = as_shell_code(status);
        return ended_.has_value();
      },
      limit);
  return ended_;
}

Run run_program(const std::vector<std::string>& arguments, const Variables& added) {
  Subprocess program{arguments, added};
  const auto exit_code = program.wait();
  return {.exit_code = exit_code.value_or(-1), .out = program.out(), .err = program.err()};
}

Run run_on_terminal(const std::vector<std::string>& arguments, const Variables& added, unsigned short columns) {
  auto words = arguments;
  auto variables = environment_of_child(added);
  const auto argv = pointers(words);
  const auto envp = pointers(variables);
  const winsize size{.ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  const pid_t pid = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (pid < 0) throw std::runtime_error(std::string{"cannot open a terminal: "} + std::strerror(errno));
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execvpe(argv[0], argv.data(), envp.data());
    ::_exit(kCannotRun);
  }
  Run run;
  char piece[4096];
  // The last program on a terminal has ended when reading from it fails.
  for (auto got = ::read(terminal, piece, sizeof piece); got > 0; got = ::read(terminal, piece, sizeof piece)) {
    run.out.append(piece, static_cast<std::size_t>(got));
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(pid, &status, 0);
  run.exit_code = as_shell_code(status);
  std::erase(run.out, '\r');
  return run;
}

std::vector<pid_t> processes_with(const std::string& entry) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& process : fs::directory_iterator{"/proc", error}) {
    const auto name = process.path().filename().string();
    pid_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (parsed.ec != std::errc{} || parsed.ptr != name.data() + name.size()) continue;
    if (has_variable(pid, entry + '\0')) found.push_back(pid);
  }
  return found;
}

bool has_variable(pid_t pid, const std::string& beginning) {
  const auto variables = '\0' + read_file("/proc/" + std::to_string(pid) + "/environ");
  return variables.find('\0' + beginning) != std::string::npos;
}

std::optional<fs::path> memory_cgroup_of(pid_t pid) {
  std::istringstream lines{read_file("/proc/" + std::to_string(pid) + "/cgroup")};
  std::optional<fs::path> unified;
  for (std::string line; std::getline(lines, line);) {
    const auto path = line.substr(line.find(':', line.find(':') + 1) + 1);
    if (path == "/") continue;
    if (line.find(":memory:") != std::string::npos) return fs::path{"/sys/fs/cgroup/memory" + path};
    if (line.starts_with("0::")) unified = fs::path{"/sys/fs/cgroup" + path};
  }
  return unified;
}

bool process_runs(pid_t pid) {
  const auto stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const auto state = stat.find_last_of(')') + 2;  // behind the name, which may hold anything
  return state < stat.size() && stat[state] != 'Z' && stat[state] != 'X';
}

}  // namespace dgxmm::e2e
