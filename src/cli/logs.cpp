#include "adapters/net/http_text.h"
#include "base/masking.h"
#include "cli/commands.h"
#include "cli/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace dgxmm::cli {
namespace {

/// Whole lines out of pieces.
class LinePrinter {
 public:
  explicit LinePrinter(Context& context) : context_(context) {}

  void put(std::string_view piece) {
    pending_ += piece;
    std::size_t begin = 0;
    for (auto end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n', begin)) {
      print(pending_.substr(begin, end - begin));
      begin = end + 1;
    }
    pending_.erase(0, begin);
    context_.console.out.flush();
  }
  void finish() {
    if (!pending_.empty()) print(pending_);
    pending_.clear();
  }

 private:
  void print(std::string line) {
    if (context_.json) {
      print_json(context_, line);
      return;
    }
    // Files and pipes get the engine's own bytes.
    if (context_.console.width > 0) {
      std::ranges::replace(line, '\t', ' ');
      line = printable(line);
    }
    context_.console.out << line << '\n';
  }

  Context& context_;
  std::string pending_;
};

}  // namespace

int run(const LogsCommand& command, Context& context) {
  auto path =
      "/deployments/" + net::percent_encode(command.deployment) + "/logs?follow=" + (command.follow ? "1" : "0");
  if (command.tail) path += fmt::format("&tail={}", *command.tail);
  LinePrinter printer{context};
  const auto end = context.api.stream(path, [&](std::string_view piece) {
    printer.put(piece);
    return context.console.out.good();
  });
  printer.finish();
  return end ? kExitOk : report(context, end.error());
}

}  // namespace dgxmm::cli
