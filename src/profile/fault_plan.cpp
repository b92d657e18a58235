// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/fault_plan.hpp"

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "gpemu/base/file.hpp"

#include "sourced_file.hpp"

namespace gpemu::profile {
namespace {

/// Longer than any run; the bound only catches slips.
constexpr double kMostSeconds = 1e8;
constexpr std::int64_t kMostCount = 1'000'000'000'000;
/// Of a clock or a rate. What is slower is hardly slow but broken, and the bound keeps times far
/// from overflows.
constexpr double kLeastShare = 0.001;

/// Turns one table `[[fault]]` into a Fault; each mistake carries its line.
class FaultReader {
 public:
  FaultReader(const toml::table& table, const SourcedFile& file, std::size_t gpus)
      : table_(table), file_(file), gpus_(gpus) {}

  Result<Fault> read() {
    GPEMU_TRY(read_kind());
    GPEMU_TRY(check_keys(keys_of(fault_.kind)));
    GPEMU_ASSIGN(fault_.gpu, gpu("gpu"));
    GPEMU_TRY(read_begin());
    if (fault_.kind == FaultKind::kSlow) {
      GPEMU_ASSIGN(fault_.clock, share("clock"));
    }
    if (fault_.kind == FaultKind::kSlowLink) {
      GPEMU_TRY(read_link());
      GPEMU_ASSIGN(fault_.rate, share("rate"));
    }
    if (fault_.kind == FaultKind::kBrokenLink) {
      GPEMU_TRY(read_link());
      // The driver sees that the GPU does not answer.
      if (fault_.link == GpuLink::kPcie) fault_.kind = FaultKind::kLost;
    }
    if (!table_.contains("for_s")) return fault_;
    GPEMU_ASSIGN(const double lasts, real("for_s", 0, kMostSeconds));
    fault_.lasts = from_seconds(lasts);
    return fault_;
  }

 private:
  template <typename... Args>
  [[nodiscard]] std::unexpected<Error> wrong(std::string_view key,
                                             fmt::format_string<Args...> format,
                                             Args&&... args) const {
    const toml::node* node = table_.get(key);
    return file_.fault(node == nullptr ? static_cast<const toml::node&>(table_) : *node,
                       fmt::format("fault: {}", key), format, std::forward<Args>(args)...);
  }

  Result<void> read_kind() {
    const toml::node* node = table_.get("kind");
    const std::string text = node == nullptr ? "" : node->value<std::string>().value_or("");
    const auto found = std::ranges::find(kFaultKindNames, text);
    if (found == kFaultKindNames.end()) {
      return wrong("kind",
                   "expected \"slow\", \"lost\", \"kill\", \"slow-link\", \"broken-link\" or "
                   "\"illegal-address\"");
    }
    fault_.kind = static_cast<FaultKind>(found - kFaultKindNames.begin());
    return {};
  }

  /// Returns the key that says with which collective or kernel a fault begins.
  [[nodiscard]] static const char* count_key(FaultKind kind) {
    return kind == FaultKind::kIllegalAddress ? "at_kernel" : "at_collective";
  }

  [[nodiscard]] static std::vector<std::string_view> keys_of(FaultKind kind) {
    std::vector<std::string_view> keys = {"kind", "gpu", "at_s", count_key(kind)};
    const auto add = [&keys](std::initializer_list<std::string_view> more) {
      keys.insert(keys.end(), more);
    };
    if (kind == FaultKind::kSlow) add({"clock", "for_s"});
    if (kind == FaultKind::kLost) add({"for_s"});
    if (kind == FaultKind::kSlowLink) add({"link", "peer", "rate", "for_s"});
    if (kind == FaultKind::kBrokenLink) add({"link", "peer"});
    return keys;
  }

  [[nodiscard]] Result<void> check_keys(const std::vector<std::string_view>& known) const {
    for (const auto& [key, node] : table_) {
      if (std::ranges::find(known, key.str()) != known.end()) continue;
      return file_.fault(node, "fault", "unknown key '{}'; a fault of this kind has {}", key.str(),
                         fmt::join(known, ", "));
    }
    return {};
  }

  Result<void> read_begin() {
    const char* const key = count_key(fault_.kind);
    const bool by_count = table_.contains(key);
    if (by_count == table_.contains("at_s")) {
      return wrong("at_s", "expected either at_s or {}, which say when it begins", key);
    }
    if (by_count) {
      GPEMU_ASSIGN(const std::int64_t number, whole(key, 1, kMostCount));
      (fault_.kind == FaultKind::kIllegalAddress ? fault_.at_kernel : fault_.at_collective) =
          static_cast<std::uint64_t>(number);
      return {};
    }
    GPEMU_ASSIGN(const double seconds, real("at_s", 0, kMostSeconds));
    fault_.at = from_seconds(seconds);
    return {};
  }

  Result<void> read_link() {
    const toml::node* node = table_.get("link");
    const std::string text = node == nullptr ? "" : node->value<std::string>().value_or("");
    if (text != "pcie" && text != "nvlink") {
      return wrong("link", "expected \"pcie\" or \"nvlink\"");
    }
    fault_.link = text == "pcie" ? GpuLink::kPcie : GpuLink::kNvlink;
    if (!table_.contains("peer")) return {};
    if (fault_.link == GpuLink::kPcie) {
      return wrong("peer", "the PCIe link of a GPU leads to all others, so it has no peer");
    }
    GPEMU_ASSIGN(fault_.peer, gpu("peer"));
    if (*fault_.peer == fault_.gpu) return wrong("peer", "expected another GPU");
    return {};
  }

  /// Returns the index of a GPU of the node.
  [[nodiscard]] Result<int> gpu(std::string_view key) const {
    GPEMU_ASSIGN(const std::int64_t index, whole(key, 0, static_cast<std::int64_t>(gpus_) - 1));
    return static_cast<int>(index);
  }

  /// Returns what is left of a clock or a rate.
  [[nodiscard]] Result<double> share(std::string_view key) const {
    GPEMU_ASSIGN(const double left, real(key, kLeastShare, 1));
    if (left == 1) return wrong(key, "1 is all of it, which is no fault");
    return left;
  }

  [[nodiscard]] Result<std::int64_t> whole(std::string_view key, std::int64_t least,
                                           std::int64_t most) const {
    const toml::node* node = table_.get(key);
    const auto* value = node == nullptr ? nullptr : node->as_integer();
    if (value == nullptr || value->get() < least || value->get() > most) {
      return wrong(key, "expected a whole number from {} to {}", least, most);
    }
    return value->get();
  }

  [[nodiscard]] Result<double> real(std::string_view key, double least, double most) const {
    const toml::node* node = table_.get(key);
    const bool is_number = node != nullptr && node->is_number();
    const double value = is_number ? node->value<double>().value_or(-1) : -1;
    if (!(value >= least && value <= most)) {
      return wrong(key, "expected a number from {:.12g} to {:.12g}", least, most);
    }
    return value;
  }

  const toml::table& table_;
  const SourcedFile& file_;
  std::size_t gpus_;
  Fault fault_;
};

}  // namespace

Result<FaultPlan> parse_fault_plan(std::string_view toml, std::string_view origin,
                                   std::size_t gpus) {
  GPEMU_ASSIGN(const toml::table root, parse_toml(toml, origin));
  const SourcedFile file(root, origin);
  for (const auto& [key, node] : root) {
    if (key != "fault") return file.fault(node, key.str(), "unknown key; expected [[fault]]");
  }
  const toml::node* tables = root.get("fault");
  if (tables == nullptr || !tables->is_array_of_tables()) {
    return file.fault(tables == nullptr ? static_cast<const toml::node&>(root) : *tables, "fault",
                      "expected a table [[fault]] for each fault");
  }
  FaultPlan plan{.faults = {}, .toml = std::string(toml)};
  for (const toml::node& table : *tables->as_array()) {
    if (plan.faults.size() == kMostFaults) {
      return file.fault(table, "fault", "a node has at most {} faults", kMostFaults);
    }
    GPEMU_ASSIGN(const Fault fault, FaultReader(*table.as_table(), file, gpus).read());
    plan.faults.push_back(fault);
  }
  return plan;
}

namespace {

/// Returns a fault as a table of the file, in which its GPU and its peer have these numbers.
std::string table_of(const Fault& fault, std::size_t gpu, std::optional<std::size_t> peer) {
  const auto kind = static_cast<std::size_t>(fault.kind);
  std::string text =
      fmt::format("[[fault]]\nkind = \"{}\"\ngpu = {}\n", kFaultKindNames[kind], gpu);
  const auto add = [&text](std::string_view key, const auto& value) {
    text += fmt::format("{} = {}\n", key, value);
  };
  if (fault.at_collective != 0) {
    add("at_collective", fault.at_collective);
  } else if (fault.at_kernel != 0) {
    add("at_kernel", fault.at_kernel);
  } else {
    add("at_s", to_seconds(fault.at));
  }
  if (fault.kind == FaultKind::kSlow) add("clock", fault.clock);
  if (fault.kind == FaultKind::kSlowLink) add("rate", fault.rate);
  if (fault.kind == FaultKind::kSlowLink || fault.kind == FaultKind::kBrokenLink) {
    add("link", fault.link == GpuLink::kPcie ? "\"pcie\"" : "\"nvlink\"");
  }
  if (peer) add("peer", *peer);
  if (fault.lasts) add("for_s", to_seconds(*fault.lasts));
  return text;
}

/// Returns what is left of a fault after a time.
std::optional<Fault> left_of(Fault fault, Duration elapsed) {
  if (fault.at_collective != 0 || fault.at_kernel != 0) return fault;
  const bool has_begun = fault.at < elapsed;
  // Processes that come later are not killed.
  if (has_begun && fault.kind == FaultKind::kKill) return std::nullopt;
  if (has_begun && fault.lasts) {
    *fault.lasts -= elapsed - fault.at;
    if (*fault.lasts <= Duration::zero()) return std::nullopt;
  }
  fault.at = std::max(fault.at - elapsed, Duration::zero());
  return fault;
}

}  // namespace

std::string faults_left(const FaultPlan& plan, std::span<const std::size_t> gpus,
                        Duration elapsed) {
  const auto number_of = [gpus](int gpu) -> std::optional<std::size_t> {
    const auto found = std::ranges::find(gpus, static_cast<std::size_t>(gpu));
    if (found == gpus.end()) return std::nullopt;
    return static_cast<std::size_t>(found - gpus.begin());
  };
  std::string text;
  for (const Fault& fault : plan.faults) {
    const auto gpu = number_of(fault.gpu);
    const auto peer = fault.peer ? number_of(*fault.peer) : std::nullopt;
    if (!gpu || (fault.peer && !peer)) continue;
    if (const auto left = left_of(fault, elapsed)) text += table_of(*left, *gpu, peer);
  }
  return text;
}

Result<FaultPlan> load_fault_plan(const std::filesystem::path& path, std::size_t gpus) {
  constexpr Bytes kMaxBytes = kMiB;  // Far more than kMostFaults take.
  GPEMU_ASSIGN(const std::string text, read_file(path, kMaxBytes));
  return parse_fault_plan(text, path.string(), gpus);
}

}  // namespace gpemu::profile
