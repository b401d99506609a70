#pragma once
// Precompiled for everything that awaits.
#include "base/pch.h"

#include <boost/asio/awaitable.hpp>
