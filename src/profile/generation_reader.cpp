// SPDX-License-Identifier: Apache-2.0
#include "generation_reader.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/ranges.h>

namespace gpemu::profile {
namespace {

constexpr std::string_view kGenerationsFile = "catalog/generations.toml";

/// Which GPUs must have a fact.
enum class FactNeed { kAll, kWithNvlink, kNone };

/// A key of the table: the member that it sets, and the bounds of numbers, which only catch slips.
struct FactField {
  using Member =
      std::variant<int GenerationFacts::*, double GenerationFacts::*, bool GenerationFacts::*,
                   NcclTuning GenerationFacts::*, std::string GenerationFacts::*>;
  std::string_view key;
  Member member;
  double least = 0, most = 1;
  FactNeed need = FactNeed::kAll;
};

constexpr FactNeed kNvlink = FactNeed::kWithNvlink;
constexpr auto kFactFields = std::to_array<FactField>({
    {"threads_per_multiprocessor", &GenerationFacts::threads_per_multiprocessor, 32, 1 << 16},
    {"blocks_per_multiprocessor", &GenerationFacts::blocks_per_multiprocessor, 1, 1 << 12},
    {"shared_kib_per_multiprocessor", &GenerationFacts::shared_kib_per_multiprocessor, 16, 1 << 16},
    {"shared_kib_per_block", &GenerationFacts::shared_kib_per_block, 16, 1 << 16},
    {"reserved_shared_kib_per_block", &GenerationFacts::reserved_shared_kib_per_block, 0, 64},
    {"registers_per_multiprocessor", &GenerationFacts::registers_per_multiprocessor, 1 << 12,
     1 << 24},
    {"copy_engines", &GenerationFacts::copy_engines, 1, 64},
    {"cooperative_launch", &GenerationFacts::cooperative_launch},
    {"concurrent_managed_access", &GenerationFacts::concurrent_managed_access},
    {"cluster_launch", &GenerationFacts::cluster_launch},
    {"synchronize_depth", &GenerationFacts::synchronize_depth},
    {"fetch_granularity_bytes", &GenerationFacts::fetch_granularity_bytes, 1, 128},
    {"printf_kib_per_multiprocessor", &GenerationFacts::printf_kib_per_multiprocessor, 0, 1 << 16},
    {"context_mib", &GenerationFacts::context_mib, 1, 1 << 16},
    {"context_kib_per_multiprocessor", &GenerationFacts::context_kib_per_multiprocessor, 0,
     1 << 20},
    {"time_slice_us", &GenerationFacts::time_slice_us, 50, 100'000},
    {"context_switch_us", &GenerationFacts::context_switch_us, 0, 100'000},
    {"interrupts_kernels", &GenerationFacts::interrupts_kernels},
    {"mps_clients", &GenerationFacts::mps_clients, 1, 1024},
    {"nvml_architecture", &GenerationFacts::nvml_architecture, 2, 1024},
    {"graph_kernel_saving_ns", &GenerationFacts::graph_kernel_saving_ns, 0, 1e6},
    {"copy_latency_ns", &GenerationFacts::copy_latency_ns, 0, 1e6},
    {"pageable_share", &GenerationFacts::pageable_share, 0.01},
    {"flash_attention_share", &GenerationFacts::flash_attention_share, 0.01},
    {"efficient_attention_share", &GenerationFacts::efficient_attention_share, 0.01},
    {"grouped_tensor_cores", &GenerationFacts::grouped_tensor_cores},
    {"pointwise_in_place", &GenerationFacts::pointwise_in_place},
    {"along_sum_share", &GenerationFacts::along_sum_share, 0.01},
    {"along_sum_least_share", &GenerationFacts::along_sum_least_share, 0.01},
    {"operand_rate", &GenerationFacts::operand_rate, 1, 1e9},
    {"convolution_operand_rate", &GenerationFacts::convolution_operand_rate, 1, 1e9},
    {"half_convolution_bar", &GenerationFacts::half_convolution_bar, 0.01, 10},
    {"half_grouped_bar", &GenerationFacts::half_grouped_bar, 0.01, 10},
    {"half_direct_bar", &GenerationFacts::half_direct_bar, 0.01, 10},
    {"informs_other_gpus", &GenerationFacts::informs_other_gpus},
    {"fit_start", &GenerationFacts::fit_start, 0, 1, FactNeed::kNone},
    {"nccl_tuning", &GenerationFacts::nccl_tuning},
    {"nvlink_version", &GenerationFacts::nvlink_version, 1, 99, kNvlink},
    {"nvlink_link_gb_per_s", &GenerationFacts::nvlink_link_gb_per_s, 1, 1e5, kNvlink},
    {"nvlink_copy_share", &GenerationFacts::nvlink_copy_share, 0.01, 1, kNvlink},
    {"nvlink_switches", &GenerationFacts::nvlink_switches, 0, 1, kNvlink},
});

const FactField* find_fact(std::string_view key) {
  const auto found = std::ranges::find(kFactFields, key, &FactField::key);
  return found == kFactFields.end() ? nullptr : &*found;
}

/// Sets the members of a fact to a parsed value. Each returns what was expected instead, or "".
struct FactSetter {
  const toml::node& value;
  const FactField& field;
  GenerationFacts& facts;

  std::string operator()(int GenerationFacts::* member) const {
    const double number = numeric();
    if (is_within(number) && number == std::floor(number)) {
      facts.*member = static_cast<int>(number);
      return "";
    }
    return fmt::format("a whole number from {:.0f} to {:.0f}", field.least, field.most);
  }
  std::string operator()(double GenerationFacts::* member) const {
    const double number = numeric();
    if (!is_within(number)) {
      return fmt::format("a number from {:g} to {:g}; is the unit right?", field.least, field.most);
    }
    facts.*member = number;
    return "";
  }
  std::string operator()(bool GenerationFacts::* member) const {
    if (!value.is_boolean()) return "true or false";
    facts.*member = value.as_boolean()->get();
    return "";
  }
  std::string operator()(NcclTuning GenerationFacts::* member) const {
    const auto found = std::ranges::find(kNcclTuningNames, word());
    if (found == kNcclTuningNames.end()) {
      return fmt::format("one of {}", fmt::join(kNcclTuningNames, ", "));
    }
    facts.*member = static_cast<NcclTuning>(found - kNcclTuningNames.begin());
    return "";
  }
  std::string operator()(std::string GenerationFacts::* member) const {
    if (!is_plain_name(word())) return "the name of a GPU";
    facts.*member = word();
    return "";
  }

 private:
  [[nodiscard]] double numeric() const {
    return value.is_number() ? value.value<double>().value_or(std::nan("")) : std::nan("");
  }
  [[nodiscard]] std::string word() const { return value.value<std::string>().value_or(""); }
  /// NaN is not.
  [[nodiscard]] bool is_within(double number) const {
    return number >= field.least && number <= field.most;
  }
};

std::string text_of_fact(const GenerationFacts& facts, const FactField& field) {
  struct Writer {
    const GenerationFacts& facts;
    std::string operator()(int GenerationFacts::* member) const {
      return fmt::to_string(facts.*member);
    }
    std::string operator()(double GenerationFacts::* member) const {
      return fmt::format("{:.10g}", facts.*member);
    }
    std::string operator()(bool GenerationFacts::* member) const {
      return facts.*member ? "true" : "false";
    }
    std::string operator()(NcclTuning GenerationFacts::* member) const {
      return std::string(kNcclTuningNames.at(static_cast<std::size_t>(facts.*member)));
    }
    std::string operator()(std::string GenerationFacts::* member) const { return facts.*member; }
  };
  return std::visit(Writer{facts}, field.member);
}

void copy_fact(const GenerationFacts& from, const FactField& field, GenerationFacts& to) {
  std::visit([&](auto member) { to.*member = from.*member; }, field.member);
}

/// Whether it is a capability such as "8.6" or, for all that begin with it, "8".
bool is_capability(std::string_view text) {
  const std::size_t point = std::min(text.find('.'), text.size());
  const auto are_digits = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return point <= 2 && are_digits(text.substr(0, point)) &&
         (point == text.size() || (text.size() == point + 2 && are_digits(text.substr(point + 1))));
}

/// Returns the entry of a key, which is a value with its source.
Result<const toml::node*> value_with_source(const SourcedFile& file, const toml::node& node,
                                            std::string_view field) {
  const toml::table* entry = node.as_table();
  if (entry == nullptr) {
    return file.fault(node, field, "a fact needs a source: {{ value = ..., source = \"...\" }}");
  }
  for (const auto& [key, inner] : *entry) {
    if (key != "value" && key != "source") {
      return file.fault(inner, field, "unknown key '{}'; expected value and source", key.str());
    }
  }
  const toml::node* value = entry->get("value");
  if (value == nullptr) return file.fault(node, field, "no value");
  return value;
}

/// Reads one fact of a table.
Result<void> read_fact(SourcedFile& file, std::string_view table, std::string_view key,
                       const toml::node& node, SourcedFacts& facts) {
  const std::string path = fmt::format("{}.{}", table, key);
  const FactField* field = find_fact(key);
  if (field == nullptr) return file.fault(node, path, "unknown key");
  GPEMU_ASSIGN(const toml::node* value, value_with_source(file, node, path));
  const std::string expected = std::visit(FactSetter{*value, *field, facts.facts}, field->member);
  if (!expected.empty()) return file.fault(*value, path, "expected {}", expected);
  GPEMU_ASSIGN(std::string citation, file.citation(*node.as_table(), path));
  facts.citations.insert_or_assign(std::string(key), std::move(citation));
  return {};
}

/// Returns the capabilities that a group of facts is for.
Result<std::vector<std::string>> capabilities_of(const SourcedFile& file,
                                                 const toml::table& group) {
  const std::string_view wanted = "expected capabilities, as in [\"7\", \"8.6\"]";
  const toml::node* node = group.get("of");
  if (node == nullptr || !node->is_array() || node->as_array()->empty()) {
    return file.fault(node == nullptr ? group : *node, "facts.of", "{}", wanted);
  }
  std::vector<std::string> all;
  for (const toml::node& one : *node->as_array()) {
    all.push_back(one.value<std::string>().value_or(""));
    if (!is_capability(all.back())) return file.fault(one, "facts.of", "{}", wanted);
  }
  return all;
}

Result<void> add_group(SourcedFile& file, const toml::table& group, FactsByCapability& all) {
  GPEMU_ASSIGN(const std::vector<std::string> capabilities, capabilities_of(file, group));
  SourcedFacts facts;
  for (const auto& [key, node] : group) {
    if (key == "of") continue;
    GPEMU_TRY(read_fact(file, "facts", key.str(), node, facts));
    for (const std::string& capability : capabilities) {
      if (all[capability].citations.contains(key.str())) {
        return file.fault(node, fmt::format("facts.{}", key.str()),
                          "another group gives it to {}, too", capability);
      }
    }
  }
  for (const std::string& capability : capabilities) all[capability].add(facts);
  return {};
}

/// catalog/generations.toml. It stays for as long as the process: others may still read it at its
/// end.
const Result<FactsByCapability>& shipped_generations() {
  static const auto* const all =
      new Result<FactsByCapability>(parse_generations(generations_text(), kGenerationsFile));
  return *all;
}

/// Returns what is known of a capability: what holds for its major number, and over it its own.
Result<SourcedFacts> known_facts(int major, int minor) {
  const Result<FactsByCapability>& all = shipped_generations();
  if (!all) return std::unexpected(all.error());
  SourcedFacts facts;
  for (const std::string& name : {fmt::to_string(major), fmt::format("{}.{}", major, minor)}) {
    const auto found = all->find(name);
    if (found != all->end()) facts.add(found->second);
  }
  return facts;
}

std::vector<std::string_view> missing_facts(const SourcedFacts& facts, bool nvlink) {
  std::vector<std::string_view> missing;
  for (const FactField& field : kFactFields) {
    const bool needed =
        field.need == FactNeed::kAll || (nvlink && field.need == FactNeed::kWithNvlink);
    if (needed && !facts.citations.contains(field.key)) missing.push_back(field.key);
  }
  return missing;
}

/// Reads the key `like` of a GPU's table: a capability whose facts the GPU has.
Result<SourcedFacts> facts_like(SourcedFile& file, const toml::node& node) {
  constexpr std::string_view kField = "generation.like";
  GPEMU_ASSIGN(const toml::node* value, value_with_source(file, node, kField));
  const std::string like = value->value<std::string>().value_or("");
  const std::size_t point = like.find('.');
  if (!is_capability(like) || point == std::string::npos) {
    return file.fault(*value, kField, "expected a capability, as in \"8.6\"");
  }
  GPEMU_ASSIGN(const std::string reason, file.citation(*node.as_table(), std::string(kField)));
  GPEMU_ASSIGN(SourcedFacts facts, known_facts(std::stoi(like), std::stoi(like.substr(point + 1))));
  if (facts.citations.empty()) {
    return file.fault(*value, kField, "{} has no facts of compute capability {}", kGenerationsFile,
                      like);
  }
  for (auto& [key, citation] : facts.citations) {
    citation = fmt::format("As of compute capability {} ({}): {}", like, reason, citation);
  }
  return facts;
}

}  // namespace

void SourcedFacts::add(const SourcedFacts& other) {
  for (const auto& [key, citation] : other.citations) {
    copy_fact(other.facts, *find_fact(key), facts);
    citations.insert_or_assign(key, citation);
  }
}

std::vector<FactText> fact_texts(const GenerationFacts& facts) {
  std::vector<FactText> texts;
  for (const FactField& field : kFactFields) {
    std::string text = text_of_fact(facts, field);
    if (!text.empty()) texts.push_back({field.key, std::move(text)});
  }
  return texts;
}

Result<GenerationFacts> generation_facts(int major, int minor) {
  GPEMU_ASSIGN(SourcedFacts facts, known_facts(major, minor));
  const std::vector<std::string_view> missing = missing_facts(facts, false);
  if (missing.empty()) return std::move(facts.facts);
  return fail(ErrorCode::kCorruptData, "{} does not give compute capability {}.{} the keys {}",
              kGenerationsFile, major, minor, fmt::join(missing, ", "));
}

Result<FactsByCapability> parse_generations(std::string_view toml, std::string_view origin) {
  GPEMU_ASSIGN(const toml::table root, parse_toml(toml, origin));
  SourcedFile file(root, origin);
  GPEMU_TRY(file.read_sources());
  for (const auto& [key, node] : root) {
    if (key != "facts" && key != "sources") return file.fault(node, key.str(), "unknown key");
  }
  const toml::node* groups = root.get("facts");
  if (groups == nullptr || !groups->is_array()) {
    return file.fault(groups == nullptr ? root : *groups, "facts", "expected tables [[facts]]");
  }
  FactsByCapability all;
  for (const toml::node& group : *groups->as_array()) {
    if (!group.is_table()) return file.fault(group, "facts", "expected tables [[facts]]");
    GPEMU_TRY(add_group(file, *group.as_table(), all));
  }
  GPEMU_TRY(file.check_sources());
  return all;
}

Result<GenerationFacts> read_generation(const toml::table& root, SourcedFile& file,
                                        const CapabilityOfGpu& gpu) {
  GPEMU_ASSIGN(SourcedFacts facts, known_facts(gpu.major, gpu.minor));
  const toml::node* node = root.get("generation");
  if (node != nullptr) {
    const toml::table* table = node->as_table();
    if (table == nullptr) return file.fault(*node, "generation", "expected a table");
    if (const toml::node* like = table->get("like")) {
      if (missing_facts(facts, gpu.nvlink).empty()) {
        return file.fault(*like, "generation.like", "{} has all facts of compute capability {}.{}",
                          kGenerationsFile, gpu.major, gpu.minor);
      }
      GPEMU_ASSIGN(SourcedFacts all, facts_like(file, *like));
      all.add(facts);
      facts = std::move(all);
    }
    for (const auto& [key, value] : *table) {
      if (key != "like") GPEMU_TRY(read_fact(file, "generation", key.str(), value, facts));
    }
  }
  const std::vector<std::string_view> missing = missing_facts(facts, gpu.nvlink);
  if (!missing.empty()) {
    const toml::node* capability = root.at_path("compute.capability").node();
    return file.fault(capability == nullptr ? root : *capability, "generation",
                      "{} does not give compute capability {}.{} these keys: {}; give them in the "
                      "table [generation] (docs/reference/gpu-file.md)",
                      kGenerationsFile, gpu.major, gpu.minor, fmt::join(missing, ", "));
  }
  for (const auto& [key, citation] : facts.citations) {
    file.note(fmt::format("generation.{}", key), citation);
  }
  return std::move(facts.facts);
}

}  // namespace gpemu::profile
