#pragma once
#include "app/api/page.h"

#include <span>

namespace dgxmm::page {

/// The files of the page; none when the program was built without it.
std::span<const api::PageFile> embedded_page();

}  // namespace dgxmm::page
