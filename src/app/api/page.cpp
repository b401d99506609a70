#include "app/api/page.h"

#include "app/api/respond.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

namespace dgxmm::api {
namespace {

constexpr std::string_view kIndex = "/index.html";

// Everything comes from the program itself, and nothing in the page is inline.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

bool is_index(std::string_view path) { return path == "/" || path == kIndex; }

std::string_view header(const ports::HttpRequest& request, const std::string& name) {
  const auto found = request.headers.find(name);
  return found == request.headers.end() ? std::string_view{} : std::string_view{found->second};
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// The text before the separator; what follows it stays in `rest`.
std::string_view take_until(char separator, std::string_view& rest) {
  const auto end = rest.find(separator);
  const auto taken = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
  return trimmed(taken);
}

/// "gzip;q=0" refuses it.
bool is_refused(std::string_view parameters) {
  while (!parameters.empty()) {
    const auto parameter = take_until(';', parameters);
    if (!parameter.starts_with("q=") && !parameter.starts_with("Q=")) continue;
    return std::ranges::all_of(parameter.substr(2), [](char c) { return c == '0' || c == '.'; });
  }
  return false;
}

/// RFC 9110, 13.1.2; the tags of dgxmm have no quotes and commas in them.
bool is_known(std::string_view if_none_match, std::string_view tag) {
  return trimmed(if_none_match) == "*" || if_none_match.contains(tag);
}

ports::HttpResponse without_page() {
  return text_response(
      200,
      "This dgxmm was built without its page (DGXMM_WEB=OFF).\n"
      "Its API is at /api/v1, for example /api/v1/budget; the command line does the same: dgxmm help\n");
}

}  // namespace

bool accepts_gzip(std::string_view accept_encoding) {
  std::optional<bool> any;
  while (!accept_encoding.empty()) {
    auto entry = take_until(',', accept_encoding);
    const auto coding = take_until(';', entry);
    if (coding == "gzip" || coding == "x-gzip") return !is_refused(entry);
    if (coding == "*") any = !is_refused(entry);
  }
  return any.value_or(false);
}

const PageFile* Page::find(std::string_view path) const {
  const auto found = std::ranges::find(files_, is_index(path) ? kIndex : path, &PageFile::path);
  return found == files_.end() ? nullptr : &*found;
}

bool Page::has(std::string_view path) const { return is_index(path) || find(path) != nullptr; }

ports::HttpResponse Page::answer(const ports::HttpRequest& request) const {
  if (request.method != "GET") {  // a HEAD comes as a GET
    auto refusal =
        problem(Error{"method_not_allowed", fmt::format("{} cannot be done here", request.method), {}, request.path});
    refusal.headers.emplace_back("Allow", "GET");
    return refusal;
  }
  const auto* file = find(request.path);
  if (file == nullptr) return without_page();
  const bool gzip = !file->gzip.empty() && accepts_gzip(header(request, "accept-encoding"));
  const auto tag = fmt::format("\"{}{}\"", file->digest, gzip ? "-gzip" : "");
  ports::HttpResponse response;
  response.headers.emplace_back("Cache-Control", file->immutable ? "public, max-age=31536000, immutable" : "no-cache");
  response.headers.emplace_back("ETag", tag);
  response.headers.emplace_back("Vary", "Accept-Encoding");
  response.headers.emplace_back("Content-Security-Policy", kPolicy);
  if (is_known(header(request, "if-none-match"), tag)) {
    response.status = 304;
    return response;
  }
  response.headers.emplace_back("Content-Type", file->content_type);
  if (gzip) response.headers.emplace_back("Content-Encoding", "gzip");
  response.body = gzip ? file->gzip : file->bytes;
  return response;
}

}  // namespace dgxmm::api
