#include "base/utf8.h"

#include <gtest/gtest.h>

#include <string_view>

namespace dgxmm {
namespace {

TEST(Utf8, WellFormedSequencesAreMeasured) {
  EXPECT_EQ(utf8_sequence_length("a"), 1U);
  EXPECT_EQ(utf8_sequence_length("\xc3\xa4x"), 2U);
  EXPECT_EQ(utf8_sequence_length("\xe2\x82\xac"), 3U);
  EXPECT_EQ(utf8_sequence_length("\xf0\x9f\x9a\x80"), 4U);
  EXPECT_EQ(utf8_sequence_length(std::string_view{"\0", 1}), 1U);
}

TEST(Utf8, IllFormedSequencesHaveNoLength) {
  for (const std::string_view text : {"",
                                      "\x80",              // a continuation alone
                                      "\xc0\xaf",          // overlong '/'
                                      "\xe0\x80\xaf",      // the same in three bytes
                                      "\xed\xa0\x80",      // a surrogate
                                      "\xf0\x80\x80\xaf",  // overlong in four bytes
                                      "\xf4\x90\x80\x80",  // above U+10FFFF
                                      "\xf5\x80\x80\x80", "\xff", "\xe2\x82", "\xc3"}) {
    EXPECT_EQ(utf8_sequence_length(text), 0U) << testing::PrintToString(text);
  }
}

TEST(Utf8, WhatIsIllFormedIsReplacedByteByByte) {
  EXPECT_EQ(valid_utf8("a\xff\xc3\xa4\xe2\x82"), "a\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd\xef\xbf\xbd");
  EXPECT_EQ(valid_utf8(""), "");
  EXPECT_EQ(valid_utf8("line\nline"), "line\nline");
}

}  // namespace
}  // namespace dgxmm
