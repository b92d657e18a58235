// SPDX-License-Identifier: Apache-2.0
// What toml++ declares and its shared library defines, for builds with GPEMU_PORTABLE.
#include <cstdint>

#define TOML_IMPLEMENTATION
#include "toml_parser.hpp"
