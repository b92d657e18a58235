// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace gpemu::report {

/// What src/report/page.css and page.js say.
extern const std::string_view kPageStyle;
extern const std::string_view kPageScript;

}  // namespace gpemu::report
