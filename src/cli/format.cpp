#include "cli/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <utility>

namespace dgxmm::cli {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

template <class T>
std::optional<T> number_in(std::string_view text) {
  T number{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

void add(std::string& text, std::string_view flag, const std::optional<std::int64_t>& value) {
  if (value) text += fmt::format(" {} {}", flag, *value);
}

void add(std::string& text, std::string_view flag, const std::optional<std::string>& value) {
  if (value) text += fmt::format(" {} {}", flag, *value);
}

void add(std::string& text, std::string_view flag, const std::optional<bool>& value) {
  if (value.value_or(false)) text += fmt::format(" {}", flag);
}

}  // namespace

std::string size_text(const std::optional<Bytes>& size) { return size ? format_bytes(*size) : "?"; }

std::string size_text(const std::optional<Bytes>& size, const std::optional<Bytes>& at_least) {
  return !size && at_least ? format_bytes(*at_least) + "+?" : size_text(size);
}

std::string measured_text(const dto::Measured& measured) {
  return fmt::format("{}{}{}", measured.approximate ? "~" : "", format_bytes(measured.total_bytes),
                     measured.complete ? "" : "+?");
}

std::string measured_footnote(bool approximate, bool incomplete, bool unknown) {
  std::string result;
  const auto explain = [&result](std::string_view text) { result += (result.empty() ? "" : "; ") + std::string{text}; };
  if (unknown) explain("? not known");
  if (incomplete) explain("+? a part, such as GPU memory, could not be read");
  if (approximate) explain("~ from the process tree, without a cgroup");
  return result;
}

std::string duration_text(seconds duration) {
  duration = std::max(duration, seconds{0});
  if (duration < minutes{1}) return fmt::format("{}s", duration.count());
  if (duration < hours{1}) return fmt::format("{}m", std::chrono::duration_cast<minutes>(duration).count());
  if (duration < days{1}) return fmt::format("{}h", std::chrono::duration_cast<hours>(duration).count());
  return fmt::format("{}d", std::chrono::duration_cast<days>(duration).count());
}

std::optional<WallTime> parse_time(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00T00:00:00.000Z";
  if (text.size() != kForm.size()) return std::nullopt;
  for (std::size_t i = 0; i < kForm.size(); ++i) {
    const bool is_digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == '0' ? !is_digit : text[i] != kForm[i]) return std::nullopt;
  }
  const auto field = [text](std::size_t begin, std::size_t size) { return *number_in<int>(text.substr(begin, size)); };
  const std::chrono::year_month_day date{std::chrono::year{field(0, 4)},
                                         std::chrono::month{static_cast<unsigned>(field(5, 2))},
                                         std::chrono::day{static_cast<unsigned>(field(8, 2))}};
  if (!date.ok()) return std::nullopt;
  return std::chrono::sys_days{date} + hours{field(11, 2)} + minutes{field(14, 2)} + seconds{field(17, 2)} +
         std::chrono::milliseconds{field(20, 3)};
}

std::string local_time_text(WallTime time, WallTime now) {
  const auto local = [](WallTime wall) {
    const std::time_t seconds_since_1970 = std::chrono::system_clock::to_time_t(wall);
    std::tm fields{};
    ::localtime_r(&seconds_since_1970, &fields);
    return fields;
  };
  const auto fields = local(time);
  const auto today = local(now);
  const bool same_day = fields.tm_year == today.tm_year && fields.tm_yday == today.tm_yday;
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), same_day ? "%H:%M:%S" : "%b %d %H:%M:%S", &fields);
  return text.data();
}

std::string words(std::string_view code) {
  std::string result{code};
  std::ranges::replace(result, '_', ' ');
  return result;
}

std::string confidence_text(std::string_view confidence) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kMeanings{
      {{"low", "the model's files lack figures that the formula needs, or contradict themselves; a margin is added"},
       {"estimated", "by the formula; no start of this model was measured yet"},
       {"calibrated", "by the formula, corrected by earlier starts of this model"},
       {"measured", "this model was measured in this configuration"}}};
  const auto* found = std::ranges::find(kMeanings, confidence, [](const auto& meaning) { return meaning.first; });
  if (found == kMeanings.end()) return std::string{confidence};
  return fmt::format("{}: {}", found->first, found->second);
}

std::string config_text(const dto::Config& config) {
  auto text = config.engine;
  add(text, "--ctx-size", config.ctx_size);
  add(text, "--parallel", config.parallel);
  if (config.kv_unified) text += *config.kv_unified ? " --kv-unified" : " --no-kv-unified";
  add(text, "--cache-type-k", config.cache_type_k);
  add(text, "--cache-type-v", config.cache_type_v);
  add(text, "--batch-size", config.batch);
  add(text, "--ubatch-size", config.ubatch);
  add(text, "--flash-attn", config.flash_attn);
  add(text, "--swa-full", config.swa_full);
  add(text, "--cache-ram", config.cache_ram_mib);
  add(text, "--spec-type", config.spec_type);
  add(text, "--draft-model", config.draft_model);
  add(text, "--spec-draft-n-max", config.spec_draft_n_max);
  add(text, "--cache-type-k-draft", config.cache_type_k_draft);
  add(text, "--cache-type-v-draft", config.cache_type_v_draft);
  add(text, "--mmproj", config.mmproj);
  add(text, "--max-model-len", config.max_model_len);
  add(text, "--max-num-seqs", config.max_num_seqs);
  add(text, "--max-num-batched-tokens", config.max_num_batched_tokens);
  add(text, "--kv-cache-dtype", config.kv_cache_dtype);
  add(text, "--kv-tokens", config.kv_tokens);
  add(text, "--enforce-eager", config.enforce_eager);
  if (config.tensor_parallel_size != 1) add(text, "--tensor-parallel-size", config.tensor_parallel_size);
  add(text, "--quantization", config.quantization);
  add(text, "--spec-method", config.spec_method);
  add(text, "--num-speculative-tokens", config.num_speculative_tokens);
  add(text, "--enable-lora", config.enable_lora);
  add(text, "--max-loras", config.max_loras);
  add(text, "--max-lora-rank", config.max_lora_rank);
  add(text, "--language-model-only", config.language_model_only);
  add(text, "--limit-mm-per-prompt", config.limit_mm_per_prompt);
  add(text, "--mm-processor-cache-gb", config.mm_processor_cache_gb);
  add(text, "--sleep-mode", config.sleep_mode);
  return text;
}

std::string verdict_text(Bytes needed, Bytes free) {
  // B5: a negative amount is said in words, not as a free memory of less than nothing.
  if (free < Bytes{0}) {
    return fmt::format("needs {}, and the host is over-committed by {}", format_bytes(needed), format_bytes(-free));
  }
  const auto left = free - needed;
  return fmt::format("needs {} of {} free, {}", format_bytes(needed), format_bytes(free),
                     left < Bytes{0} ? "short by " + format_bytes(-left) : "leaves " + format_bytes(left));
}

std::string port_text(std::string_view url) {
  const auto host = url.find("://");
  if (host == std::string_view::npos) return "?";
  const auto authority = url.substr(host + 3, url.find('/', host + 3) - (host + 3));
  const auto colon = authority.rfind(':');
  if (colon == std::string_view::npos) return "?";
  const auto port = number_in<std::uint16_t>(authority.substr(colon + 1));
  return port ? fmt::format("{}", *port) : "?";
}

std::string wake_text(const dto::Deployment& deployment) {
  if (!deployment.wake_needs_bytes) return {};
  const auto& can = deployment.can_wake_now;
  return fmt::format("to wake up it needs {}{}", format_bytes(*deployment.wake_needs_bytes),
                     !can   ? ""
                     : *can ? ", which is free"
                            : ", which is not free now");
}

}  // namespace dgxmm::cli
