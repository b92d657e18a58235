// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpemu/base/error.hpp"

namespace gpemu::profile {

/// A value of a factor.
struct FactorValue {
  std::string text;                ///< for people and tables.
  std::vector<std::string> words;  ///< for the command line.
  std::optional<double> number;    ///< nothing if the value is no number.
};

struct Factor {
  std::string name;
  std::vector<FactorValue> values;
};

/// Cells that have one of the given values of each of the given factors.
struct CellRule {
  struct Condition {
    std::size_t factor = 0;           ///< index into SweepSpec::factors.
    std::vector<std::size_t> values;  ///< indices into its values.
  };
  std::vector<Condition> conditions;
};

/// A column of a sweep's table, made from what the command printed for a cell.
struct SweepColumn {
  std::string name;   ///< in the table and in plots.
  std::string title;  ///< for people, with its unit.
  std::string value;  ///< an expression, or the name of a text.
  int line = 0;       ///< of the value.
};

struct SweepPlot {
  std::string title;
  std::size_t x = 0, y = 0;           ///< a factor and a column.
  std::optional<std::size_t> series;  ///< a factor: one line for each value.
  std::optional<std::size_t> facet;   ///< a factor: one plot for each value.
};

/// Runs of one command: one for each combination of the factors' values.
struct SweepSpec {
  std::string name;
  std::string title;
  std::vector<std::string> command;  ///< the words after "gpemu", with {FACTOR}.
  /// In the order of the file. The last is the number of the repetition, from 1 on.
  std::vector<Factor> factors;
  std::vector<CellRule> only, exclude;
  std::vector<SweepColumn> columns;
  std::vector<SweepPlot> plots;
  std::vector<std::string> slurm_options;  ///< of sbatch.
  std::string image;                       ///< of the containers of Kubernetes; empty: not given.
  std::string volume;                      ///< their volume's source, as JSON; empty: not given.
  std::filesystem::path folder;            ///< of the file; commands run there.
};

inline constexpr std::string_view kRepeatFactor = "repeat";

/// So many cells are a slip.
inline constexpr std::size_t kMostCells = 1'000'000;

/// Parses a file of docs/reference/sweep-file.md.
///
/// Errors: kCorruptData as "origin:line: field: what is wrong".
[[nodiscard]] Result<SweepSpec> parse_sweep_spec(std::string_view toml, std::string_view origin);

/// Reads one. Errors: those of read_file() and of parsing.
[[nodiscard]] Result<SweepSpec> read_sweep_spec(const std::filesystem::path& file);

/// Returns the words of `{NAME}` in a word; nothing if there is no such factor.
using WordsOf = std::function<std::optional<std::vector<std::string>>(std::string_view factor)>;

/// Replaces each {NAME} in a word, and {{NAME}} by {NAME}. A word that is {NAME} alone becomes all
/// of its words, of which there may be none; elsewhere they have spaces between them.
///
/// Errors: kInvalidArgument for a NAME that `words_of` does not know.
[[nodiscard]] Result<std::vector<std::string>> filled_in(std::string_view word,
                                                         const WordsOf& words_of);

}  // namespace gpemu::profile
