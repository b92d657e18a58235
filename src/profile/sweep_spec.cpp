// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/sweep_spec.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "gpemu/base/file.hpp"

#include "nearest_names.hpp"
#include "sourced_file.hpp"

namespace gpemu::profile {
namespace {

constexpr Bytes kMostSweepBytes = kMiB;
constexpr std::array<std::string_view, 2> kTableNames = {"cell", "exit_status"};
constexpr std::int64_t kMostRepeats = 100'000;

/// A NAME in brackets at the beginning of a text.
struct BracketedName {
  std::string_view name;
  std::size_t size = 0;  ///< with its brackets.
};

std::optional<BracketedName> name_in_brackets(std::string_view text, std::string_view open,
                                              std::string_view close) {
  if (!text.starts_with(open)) return std::nullopt;
  const std::size_t end = text.find(close, open.size());
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view name = text.substr(open.size(), end - open.size());
  if (!is_expression_name(name)) return std::nullopt;
  return BracketedName{.name = name, .size = end + close.size()};
}

/// Returns a value of a factor; nothing if it is of another type.
std::optional<FactorValue> factor_value(const toml::node& node) {
  if (const auto whole = node.as_integer()) {
    std::string text = fmt::format("{}", whole->get());
    return FactorValue{text, {text}, static_cast<double>(whole->get())};
  }
  if (const auto real = node.as_floating_point()) {
    std::string text = fmt::format("{}", real->get());
    return FactorValue{text, {text}, real->get()};
  }
  if (const auto yes = node.as_boolean()) {
    std::string text = yes->get() ? "true" : "false";
    return FactorValue{text, {text}, std::nullopt};
  }
  if (const auto text = node.as_string()) {
    return FactorValue{text->get(), {text->get()}, std::nullopt};
  }
  const toml::array* array = node.as_array();
  if (array == nullptr) return std::nullopt;
  std::vector<std::string> words;
  for (const toml::node& element : *array) {
    if (!element.is_string()) return std::nullopt;
    words.push_back(element.as_string()->get());
  }
  return FactorValue{fmt::format("{}", fmt::join(words, " ")), words, std::nullopt};
}

class SweepReader {
 public:
  SweepReader(const toml::table& root, std::string_view origin)
      : root_(root), origin_(origin), file_(root, origin) {}

  Result<SweepSpec> read() {
    GPEMU_TRY(check_known(root_, "the file",
                          {"name", "title", "command", "repeat", "factor", "only", "exclude",
                           "column", "plot", "slurm", "kubernetes"}));
    GPEMU_ASSIGN(spec_.name, file_.name());
    spec_.title = spec_.name;
    if (root_.contains("title")) {
      GPEMU_ASSIGN(spec_.title, file_.text("title"));
    }
    GPEMU_TRY(read_factors());
    GPEMU_TRY(read_command());
    GPEMU_TRY(read_all("only", false, &SweepReader::read_only));
    GPEMU_TRY(read_all("exclude", false, &SweepReader::read_exclude));
    GPEMU_TRY(read_all("column", true, &SweepReader::read_column));
    GPEMU_TRY(read_all("plot", false, &SweepReader::read_plot));
    GPEMU_TRY(read_engines());
    spec_.folder = std::filesystem::path(origin_).parent_path();
    return std::move(spec_);
  }

 private:
  using ReadTable = Result<void> (SweepReader::*)(const toml::table&);

  [[nodiscard]] Result<void> check_known(const toml::table& table, std::string_view field,
                                         std::initializer_list<std::string_view> known) const {
    for (const auto& [key, node] : table) {
      if (std::ranges::find(known, key.str()) != known.end()) continue;
      return file_.fault(
          node, field, "unknown key '{}'{}", key.str(),
          did_you_mean(key.str(), std::vector<std::string>(known.begin(), known.end())));
    }
    return {};
  }

  /// Reads the tables `[[key]]`.
  Result<void> read_all(std::string_view key, bool is_needed, ReadTable read_one) {
    const toml::node* node = root_.get(key);
    if (node == nullptr && !is_needed) return {};
    if (node == nullptr || !node->is_array_of_tables()) {
      return file_.fault(node == nullptr ? root_ : *node, key, "expected [[{}]]", key);
    }
    for (const toml::node& entry : *node->as_array()) {
      GPEMU_TRY((this->*read_one)(*entry.as_table()));
    }
    return {};
  }

  [[nodiscard]] Result<std::vector<std::string>> texts(const toml::table& table,
                                                       std::string_view key,
                                                       std::string_view field) const {
    const toml::node* node = table.get(key);
    const toml::array* array = node == nullptr ? nullptr : node->as_array();
    if (array == nullptr) {
      return file_.fault(node == nullptr ? table : *node, field, "expected an array of texts");
    }
    std::vector<std::string> result;
    for (const toml::node& element : *array) {
      if (!element.is_string()) {
        return file_.fault(element, field, "expected a text; write numbers in quotes, too");
      }
      result.push_back(element.as_string()->get());
    }
    return result;
  }

  Result<void> take_name(const toml::node& node, std::string_view field, std::string_view name) {
    if (!is_expression_name(name)) {
      return file_.fault(node, field, "expected a name of a-z, 0-9 and _, a letter first");
    }
    if (std::ranges::find(kTableNames, name) != kTableNames.end()) {
      return file_.fault(node, field, "the table has a column '{}' already", name);
    }
    if (names_.insert(std::string(name)).second) return {};
    return file_.fault(node, field, "there is another factor or column of this name");
  }

  Result<void> read_factors() {
    const toml::node* node = root_.get("factor");
    if (node == nullptr || !node->is_table()) {
      return file_.fault(node == nullptr ? root_ : *node, "factor", "expected a table [factor]");
    }
    for (const auto& [key, values] : *node->as_table()) {
      const std::string field = fmt::format("factor.{}", key.str());
      if (key.str() == kRepeatFactor) {
        return file_.fault(values, field, "write `repeat = N` before [factor]");
      }
      GPEMU_TRY(take_name(values, field, key.str()));
      GPEMU_ASSIGN(Factor factor, factor_of(std::string(key.str()), values, field));
      spec_.factors.push_back(std::move(factor));
      nodes_.push_back(&values);
    }
    sort_factors();
    return read_repeat();
  }

  /// Puts the factors into the order of the file.
  void sort_factors() {
    std::vector<std::pair<const toml::node*, Factor>> both;
    both.reserve(nodes_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      both.emplace_back(nodes_[i], std::move(spec_.factors[i]));
    }
    std::ranges::sort(both, {}, [](const auto& one) {
      const toml::source_position begin = one.first->source().begin;
      return std::pair(begin.line, begin.column);
    });
    for (std::size_t i = 0; i < both.size(); ++i) {
      nodes_[i] = both[i].first;
      spec_.factors[i] = std::move(both[i].second);
    }
  }

  Result<void> read_repeat() {
    const toml::node* node = root_.get(kRepeatFactor);
    if (node == nullptr) return {};
    const std::int64_t count = node->is_integer() ? node->as_integer()->get() : 0;
    if (count < 1 || count > kMostRepeats) {
      return file_.fault(*node, kRepeatFactor, "expected a whole number from 1 to {}",
                         kMostRepeats);
    }
    GPEMU_TRY(take_name(*node, kRepeatFactor, kRepeatFactor));
    spec_.factors.push_back(whole_numbers(std::string(kRepeatFactor), 1, count, 1));
    nodes_.push_back(nullptr);
    return {};
  }

  static Factor whole_numbers(std::string name, std::int64_t from, std::int64_t to,
                              std::int64_t step) {
    Factor factor{.name = std::move(name), .values = {}};
    for (std::int64_t value = from; value <= to; value += step) {
      const std::string text = fmt::format("{}", value);
      factor.values.push_back({text, {text}, static_cast<double>(value)});
    }
    return factor;
  }

  Result<Factor> factor_of(std::string name, const toml::node& node, const std::string& field) {
    if (const toml::table* range = node.as_table()) {
      return range_of(std::move(name), *range, field);
    }
    const toml::array* values = node.as_array();
    if (values == nullptr || values->empty()) {
      return file_.fault(node, field, "expected values in [ ], or {{ from = 1, to = 10 }}");
    }
    Factor factor{.name = std::move(name), .values = {}};
    for (const toml::node& element : *values) {
      std::optional<FactorValue> value = factor_value(element);
      if (!value) {
        return file_.fault(element, field,
                           "expected a number, a text, a truth value or an array of texts");
      }
      if (std::ranges::find(factor.values, value->text, &FactorValue::text) !=
          factor.values.end()) {
        return file_.fault(element, field, "'{}' is there twice", value->text);
      }
      factor.values.push_back(*std::move(value));
    }
    return factor;
  }

  Result<Factor> range_of(std::string name, const toml::table& range, const std::string& field) {
    GPEMU_TRY(check_known(range, field, {"from", "to", "step"}));
    const auto number = [&range](std::string_view key) {
      const toml::node* node = range.get(key);
      return node != nullptr && node->is_integer() ? std::optional(node->as_integer()->get())
                                                   : std::nullopt;
    };
    constexpr std::int64_t kMost = 1'000'000'000'000;
    const auto from = number("from"), to = number("to");
    const auto step = range.contains("step") ? number("step") : std::optional<std::int64_t>(1);
    if (!from || !to || !step || *step < 1 || *step > kMost || *from > *to || *from < -kMost ||
        *to > kMost) {
      return file_.fault(range, field,
                         "expected whole numbers: from, to, which is not less, and a step above 0");
    }
    if ((*to - *from) / *step >= static_cast<std::int64_t>(kMostCells)) {
      return file_.fault(range, field, "more than {} values", kMostCells);
    }
    return whole_numbers(std::move(name), *from, *to, *step);
  }

  Result<void> read_command() {
    GPEMU_ASSIGN(spec_.command, texts(root_, "command", "command"));
    const toml::node& node = *root_.get("command");
    if (spec_.command.empty() || spec_.command.front().starts_with('-')) {
      return file_.fault(node, "command",
                         R"(expected the words after "gpemu", such as ["train", "synthetic"])");
    }
    if (spec_.command.front() == "sweep") {
      return file_.fault(node, "command", "a sweep does not start sweeps");
    }
    std::set<std::string, std::less<>> used;
    const WordsOf words_of = [&](std::string_view name) -> std::optional<std::vector<std::string>> {
      if (std::ranges::find(spec_.factors, name, &Factor::name) == spec_.factors.end()) {
        return std::nullopt;
      }
      used.emplace(name);
      return std::vector<std::string>{};
    };
    for (std::size_t i = 0; i < spec_.command.size(); ++i) {
      const auto words = filled_in(spec_.command[i], words_of);
      if (!words) {
        return file_.fault(*node.as_array()->get(i), "command", "{}", words.error().message);
      }
    }
    for (std::size_t i = 0; i < spec_.factors.size(); ++i) {
      if (nodes_[i] == nullptr || used.contains(spec_.factors[i].name)) continue;
      return file_.fault(*nodes_[i], "factor." + spec_.factors[i].name,
                         "the command has no {{{}}}; for runs of the same command, write "
                         "`repeat = N`",
                         spec_.factors[i].name);
    }
    return {};
  }

  Result<void> read_only(const toml::table& table) { return read_rule(table, "only", spec_.only); }
  Result<void> read_exclude(const toml::table& table) {
    return read_rule(table, "exclude", spec_.exclude);
  }

  Result<void> read_rule(const toml::table& table, std::string_view field,
                         std::vector<CellRule>& rules) {
    CellRule rule;
    for (const auto& [key, node] : table) {
      GPEMU_ASSIGN(const std::size_t factor, factor_named(node, field, key.str()));
      GPEMU_ASSIGN(CellRule::Condition condition, condition_of(factor, node, field));
      rule.conditions.push_back(std::move(condition));
    }
    if (rule.conditions.empty()) return file_.fault(table, field, "expected values of factors");
    rules.push_back(std::move(rule));
    return {};
  }

  [[nodiscard]] Result<CellRule::Condition> condition_of(std::size_t factor, const toml::node& node,
                                                         std::string_view field) const {
    CellRule::Condition condition{.factor = factor, .values = {}};
    const std::vector<FactorValue>& known = spec_.factors[factor].values;
    const auto add = [&](const toml::node& one) -> Result<void> {
      const std::optional<FactorValue> value = factor_value(one);
      const auto found = std::ranges::find(known, value ? value->text : "", &FactorValue::text);
      if (value && found != known.end()) {
        condition.values.push_back(static_cast<std::size_t>(found - known.begin()));
        return {};
      }
      return file_.fault(one, field, "{} has no value '{}'", spec_.factors[factor].name,
                         value ? value->text : "");
    };
    if (!node.is_array()) {
      GPEMU_TRY(add(node));
      return condition;
    }
    for (const toml::node& element : *node.as_array()) GPEMU_TRY(add(element));
    return condition;
  }

  [[nodiscard]] Result<std::size_t> factor_named(const toml::node& node, std::string_view field,
                                                 std::string_view name) const {
    const auto found = std::ranges::find(spec_.factors, name, &Factor::name);
    if (found != spec_.factors.end()) {
      return static_cast<std::size_t>(found - spec_.factors.begin());
    }
    std::vector<std::string> known;
    known.reserve(spec_.factors.size());
    for (const Factor& factor : spec_.factors) known.push_back(factor.name);
    return file_.fault(node, field, "there is no factor '{}'; there are: {}", name,
                       fmt::join(known, ", "));
  }

  Result<void> read_column(const toml::table& table) {
    SweepColumn column;
    GPEMU_ASSIGN(column.name, file_.text(table, "name", "column: name"));
    const std::string field = "column " + column.name;
    GPEMU_TRY(take_name(table, field, column.name));
    GPEMU_TRY(check_known(table, field, {"name", "title", "value"}));
    column.title = column.name;
    if (table.contains("title")) {
      GPEMU_ASSIGN(column.title, file_.text(table, "title", field + ": title"));
    }
    GPEMU_ASSIGN(column.value, file_.text(table, "value", field + ": value"));
    column.line = static_cast<int>(table.get("value")->source().begin.line);
    spec_.columns.push_back(std::move(column));
    return {};
  }

  Result<void> read_plot(const toml::table& table) {
    GPEMU_TRY(check_known(table, "plot", {"title", "x", "y", "series", "facet"}));
    SweepPlot plot;
    const auto factor = [&](std::string_view key) -> Result<std::size_t> {
      GPEMU_ASSIGN(const std::string name, file_.text(table, key, fmt::format("plot: {}", key)));
      return factor_named(*table.get(key), fmt::format("plot: {}", key), name);
    };
    GPEMU_ASSIGN(plot.x, factor("x"));
    if (table.contains("series")) {
      GPEMU_ASSIGN(plot.series, factor("series"));
    }
    if (table.contains("facet")) {
      GPEMU_ASSIGN(plot.facet, factor("facet"));
    }
    GPEMU_ASSIGN(const std::string y, file_.text(table, "y", "plot: y"));
    const auto column = std::ranges::find(spec_.columns, y, &SweepColumn::name);
    if (column == spec_.columns.end()) {
      return file_.fault(*table.get("y"), "plot: y", "there is no column '{}'", y);
    }
    plot.y = static_cast<std::size_t>(column - spec_.columns.begin());
    plot.title = column->title;
    if (table.contains("title")) {
      GPEMU_ASSIGN(plot.title, file_.text(table, "title", "plot: title"));
    }
    spec_.plots.push_back(std::move(plot));
    return {};
  }

  [[nodiscard]] Result<const toml::table*> engine(
      std::string_view key, std::initializer_list<std::string_view> known) const {
    const toml::node* node = root_.get(key);
    if (node == nullptr) return nullptr;
    if (!node->is_table()) return file_.fault(*node, key, "expected a table [{}]", key);
    GPEMU_TRY(check_known(*node->as_table(), key, known));
    return node->as_table();
  }

  Result<void> read_engines() {
    GPEMU_ASSIGN(const toml::table* slurm, engine("slurm", {"options"}));
    if (slurm != nullptr) {
      GPEMU_ASSIGN(spec_.slurm_options, texts(*slurm, "options", "slurm.options"));
      for (const std::string& option : spec_.slurm_options) {
        if (option.starts_with('-') && option.find('\n') == std::string::npos) continue;
        return file_.fault(*slurm->get("options"), "slurm.options",
                           R"('{}' is no option; expected such as "--time=10:00")", option);
      }
    }
    GPEMU_ASSIGN(const toml::table* kubernetes, engine("kubernetes", {"image", "volume"}));
    if (kubernetes == nullptr) return {};
    GPEMU_ASSIGN(spec_.image, file_.text(*kubernetes, "image", "kubernetes.image"));
    const toml::node* volume = kubernetes->get("volume");
    if (volume == nullptr || !volume->is_table() || volume->as_table()->empty()) {
      return file_.fault(volume == nullptr ? *kubernetes : *volume, "kubernetes.volume",
                         "expected the source of a volume that holds this file's folder, such as "
                         "{{ nfs = {{ server = \"...\", path = \"...\" }} }}");
    }
    std::ostringstream json;
    json << toml::json_formatter(*volume->as_table());
    spec_.volume = json.str();
    return {};
  }

  const toml::table& root_;
  std::string_view origin_;
  SourcedFile file_;
  SweepSpec spec_;
  std::vector<const toml::node*> nodes_;  ///< of the factors; null: the repetition.
  std::set<std::string> names_;           ///< of factors and columns.
};

}  // namespace

Result<std::vector<std::string>> filled_in(std::string_view word, const WordsOf& words_of) {
  std::string result;
  for (std::size_t at = 0; at < word.size();) {
    const std::string_view rest = word.substr(at);
    if (const auto literal = name_in_brackets(rest, "{{", "}}")) {
      result += fmt::format("{{{}}}", literal->name);
      at += literal->size;
      continue;
    }
    const auto found = name_in_brackets(rest, "{", "}");
    if (!found) {
      result += rest.front();
      ++at;
      continue;
    }
    std::optional<std::vector<std::string>> words = words_of(found->name);
    if (!words) {
      return fail(ErrorCode::kInvalidArgument,
                  "there is no factor '{0}'; write {{{{{0}}}}} for the text {{{0}}}", found->name);
    }
    if (found->size == word.size()) return *std::move(words);
    result += fmt::format("{}", fmt::join(*words, " "));
    at += found->size;
  }
  return std::vector{result};
}

Result<SweepSpec> parse_sweep_spec(std::string_view toml, std::string_view origin) {
  GPEMU_ASSIGN(const toml::table root, parse_toml(toml, origin));
  return SweepReader(root, origin).read();
}

Result<SweepSpec> read_sweep_spec(const std::filesystem::path& file) {
  GPEMU_ASSIGN(const std::string text, read_file(file, kMostSweepBytes));
  return parse_sweep_spec(text, file.string());
}

}  // namespace gpemu::profile
