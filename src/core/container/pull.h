#pragma once
#include "base/bytes.h"
#include "base/result.h"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace dgxmm::container {

/// What is asked of a registry: without a tag it would hand over every tag that it has, so that "latest" is meant.
struct ImageReference {
  std::string name;  ///< "nvcr.io/nvidia/vllm"
  std::string tag;   ///< "26.01-py3", or a digest "sha256:…"
  friend bool operator==(const ImageReference&, const ImageReference&) = default;
};
ImageReference parse_reference(std::string_view text);
/// An id, which no registry knows ("sha256:…").
bool is_image_id(std::string_view text);

/// How far a pull has come, from the messages of `POST /images/create`, one JSON object a line.
class PullProgress {
 public:
  /// Errors: `pull_failed` with the engine's words; one that is not understood changes nothing.
  Result<void> take(std::string_view message);
  /// For people: "pulling the image, 1.2 of 8.3 GiB" or "unpacking the image, …".
  [[nodiscard]] std::string phase() const;
  /// Rises whenever it gets on; a layer that is begun anew does not count until it is further than before.
  [[nodiscard]] std::uint64_t steps() const { return steps_; }

 private:
  enum class Stage { waiting, downloading, downloaded, unpacking, done };
  struct Layer {
    Stage stage = Stage::waiting;
    Bytes size, downloaded, unpacked;
    bool size_known = false;
  };
  void advance(Layer& layer, Stage stage);
  void advance(Bytes& value, Bytes reached);

  std::map<std::string, Layer, std::less<>> layers_;
  std::uint64_t steps_ = 0;
};

/// Why a pull failed, in one sentence with the fix. Codes: `image_not_found`, `registry_denied`, `registry_busy`,
/// `registry_unreachable`, `image_wrong_platform`, `disk_full`, `pull_failed`.
Error explain_pull_error(std::string_view reference, std::string_view message);

/// Can the host run it? Names of architectures are Docker's for `image` ("arm64") and the kernel's for `host`
/// ("aarch64"); unknown ones are believed.
bool runs_on(std::string_view image_architecture, std::string_view host_architecture);

}  // namespace dgxmm::container
