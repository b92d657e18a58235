// SPDX-License-Identifier: Apache-2.0
#include "gpemu/base/error.hpp"

#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace gpemu {

int exit_code(ErrorCode code) {
  switch (code) {
#define X(name, c_name, value, exit, meaning) \
  case ErrorCode::name:                       \
    return exit;
#include "gpemu/base/error_codes.def"
#undef X
  }
  return 1;
}

std::string errno_message(int error_number) {
  return std::error_code(error_number, std::generic_category()).message();
}

namespace internal {

void check_failed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "gpemu: %s:%d: check failed: %s: %.*s\n", file, line, condition,
               static_cast<int>(message.size()), message.data());
  std::abort();
}

}  // namespace internal
}  // namespace gpemu
