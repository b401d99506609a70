#include "core/container/archive.h"

#include <fmt/format.h>

#include <algorithm>

namespace dgxmm::container {
namespace {

constexpr std::size_t kBlock = 512;

/// IEEE Std 1003.1, pax: the header of a regular file.
std::string header_of(std::string_view path, std::size_t size_bytes) {
  std::string header(kBlock, '\0');
  const auto put = [&header](std::size_t offset, std::string_view text) {
    std::ranges::copy(text, header.begin() + static_cast<std::ptrdiff_t>(offset));
  };
  put(0, path);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, fmt::format("{:011o}", size_bytes));
  put(136, fmt::format("{:011o}", 0));
  put(148, "        ");
  put(156, "0");
  put(257, std::string_view{"ustar\0"
                            "00",
                            8});
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum));
  header[154] = '\0';
  return header;
}

}  // namespace

std::string tar_of(std::string_view path, std::string_view content) {
  auto archive = header_of(path, content.size());
  archive += content;
  archive.resize((archive.size() + kBlock - 1) / kBlock * kBlock + 2 * kBlock, '\0');
  return archive;
}

}  // namespace dgxmm::container
