// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/topology_spec.hpp"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "gpemu/base/file.hpp"

#include "nearest_names.hpp"
#include "sourced_file.hpp"

namespace gpemu::profile {
namespace {

using Keys = std::initializer_list<std::string_view>;

/// A range of whole numbers. The upper bounds only catch slips.
struct Range {
  std::int64_t least, most;
};
constexpr Range kIndex{0, 255};
constexpr Range kGeneration{1, 9};
constexpr Range kLanes{1, 32};
constexpr Range kLinks{1, 100};

/// Turns one parsed file into a TopologySpec; every fault carries its line.
class TopologyReader {
 public:
  TopologyReader(const toml::table& root, std::string_view origin)
      : root_(root), file_(root, origin) {}

  Result<TopologySpec> read() {
    GPEMU_ASSIGN(spec_.name, file_.name());
    GPEMU_ASSIGN(spec_.title, file_.text("title"));
    GPEMU_ASSIGN(spec_.gpu, file_.text("gpu"));
    GPEMU_TRY(check_keys(root_, "the file",
                         {"name", "title", "gpu", "sockets", "bridge", "switch", "adapter",
                          "nvlink", "peer_access", "sources"}));
    GPEMU_TRY(file_.read_sources());
    GPEMU_TRY(read_sockets());
    GPEMU_TRY(read_each("bridge", &TopologyReader::read_bridge));
    if (spec_.bridges.empty()) return file_.fault(root_, "bridge", "missing; expected [[bridge]]");
    GPEMU_TRY(read_each("switch", &TopologyReader::read_switch));
    GPEMU_TRY(read_each("adapter", &TopologyReader::read_adapter));
    GPEMU_TRY(place_gpus());
    GPEMU_TRY(read_nvlink());
    GPEMU_TRY(read_peer_access());
    GPEMU_TRY(file_.check_sources());
    spec_.sources = std::move(file_).citations();
    return std::move(spec_);
  }

 private:
  using ReadEntry = Result<void> (TopologyReader::*)(const toml::table&, const std::string&);

  [[nodiscard]] Result<void> check_keys(const toml::table& table, std::string_view field,
                                        Keys known) const {
    for (const auto& [key, node] : table) {
      if (std::ranges::find(known, key.str()) == known.end()) {
        return file_.fault(node, field, "unknown key '{}'", key.str());
      }
    }
    return {};
  }

  [[nodiscard]] Result<int> number(const toml::table& table, std::string_view key,
                                   const std::string& field, Range range) const {
    const toml::node* node = table.get(key);
    if (node == nullptr) return file_.fault(table, field, "{}: missing", key);
    return whole(*node, fmt::format("{}: {}", field, key), range);
  }

  [[nodiscard]] Result<int> whole(const toml::node& node, const std::string& field,
                                  Range range) const {
    const auto* value = node.as_integer();
    if (value == nullptr || value->get() < range.least || value->get() > range.most) {
      return file_.fault(node, field, "expected a whole number from {} to {}", range.least,
                         range.most);
    }
    return static_cast<int>(value->get());
  }

  /// Returns a list of whole numbers, which may be missing.
  [[nodiscard]] Result<std::vector<int>> numbers(const toml::node* node, const std::string& field,
                                                 Range range) const {
    std::vector<int> values;
    if (node == nullptr) return values;
    if (!node->is_array()) return file_.fault(*node, field, "expected a list of numbers");
    for (const toml::node& element : *node->as_array()) {
      GPEMU_ASSIGN(const int value, whole(element, field, range));
      values.push_back(value);
    }
    return values;
  }

  Result<void> read_sockets() {
    const toml::node* node = root_.get("sockets");
    if (node == nullptr || !node->is_array() || node->as_array()->empty()) {
      return file_.fault(node == nullptr ? root_ : *node, "sockets",
                         "expected a list with the processor in each socket");
    }
    for (const toml::node& processor : *node->as_array()) {
      if (!processor.is_string()) return file_.fault(processor, "sockets", "expected strings");
      spec_.sockets.push_back(processor.as_string()->get());
    }
    return {};
  }

  /// Reads the tables `[[key]]`, of which there may be none.
  Result<void> read_each(std::string_view key, ReadEntry read_entry) {
    const toml::node* node = root_.get(key);
    if (node == nullptr) return {};
    if (!node->is_array_of_tables()) return file_.fault(*node, key, "expected [[{}]]", key);
    if (std::cmp_greater(node->as_array()->size(), kIndex.most + 1)) {
      return file_.fault(*node, key, "a machine has at most {} of them", kIndex.most + 1);
    }
    for (const toml::node& entry : *node->as_array()) {
      const toml::table& table = *entry.as_table();
      GPEMU_ASSIGN(const std::string name, file_.text(table, "name", fmt::format("{}.name", key)));
      const std::string field = fmt::format("{} {}", key, name);
      if (!is_plain_name(name)) return file_.fault(entry, key, "'{}' is not a plain name", name);
      if (!names_.emplace(name).second) {
        return file_.fault(entry, field, "there is another one of this name");
      }
      GPEMU_TRY(file_.cite(table, field));
      GPEMU_TRY((this->*read_entry)(table, name));
    }
    return {};
  }

  Result<void> read_bridge(const toml::table& table, const std::string& name) {
    const std::string field = "bridge " + name;
    GPEMU_TRY(
        check_keys(table, field, {"name", "socket", "numa_node", "gb_per_s", "gpus", "source"}));
    const Range sockets{0, static_cast<std::int64_t>(spec_.sockets.size()) - 1};
    GPEMU_ASSIGN(const int socket, number(table, "socket", field, sockets));
    GPEMU_ASSIGN(const int numa_node, number(table, "numa_node", field, kIndex));
    const Place below{.below_switch = false, .index = static_cast<int>(spec_.bridges.size())};
    std::optional<double> rate;
    if (table.contains("gb_per_s")) {
      GPEMU_ASSIGN(rate, bytes_per_s(table, field));
    }
    spec_.bridges.push_back(
        {.name = name, .socket = socket, .numa_node = numa_node, .bytes_per_s = rate});
    return note_gpus(table, field, below);
  }

  Result<void> read_switch(const toml::table& table, const std::string& name) {
    const std::string field = "switch " + name;
    GPEMU_TRY(check_keys(table, field, {"name", "below", "generation", "lanes", "gpus", "source"}));
    PcieSwitch made{.name = name, .place = {}, .uplink = {}};
    GPEMU_ASSIGN(made.place, place_of(table, field));
    GPEMU_ASSIGN(made.uplink.generation, number(table, "generation", field, kGeneration));
    GPEMU_ASSIGN(made.uplink.lanes, number(table, "lanes", field, kLanes));
    const Place below{.below_switch = true, .index = static_cast<int>(spec_.switches.size())};
    spec_.switches.push_back(std::move(made));
    return note_gpus(table, field, below);
  }

  Result<void> read_adapter(const toml::table& table, const std::string& name) {
    const std::string field = "adapter " + name;
    GPEMU_TRY(check_keys(table, field, {"name", "below", "gb_per_s", "source"}));
    GPEMU_ASSIGN(const Place place, place_of(table, field));
    GPEMU_ASSIGN(const double rate, bytes_per_s(table, field));
    spec_.adapters.push_back({.name = name, .place = place, .bytes_per_s = rate});
    return {};
  }

  [[nodiscard]] Result<double> bytes_per_s(const toml::table& table,
                                           const std::string& field) const {
    const toml::node* rate = table.get("gb_per_s");
    const double gb_per_s = rate == nullptr ? 0 : rate->value<double>().value_or(0);
    if (!(gb_per_s > 0 && gb_per_s < 1e4)) {
      return file_.fault(rate == nullptr ? table : *rate, field,
                         "gb_per_s: expected a number above 0 and below 10000");
    }
    return gb_per_s * 1e9;
  }

  /// Returns the place that `below` names.
  [[nodiscard]] Result<Place> place_of(const toml::table& table, const std::string& field) const {
    GPEMU_ASSIGN(const std::string below, file_.text(table, "below", field + ": below"));
    const auto find = [&below](const auto& entries) -> std::optional<int> {
      const auto found =
          std::ranges::find(entries, below, [](const auto& entry) { return entry.name; });
      if (found == entries.end()) return std::nullopt;
      return static_cast<int>(found - entries.begin());
    };
    if (const auto bridge = find(spec_.bridges)) return Place{false, *bridge};
    if (const auto found = find(spec_.switches)) return Place{true, *found};
    return file_.fault(*table.get("below"), field,
                       "below: there is no bridge and no earlier switch '{}'", below);
  }

  Result<void> note_gpus(const toml::table& table, const std::string& field, Place place) {
    const toml::node* node = table.get("gpus");
    GPEMU_ASSIGN(const std::vector<int> gpus, numbers(node, field + ": gpus", kIndex));
    for (const int gpu : gpus) {
      if (!gpus_.emplace(gpu, place).second) {
        return file_.fault(*node, field, "gpus: GPU {} has a place already", gpu);
      }
    }
    return {};
  }

  Result<void> place_gpus() {
    if (gpus_.empty()) return file_.fault(root_, "gpus", "no bridge or switch has any");
    for (const auto& [gpu, place] : gpus_) {
      if (gpu != static_cast<int>(spec_.gpus.size())) {
        return file_.fault(root_, "gpus", "GPU {} is missing; they are numbered from 0",
                           spec_.gpus.size());
      }
      spec_.gpus.push_back(place);
    }
    return {};
  }

  Result<void> read_nvlink() {
    const toml::node* node = root_.get("nvlink");
    if (node == nullptr) return {};
    if (!node->is_table()) return file_.fault(*node, "nvlink", "expected a table");
    const toml::table& table = *node->as_table();
    GPEMU_TRY(check_keys(table, "nvlink", {"switched_links", "bonds", "source"}));
    GPEMU_TRY(file_.cite(table, "nvlink"));
    const bool switched = table.contains("switched_links");
    if (switched == table.contains("bonds")) {
      return file_.fault(table, "nvlink", "expected either switched_links or bonds");
    }
    if (!switched) return read_bonds(*table.get("bonds"));
    GPEMU_ASSIGN(spec_.switched_links, number(table, "switched_links", "nvlink", kLinks));
    return {};
  }

  Result<void> read_peer_access() {
    const toml::node* node = root_.get("peer_access");
    if (node == nullptr) return {};
    if (!node->is_table()) return file_.fault(*node, "peer_access", "expected a table");
    GPEMU_TRY(check_keys(*node->as_table(), "peer_access", {"source"}));
    spec_.has_open_driver = true;
    return file_.cite(*node->as_table(), "peer_access");
  }

  Result<void> read_bonds(const toml::node& node) {
    const std::string field = "nvlink: bonds";
    if (!node.is_array()) {
      return file_.fault(node, field, "expected a list of [GPU, GPU, number of links]");
    }
    std::set<std::pair<int, int>> seen;
    for (const toml::node& element : *node.as_array()) {
      GPEMU_ASSIGN(const std::vector<int> bond, numbers(&element, field, kIndex));
      const auto gpus = static_cast<int>(spec_.gpus.size());
      if (bond.size() != 3 || bond[0] == bond[1] || bond[0] >= gpus || bond[1] >= gpus ||
          bond[2] < kLinks.least || bond[2] > kLinks.most) {
        return file_.fault(element, field,
                           "expected two of the {} GPUs and the number of links between them",
                           gpus);
      }
      if (!seen.insert(std::minmax(bond[0], bond[1])).second) {
        return file_.fault(element, field, "GPUs {} and {} have another bond", bond[0], bond[1]);
      }
      spec_.bonds.push_back({.first = bond[0], .second = bond[1], .links = bond[2]});
    }
    return {};
  }

  const toml::table& root_;
  SourcedFile file_;
  std::set<std::string> names_;
  std::map<int, Place> gpus_;
  TopologySpec spec_;
};

/// Changes the numbers of GPUs in a parsed machine into places in `gpus`; those that are not there
/// are left out.
class GpuNumbers {
 public:
  explicit GpuNumbers(std::span<const std::size_t> gpus) : gpus_(gpus) {}

  void change(toml::table& root) const {
    for (const char* const kind : {"bridge", "switch"}) {
      toml::array* const entries = root[kind].as_array();
      for (std::size_t i = 0; entries != nullptr && i < entries->size(); ++i) {
        change_gpus(*entries->get_as<toml::table>(i));
      }
    }
    if (toml::table* const nvlink = root["nvlink"].as_table()) change_bonds(*nvlink);
    const toml::array* const bonds = root["nvlink"]["bonds"].as_array();
    if (bonds != nullptr && bonds->empty()) root.erase("nvlink");
  }

 private:
  [[nodiscard]] std::optional<std::int64_t> of(const toml::node& number) const {
    const auto found = std::ranges::find(gpus_, static_cast<std::size_t>(**number.as_integer()));
    if (found == gpus_.end()) return std::nullopt;
    return found - gpus_.begin();
  }

  void change_gpus(toml::table& place) const {
    const toml::array* const all = place["gpus"].as_array();
    if (all == nullptr) return;
    toml::array kept;
    for (const toml::node& gpu : *all) {
      if (const auto number = of(gpu)) kept.push_back(*number);
    }
    place.insert_or_assign("gpus", std::move(kept));
  }

  void change_bonds(toml::table& nvlink) const {
    const toml::array* const all = nvlink["bonds"].as_array();
    if (all == nullptr) return;
    toml::array kept;
    for (const toml::node& bond : *all) {
      const toml::array& ends = *bond.as_array();
      const auto first = of(ends[0]), second = of(ends[1]);
      if (first && second) kept.push_back(toml::array{*first, *second, **ends[2].as_integer()});
    }
    nvlink.insert_or_assign("bonds", std::move(kept));
  }

  std::span<const std::size_t> gpus_;
};

/// Returns the sources that the tables of a file name.
std::set<std::string> sources_named(const toml::table& root) {
  std::set<std::string> names;
  const auto look = [&names](const toml::table& table) {
    if (const auto name = table["source"].value<std::string>()) names.insert(*name);
  };
  for (const auto& [key, node] : root) {
    if (const toml::table* const table = node.as_table()) look(*table);
    const toml::array* const entries = node.as_array();
    for (std::size_t i = 0; entries != nullptr && i < entries->size(); ++i) {
      if (const toml::table* const table = entries->get_as<toml::table>(i)) look(*table);
    }
  }
  return names;
}

}  // namespace

Result<TopologySpec> parse_topology_spec(std::string_view toml, std::string_view origin) {
  GPEMU_ASSIGN(const toml::table root, parse_toml(toml, origin));
  GPEMU_ASSIGN(TopologySpec spec, TopologyReader(root, origin).read());
  spec.toml = toml;
  return spec;
}

Result<TopologySpec> load_topology_spec(const std::filesystem::path& path) {
  constexpr Bytes kMaxBytes = kMiB;  // Hundreds of times the largest one.
  GPEMU_ASSIGN(const std::string text, read_file(path, kMaxBytes));
  return parse_topology_spec(text, path.string());
}

Result<TopologySpec> with_some_gpus(const TopologySpec& machine,
                                    std::span<const std::size_t> gpus) {
  GPEMU_ASSIGN(toml::table root, parse_toml(machine.toml, machine.name));
  GpuNumbers(gpus).change(root);
  const std::set<std::string> named = sources_named(root);
  toml::table sources;
  for (const auto& [key, citation] : *root["sources"].as_table()) {
    if (named.contains(std::string(key.str()))) sources.insert(key, citation);
  }
  root.insert_or_assign("sources", std::move(sources));
  std::ostringstream text;
  text << root;
  return parse_topology_spec(text.str(), machine.name);
}

std::vector<std::string> topology_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const std::filesystem::path& file : paths_in(folder)) {
    if (file.extension() == ".toml") names.push_back(file.stem().string());
  }
  return names;
}

Result<TopologySpec> find_topology(const std::filesystem::path& folder,
                                   std::string_view name_or_path) {
  if (name_or_path.contains('/') || name_or_path.ends_with(".toml")) {
    return load_topology_spec(name_or_path);
  }
  const std::vector<std::string> names = topology_names(folder);
  if (std::ranges::find(names, name_or_path) == names.end()) {
    return fail(ErrorCode::kNotFound,
                "there is no topology \"{}\"{}; `gpemu node topo` lists them, and the path of a "
                "TOML file describes another machine",
                name_or_path, did_you_mean(name_or_path, names));
  }
  return load_topology_spec(folder / fmt::format("{}.toml", name_or_path));
}

}  // namespace gpemu::profile
