#include "cli/table.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace dgxmm::cli {
namespace {

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, width_of(line));
  return widest;
}

TEST(Table, AlignsAndLeavesNoSpaceAtTheEnd) {
  Table table{{{"NAME"}, {"SIZE", Align::right}, {"NOTE"}}};
  table.add({"a", "1.0 GiB", "x"});
  table.add({"longer", "10.0 GiB", ""});
  EXPECT_EQ(table.render(0),
            "NAME        SIZE  NOTE\n"
            "a        1.0 GiB  x\n"
            "longer  10.0 GiB\n");
}

TEST(Table, CutsTheWidestColumnsThatMayBeCut) {
  Table table{{{"A", Align::left, 4}, {"B"}, {"C", Align::left, 4}}};
  table.add({std::string(60, 'a'), "12345", std::string(70, 'c')});
  const auto text = table.render(40);
  EXPECT_EQ(widest_line(text), 40U);
  EXPECT_NE(text.find("12345"), std::string::npos);
  EXPECT_NE(text.find("aaa…"), std::string::npos);
  EXPECT_NE(text.find("ccc…"), std::string::npos);
}

TEST(Table, CutsNothingWithoutATerminal) {
  Table table{{{"A", Align::left, 4}}};
  table.add({std::string(500, 'a')});
  EXPECT_NE(table.render(0).find(std::string(500, 'a')), std::string::npos);
}

TEST(Table, StaysWholeWhenNothingMayBeCut) {
  Table table{{{"A"}, {"B", Align::left, 3}}};
  table.add({"0123456789", "abcdefgh"});
  EXPECT_EQ(table.render(4), "A           B\n0123456789  ab…\n");
}

TEST(Table, CellsCannotControlTheTerminal) {
  Table table{{{"A"}}};
  table.add({"\x1b[2Jx\ny\xff"});
  table.add_note("n\x1b]0;t\a");
  const auto text = table.render(80);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\a'), std::string::npos);
  EXPECT_NE(text.find("\\x1b[2Jx\\x0ay\\xff"), std::string::npos) << text;
}

TEST(Table, NotesStandBelowTheirRow) {
  Table table{{{"A"}}};
  table.add({"1"});
  table.add_note("one two three four");
  table.add({"2"});
  EXPECT_EQ(table.render(14), "A\n1\n    one two\n    three four\n2\n");
}

TEST(Table, AColumnThatWrapsLosesNothing) {
  Table table{{{"A"}, {"B", Align::right}, {"WHY", Align::left, 8, true}}};
  table.add({"kv", "1", "512.0 MiB fixed + prompt cache"});
  table.add({"x", "2", "short"});
  EXPECT_EQ(table.render(20),
            "A   B  WHY\n"
            "kv  1  512.0 MiB\n"
            "       fixed +\n"
            "       prompt cache\n"
            "x   2  short\n");
  EXPECT_EQ(table.render(0),
            "A   B  WHY\n"
            "kv  1  512.0 MiB fixed + prompt cache\n"
            "x   2  short\n");
}

TEST(Table, MissingCellsAreEmpty) {
  Table table{{{"A"}, {"B"}}};
  table.add({"1"});
  EXPECT_EQ(table.render(0), "A  B\n1\n");
}

TEST(Width, CountsCodePoints) {
  EXPECT_EQ(width_of("größe…"), 6U);
  EXPECT_EQ(cut_to_width("größe", 5), "größe");
  EXPECT_EQ(cut_to_width("größer", 5), "größ…");
  EXPECT_EQ(cut_to_width("ab", 1), "…");
  EXPECT_EQ(cut_to_width("ab", 0), "");
}

TEST(Wrap, TextBesideALabelGoesOnBelowItself) {
  EXPECT_EQ(wrap_beside("größe: ", "one two three", 15), "größe: one two\n       three\n");
  EXPECT_EQ(wrap_beside("a: ", "one two", 0), "a: one two\n");
  EXPECT_EQ(wrap_beside("a:", "", 10), "a:\n");
  EXPECT_EQ(wrap_beside("label: ", "one two", 3), "label: one\n       two\n");
}

TEST(Wrap, BreaksAtSpacesOnly) {
  EXPECT_EQ(wrap("a bc  def", 4), "a bc\ndef\n");
  EXPECT_EQ(wrap("abcdefgh ij", 4), "abcdefgh\nij\n");
  EXPECT_EQ(wrap("a b", 0, 2), "  a b\n");
  EXPECT_EQ(wrap("", 10), "");
  EXPECT_EQ(wrap("a b", 1, 5), "     a\n     b\n");
}

}  // namespace
}  // namespace dgxmm::cli
