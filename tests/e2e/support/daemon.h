#pragma once
#include "e2e/support/http.h"
#include "e2e/support/subprocess.h"

#include <boost/json.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dgxmm::e2e {

inline constexpr std::int64_t kMib = std::int64_t{1024} * 1024;
inline constexpr std::int64_t kGib = 1024 * kMib;

using Words = std::vector<std::string>;

/// A member of a document. These throw when it is not there or of another kind.
const boost::json::value& at(const boost::json::value& document, std::string_view name);
std::int64_t number(const boost::json::value& document, std::string_view name);
std::string text(const boost::json::value& document, std::string_view name);

/// A deployment to ask for. Small unless told otherwise; the bound of the prompt cache sizes it without using memory.
struct Request {
  std::string name;
  std::filesystem::path model = environment().model;
  std::int64_t ctx_size = 512;
  std::int64_t cache_ram_mib = 0;

  /// For the API.
  [[nodiscard]] std::string body() const;
  /// The command `deploy`, or one that starts nothing: `fit` or `plan`.
  [[nodiscard]] Words deploy(const Words& options = {}) const;
  [[nodiscard]] Words ask(const std::string& command, const Words& options = {}) const;
  /// What the formula says, found without a daemon.
  [[nodiscard]] std::int64_t estimate_bytes() const;
  /// Changes the prompt cache so that the formula says about that much.
  Request& resize_to(std::int64_t bytes);
};

std::int64_t mem_available_bytes();

/// Runs dgxmm with a home of its own.
Run run_dgxmm(const Words& arguments);

/// `dgxmm serve` with a state folder of its own, on a free port. When it goes, its engines go, however the test ends.
class Daemon {
 public:
  struct Options {
    /// free_for_new at the start, on a host whose memory only the daemon's engines change; default: whatever the host
    /// has.
    std::optional<std::int64_t> room_bytes = {};
    Words flags = {};            ///< of `serve`; later ones win
    bool gated_engines = false;  ///< an engine starts only once `open_gate` was called
    Variables variables = {};    ///< of its environment
  };

  Daemon() : Daemon(Options{}) {}
  explicit Daemon(const Options& options);
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  ~Daemon();

  /// Starts it on its state folder. Throws when it does not come up.
  void start();
  /// Ends it without a chance to tidy up.
  void kill_hard();
  /// Asks it to end; returns its exit code.
  int end();
  void open_gate() const;
  /// For the next `start`.
  void add_flags(const Words& flags) { command_.insert(command_.end(), flags.begin(), flags.end()); }
  void close_gate() const;
  /// Of the environment of the next one that is started.
  void set_variables(Variables variables) { variables_ = std::move(variables); }
  /// Whether it has ended, by itself.
  [[nodiscard]] bool has_died() const { return process_->wait(std::chrono::milliseconds{0}).has_value(); }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Of the daemon that runs, or else of the last one that `end` ended.
  [[nodiscard]] std::string log() const { return process_ ? process_->err() : last_log_; }
  [[nodiscard]] const std::filesystem::path& state_dir() const { return folder_.path(); }

  /// Runs a client command to its end, or starts it.
  [[nodiscard]] Run run(const Words& arguments) const;
  [[nodiscard]] Run run_on_terminal(const Words& arguments, unsigned short columns) const;
  [[nodiscard]] std::unique_ptr<Subprocess> spawn(const Words& arguments) const;

  /// Calls of the API; paths without /api/v1.
  [[nodiscard]] HttpAnswer get(const std::string& path) const;
  [[nodiscard]] HttpAnswer post(const std::string& path, const std::string& body = {}) const;
  /// The document at a path that must be there.
  [[nodiscard]] boost::json::value document(const std::string& path) const;
  [[nodiscard]] boost::json::value deployment(const std::string& name) const;
  [[nodiscard]] std::string state_of(const std::string& name) const { return text(deployment(name), "state"); }
  [[nodiscard]] bool becomes(const std::string& name, const std::string& state) const;
  /// Engines that the daemon started, under whichever of its processes, and that run.
  [[nodiscard]] std::vector<pid_t> engines() const;

 private:
  [[nodiscard]] std::vector<pid_t> children() const;
  [[nodiscard]] Words client_command(const Words& arguments) const;
  [[nodiscard]] std::filesystem::path gate() const { return folder_.path() / "gate-is-closed"; }

  TempDir folder_;
  Words command_;
  Variables lasting_variables_;
  Variables variables_;
  std::unique_ptr<Subprocess> process_;
  std::string last_log_;
  std::uint16_t port_ = 0;
};

/// A daemon on a host with memory for one deployment and half of another one, whatever else runs there.
struct MemoryForOne {
  /// Its room is not that of `options`.
  explicit MemoryForOne(Daemon::Options options = {});

  /// Asks for what fits only when `first`, which is ready, is stopped.
  [[nodiscard]] Request request_in_place_of_first(const std::string& name, const std::filesystem::path& model) const;

  Request first{.name = "first", .ctx_size = 32768};
  std::int64_t first_bytes = 0;
  std::unique_ptr<Daemon> daemon;
};

/// The engine's answer to a short question. `url`: as the deployment's document has it.
HttpAnswer chat(const std::string& url, const std::string& model);

}  // namespace dgxmm::e2e
