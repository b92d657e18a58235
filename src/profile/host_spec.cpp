// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/host_spec.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <utility>

#include "gpemu/base/file.hpp"

#include "nearest_names.hpp"
#include "sourced_file.hpp"

namespace gpemu::profile {
namespace {

/// A range of numbers. The bounds only catch slips, such as a wrong unit.
struct Bounds {
  double least, most;
};
/// NaN is not.
bool is_within(double value, Bounds bounds) {
  return value >= bounds.least && value <= bounds.most;
}
constexpr Bounds kCores{1, 4096};
constexpr Bounds kGibOfMemory{0.1, 1e6};
constexpr Bounds kMilliseconds{0, 1e6};
constexpr Bounds kMbPerS{0.001, 1e6};
constexpr Bounds kParallel{1, 1e4};
constexpr Bounds kSamples{1, 1e6};
constexpr Bounds kDepth{1, 1e6};
constexpr Bounds kShare{1e-4, 1};

/// Turns one parsed file into a HostSpec; every fault carries its line.
class HostReader {
 public:
  HostReader(const toml::table& root, std::string_view origin) : root_(root), file_(root, origin) {}

  Result<HostSpec> read() {
    GPEMU_ASSIGN(spec_.name, file_.name());
    GPEMU_ASSIGN(spec_.title, file_.text("title"));
    GPEMU_TRY(
        check_keys(root_, "the file",
                   {"name", "title", "cpu", "memory", "loader", "storage", "network", "sources"}));
    GPEMU_TRY(file_.read_sources());
    GPEMU_TRY(read_table("cpu", &HostReader::read_cpu));
    GPEMU_TRY(read_table("memory", &HostReader::read_memory));
    GPEMU_TRY(read_each("loader", &HostReader::read_loader));
    GPEMU_TRY(read_each("storage", &HostReader::read_storage));
    if (root_.contains("network")) GPEMU_TRY(read_table("network", &HostReader::read_network));
    GPEMU_TRY(file_.check_sources());
    spec_.sources = std::move(file_).citations();
    return std::move(spec_);
  }

 private:
  using ReadTable = Result<void> (HostReader::*)(const toml::table&, const std::string&);

  [[nodiscard]] Result<void> check_keys(const toml::table& table, std::string_view field,
                                        std::initializer_list<std::string_view> known) const {
    for (const auto& [key, node] : table) {
      if (std::ranges::find(known, key.str()) == known.end()) {
        return file_.fault(node, field, "unknown key '{}'", key.str());
      }
    }
    return {};
  }

  /// Returns a number that must be there, or may be missing if there is a `fallback`.
  [[nodiscard]] Result<double> number(const toml::table& table, std::string_view key,
                                      const std::string& field, Bounds bounds,
                                      std::optional<double> fallback = std::nullopt) const {
    const toml::node* node = table.get(key);
    if (node == nullptr && fallback) return *fallback;
    if (node == nullptr) return file_.fault(table, field, "{}: missing", key);
    const double value = node->value<double>().value_or(NAN);
    if (!is_within(value, bounds)) {
      return file_.fault(*node, field, "{}: expected a number from {} to {}", key, bounds.least,
                         bounds.most);
    }
    return value;
  }

  [[nodiscard]] Result<int> whole(const toml::table& table, std::string_view key,
                                  const std::string& field, Bounds bounds,
                                  std::optional<double> fallback = std::nullopt) const {
    GPEMU_ASSIGN(const double value, number(table, key, field, bounds, fallback));
    if (value == std::floor(value)) return static_cast<int>(value);
    return file_.fault(*table.get(key), field, "{}: expected a whole number", key);
  }

  /// Returns points [x, y] of which x ascends from 1, and y falls from 1.
  [[nodiscard]] Result<HostCurve> falling_curve(const toml::table& table, std::string_view key,
                                                const std::string& field) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return HostCurve{{{1, 1}}};
    const std::string wanted = fmt::format(
        "{}: expected [count, share] pairs: [1, 1] first, then greater counts, and "
        "shares from {} to 1",
        key, kShare.least);
    if (!node->is_array()) return file_.fault(*node, field, "{}", wanted);
    HostCurve curve;
    for (const toml::node& element : *node->as_array()) {
      const toml::array* pair = element.as_array();
      if (pair == nullptr || pair->size() != 2) return file_.fault(element, field, "{}", wanted);
      const HostCurve::Point point{pair->get(0)->value<double>().value_or(NAN),
                                   pair->get(1)->value<double>().value_or(NAN)};
      const bool begins =
          curve.points.empty() ? point.x == 1 && point.y == 1 : point.x > curve.points.back().x;
      if (!begins || point.x > kDepth.most || !is_within(point.y, kShare)) {
        return file_.fault(element, field, "{}", wanted);
      }
      curve.points.push_back(point);
    }
    if (curve.points.empty()) return file_.fault(*node, field, "{}", wanted);
    return curve;
  }

  Result<void> read_table(const std::string& key, ReadTable read) {
    const toml::node* node = root_.get(key);
    if (node == nullptr) return file_.fault(root_, key, "missing; expected [{}]", key);
    if (!node->is_table()) return file_.fault(*node, key, "expected a table");
    GPEMU_TRY(file_.cite(*node->as_table(), key));
    return (this->*read)(*node->as_table(), key);
  }

  /// Reads the tables `[[key]]`, of which there must be one.
  Result<void> read_each(const std::string& key, ReadTable read) {
    const toml::node* node = root_.get(key);
    if (node == nullptr || !node->is_array_of_tables()) {
      return file_.fault(node == nullptr ? root_ : *node, key, "expected [[{}]]", key);
    }
    std::set<std::string> names;
    for (const toml::node& entry : *node->as_array()) {
      const toml::table& table = *entry.as_table();
      GPEMU_ASSIGN(const std::string name, file_.text(table, "name", key + ": name"));
      const std::string field = fmt::format("{} {}", key, name);
      if (!is_plain_name(name)) return file_.fault(entry, key, "'{}' is not a plain name", name);
      if (!names.insert(name).second) {
        return file_.fault(entry, field, "there is another one of this name");
      }
      GPEMU_TRY(file_.cite(table, field));
      GPEMU_TRY((this->*read)(table, field));
    }
    return {};
  }

  Result<void> read_cpu(const toml::table& table, const std::string& field) {
    GPEMU_TRY(check_keys(table, field, {"model", "cores", "threads", "speed_by_busy", "source"}));
    GPEMU_ASSIGN(spec_.cpu.model, file_.text(table, "model", "cpu: model"));
    GPEMU_ASSIGN(spec_.cpu.cores, whole(table, "cores", field, kCores));
    const Bounds threads{static_cast<double>(spec_.cpu.cores), kCores.most};
    GPEMU_ASSIGN(spec_.cpu.threads, whole(table, "threads", field, threads, spec_.cpu.cores));
    GPEMU_ASSIGN(spec_.cpu.speed_by_busy, falling_curve(table, "speed_by_busy", field));
    return {};
  }

  Result<void> read_memory(const toml::table& table, const std::string& field) {
    GPEMU_TRY(check_keys(table, field, {"gib", "source"}));
    GPEMU_ASSIGN(const double gib, number(table, "gib", field, kGibOfMemory));
    spec_.memory = static_cast<Bytes>(gib * static_cast<double>(kGiB));
    return {};
  }

  Result<void> read_loader(const toml::table& table, const std::string& field) {
    GPEMU_TRY(check_keys(table, field,
                         {"name", "image_ms", "batch_ms", "batch_of", "start_ms", "peer_ms",
                          "send_ms", "receive_ms", "source"}));
    HostLoader made{.name = table.get("name")->as_string()->get()};
    const auto milliseconds = [&](std::string_view key, double& seconds,
                                  std::optional<double> fallback) -> Result<void> {
      GPEMU_ASSIGN(const double read, number(table, key, field, kMilliseconds, fallback));
      seconds = read * 1e-3;
      return {};
    };
    GPEMU_TRY(milliseconds("image_ms", made.image_s, std::nullopt));
    GPEMU_TRY(milliseconds("batch_ms", made.batch_s, 0.0));
    GPEMU_TRY(milliseconds("start_ms", made.start_s, 0.0));
    GPEMU_TRY(milliseconds("peer_ms", made.peer_s, 0.0));
    GPEMU_TRY(milliseconds("send_ms", made.send_s, 0.0));
    GPEMU_TRY(milliseconds("receive_ms", made.receive_s, 0.0));
    GPEMU_ASSIGN(made.batch_of, whole(table, "batch_of", field, kSamples, 256));
    spec_.loaders.push_back(std::move(made));
    return {};
  }

  Result<void> read_storage(const toml::table& table, const std::string& field) {
    GPEMU_TRY(check_keys(table, field,
                         {"name", "shared", "access_ms", "access_depth", "access_by_depth",
                          "mb_per_s", "parallel", "source"}));
    HostStorage made{.name = table.get("name")->as_string()->get()};
    if (const toml::node* shared = table.get("shared"); shared != nullptr) {
      if (!shared->is_boolean()) {
        return file_.fault(*shared, field, "shared: expected true or false");
      }
      made.shared = shared->as_boolean()->get();
    }
    GPEMU_ASSIGN(const double access_ms, number(table, "access_ms", field, kMilliseconds));
    GPEMU_ASSIGN(const double depth, number(table, "access_depth", field, kDepth, 1.0));
    GPEMU_ASSIGN(made.access_by_depth, falling_curve(table, "access_by_depth", field));
    GPEMU_ASSIGN(const double mb_per_s, number(table, "mb_per_s", field, kMbPerS));
    GPEMU_ASSIGN(made.parallel, number(table, "parallel", field, kParallel, 1.0));
    made.access_s = access_ms * 1e-3 / made.access_by_depth.at(depth);
    made.bytes_per_s = mb_per_s * 1e6;
    spec_.storages.push_back(std::move(made));
    return {};
  }

  Result<void> read_network(const toml::table& table, const std::string& field) {
    GPEMU_TRY(check_keys(table, field, {"mb_per_s", "request_ms", "source"}));
    GPEMU_ASSIGN(const double mb_per_s, number(table, "mb_per_s", field, kMbPerS));
    GPEMU_ASSIGN(const double request_ms, number(table, "request_ms", field, kMilliseconds));
    spec_.network = {.bytes_per_s = mb_per_s * 1e6, .request_s = request_ms * 1e-3};
    return {};
  }

  const toml::table& root_;
  SourcedFile file_;
  HostSpec spec_;
};

template <typename Named>
Result<Named> named(const std::vector<Named>& all, std::string_view wanted, std::string_view kind,
                    std::string_view host) {
  if (wanted.empty() && !all.empty()) return all.front();
  std::vector<std::string> names;
  for (const Named& one : all) {
    if (one.name == wanted) return one;
    names.push_back(one.name);
  }
  return fail(ErrorCode::kNotFound, "the host {} has no {} '{}'; it has: {}", host, kind, wanted,
              fmt::join(names, ", "));
}

}  // namespace

double HostCurve::at(double x) const {
  const auto above = std::ranges::find_if(points, [x](const Point& point) { return point.x >= x; });
  if (above == points.begin()) return points.front().y;
  if (above == points.end()) return points.back().y;
  const Point& low = *(above - 1);
  return low.y + (above->y - low.y) * (x - low.x) / (above->x - low.x);
}

Result<HostLoader> HostSpec::loader(std::string_view wanted) const {
  return named(loaders, wanted, "loader", name);
}

Result<HostStorage> HostSpec::storage(std::string_view wanted) const {
  return named(storages, wanted, "storage", name);
}

Result<HostSpec> parse_host_spec(std::string_view toml, std::string_view origin) {
  GPEMU_ASSIGN(const toml::table root, parse_toml(toml, origin));
  return HostReader(root, origin).read();
}

Result<HostSpec> load_host_spec(const std::filesystem::path& path) {
  constexpr Bytes kMaxBytes = kMiB;  // Hundreds of times the largest one.
  GPEMU_ASSIGN(const std::string text, read_file(path, kMaxBytes));
  return parse_host_spec(text, path.string());
}

std::vector<std::string> host_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const std::filesystem::path& file : paths_in(folder)) {
    if (file.extension() == ".toml") names.push_back(file.stem().string());
  }
  return names;
}

Result<HostSpec> find_host(const std::filesystem::path& folder, std::string_view name_or_path) {
  if (name_or_path.contains('/') || name_or_path.ends_with(".toml")) {
    return load_host_spec(name_or_path);
  }
  const std::vector<std::string> names = host_names(folder);
  if (std::ranges::find(names, name_or_path) == names.end()) {
    return fail(ErrorCode::kNotFound,
                "there is no host \"{}\"{}; there are: {}. The path of a TOML file describes "
                "another one",
                name_or_path, did_you_mean(name_or_path, names), fmt::join(names, ", "));
  }
  return load_host_spec(folder / fmt::format("{}.toml", name_or_path));
}

}  // namespace gpemu::profile
