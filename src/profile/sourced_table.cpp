// SPDX-License-Identifier: Apache-2.0
#include "sourced_table.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace gpemu::profile {
namespace {

constexpr Bounds kMilliseconds{0, 1e6};
constexpr Bounds kCount{1, 1e6};
constexpr Bounds kShare{1e-4, 1};

/// NaN is not.
bool is_within(double value, Bounds bounds) {
  return value >= bounds.least && value <= bounds.most;
}

}  // namespace

double ShareCurve::at(double x) const {
  if (points.empty()) return 1;
  const auto above = std::ranges::find_if(points, [x](const Point& point) { return point.x >= x; });
  if (above == points.begin()) return points.front().y;
  if (above == points.end()) return points.back().y;
  const Point& low = *(above - 1);
  return low.y + (above->y - low.y) * (x - low.x) / (above->x - low.x);
}

Result<void> SourcedTable::check_keys(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, node] : table_) {
    if (std::ranges::find(known, key.str()) == known.end()) {
      return file_.fault(node, field_, "unknown key '{}'", key.str());
    }
  }
  return {};
}

Result<double> SourcedTable::number(std::string_view key, Bounds bounds,
                                    std::optional<double> fallback) const {
  const toml::node* node = table_.get(key);
  if (node == nullptr && fallback) return *fallback;
  if (node == nullptr) return file_.fault(table_, field_, "{}: missing", key);
  const double value = node->value<double>().value_or(NAN);
  if (!is_within(value, bounds)) {
    return file_.fault(*node, field_, "{}: expected a number from {} to {}", key, bounds.least,
                       bounds.most);
  }
  return value;
}

Result<int> SourcedTable::whole(std::string_view key, Bounds bounds,
                                std::optional<double> fallback) const {
  GPEMU_ASSIGN(const double value, number(key, bounds, fallback));
  if (value == std::floor(value)) return static_cast<int>(value);
  return file_.fault(*table_.get(key), field_, "{}: expected a whole number", key);
}

Result<double> SourcedTable::seconds(std::string_view key,
                                     std::optional<double> fallback_ms) const {
  GPEMU_ASSIGN(const double milliseconds, number(key, kMilliseconds, fallback_ms));
  return milliseconds * 1e-3;
}

Result<bool> SourcedTable::flag(std::string_view key) const {
  const toml::node* node = table_.get(key);
  if (node == nullptr) return false;
  if (!node->is_boolean()) return file_.fault(*node, field_, "{}: expected true or false", key);
  return node->as_boolean()->get();
}

Result<ShareCurve> SourcedTable::shares(std::string_view key) const {
  const toml::node* node = table_.get(key);
  if (node == nullptr) return ShareCurve{};
  const std::string wanted = fmt::format(
      "{}: expected [count, share] pairs: [1, 1] first, then greater counts, and "
      "shares from {} to 1",
      key, kShare.least);
  if (!node->is_array()) return file_.fault(*node, field_, "{}", wanted);
  ShareCurve curve;
  for (const toml::node& element : *node->as_array()) {
    const toml::array* pair = element.as_array();
    if (pair == nullptr || pair->size() != 2) return file_.fault(element, field_, "{}", wanted);
    const ShareCurve::Point point{pair->get(0)->value<double>().value_or(NAN),
                                  pair->get(1)->value<double>().value_or(NAN)};
    const bool begins =
        curve.points.empty() ? point.x == 1 && point.y == 1 : point.x > curve.points.back().x;
    if (!begins || point.x > kCount.most || !is_within(point.y, kShare)) {
      return file_.fault(element, field_, "{}", wanted);
    }
    curve.points.push_back(point);
  }
  if (curve.points.empty()) return file_.fault(*node, field_, "{}", wanted);
  return curve;
}

}  // namespace gpemu::profile
