// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace gpemu::report {

/// The content of src/report/page.css and page.js.
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace gpemu::report
