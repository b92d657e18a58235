// SPDX-License-Identifier: Apache-2.0
#include "slurm/slurm_settings.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

#include <toml++/toml.h>

#include "gpemu/base/file.hpp"
#include "gpemu/topology/network.hpp"

namespace gpemu::tools {
namespace {

constexpr Bytes kMostDescriptionBytes = kMiB;
constexpr std::size_t kMostNodeNames = 65'536;
/// Shards of a GPU. Source: as many tenants can share one, device::kMostTenants.
constexpr int kMostShards = 64;

std::unexpected<Error> no_hostlist(std::string_view list) {
  return fail(ErrorCode::kInvalidArgument,
              "\"{}\" is no host list; write e.g. \"n1\" or \"n[1-4,7]\"", list);
}

/// Returns the parts of a list between its commas that are not in brackets.
std::vector<std::string_view> parts_of(std::string_view list) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  bool inside = false;
  for (std::size_t i = 0; i <= list.size(); ++i) {
    if (i < list.size() && list[i] == '[') inside = true;
    if (i < list.size() && list[i] == ']') inside = false;
    if (i < list.size() && (list[i] != ',' || inside)) continue;
    parts.push_back(list.substr(begin, i - begin));
    begin = i + 1;
  }
  return parts;
}

/// Adds "PREFIX08" to "PREFIX10" for the range "08-10".
bool add_range(std::string_view prefix, std::string_view range, std::string_view suffix,
               std::vector<std::string>& names) {
  const std::size_t dash = std::min(range.find('-'), range.size());
  const std::string_view low = range.substr(0, dash);
  const std::string_view high = dash == range.size() ? low : range.substr(dash + 1);
  std::size_t first = 0, last = 0;
  const auto read = [](std::string_view text, std::size_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  };
  if (!read(low, first) || !read(high, last) || last < first) return false;
  for (std::size_t number = first; number <= last && names.size() <= kMostNodeNames; ++number) {
    names.push_back(fmt::format("{}{:0{}}{}", prefix, number, low.size(), suffix));
  }
  return true;
}

}  // namespace

Result<std::vector<std::string>> names_of_hostlist(std::string_view list) {
  std::vector<std::string> names;
  for (const std::string_view part : parts_of(list)) {
    const std::size_t open = part.find('['), close = part.find(']');
    if (part.empty() || (open == std::string_view::npos) != (close == std::string_view::npos)) {
      return no_hostlist(list);
    }
    if (open == std::string_view::npos) {
      names.emplace_back(part);
      continue;
    }
    const std::string_view suffix = part.substr(std::min(close + 1, part.size()));
    if (close < open || suffix.find_first_of("[]") != std::string_view::npos) {
      return no_hostlist(list);
    }
    for (const std::string_view range : parts_of(part.substr(open + 1, close - open - 1))) {
      if (!add_range(part.substr(0, open), range, suffix, names)) return no_hostlist(list);
    }
  }
  if (names.size() <= kMostNodeNames) return names;
  return fail(ErrorCode::kInvalidArgument, "\"{}\" means more than {} names", list, kMostNodeNames);
}

namespace {

/// Reads the keys of a description.
class SlurmSettingsReader {
 public:
  explicit SlurmSettingsReader(std::string_view origin) : origin_(origin) {}

  Result<SlurmSettings> read(const toml::table& root) {
    for (const auto& [key, node] : root) {
      if (key == "state") {
        GPEMU_ASSIGN(settings_.state, text_of(key.str(), node));
      } else if (key == "usage") {
        GPEMU_ASSIGN(settings_.usage, text_of(key.str(), node));
      } else if (key == "network") {
        GPEMU_ASSIGN(settings_.network, text_of(key.str(), node));
        const auto network = topology::parse_network(settings_.network);
        if (!network) return wrong(node, key.str(), network.error().message);
      } else if (key == "nodes") {
        GPEMU_TRY(add_all_nodes(node));
      } else {
        return wrong(node, key.str(), "unknown; the keys are nodes, state, usage and network");
      }
    }
    if (settings_.usage.empty()) settings_.usage = settings_.state;
    if (!settings_.nodes.empty()) return std::move(settings_);
    return fail(ErrorCode::kCorruptData,
                "{}: no nodes; write e.g. [[nodes]], names = \"n[1-4]\" and gpus = "
                "[\"H100-SXM5-80GB:8\"]",
                origin_);
  }

 private:
  Result<void> add_all_nodes(const toml::node& node) {
    const auto* const tables = node.as_array();
    if (tables == nullptr || !tables->is_array_of_tables()) {
      return wrong(node, "nodes", "expected tables [[nodes]]");
    }
    for (const toml::node& table : *tables) GPEMU_TRY(add_nodes(*table.as_table()));
    return {};
  }

  Result<void> add_nodes(const toml::table& table) {
    SlurmNodes nodes;
    nodes.line = static_cast<int>(table.source().begin.line);
    for (const auto& [key, node] : table) GPEMU_TRY(set(nodes, key.str(), node));
    if (nodes.pattern.empty()) return wrong(table, "names", "missing, e.g. names = \"n[1-4]\"");
    if (nodes.gpus.empty() && nodes.topology.empty()) {
      return wrong(table, "gpus", "missing; give gpus, e.g. [\"H100-SXM5-80GB:8\"], or topology");
    }
    const int parts =
        (nodes.shards > 0 ? 1 : 0) + (nodes.mps ? 1 : 0) + (nodes.mig.empty() ? 0 : 1);
    if (parts > 1) return wrong(table, "nodes", "give only one of shards, mps and mig");
    if (!nodes.limits_shards && nodes.shards == 0) {
      return wrong(table, "limit_shards", "the nodes have no shards; give shards, too");
    }
    // Source: Slurm 22.05 with both in GresTypes sets no CUDA_VISIBLE_DEVICES for jobs with mps.
    for (const SlurmNodes& other : settings_.nodes) {
      const bool mixed = (nodes.mps && other.shards > 0) || (nodes.shards > 0 && other.mps);
      if (mixed) return wrong(table, "nodes", "a cluster of Slurm has either shards or mps");
    }
    for (const std::string& name : nodes.names) {
      if (!settings_.of(name)) continue;
      return wrong(table, "names", fmt::format("{} is in an earlier table, too", name));
    }
    settings_.nodes.push_back(std::move(nodes));
    return {};
  }

  Result<void> set(SlurmNodes& nodes, std::string_view key, const toml::node& node) {
    if (key == "names") {
      GPEMU_ASSIGN(nodes.pattern, text_of(key, node));
      auto names = names_of_hostlist(nodes.pattern);
      if (!names) return wrong(node, key, names.error().message);
      nodes.names = *std::move(names);
      return {};
    }
    if (key == "gpus") return set_list(nodes.gpus, key, node);
    if (key == "mig") return set_list(nodes.mig, key, node);
    if (key == "topology") {
      GPEMU_ASSIGN(nodes.topology, text_of(key, node));
      return {};
    }
    if (key == "cpus") return set_number(nodes.cpus, key, node, 1, 1 << 16);
    if (key == "shards") return set_number(nodes.shards, key, node, 1, kMostShards);
    if (key == "mps") return set_flag(nodes.mps, key, node);
    if (key == "limit_shards") return set_flag(nodes.limits_shards, key, node);
    return wrong(node, key,
                 "unknown; the keys of nodes are names, gpus, topology, cpus, shards, "
                 "limit_shards, mps and mig");
  }

  Result<void> set_flag(bool& value, std::string_view key, const toml::node& node) {
    const auto* const flag = node.as_boolean();
    if (flag == nullptr) return wrong(node, key, "expected true or false");
    value = flag->get();
    return {};
  }

  Result<std::string> text_of(std::string_view key, const toml::node& node) {
    const auto* const text = node.as_string();
    if (text != nullptr && !text->get().empty()) return text->get();
    return wrong(node, key, "expected a string");
  }

  Result<void> set_list(std::vector<std::string>& list, std::string_view key,
                        const toml::node& node) {
    const auto* const items = node.as_array();
    if (items == nullptr || items->empty()) return wrong(node, key, "expected a list of strings");
    for (const toml::node& item : *items) {
      GPEMU_ASSIGN(std::string text, text_of(key, item));
      list.push_back(std::move(text));
    }
    return {};
  }

  Result<void> set_number(int& value, std::string_view key, const toml::node& node, int least,
                          int most) {
    const auto* const number = node.as_integer();
    if (number == nullptr || number->get() < least || number->get() > most) {
      return wrong(node, key, fmt::format("expected a number from {} to {}", least, most));
    }
    value = static_cast<int>(number->get());
    return {};
  }

  [[nodiscard]] std::unexpected<Error> wrong(const toml::node& node, std::string_view key,
                                             std::string_view what) const {
    return fail(ErrorCode::kCorruptData, "{}:{}: {}: {}", origin_, node.source().begin.line, key,
                what);
  }

  std::string_view origin_;
  SlurmSettings settings_;
};

}  // namespace

Result<const SlurmNodes*> SlurmSettings::of(std::string_view node) const {
  for (const SlurmNodes& some : nodes) {
    if (std::ranges::find(some.names, node) != some.names.end()) return &some;
  }
  return fail(ErrorCode::kNotFound,
              "the description of the cluster has no node {}; add it to the names of its [[nodes]]",
              node);
}

Result<SlurmSettings> parse_slurm_settings(std::string_view text, std::string_view origin) {
  try {
    return SlurmSettingsReader(origin).read(toml::parse(text));
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::kCorruptData, "{}:{}: {}", origin, error.source().begin.line,
                error.description());
  }
}

Result<SlurmSettings> read_slurm_settings(const std::filesystem::path& path) {
  GPEMU_ASSIGN(const std::string text, read_file(path, kMostDescriptionBytes));
  return parse_slurm_settings(text, path.string());
}

}  // namespace gpemu::tools
