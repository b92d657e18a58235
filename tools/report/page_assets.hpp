// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace gpemu::tools {

/// What tools/report/page.css and page.js say.
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace gpemu::tools
