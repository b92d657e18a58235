// SPDX-License-Identifier: Apache-2.0
// The table has its own source file, because it declares the functions without their parameters.
#include "entry_points.hpp"
#include "shim.hpp"

#define E(name, version, symbol, per_thread) \
  GPEMU_SHIM_EXPORT int symbol();            \
  GPEMU_SHIM_EXPORT int per_thread();
#include "entry_points.def"
#undef E

std::span<const EntryPoint> entry_points() {
  static const EntryPoint table[] = {
#define E(name, version, symbol, per_thread) {#name, version, &symbol, &per_thread},
#include "entry_points.def"
#undef E
  };
  return table;
}
