// SPDX-License-Identifier: Apache-2.0
// Reads any bytes as a recording. An accepted recording must be the same after writing and reading.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "gpemu/step/recording.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto recording = gpemu::step::parse_recording(text, "input");
  if (!recording) return 0;
  const std::string written = gpemu::step::write_recording(*recording);
  const auto again = gpemu::step::parse_recording(written, "output");
  if (!again || gpemu::step::write_recording(*again) != written) std::abort();
  return 0;
}
