// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "gpemu/profile/share_curve.hpp"

#include "sourced_file.hpp"

namespace gpemu::profile {

/// A range of numbers. The bounds only catch slips, such as a wrong unit.
struct Bounds {
  double least, most;
};

/// Beyond any device.
inline constexpr Bounds kMbPerS{0.001, 1e6};

/// The numbers of one table of a file. Every fault carries its line and `field`.
class SourcedTable {
 public:
  /// All three outlive it.
  SourcedTable(const SourcedFile& file, const toml::table& table, const std::string& field)
      : file_(file), table_(table), field_(field) {}

  [[nodiscard]] Result<void> check_keys(std::initializer_list<std::string_view> known) const;

  /// Return a number that must be there, or may be missing if there is a `fallback`.
  [[nodiscard]] Result<double> number(std::string_view key, Bounds bounds,
                                      std::optional<double> fallback = std::nullopt) const;
  [[nodiscard]] Result<int> whole(std::string_view key, Bounds bounds,
                                  std::optional<double> fallback = std::nullopt) const;
  [[nodiscard]] Result<double> seconds(std::string_view key,
                                       std::optional<double> fallback_ms = std::nullopt) const;
  /// Returns whether a key is true; false without it.
  [[nodiscard]] Result<bool> flag(std::string_view key) const;

  /// Returns points [x, y] of which x ascends from 1, and y falls from 1; without the key, [1, 1].
  [[nodiscard]] Result<ShareCurve> shares(std::string_view key) const;

 private:
  const SourcedFile& file_;
  const toml::table& table_;
  const std::string& field_;
};

}  // namespace gpemu::profile
