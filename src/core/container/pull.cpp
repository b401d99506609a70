#include "core/container/pull.h"

#include "base/json_codec.h"
#include "base/masking.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace dgxmm::container {
namespace {

namespace bj = json::bj;

constexpr std::string_view kDigest = "sha256:";
constexpr std::size_t kMostLayers = 1000;  // Docker's own limit is 127

std::string_view text(const bj::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  const auto* found = value == nullptr ? nullptr : value->if_string();
  return found == nullptr ? std::string_view{} : std::string_view{*found};
}

std::optional<Bytes> size(const bj::object& object, std::string_view name) {
  const auto* detail = object.if_contains("progressDetail");
  const auto* members = detail == nullptr ? nullptr : detail->if_object();
  const auto* value = members == nullptr ? nullptr : members->if_contains(name);
  const auto* found = value == nullptr ? nullptr : value->if_int64();
  if (found == nullptr || *found < 0) return std::nullopt;
  return Bytes{*found};
}

bool says(std::string_view message, std::string_view part) { return message.find(part) != std::string_view::npos; }

template <std::size_t N>
bool says_any(std::string_view message, const std::array<std::string_view, N>& parts) {
  return std::ranges::any_of(parts, [&](std::string_view part) { return says(message, part); });
}

}  // namespace

ImageReference parse_reference(std::string_view text) {
  if (const auto at = text.find('@'); at != std::string_view::npos) {
    return {std::string{text.substr(0, at)}, std::string{text.substr(at + 1)}};
  }
  const auto colon = text.rfind(':');
  const auto slash = text.rfind('/');
  // "localhost:5000/image": the colon is the registry's port.
  const bool has_tag = colon != std::string_view::npos && (slash == std::string_view::npos || colon > slash);
  if (!has_tag) return {std::string{text}, "latest"};
  return {std::string{text.substr(0, colon)}, std::string{text.substr(colon + 1)}};
}

bool is_image_id(std::string_view text) { return text.starts_with(kDigest); }

void PullProgress::advance(Layer& layer, Stage stage) {
  if (stage <= layer.stage) return;
  layer.stage = stage;
  ++steps_;
}

void PullProgress::advance(Bytes& value, Bytes reached) {
  if (reached <= value) return;
  value = reached;
  ++steps_;
}

Result<void> PullProgress::take(std::string_view message) {
  const auto value = json::parse(message);
  const auto* object = value ? value->if_object() : nullptr;
  if (object == nullptr) return {};
  if (const auto error = text(*object, "error"); !error.empty()) return fail("pull_failed", std::string{error});
  const auto status = text(*object, "status");
  const auto id = text(*object, "id");
  constexpr std::array<std::pair<std::string_view, Stage>, 8> kStages{{{"Pulling fs layer", Stage::waiting},
                                                                       {"Waiting", Stage::waiting},
                                                                       {"Downloading", Stage::downloading},
                                                                       {"Verifying Checksum", Stage::downloading},
                                                                       {"Download complete", Stage::downloaded},
                                                                       {"Extracting", Stage::unpacking},
                                                                       {"Pull complete", Stage::done},
                                                                       {"Retrying", Stage::waiting}}};
  const auto* const stage =
      std::ranges::find_if(kStages, [&](const auto& known) { return status.starts_with(known.first); });
  if (id.empty() || stage == kStages.end()) return {};
  auto found = layers_.find(id);
  if (found == layers_.end()) {
    if (layers_.size() >= kMostLayers) return {};
    found = layers_.emplace(std::string{id}, Layer{}).first;
    ++steps_;
  }
  auto& layer = found->second;
  advance(layer, stage->second);
  if (const auto total = size(*object, "total"); total && stage->second == Stage::downloading) {
    layer.size = *total;
    layer.size_known = true;
  }
  const auto current = size(*object, "current");
  if (current && stage->second == Stage::downloading) advance(layer.downloaded, *current);
  if (current && stage->second == Stage::unpacking) advance(layer.unpacked, *current);
  if (layer.stage >= Stage::downloaded) layer.downloaded = layer.size;
  if (layer.stage == Stage::done) layer.unpacked = layer.size;
  return {};
}

std::string PullProgress::phase() const {
  Bytes size, downloaded, unpacked;
  bool all_sizes = true;
  bool all_downloaded = !layers_.empty();
  for (const auto& [id, layer] : layers_) {
    size += layer.size;
    downloaded += std::min(layer.downloaded, layer.size);
    unpacked += std::min(layer.unpacked, layer.size);
    // A small layer is complete before its size is said.
    all_sizes = all_sizes && (layer.size_known || layer.stage >= Stage::downloaded);
    all_downloaded = all_downloaded && layer.stage >= Stage::downloaded;
  }
  if (size == Bytes{}) return "pulling the image";
  const auto total = format_bytes(size);
  if (all_downloaded) return fmt::format("unpacking the image, {} of {}", format_bytes(unpacked), total);
  return fmt::format("pulling the image, {} of {}{}", format_bytes(downloaded), all_sizes ? "" : "at least ", total);
}

Error explain_pull_error(std::string_view reference, std::string_view message) {
  constexpr std::array<std::string_view, 2> kFull{{"no space left on device", "disk quota exceeded"}};
  constexpr std::array<std::string_view, 2> kBusy{{"toomanyrequests", "Too Many Requests"}};
  constexpr std::array<std::string_view, 2> kPlatform{
      {"no matching manifest", "does not match the specified platform"}};
  constexpr std::array<std::string_view, 4> kDenied{
      {"unauthorized", "authentication required", "denied", "no basic auth credentials"}};
  constexpr std::array<std::string_view, 4> kMissing{
      {"manifest unknown", "not found", "repository does not exist", "invalid reference format"}};
  constexpr std::array<std::string_view, 10> kUnreachable{
      {"no such host", "dial tcp", "connection refused", "i/o timeout", "TLS handshake", "network is unreachable",
       "x509:", "Client.Timeout", "proxyconnect", "server gave HTTP response to HTTPS client"}};
  const std::string name{reference};
  const auto quoted = printable(message);
  const auto error = [&](const char* code, std::string_view what, std::string hint) {
    return Error{code, fmt::format("the image {} {}: {}", printable(reference), what, quoted), std::move(hint), name};
  };
  if (says_any(message, kFull)) {
    return error("disk_full", "does not fit on Docker's disk",
                 "make room (`docker system df` says what takes it, `docker image prune` frees what is not used)");
  }
  if (says_any(message, kBusy)) {
    return error("registry_busy", "is refused for now, too much was pulled from here",
                 "wait, or log in with `docker login` and pull it by hand");
  }
  if (says_any(message, kPlatform)) {
    return error("image_wrong_platform", "is not made for this kind of processor",
                 "choose an image for this host (a DGX Spark is arm64)");
  }
  if (says_any(message, kUnreachable)) {
    return error("registry_unreachable", "cannot be pulled, its registry is not reached",
                 "look at the network, and at the registry's name in the image's");
  }
  if (says_any(message, kDenied)) {
    return error("registry_denied", "is not handed over by its registry",
                 fmt::format("it does not exist, or needs a login: `docker login`, then `docker pull {}`",
                             printable(reference)));
  }
  if (says_any(message, kMissing)) {
    return error("image_not_found", "is neither on this host nor in its registry", "look at its name and tag");
  }
  return error("pull_failed", "could not be pulled",
               fmt::format("try it by hand: `docker pull {}`", printable(reference)));
}

bool runs_on(std::string_view image_architecture, std::string_view host_architecture) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kSame{
      {{"amd64", "x86_64"}, {"arm64", "aarch64"}}};
  const auto* const image =
      std::ranges::find(kSame, image_architecture, &std::pair<std::string_view, std::string_view>::first);
  const auto* const host =
      std::ranges::find(kSame, host_architecture, &std::pair<std::string_view, std::string_view>::second);
  return image == kSame.end() || host == kSame.end() || image == host;
}

}  // namespace dgxmm::container
