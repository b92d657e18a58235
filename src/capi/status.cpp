// SPDX-License-Identifier: Apache-2.0
#include "gpemu/gpemu.h"

#include "guard.hpp"

const char* gpemu_last_error(void) {
  const auto* const last = gpemu::PerThread<gpemu::LastError>::get();
  return last == nullptr ? "" : last->message;
}

const char* gpemu_status_name(gpemu_status status) {
  switch (status) {
    case GPEMU_OK:
      return "success";
#define X(name, c_name, value, exit_code, meaning) \
  case c_name:                                     \
    return meaning;
#include "gpemu/base/error_codes.def"
#undef X
  }
  return "unknown status";
}

const char* gpemu_version(void) {
  return GPEMU_VERSION;
}
