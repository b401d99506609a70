#include "core/host/swap_watch.h"

#include <gtest/gtest.h>

namespace dgxmm::host {
namespace {

using std::chrono::seconds;

const SteadyTime kBegin{};

TEST(SwapCounters, AreReadByName) {
  EXPECT_EQ(parse_swap_counters("nr_free_pages 7\npswpin 3\npswpout 9\npswpinx 1\n"),
            (SwapCounters{.pages_in = 3, .pages_out = 9}));
  EXPECT_FALSE(parse_swap_counters("pswpin 3\n"));
  EXPECT_FALSE(parse_swap_counters("pswpin 3\npswpout 9")) << "cut short";
}

TEST(SwapWatch, ActivityOfMoreThanAMomentGoesOnUntilItPauses) {
  SwapWatch watch;
  std::int64_t pages = 0;
  for (int i = 0; i <= 4; i += 2) {
    watch.add(kBegin + seconds{i}, SwapCounters{.pages_in = pages, .pages_out = 2 * pages});
    EXPECT_FALSE(watch.activity().going_on()) << i;
    pages += 512;
  }
  watch.add(kBegin + seconds{6}, SwapCounters{.pages_in = pages, .pages_out = 2 * pages});
  EXPECT_TRUE(watch.activity().going_on());
  EXPECT_EQ(watch.activity().lasts, seconds{6});
  EXPECT_EQ(watch.activity().in_per_s, mib(1));
  EXPECT_EQ(watch.activity().out_per_s, mib(2));
  watch.add(kBegin + seconds{8}, SwapCounters{.pages_in = pages, .pages_out = 2 * pages});
  EXPECT_FALSE(watch.activity().going_on());
  EXPECT_EQ(watch.activity().in_per_s, Bytes{});
}

TEST(SwapWatch, TwoLooksWithinASecondTellNothingAndAMissingCounterEndsIt) {
  SwapWatch watch;
  EXPECT_TRUE(watch.is_due(kBegin));
  watch.add(kBegin, SwapCounters{});
  EXPECT_FALSE(watch.is_due(kBegin + std::chrono::milliseconds{999}));
  EXPECT_TRUE(watch.is_due(kBegin + seconds{1}));
  watch.add(kBegin + seconds{10}, SwapCounters{.pages_in = 5});
  EXPECT_TRUE(watch.activity().going_on());
  watch.add(kBegin + seconds{12}, std::nullopt);
  EXPECT_FALSE(watch.activity().going_on());
}

}  // namespace
}  // namespace dgxmm::host
