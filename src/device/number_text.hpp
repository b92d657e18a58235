// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/base/variables.hpp"

namespace gpemu::device {

/// Devices that have variables of their own. Source: HAMi-core, CUDA_DEVICE_MAX_COUNT.
inline constexpr int kMostNumberedDevices = 16;

/// Returns the text of a variable; "" if it is not set.
inline std::string_view text_of(const Lookup& lookup, const char* name) {
  const char* const value = lookup(name);
  return value == nullptr ? "" : value;
}

/// Reads a number at the beginning of a text, and takes it away.
template <typename Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

/// Returns a part of a GPU, above 0 and at most 1; `otherwise` if the variable is not set.
///
/// Errors: kInvalidArgument, naming the variable.
inline Result<double> read_fraction(const Lookup& lookup, const char* name, double otherwise) {
  const std::string_view text = text_of(lookup, name);
  if (text.empty()) return otherwise;
  std::string_view rest = text;
  double fraction = 0;
  // NaN is in no range.
  if (take_number(rest, fraction) && rest.empty() && fraction > 0 && fraction <= 1) {
    return fraction;
  }
  return fail(ErrorCode::kInvalidArgument,
              "{} is \"{}\", not a fraction of a GPU: give a number above 0 and at most 1, e.g. "
              "0.5",
              name, text);
}

}  // namespace gpemu::device
