#include "page/embedded_page.h"

namespace dgxmm::page {

std::span<const api::PageFile> embedded_page() { return {}; }

}  // namespace dgxmm::page
