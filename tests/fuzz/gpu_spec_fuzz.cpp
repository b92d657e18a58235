// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/profile/gpu_spec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto spec = gpemu::profile::parse_gpu_spec(text, "fuzz");
  // Whatever is accepted must be usable: nothing later divides by these.
  if (spec) {
    GPEMU_CHECK(spec->memory_bytes > 0 && spec->pinned_copy_bytes_per_s > 0, "unusable numbers");
    GPEMU_CHECK(spec->usable_memory_bytes.value_or(0) <= spec->memory_bytes, "usable too large");
  } else {
    GPEMU_CHECK(spec.error().message.starts_with("fuzz:"), "a message without its place");
  }
  return 0;
}
