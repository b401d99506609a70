#include "core/engine/log_marks.h"

#include "base/masking.h"

namespace dgxmm::engine {

std::string quoted_from(std::string_view line, std::string_view mark, std::string_view separator) {
  constexpr std::size_t kLongest = 300;
  const auto before = line.substr(0, line.find(mark)).rfind(separator);
  const auto begin = before == std::string_view::npos ? 0 : before + separator.size();
  return mask_text(printable(line.substr(begin, kLongest)));
}

}  // namespace dgxmm::engine
