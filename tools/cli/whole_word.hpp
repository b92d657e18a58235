// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpemu::tools {

/// Begins words in brackets, which CLI11 would take for lists of words, until they are values. For
/// tools/cli only.
inline constexpr char kWhole = '\x1f';

}  // namespace gpemu::tools
