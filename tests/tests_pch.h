#pragma once
#include "base/pch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
