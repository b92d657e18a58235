// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The names and text of one CUDA status. A name is "" if the runtime or the driver lacks the
/// status.
struct StatusText {
  int status;
  const char* runtime_name;
  const char* driver_name;
  const char* meaning;
};

/// Returns the entry of a status, or null for a number that CUDA does not define.
inline const StatusText* find_status(int status) {
  static constexpr StatusText kStatuses[] = {
#define S(number, runtime_name, driver_name, meaning) {number, runtime_name, driver_name, meaning},
#include "statuses.def"
#undef S
  };
  for (const StatusText& entry : kStatuses) {
    if (entry.status == status) {
      return &entry;
    }
  }
  return nullptr;
}
