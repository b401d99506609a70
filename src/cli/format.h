#pragma once
#include "app/dto/dto.h"
#include "base/bytes.h"
#include "base/clock.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

// Values in words.
namespace dgxmm::cli {

/// "1.2 GiB", or "?" for what is not known (B7).
std::string size_text(const std::optional<Bytes>& size);
/// "47.0 GiB+?" of a size that is known in part.
std::string size_text(const std::optional<Bytes>& size, const std::optional<Bytes>& at_least);

/// "812.0 MiB"; "~" before it: from the process tree; "+?" behind it: a part is not known (B7).
std::string measured_text(const dto::Measured& measured);
/// What those marks mean, for the foot of a table; empty when there are none.
std::string measured_footnote(bool approximate, bool incomplete, bool unknown);

/// "42s", "3m", "2h", "5d"; negative ones, of clocks that disagree, are "0s".
std::string duration_text(std::chrono::seconds duration);

/// Reads what `format_time` writes.
std::optional<WallTime> parse_time(std::string_view text);

/// For people: "14:03:59" of the same day, else "Nov 28 14:03:59", in the time zone of the process.
std::string local_time_text(WallTime time, WallTime now);

/// "file_size" -> "file size"
std::string words(std::string_view code);

/// "estimated: by the formula; this model has not been started here yet"
std::string confidence_text(std::string_view confidence);

/// "llama.cpp --ctx-size 8192 --parallel 4 …": every setting that changes memory, by the engine's own name.
std::string config_text(const dto::Config& config);

/// "needs 1.2 GiB of 9.8 GiB free, leaves 8.6 GiB"
std::string verdict_text(Bytes needed, Bytes free);

/// The port in "http://127.0.0.1:8080/v1"; "?" when there is none.
std::string port_text(std::string_view url);

/// "to wake up it needs 3.0 GiB, which is not free now"; empty when it does not sleep, or that is not known.
std::string wake_text(const dto::Deployment& deployment);

}  // namespace dgxmm::cli
