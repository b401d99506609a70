#pragma once
#include "ports/http_handler.h"

#include <span>
#include <string_view>

namespace dgxmm::api {

/// A file of the page, as it lies in the program.
struct PageFile {
  std::string_view path;  ///< "/assets/index-BrT3x1aQ.js"
  std::string_view content_type;
  std::string_view digest;  ///< of its bytes; says whether a browser has it already
  bool immutable = false;   ///< its path has a digest in it: another content would have another path
  std::string_view bytes;
  std::string_view gzip;  ///< empty: not worth it
};

/// The page as a browser gets it. Its addresses are in the part after #, so there are no paths but those of its files.
class Page {
 public:
  /// The files must outlive it; without any, "/" says that the program was built without the page.
  explicit Page(std::span<const PageFile> files) : files_(files) {}

  [[nodiscard]] bool has(std::string_view path) const;
  /// Of a path that it has.
  [[nodiscard]] ports::HttpResponse answer(const ports::HttpRequest& request) const;

 private:
  [[nodiscard]] const PageFile* find(std::string_view path) const;

  std::span<const PageFile> files_;
};

/// Whether the value of an Accept-Encoding header allows gzip.
bool accepts_gzip(std::string_view accept_encoding);

}  // namespace dgxmm::api
