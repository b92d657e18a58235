// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/storage_spec.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <utility>

#include <fmt/ranges.h>

#include "gpemu/base/file.hpp"

#include "nearest_names.hpp"
#include "sourced_file.hpp"

namespace gpemu::profile {
namespace {

constexpr double kMb = 1e6;
constexpr double kKb = 1024;
/// Beyond any device; the bounds only catch slips and keep times far from overflows.
constexpr double kMostMbPerS = 1e6;
constexpr double kLeastMbPerS = 0.001;
constexpr double kMostRequestKb = 1 << 20;
constexpr double kMostWaiting = 1e9;
constexpr std::int64_t kMostAtOnce = 65536;

class StorageReader {
 public:
  StorageReader(const toml::table& root, std::string_view origin)
      : root_(root), file_(root, origin) {}

  Result<StorageSpec> read() {
    GPEMU_TRY(check_keys(
        root_, "",
        {"name", "title", "requests_at_once", "sequential", "random", "queue", "sources"}));
    GPEMU_ASSIGN(spec_.name, file_.name());
    GPEMU_ASSIGN(spec_.title, file_.text("title"));
    GPEMU_TRY(file_.read_sources());
    GPEMU_TRY(read_at_once());
    GPEMU_TRY(read_sequential());
    GPEMU_TRY(read_random());
    GPEMU_TRY(read_queue());
    GPEMU_TRY(file_.check_sources());
    spec_.sources = std::move(file_).citations();
    return std::move(spec_);
  }

 private:
  Result<void> check_keys(const toml::table& table, std::string_view field,
                          std::initializer_list<std::string_view> known) const {
    for (const auto& [key, node] : table) {
      if (std::ranges::find(known, key.str()) != known.end()) continue;
      return file_.fault(node, field.empty() ? key.str() : field, "unknown key '{}'", key.str());
    }
    return {};
  }

  /// Returns a table with a source.
  Result<const toml::table*> table(const std::string& key,
                                   std::initializer_list<std::string_view> known) {
    const toml::node* node = root_.get(key);
    if (node == nullptr || !node->is_table()) {
      return file_.fault(node == nullptr ? root_ : *node, key, "expected a table");
    }
    GPEMU_TRY(check_keys(*node->as_table(), key, known));
    GPEMU_TRY(file_.cite(*node->as_table(), key));
    return node->as_table();
  }

  Result<double> number(const toml::node* node, const toml::node& place, const std::string& field,
                        double least, double most) const {
    const double value =
        node != nullptr && node->is_number() ? node->value<double>().value_or(-1) : -1;
    if (!(value >= least && value <= most)) {
      return file_.fault(node == nullptr ? place : *node, field,
                         "expected a number from {:.12g} to {:.12g}", least, most);
    }
    return value;
  }

  Result<std::vector<double>> numbers(const toml::table& table, std::string_view key,
                                      const std::string& field, double least, double most) const {
    const toml::node* node = table.get(key);
    const toml::array* list = node == nullptr ? nullptr : node->as_array();
    if (list == nullptr || list->empty()) {
      return file_.fault(node == nullptr ? static_cast<const toml::node&>(table) : *node, field,
                         "expected a list of numbers");
    }
    std::vector<double> values;
    for (const toml::node& element : *list) {
      GPEMU_ASSIGN(const double value, number(&element, element, field, least, most));
      values.push_back(value);
    }
    return values;
  }

  /// Reads two lists of the same length, of which the first ascends.
  Result<std::pair<std::vector<double>, std::vector<double>>> columns(
      const toml::table& table, const std::string& name, std::string_view first,
      std::pair<double, double> first_range, std::string_view second,
      std::pair<double, double> second_range) const {
    GPEMU_ASSIGN(auto xs, numbers(table, first, fmt::format("{}: {}", name, first),
                                  first_range.first, first_range.second));
    GPEMU_ASSIGN(auto ys, numbers(table, second, fmt::format("{}: {}", name, second),
                                  second_range.first, second_range.second));
    if (xs.size() != ys.size()) {
      return file_.fault(table, name, "{} has {} numbers, {} has {}", first, xs.size(), second,
                         ys.size());
    }
    if (std::ranges::adjacent_find(xs, std::greater_equal()) != xs.end()) {
      return file_.fault(*table.get(first), fmt::format("{}: {}", name, first),
                         "expected numbers that ascend");
    }
    return std::pair(std::move(xs), std::move(ys));
  }

  Result<void> read_at_once() {
    const toml::node* node = root_.get("requests_at_once");
    const auto* value = node == nullptr ? nullptr : node->as_integer();
    if (value == nullptr || value->get() < 1 || value->get() > kMostAtOnce) {
      return file_.fault(node == nullptr ? root_ : *node, "requests_at_once",
                         "expected a whole number from 1 to {}", kMostAtOnce);
    }
    spec_.requests_at_once = static_cast<int>(value->get());
    return {};
  }

  Result<void> read_sequential() {
    GPEMU_ASSIGN(const toml::table* entry, table("sequential", {"mb_per_s", "source"}));
    GPEMU_ASSIGN(const double rate, number(entry->get("mb_per_s"), *entry, "sequential: mb_per_s",
                                           kLeastMbPerS, kMostMbPerS));
    spec_.sequential_bytes_per_s = rate * kMb;
    return {};
  }

  Result<void> read_random() {
    GPEMU_ASSIGN(const toml::table* entry, table("random", {"request_kb", "mb_per_s", "source"}));
    GPEMU_ASSIGN(const auto rows, columns(*entry, "random", "request_kb", {0.5, kMostRequestKb},
                                          "mb_per_s", {kLeastMbPerS, kMostMbPerS}));
    double time_before = 0;
    for (std::size_t i = 0; i < rows.first.size(); ++i) {
      const double bytes = rows.first[i] * kKb;
      const double rate = rows.second[i] * kMb;
      if (rate > spec_.sequential_bytes_per_s) {
        return file_.fault(*entry, "random: mb_per_s",
                           "{:g} is more than the sequential rate, {:g}", rows.second[i],
                           spec_.sequential_bytes_per_s / kMb);
      }
      if (bytes / rate < time_before) {
        return file_.fault(*entry, "random: mb_per_s",
                           "{:g} KB take less time than the size before", rows.first[i]);
      }
      time_before = bytes / rate;
      spec_.random.push_back({static_cast<Bytes>(bytes), rate});
    }
    return {};
  }

  Result<void> read_queue() {
    if (!root_.contains("queue")) return {};
    GPEMU_ASSIGN(const toml::table* entry, table("queue", {"waiting", "positioning", "source"}));
    GPEMU_ASSIGN(const auto rows,
                 columns(*entry, "queue", "waiting", {1, kMostWaiting}, "positioning", {0, 1}));
    for (std::size_t i = 0; i < rows.first.size(); ++i) {
      spec_.queue.push_back({rows.first[i], rows.second[i]});
    }
    return {};
  }

  const toml::table& root_;
  SourcedFile file_;
  StorageSpec spec_;
};

/// Returns y at x on the line through two points.
double between(double x, double x0, double y0, double x1, double y1) {
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

}  // namespace

Duration StorageSpec::positioning(Bytes bytes, double waiting) const {
  const auto size_s = [this](const RequestRate& rate) {
    const auto size = static_cast<double>(rate.bytes);
    return std::max(0.0, size / rate.bytes_per_s - size / sequential_bytes_per_s);
  };
  const auto above = std::ranges::lower_bound(random, bytes, {}, &RequestRate::bytes);
  double seconds = 0;
  if (above == random.begin()) {
    seconds = size_s(*above);
  } else if (above == random.end()) {
    seconds = size_s(random.back());
  } else {
    const RequestRate& below = *(above - 1);
    seconds = between(static_cast<double>(bytes), static_cast<double>(below.bytes), size_s(below),
                      static_cast<double>(above->bytes), size_s(*above));
  }
  if (queue.empty() || waiting <= queue.front().waiting) return from_seconds(seconds);
  const auto more = std::ranges::lower_bound(queue, waiting, {}, &QueueShare::waiting);
  if (more == queue.end()) return from_seconds(seconds * queue.back().positioning);
  // The share falls with each doubling of the queue.
  const QueueShare& fewer = *(more - 1);
  return from_seconds(seconds * between(std::log(waiting), std::log(fewer.waiting),
                                        fewer.positioning, std::log(more->waiting),
                                        more->positioning));
}

Duration StorageSpec::transfer(Bytes bytes) const {
  return from_seconds(static_cast<double>(bytes) / sequential_bytes_per_s);
}

Result<StorageSpec> parse_storage_spec(std::string_view toml, std::string_view origin) {
  GPEMU_ASSIGN(const toml::table root, parse_toml(toml, origin));
  return StorageReader(root, origin).read();
}

std::vector<std::string> storage_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const std::filesystem::path& file : paths_in(folder)) {
    if (file.extension() == ".toml") names.push_back(file.stem().string());
  }
  return names;
}

Result<StorageSpec> find_storage(const std::filesystem::path& folder,
                                 std::string_view name_or_path) {
  std::filesystem::path path = name_or_path;
  if (!name_or_path.contains('/') && !name_or_path.ends_with(".toml")) {
    const std::vector<std::string> names = storage_names(folder);
    if (std::ranges::find(names, name_or_path) == names.end()) {
      return fail(ErrorCode::kNotFound,
                  "there is no storage \"{}\"{}; there is: {}; the path of a TOML file describes "
                  "another (docs/reference/storage-file.md)",
                  name_or_path, did_you_mean(name_or_path, names), fmt::join(names, ", "));
    }
    path = folder / fmt::format("{}.toml", name_or_path);
  }
  constexpr Bytes kMaxBytes = kMiB;  // Hundreds of times the largest one.
  GPEMU_ASSIGN(const std::string text, read_file(path, kMaxBytes));
  return parse_storage_spec(text, path.string());
}

}  // namespace gpemu::profile
