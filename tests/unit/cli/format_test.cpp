#include "cli/format.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>

namespace dgxmm::cli {
namespace {

/// A time zone for one test.
class ZoneOf {
 public:
  explicit ZoneOf(const char* zone) {
    if (const char* now = std::getenv("TZ")) before_ = now;
    ::setenv("TZ", zone, 1);
    ::tzset();
  }
  ~ZoneOf() {
    before_ ? ::setenv("TZ", before_->c_str(), 1) : ::unsetenv("TZ");
    ::tzset();
  }
  ZoneOf(const ZoneOf&) = delete;
  ZoneOf& operator=(const ZoneOf&) = delete;

 private:
  std::optional<std::string> before_;
};

TEST(Format, B7_UnknownIsAQuestionMarkNeverZero) {
  EXPECT_EQ(size_text(std::nullopt), "?");
  EXPECT_EQ(size_text(Bytes{0}), "0 B");
  dto::Measured measured;
  measured.total_bytes = mib(100);
  EXPECT_EQ(measured_text(measured), "100.0 MiB+?");
  measured.approximate = true;
  measured.complete = true;
  EXPECT_EQ(measured_text(measured), "~100.0 MiB");
  EXPECT_EQ(measured_footnote(false, false, false), "");
  EXPECT_NE(measured_footnote(false, true, false).find("+?"), std::string::npos);
}

TEST(Format, Durations) {
  using namespace std::chrono_literals;
  EXPECT_EQ(duration_text(0s), "0s");
  EXPECT_EQ(duration_text(-5s), "0s");
  EXPECT_EQ(duration_text(59s), "59s");
  EXPECT_EQ(duration_text(60s), "1m");
  EXPECT_EQ(duration_text(3599s), "59m");
  EXPECT_EQ(duration_text(3600s), "1h");
  EXPECT_EQ(duration_text(86400s * 3), "3d");
}

TEST(Format, ReadsBackWhatFormatTimeWrites) {
  const WallTime time{std::chrono::milliseconds{1'800'000'000'042}};
  EXPECT_EQ(parse_time(format_time(time)), time);
  for (const auto* text : {"", "2026-11-29", "2026-11-29T21:30:11Z", "2026-13-29T21:30:11.042Z",
                           "2026-11-29 21:30:11.042Z", "2026-11-29T21:30:-1.042Z", "2026-02-30T21:30:11.042Z"}) {
    EXPECT_FALSE(parse_time(text)) << text;
  }
}

TEST(Format, LocalTimeHasADateOnlyWhenItIsNotToday) {
  const ZoneOf zone{"XXX-2"};  // two hours east of Greenwich
  const auto time = *parse_time("2026-11-29T21:30:11.042Z");
  EXPECT_EQ(local_time_text(time, time), "23:30:11");
  EXPECT_EQ(local_time_text(time, *parse_time("2026-11-29T22:30:00.000Z")), "Nov 29 23:30:11");
  EXPECT_EQ(local_time_text(time, *parse_time("2027-11-29T21:30:11.042Z")), "Nov 29 23:30:11");
}

TEST(Format, AVerdictSaysWhatIsLeftOrMissing) {
  EXPECT_EQ(verdict_text(gib(1), gib(10)), "needs 1.0 GiB of 10.0 GiB free, leaves 9.0 GiB");
  EXPECT_EQ(verdict_text(gib(3), gib(1)), "needs 3.0 GiB of 1.0 GiB free, short by 2.0 GiB");
  EXPECT_EQ(verdict_text(gib(1), gib(1)), "needs 1.0 GiB of 1.0 GiB free, leaves 0 B");
}

TEST(Format, B5_OvercommittedIsSaidInWords) {
  EXPECT_EQ(verdict_text(gib(1), -gib(2)), "needs 1.0 GiB, and the host is over-committed by 2.0 GiB");
}

TEST(Format, AConfigurationReadsAsTheEnginesOptions) {
  dto::Config config;
  config.engine = "llama.cpp";
  config.ctx_size = 4096;
  config.parallel = 1;
  config.kv_unified = false;
  config.swa_full = false;
  config.cache_type_k = "q8_0";
  EXPECT_EQ(config_text(config), "llama.cpp --ctx-size 4096 --parallel 1 --no-kv-unified --cache-type-k q8_0");
  dto::Config vllm;
  vllm.engine = "vllm";
  vllm.max_model_len = 1;
  vllm.enforce_eager = true;
  EXPECT_EQ(config_text(vllm), "vllm --max-model-len 1 --enforce-eager");
}

TEST(Format, PortOfAnAddress) {
  EXPECT_EQ(port_text("http://127.0.0.1:8080/v1"), "8080");
  EXPECT_EQ(port_text("http://[::1]:99"), "99");
  for (const auto* text : {"", "127.0.0.1:1", "http://host/v1", "http://h:99999", "http://h:x"}) {
    EXPECT_EQ(port_text(text), "?") << text;
  }
}

}  // namespace
}  // namespace dgxmm::cli
