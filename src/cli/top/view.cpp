#include "cli/top/view.h"

#include "base/masking.h"
#include "cli/format.h"
#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <sstream>
#include <utility>

namespace dgxmm::cli::top {
namespace {

struct Segment {
  std::string_view name;
  Bytes size;
  Style style;
  char letter;  ///< what it is drawn with, for terminals without colours
};

Bytes known(const std::optional<Bytes>& size) { return size.value_or(Bytes{}); }

/// What is used by the kernel, by shared memory and by huge pages is one segment: the table has them apart.
std::vector<Segment> segments_of(const dto::Memory& memory) {
  const auto other = memory.used_bytes - memory.deployments_bytes - memory.containers_bytes - memory.processes_bytes;
  const auto cache = known(memory.page_cache_bytes);
  return {{"deployments", memory.deployments_bytes, Style::deployments, 'D'},
          {"containers", memory.containers_bytes, Style::containers, 'C'},
          {"processes", memory.processes_bytes, Style::processes, 'P'},
          {"other", other, Style::other, 'o'},
          {"cache", cache, Style::cache, '.'},
          {"free", memory.mem_available_bytes - cache, Style::free, ' '}};
}

/// Columns for each segment, by largest remainder; negative ones have none.
std::vector<std::size_t> columns_of(const std::vector<Segment>& segments, std::size_t columns) {
  std::int64_t total = 0;
  for (const auto& segment : segments) total += std::max<std::int64_t>(segment.size.count(), 0);
  std::vector<std::size_t> result(segments.size(), 0);
  if (total == 0) return result;
  std::vector<std::pair<double, std::size_t>> remainders;
  std::size_t given = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto share = static_cast<double>(std::max<std::int64_t>(segments[i].size.count(), 0)) /
                       static_cast<double>(total) * static_cast<double>(columns);
    result[i] = static_cast<std::size_t>(share);
    given += result[i];
    remainders.emplace_back(share - static_cast<double>(result[i]), i);
  }
  std::ranges::sort(remainders, std::greater{});
  for (std::size_t i = 0; given < columns && i < remainders.size(); ++i, ++given) ++result[remainders[i].second];
  return result;
}

std::string padded(std::string_view text, std::size_t width, Align align = Align::left) {
  const auto cut = cut_to_width(text, width);
  const std::string spaces(width - width_of(cut), ' ');
  return align == Align::right ? spaces + cut : cut + spaces;
}

struct Field {
  std::string_view title;
  std::size_t width;
  Align align = Align::left;
};

/// A row of fixed fields; the last one, which is on the left of its place, takes what is left.
std::string row_text(const std::vector<Field>& fields, const std::vector<std::string>& cells, std::size_t columns) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const bool last = i + 1 == fields.size();
    const auto used = width_of(line);
    const auto width = last ? (columns > used ? columns - used : 0) : fields[i].width;
    line += padded(printable(cells[i]), width, fields[i].align);
    if (!last) line += ' ';
  }
  return cut_to_width(line, columns);
}

std::vector<std::string> titles_of(const std::vector<Field>& fields) {
  std::vector<std::string> titles;
  for (const auto& field : fields) titles.emplace_back(field.title);
  return titles;
}

Style style_of_state(const std::string& state) {
  if (state == "ready") return Style::good;
  if (state == "unknown" || state == "stopping") return Style::bad;
  if (state == "sleeping") return Style::dim;
  return Style::warning;
}

std::string idle_text(const dto::Deployment& deployment, WallTime now) {
  if (deployment.state != "ready" || !deployment.busy) return "-";
  if (*deployment.busy) return "busy";
  const auto since = deployment.idle_since ? parse_time(*deployment.idle_since) : std::nullopt;
  return since ? duration_text(std::chrono::duration_cast<std::chrono::seconds>(now - *since)) : "?";
}

const std::vector<Field>& deployment_fields() {
  static const std::vector<Field> kFields{{"ID", 3, Align::right},
                                          {"NAME", 14},
                                          {"STATE", 10},
                                          {"HELD", 11, Align::right},
                                          {"RESERVED", 9, Align::right},
                                          {"GPU", 9, Align::right},
                                          {"IDLE", 5, Align::right},
                                          {"MODEL", 8}};
  return kFields;
}

const std::vector<Field>& process_fields() {
  static const std::vector<Field> kFields{{"PID", 7, Align::right},  {"USER", 8},       {"HELD", 10, Align::right},
                                          {"GPU", 10, Align::right}, {"CONTAINER", 12}, {"COMMAND", 10}};
  return kFields;
}

std::string place_of(const dto::Process& process) {
  return process.container_name.empty() ? process.container : process.container_name;
}

/// Makes the picture from the top, and knows how much room is left.
class Drawing {
 public:
  Drawing(const State& state, Size size, WallTime now) : state_(state), size_(size), now_(now) {}

  Picture finish() && {
    header();
    if (state_.help) {
      help();
    } else if (!state_.log_of.empty()) {
      log();
    } else {
      overview();
    }
    const auto body = size_.lines > 0 ? size_.lines - 1 : 0;
    picture_.resize(body);
    if (size_.lines > 0) picture_.push_back(footer());
    for (auto& line : picture_) cut(line);
    return std::move(picture_);
  }

 private:
  void add(std::string text, Style style = Style::plain) { picture_.push_back({{std::move(text), style}}); }

  void cut(Line& line) const {
    std::size_t room = size_.columns;
    for (auto& piece : line) {
      piece.text = cut_to_width(piece.text, room);
      room -= width_of(piece.text);
    }
  }

  void header() {
    const auto time = local_time_text(now_, now_);
    const auto left = fmt::format("dgxmm {}", printable(state_.address));
    const auto room = size_.columns > width_of(left) ? size_.columns - width_of(left) : 0;
    picture_.push_back({{left, Style::bold}, {padded(time, room, Align::right), Style::dim}});
    if (!state_.lost.empty()) add(printable("no connection: " + state_.lost + "; trying again"), Style::bad);
  }

  void overview() {
    if (!state_.memory) {
      if (state_.lost.empty()) add("asking the daemon ...", Style::dim);
      return;
    }
    memory();
    warnings();
    lists();
  }

  void memory() {
    const auto& memory = *state_.memory;
    picture_.push_back(memory_bar(memory, size_.columns));
    Line legend;
    for (const auto& segment : segments_of(memory)) {
      legend.push_back({fmt::format("{}", segment.letter == ' ' ? '_' : segment.letter), segment.style});
      legend.push_back({fmt::format(" {} {}  ", segment.name, format_bytes(segment.size)), Style::plain});
    }
    // Six figures do not fit in 80 columns: two lines of three.
    const auto half = static_cast<std::ptrdiff_t>(legend.size() / 2);
    picture_.push_back(Line{legend.begin(), legend.begin() + half});
    picture_.push_back(Line{legend.begin() + half, legend.end()});
    const bool over = memory.free_for_new_bytes < Bytes{};
    const auto free = over ? fmt::format("over-committed by {}", format_bytes(-memory.free_for_new_bytes))
                           : fmt::format("{} free for new models", format_bytes(memory.free_for_new_bytes));
    picture_.push_back(
        {{fmt::format("{} used of {}; ", format_bytes(memory.used_bytes), format_bytes(memory.mem_total_bytes)),
          Style::plain},
         {free, over ? Style::bad : Style::bold},
         {fmt::format(", {} kept", format_bytes(memory.safety_margin_bytes + memory.os_reserve_bytes)), Style::dim}});
  }

  void warnings() {
    constexpr std::size_t kMost = 3;
    const auto& warnings = state_.memory->warnings;
    for (std::size_t i = 0; i < std::min(warnings.size(), kMost); ++i) {
      const bool note = warnings[i].severity == "note";
      add(printable((note ? "note: " : "! ") + warnings[i].message), note ? Style::dim : Style::warning);
    }
    if (warnings.size() > kMost) {
      add(fmt::format("  and {} more: `dgxmm memory` has all", warnings.size() - kMost), Style::dim);
    }
  }

  void lists() {
    const auto taken = picture_.size() + 1;  // and the foot
    const auto room = size_.lines > taken ? size_.lines - taken : 0;
    // Both lists have a title; the one that is worked in may have more.
    constexpr std::size_t kTitles = 2;
    if (room <= kTitles) return;
    const auto rows = room - kTitles;
    auto deployments = std::max<std::size_t>(state_.deployments.size(), 1);
    const auto most = state_.list == List::deployments ? rows - rows / 4 : rows / 2;
    deployments = std::min(deployments, std::max<std::size_t>(most, 1));
    deployment_list(deployments);
    process_list(rows - deployments);
  }

  /// The first row to show so that the chosen one is among them.
  static std::size_t first_row(std::size_t chosen, std::size_t rows) { return chosen < rows ? 0 : chosen - rows + 1; }

  void title(const std::vector<Field>& fields, std::string_view order, bool active) {
    auto text = row_text(fields, titles_of(fields), size_.columns);
    const auto mark = fmt::format(" by {}", order);
    if (active && size_.columns > width_of(text.substr(0, text.find_last_not_of(' ') + 1)) + mark.size()) {
      text = padded(text, size_.columns - mark.size()) + mark;
    }
    add(std::move(text), active ? Style::title : Style::dim);
  }

  void deployment_list(std::size_t rows) {
    static constexpr std::array<std::string_view, 3> kOrders{"memory", "name", "state"};
    const bool active = state_.list == List::deployments;
    title(deployment_fields(), kOrders[static_cast<std::size_t>(state_.deployment_order)], active);
    if (state_.deployments.empty()) {
      if (rows > 0) add("no deployments: `dgxmm deploy MODEL` starts one", Style::dim);
      return;
    }
    const auto* chosen = state_.chosen_deployment();
    const auto at = chosen == nullptr ? 0 : static_cast<std::size_t>(chosen - state_.deployments.data());
    const auto first = first_row(at, rows);
    for (std::size_t i = first; i < std::min(first + rows, state_.deployments.size()); ++i) {
      const auto& deployment = state_.deployments[i];
      const auto& measured = deployment.measured;
      const auto wake = wake_text(deployment);
      const bool cannot_wake = !deployment.can_wake_now.value_or(true);
      auto text = row_text(
          deployment_fields(),
          {std::to_string(deployment.id.value), deployment.name,
           deployment.phase.empty() ? deployment.state : deployment.phase, measured ? measured_text(*measured) : "?",
           format_bytes(deployment.reserved_bytes), measured ? size_text(measured->gpu_bytes) : "?",
           idle_text(deployment, now_), deployment.model_name + (wake.empty() ? "" : ": " + wake)},
          size_.columns);
      const auto style = cannot_wake ? Style::warning : style_of_state(deployment.state);
      add(std::move(text), active && i == at ? Style::selected : style);
    }
  }

  void process_list(std::size_t rows) {
    static constexpr std::array<std::string_view, 3> kOrders{"memory", "GPU", "user"};
    const bool active = state_.list == List::processes;
    title(process_fields(), kOrders[static_cast<std::size_t>(state_.process_order)], active);
    const auto* chosen = state_.chosen_process();
    const auto at = chosen == nullptr ? 0 : static_cast<std::size_t>(chosen - state_.processes.data());
    const auto first = first_row(at, rows);
    for (std::size_t i = first; i < std::min(first + rows, state_.processes.size()); ++i) {
      const auto& process = state_.processes[i];
      const bool orphan = process.orphan || !process.orphan_id.empty();
      auto text =
          row_text(process_fields(),
                   {std::to_string(process.pid), process.user, format_bytes(process.held_bytes),
                    size_text(process.gpu_bytes), place_of(process), (orphan ? "orphan: " : "") + process.command},
                   size_.columns);
      add(std::move(text), active && i == at ? Style::selected : orphan ? Style::warning : Style::plain);
    }
  }

  void log() {
    const auto* deployment = state_.chosen_deployment();
    add(fmt::format("log of {}; q goes back", deployment == nullptr ? state_.log_of : printable(deployment->name)),
        Style::title);
    const auto taken = picture_.size() + 1;
    const auto room = size_.lines > taken ? size_.lines - taken : 0;
    const auto first = state_.log.size() > room ? state_.log.size() - room : 0;
    for (auto i = first; i < state_.log.size(); ++i) add(printable(state_.log[i]));
  }

  void help() {
    static constexpr auto kHelp = std::to_array<std::string_view>({
        "arrows, j k    choose a row; Page Up, Page Down, Home, End",
        "Tab            the other list: deployments, processes",
        "s              stop the deployment; of processes, an orphan of dgxmm",
        "z              put the deployment to sleep (vLLM with sleep mode)",
        "w              wake it",
        "l, Enter       its log",
        "o              sort by something else",
        "?              this help",
        "q, Ctrl-C      leave; nothing is stopped by that",
        "",
        "The bar is the whole memory. other: kernel, drivers, shared memory, huge pages.",
        "cache: given back when it is needed. HELD: anon, kernel, shared and GPU memory;",
        "+? a part is not known; ~ from the process tree.",
    });
    for (const auto line : kHelp) add(std::string{line});
  }

  [[nodiscard]] Line footer() const {
    if (state_.asked) return {{printable(question(state_, *state_.asked)), Style::selected}};
    if (!state_.message.empty()) return {{printable(state_.message), Style::bold}};
    return {{"Tab list  s stop  z sleep  w wake  l log  o sort  ? help  q quit", Style::dim}};
  }

  const State& state_;
  Size size_;
  WallTime now_;
  Picture picture_;
};

}  // namespace

Line memory_bar(const dto::Memory& memory, std::size_t columns) {
  const auto segments = segments_of(memory);
  const auto widths = columns_of(segments, columns);
  Line bar;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (widths[i] > 0) bar.push_back({std::string(widths[i], segments[i].letter), segments[i].style});
  }
  return bar;
}

Picture draw(const State& state, Size size, WallTime now) { return Drawing{state, size, now}.finish(); }

}  // namespace dgxmm::cli::top
