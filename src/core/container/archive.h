#pragma once
#include <string>
#include <string_view>

namespace dgxmm::container {

/// A tar archive (ustar) of one file that everybody may read, as `PUT /containers/{id}/archive` takes it. `path` is
/// relative and shorter than 100 bytes; folders on its way are made when it is unpacked.
std::string tar_of(std::string_view path, std::string_view content);

}  // namespace dgxmm::container
