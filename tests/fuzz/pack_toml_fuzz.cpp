// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

#include "pack_format.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gpemu::profile::PackInfo;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<gpemu::profile::PackFault> faults;
  const PackInfo info = gpemu::profile::parse_pack_info(text, "fuzz", faults).info;
  if (!faults.empty()) return 0;
  // Accepted text must be the same after writing and reading.
  const auto files = gpemu::profile::format_pack({.info = info});
  GPEMU_CHECK(files.has_value(), "cannot be written");
  const PackInfo again =
      gpemu::profile::parse_pack_info(files->at("pack.toml"), "again", faults).info;
  GPEMU_CHECK(faults.empty(), "cannot be read again");
  GPEMU_CHECK(again.method == info.method && again.title == info.title &&
                  again.samples == info.samples && again.gpu_notes == info.gpu_notes,
              "changed by writing and reading");
  return 0;
}
