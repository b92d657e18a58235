// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/experiment_spec.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "gpemu/base/file.hpp"

#include "nearest_names.hpp"
#include "sourced_file.hpp"

namespace gpemu::profile {
namespace {

/// A key of a run: where its value goes, and which values it may have.
struct WordKey {
  std::string_view name;
  std::string ExperimentRun::* field;
  std::vector<std::string_view> choices;  ///< empty: any text.
};
struct CountKey {
  std::string_view name;
  int ExperimentRun::* field;
  int least, most;
};
struct RealKey {
  std::string_view name;
  double ExperimentRun::* field;
  double least, most;
};

/// The bounds only catch slips.
const std::array<WordKey, 17> kWordKeys = {{
    {"host", &ExperimentRun::host, {}},
    {"loader", &ExperimentRun::loader, {}},
    {"storage", &ExperimentRun::storage, {}},
    {"dataset", &ExperimentRun::dataset, {}},
    {"gpu", &ExperimentRun::gpu, {}},
    {"model", &ExperimentRun::model, {}},
    {"cache", &ExperimentRun::cache, {"page", "random", "minio", "small-first"}},
    {"peers", &ExperimentRun::peers, {"none", "partitioned", "locality"}},
    {"copy", &ExperimentRun::copy, {"pinned", "pageable"}},
    {"offload", &ExperimentRun::offload, {"none", "all", "fastflow"}},
    {"jobs", &ExperimentRun::jobs, {}},
    {"fleet", &ExperimentRun::fleet, {}},
    {"policy", &ExperimentRun::policy, {}},
    {"speeds", &ExperimentRun::speeds, {}},
    {"restarts", &ExperimentRun::restarts, {}},
    {"accounting", &ExperimentRun::accounting, {}},
    {"placement", &ExperimentRun::placement, {}},
}};
constexpr std::array<CountKey, 16> kCountKeys = {{
    {"files", &ExperimentRun::files, 0, 100'000'000},
    {"gpus", &ExperimentRun::gpus, 1, 1024},
    {"batch", &ExperimentRun::batch, 1, 1'000'000},
    {"nodes", &ExperimentRun::nodes, 1, 4096},
    {"workers", &ExperimentRun::workers, 1, 4096},
    {"prefetch", &ExperimentRun::prefetch, 1, 1024},
    {"group", &ExperimentRun::group, 1, 1'000'000},
    {"superbatch", &ExperimentRun::superbatch, 0, 1'000'000},
    {"shared_memory_batches", &ExperimentRun::shared_memory_batches, 0, 1'000'000},
    {"cpus", &ExperimentRun::cpus, 0, 4096},
    {"remote_workers", &ExperimentRun::remote_workers, 0, 4096},
    {"remote_cpus", &ExperimentRun::remote_cpus, 1, 4096},
    {"epochs", &ExperimentRun::epochs, 1, 1000},
    {"servers", &ExperimentRun::servers, 1, std::numeric_limits<int>::max()},
    {"first_jobs", &ExperimentRun::first_jobs, 0, 100'000'000},
    {"seeds", &ExperimentRun::seeds, 1, 1000},
}};
constexpr std::array<RealKey, 6> kRealKeys = {{
    {"cache_share", &ExperimentRun::cache_share, 0, 100},
    {"step_ms", &ExperimentRun::step_ms, 0, 1e9},
    {"copy_ms", &ExperimentRun::copy_ms, -1, 1e9},
    {"restart_s", &ExperimentRun::restart_s, 0, 1e9},
    {"round_s", &ExperimentRun::round_s, 0, 1e9},
    {"load", &ExperimentRun::load, 0.01, 100},
}};

/// NaN is in no range.
bool is_in_range(double value, double least, double most) {
  return value >= least && value <= most;
}
bool is_count_in_range(double value, double least, double most) {
  return is_in_range(value, least, most) && value == std::floor(value);
}

class ExperimentReader {
 public:
  ExperimentReader(const toml::table& root, std::string_view origin)
      : root_(root), file_(root, origin), folder_(std::filesystem::path(origin).parent_path()) {}

  Result<ExperimentSpec> read() {
    GPEMU_ASSIGN(spec_.name, file_.name());
    GPEMU_ASSIGN(spec_.title, file_.text("title"));
    GPEMU_ASSIGN(spec_.paper, file_.text("paper"));
    GPEMU_TRY(check_keys(root_, "the file",
                         {"name", "title", "paper", "run", "variant", "row", "column", "check"}));
    GPEMU_ASSIGN(const toml::table* shared, table_of("run"));
    GPEMU_TRY(read_run(*shared, "run", {}, shared_));
    GPEMU_TRY(read_variants());
    GPEMU_TRY(read_each("row", &ExperimentReader::read_row));
    GPEMU_TRY(read_each("column", &ExperimentReader::read_column));
    GPEMU_TRY(read_each("check", &ExperimentReader::read_check));
    return std::move(spec_);
  }

 private:
  using ReadEntry = Result<void> (ExperimentReader::*)(const toml::table&);

  [[nodiscard]] Result<void> check_keys(const toml::table& table, std::string_view field,
                                        std::initializer_list<std::string_view> known) const {
    for (const auto& [key, node] : table) {
      if (std::ranges::find(known, key.str()) == known.end()) {
        return file_.fault(node, field, "unknown key '{}'", key.str());
      }
    }
    return {};
  }

  [[nodiscard]] Result<const toml::table*> table_of(std::string_view key) const {
    const toml::node* node = root_.get(key);
    if (node == nullptr || !node->is_table()) {
      return file_.fault(node == nullptr ? root_ : *node, key, "expected a table [{}]", key);
    }
    return node->as_table();
  }

  /// Changes a run as the keys of a table say, except those that are `others`.
  Result<void> read_run(const toml::table& table, const std::string& field,
                        std::initializer_list<std::string_view> others, ExperimentRun& run) const {
    for (const auto& [key, node] : table) {
      if (std::ranges::find(others, key.str()) != others.end()) continue;
      GPEMU_TRY(read_key(key.str(), node, field, run));
    }
    return {};
  }

  Result<void> read_key(std::string_view key, const toml::node& node, const std::string& field,
                        ExperimentRun& run) const {
    if (const auto word = std::ranges::find(kWordKeys, key, &WordKey::name);
        word != kWordKeys.end()) {
      const std::string value = node.value<std::string>().value_or("");
      const auto& choices = word->choices;
      if (value.empty() ||
          (!choices.empty() && std::ranges::find(choices, value) == choices.end())) {
        return file_.fault(
            node, field, "{}: expected {}", key,
            choices.empty() ? "a text" : fmt::format("\"{}\"", fmt::join(choices, "\" or \"")));
      }
      run.*word->field = value;
      return {};
    }
    const double value = node.is_number() ? node.value<double>().value_or(NAN) : NAN;
    if (const auto count = std::ranges::find(kCountKeys, key, &CountKey::name);
        count != kCountKeys.end()) {
      if (!is_count_in_range(value, count->least, count->most)) {
        return file_.fault(node, field, "{}: expected a whole number from {} to {}", key,
                           count->least, count->most);
      }
      run.*count->field = static_cast<int>(value);
      return {};
    }
    if (key == "seed") {
      if (!is_count_in_range(value, 0, 1e9)) {
        return file_.fault(node, field, "seed: expected a whole number from 0 to 1000000000");
      }
      run.seed = static_cast<std::uint64_t>(value);
      return {};
    }
    const auto real = std::ranges::find(kRealKeys, key, &RealKey::name);
    if (real == kRealKeys.end()) return file_.fault(node, field, "unknown key '{}'", key);
    if (!is_in_range(value, real->least, real->most)) {
      return file_.fault(node, field, "{}: expected a number from {} to {}", key, real->least,
                         real->most);
    }
    run.*real->field = value;
    return {};
  }

  Result<void> read_variants() {
    if (!root_.contains("variant")) {
      spec_.variants = {"run"};
      variants_ = {nullptr};
      return {};
    }
    GPEMU_ASSIGN(const toml::table* variants, table_of("variant"));
    for (const auto& [key, node] : *variants) {
      if (!node.is_table() || !is_expression_name(key.str())) {
        return file_.fault(node, "variant", "expected [variant.NAME], a NAME of a-z, 0-9 and _");
      }
      spec_.variants.emplace_back(key.str());
    }
    // In the order of the file.
    std::ranges::sort(spec_.variants, {}, [variants](const std::string& name) {
      return variants->get(name)->source().begin.line;
    });
    for (const std::string& name : spec_.variants) {
      variants_.push_back(variants->get(name)->as_table());
    }
    return {};
  }

  /// Reads the tables `[[key]]`, of which there must be one.
  Result<void> read_each(std::string_view key, ReadEntry read_entry) {
    const toml::node* node = root_.get(key);
    if (node == nullptr || !node->is_array_of_tables()) {
      return file_.fault(node == nullptr ? root_ : *node, key, "expected [[{}]]", key);
    }
    names_.clear();
    for (const toml::node& entry : *node->as_array()) {
      GPEMU_TRY((this->*read_entry)(*entry.as_table()));
    }
    return {};
  }

  Result<std::string> unique_name(const toml::table& table, std::string_view kind) {
    GPEMU_ASSIGN(std::string name, file_.text(table, "name", fmt::format("{}: name", kind)));
    if (!is_expression_name(name)) {
      return file_.fault(table, kind, "name: expected a-z, 0-9 and _, a letter first");
    }
    if (!names_.insert(name).second) {
      return file_.fault(table, kind, "there is another one named {}", name);
    }
    return name;
  }

  Result<void> read_row(const toml::table& table) {
    ExperimentRow row;
    GPEMU_ASSIGN(row.name, unique_name(table, "row"));
    const std::string field = "row " + row.name;
    GPEMU_ASSIGN(row.label, file_.text(table, "label", field + ": label"));
    for (const auto& [key, value] : {std::pair{"paper", &row.paper}, {"gpemu", &row.gpemu}}) {
      const toml::node* node = table.get(key);
      if (node == nullptr) continue;
      if (!node->is_number()) return file_.fault(*node, field, "{}: expected a number", key);
      *value = node->value<double>().value_or(NAN);
    }
    for (std::size_t i = 0; i < variants_.size(); ++i) {
      ExperimentRun run = shared_;
      GPEMU_TRY(read_run(table, field, {"name", "label", "paper", "gpemu"}, run));
      if (variants_[i] != nullptr) {
        GPEMU_TRY(read_run(*variants_[i], "variant " + spec_.variants[i], {}, run));
      }
      GPEMU_TRY(check_run(table, field, run));
      row.runs.push_back(std::move(run));
    }
    spec_.rows.push_back(std::move(row));
    return {};
  }

  /// Checks that a run has all that it needs, and makes the paths of its tables absolute.
  Result<void> check_run(const toml::table& table, const std::string& field,
                         ExperimentRun& run) const {
    const bool has_host = !run.host.empty() || !run.dataset.empty();
    const bool has_fleet = !run.policy.empty() || !run.placement.empty();
    if (has_host && has_fleet) {
      return file_.fault(table, field, "a run with a policy or placement has no host or dataset");
    }
    if (!run.policy.empty() && !run.placement.empty()) {
      return file_.fault(table, field, "a run has a policy or a placement");
    }
    if (!has_fleet && !run.jobs.empty()) {
      return file_.fault(table, field, "no policy and no placement, here and in [run]");
    }
    if (!has_fleet && (run.host.empty() || run.dataset.empty())) {
      return file_.fault(table, field, "no host or no dataset, here and in [run]");
    }
    if (has_fleet && (run.jobs.empty() || (run.fleet.empty() && run.policy.empty()))) {
      return file_.fault(table, field, "no fleet or no jobs, here and in [run]");
    }
    for (std::string* path : {&run.fleet, &run.jobs, &run.speeds, &run.restarts}) {
      if (!path->empty()) *path = (folder_ / *path).string();
    }
    return {};
  }

  Result<void> read_column(const toml::table& table) {
    ExperimentColumn column;
    GPEMU_ASSIGN(column.name, unique_name(table, "column"));
    const std::string field = "column " + column.name;
    GPEMU_TRY(check_keys(table, field, {"name", "title", "value"}));
    GPEMU_ASSIGN(column.title, file_.text(table, "title", field + ": title"));
    GPEMU_ASSIGN(column.value, file_.text(table, "value", field + ": value"));
    spec_.columns.push_back(std::move(column));
    return {};
  }

  Result<void> read_check(const toml::table& table) {
    GPEMU_TRY(check_keys(table, "check", {"text", "test", "reason"}));
    ExperimentCheck check;
    GPEMU_ASSIGN(check.text, file_.text(table, "text", "check: text"));
    GPEMU_ASSIGN(check.test, file_.text(table, "test", "check: test"));
    if (table.contains("reason")) {
      GPEMU_ASSIGN(check.reason, file_.text(table, "reason", "check: reason"));
    }
    spec_.checks.push_back(std::move(check));
    return {};
  }

  const toml::table& root_;
  SourcedFile file_;
  std::filesystem::path folder_;  ///< to which the paths in the file are relative.
  ExperimentRun shared_;
  std::vector<const toml::table*> variants_;  ///< null: changes nothing.
  std::set<std::string> names_;
  ExperimentSpec spec_;
};

constexpr Bytes kMostTomlBytes = kMiB;  // Hundreds of times the largest one.

template <typename Spec>
Result<Spec> find_file(const std::filesystem::path& found, std::vector<std::string> names,
                       std::string_view kind, std::string_view wanted,
                       Result<Spec> (*parse)(std::string_view, std::string_view)) {
  const bool is_path = wanted.contains('/') || wanted.ends_with(".toml");
  if (!is_path && std::ranges::find(names, wanted) == names.end()) {
    return fail(ErrorCode::kNotFound, "there is no {} \"{}\"{}; there are: {}", kind, wanted,
                did_you_mean(wanted, names), fmt::join(names, ", "));
  }
  const std::filesystem::path path = is_path ? std::filesystem::path(wanted) : found;
  GPEMU_ASSIGN(const std::string text, read_file(path, kMostTomlBytes));
  return parse(text, path.string());
}

}  // namespace

Result<DatasetSpec> parse_dataset_spec(std::string_view toml, std::string_view origin) {
  GPEMU_ASSIGN(const toml::table root, parse_toml(toml, origin));
  const SourcedFile file(root, origin);
  DatasetSpec spec;
  GPEMU_ASSIGN(spec.name, file.name());
  GPEMU_ASSIGN(spec.source, file.text("source"));
  for (const auto& [key, node] : root) {
    constexpr std::array<std::string_view, 5> kKnown = {"name", "source", "files", "bytes",
                                                        "percentiles"};
    if (std::ranges::find(kKnown, key.str()) == kKnown.end()) {
      return file.fault(node, "the file", "unknown key '{}'", key.str());
    }
  }
  for (const auto& [key, value, most] :
       {std::tuple{"files", &spec.files, std::int64_t{100'000'000}},
        {"bytes", &spec.bytes, std::int64_t{1} << 50}}) {
    const toml::node* node = root.get(key);
    const std::int64_t number = node == nullptr ? 0 : node->value<std::int64_t>().value_or(0);
    if (number < 1 || number > most) {
      return file.fault(node == nullptr ? root : *node, key, "expected a whole number from 1 to {}",
                        most);
    }
    *value = static_cast<std::uint64_t>(number);
  }
  const toml::node* node = root.get("percentiles");
  const auto wrong = [&](const toml::node& at) {
    return file.fault(
        at, "percentiles",
        "expected [per cent, bytes] pairs that ascend in both from 0 to 100 per cent");
  };
  if (node == nullptr || !node->is_array()) return wrong(node == nullptr ? root : *node);
  for (const toml::node& element : *node->as_array()) {
    const toml::array* pair = element.as_array();
    if (pair == nullptr || pair->size() != 2) return wrong(element);
    const double percent = pair->get(0)->value<double>().value_or(NAN);
    const double bytes = pair->get(1)->value<double>().value_or(NAN);
    const bool begins = spec.percentiles.empty() ? percent == 0
                                                 : percent > spec.percentiles.back().first &&
                                                       bytes >= spec.percentiles.back().second;
    if (!begins || !is_in_range(percent, 0, 100) || !is_in_range(bytes, 0, 4e9)) {
      return wrong(element);
    }
    spec.percentiles.emplace_back(percent, bytes);
  }
  if (spec.percentiles.empty() || spec.percentiles.back().first != 100) return wrong(*node);
  return spec;
}

Result<ExperimentSpec> parse_experiment_spec(std::string_view toml, std::string_view origin) {
  GPEMU_ASSIGN(const toml::table root, parse_toml(toml, origin));
  return ExperimentReader(root, origin).read();
}

std::vector<std::string> experiment_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const std::filesystem::path& entry : paths_in(folder)) {
    std::error_code ignored;
    if (std::filesystem::exists(entry / "experiment.toml", ignored)) {
      names.push_back(entry.filename().string());
    }
  }
  return names;
}

Result<ExperimentSpec> find_experiment(const std::filesystem::path& folder,
                                       std::string_view name_or_path) {
  return find_file(folder / name_or_path / "experiment.toml", experiment_names(folder),
                   "experiment", name_or_path, &parse_experiment_spec);
}

Result<DatasetSpec> find_dataset(const std::filesystem::path& folder,
                                 std::string_view name_or_path) {
  std::vector<std::string> names;
  for (const std::filesystem::path& file : paths_in(folder)) {
    if (file.extension() == ".toml") names.push_back(file.stem().string());
  }
  return find_file(folder / fmt::format("{}.toml", name_or_path), std::move(names), "data set",
                   name_or_path, &parse_dataset_spec);
}

}  // namespace gpemu::profile
