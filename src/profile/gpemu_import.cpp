// SPDX-License-Identifier: Apache-2.0
#include "gpemu_import.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"
#include "gpemu/profile/import.hpp"

#include "pack_format.hpp"
#include "table_reader.hpp"

namespace gpemu::profile {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTimeHeader = "Batch_Size,Time_In_SECONDS";
constexpr std::string_view kMemoryHeader = "batch_size,peak,persistent";
constexpr std::string_view kFlatHeader =
    "model,batch,forward_ms,backward_ms,compute_measured,h2d_pageable_ms,peak_mib,persistent_mib,"
    "memory_measured";
constexpr std::int64_t kMaxImportedBatch = 10'000'000;

/// Bounds the time that fitting takes, which grows with the square of the rows.
constexpr std::size_t kMaxRowsPerCurve = 4096;

/// Rounds to the resolution of a pack's tables, so that what is compared later is what is written.
double rounded(double value) {
  return std::round(value * 1e4) / 1e4;
}

/// Returns the names of the folders, or of the files, in `folder`, in order; none when it is not
/// there.
std::vector<std::string> names_in(const fs::path& folder, bool folders) {
  std::vector<std::string> names;
  for (const fs::path& path : paths_in(folder)) {
    std::error_code ignored;
    if (fs::is_directory(path, ignored) == folders) names.push_back(path.filename().string());
  }
  return names;
}

/// Collects measured rows, and counts those that it refuses.
class Collector {
 public:
  explicit Collector(const ImportNames& names) : names_(names) {}

  Result<std::string> gpu(std::string_view name, const fs::path& where) {
    Result<std::string> known = names_.gpu(name);
    if (known) return known;
    return fail(known.error().code, "{}: {}", where.string(), known.error().message);
  }

  /// Chooses what the following calls are about.
  void select(const std::string& gpu, const std::string& model) {
    gpu_ = gpu;
    model_ = model;
    const auto precision = names_.precisions.find(gpu);
    precision_ = precision == names_.precisions.end() ? "fp32" : precision->second;
  }

  /// Adds the rows for which `filled` is false to a curve. A value that is not positive is dropped.
  void add(Quantity quantity, std::span<const CurvePoint> rows, const std::vector<bool>& filled,
           const fs::path& file) {
    RowCounts& counts = data_.counts[gpu_][static_cast<std::size_t>(quantity)];
    MeasuredCurve curve{.key = {model_, gpu_, precision_, quantity}, .rows = {}};
    int dropped = 0;
    for (std::size_t row = 0; row < rows.size(); ++row) {
      const double value = rounded(rows[row].value);
      if (value <= 0) {
        ++dropped;
      } else if (filled[row]) {
        ++counts.extrapolated;
      } else {
        ++counts.measured;
        curve.rows.push_back({rows[row].batch, value});
      }
    }
    counts.dropped += dropped;
    if (dropped > 0) {
      data_.messages.push_back(fmt::format("{}: {} of {}: dropped {} rows that are not positive",
                                           file.string(), quantity_name(quantity), model_,
                                           dropped));
    }
    if (!curve.rows.empty()) data_.curves.push_back(std::move(curve));
  }

  void note(std::string message) { data_.messages.push_back(std::move(message)); }

  /// Notes the largest batch that ran, and the next one when it was not measured.
  void add_limit(std::span<const CurvePoint> rows, const std::vector<bool>& filled) {
    MemoryLimit limit{.model = model_, .gpu = gpu_, .precision = precision_, .pack = {}};
    for (std::size_t row = 0; row < rows.size(); ++row) {
      if (!filled[row]) {
        limit.largest_batch_measured = rows[row].batch;
        limit.first_batch_out_of_memory.reset();
      } else if (!limit.first_batch_out_of_memory) {
        limit.first_batch_out_of_memory = rows[row].batch;
      }
    }
    if (limit.largest_batch_measured > 0) data_.limits.push_back(std::move(limit));
  }

  MeasuredData take() {
    std::ranges::sort(data_.curves, {}, &MeasuredCurve::key);
    return std::move(data_);
  }

 private:
  const ImportNames& names_;
  std::string gpu_;
  std::string model_;
  std::string precision_;
  MeasuredData data_;
};

std::vector<bool> fill_from(std::size_t begin, std::size_t size) {
  std::vector<bool> filled(size, false);
  std::fill(filled.begin() + static_cast<std::ptrdiff_t>(std::min(begin, size)), filled.end(),
            true);
  return filled;
}

/// Reads the tables of one model on one GPU in the folder layout.
class FolderReader {
 public:
  FolderReader(fs::path root, Collector& collector)
      : root_(std::move(root)), collector_(collector) {}

  Result<void> read(const std::string& gpu, const std::string& model) {
    GPEMU_TRY(read_compute(gpu, model));
    const fs::path copy =
        root_ / "time" / "transfer" / gpu / model / "data_transfer_time_by_batch_size.csv";
    GPEMU_ASSIGN(const std::vector<CurvePoint> copies, read_table(copy, parse_time_table));
    // Every batch can be copied, so nobody filled rows in here.
    collector_.add(Quantity::kInputCopyPageable, copies, fill_from(copies.size(), copies.size()),
                   copy);
    return read_memory(gpu, model);
  }

 private:
  /// Returns no rows when there is no such file.
  template <typename Row>
  Result<std::vector<Row>> read_table(const fs::path& file,
                                      std::vector<Row> (*parse)(std::string_view, const fs::path&,
                                                                std::vector<PackFault>&)) {
    const Result<std::string> text = read_file(file);
    if (!text && text.error().code == ErrorCode::kNotFound) return std::vector<Row>();
    if (!text) return std::unexpected(text.error());
    std::vector<PackFault> faults;
    std::vector<Row> rows = parse(*text, file, faults);
    GPEMU_TRY(first_fault(faults));
    return rows;
  }

  Result<void> read_compute(const std::string& gpu, const std::string& model) {
    const fs::path compute = root_ / "time" / "compute";
    const fs::path forward = compute / "forward" / gpu / model / "time_by_batch_size.csv";
    const fs::path backward = compute / "backward" / gpu / model / "time_by_batch_size.csv";
    GPEMU_ASSIGN(const std::vector<CurvePoint> forwards, read_table(forward, parse_time_table));
    GPEMU_ASSIGN(const std::vector<CurvePoint> backwards, read_table(backward, parse_time_table));
    // A batch that ran out of memory has neither time. That both tables end in a line guards
    // against taking a few measured rows for one by chance.
    std::size_t forward_fill = find_linear_fill(forwards);
    std::size_t backward_fill = find_linear_fill(backwards);
    if (forwards.size() == backwards.size()) {
      const bool both = forward_fill < forwards.size() && backward_fill < backwards.size();
      forward_fill = both ? std::min(forward_fill, backward_fill) : forwards.size();
      backward_fill = forward_fill;
    }
    const std::vector<bool> filled = fill_from(forward_fill, forwards.size());
    collector_.add(Quantity::kForward, forwards, filled, forward);
    collector_.add(Quantity::kBackwardOptimizer, backwards,
                   fill_from(backward_fill, backwards.size()), backward);
    collector_.add_limit(forwards, filled);
    return {};
  }

  Result<void> read_memory(const std::string& gpu, const std::string& model) {
    const fs::path file = root_ / "memory" / gpu / model / "memory.csv";
    GPEMU_ASSIGN(const std::vector<MemoryRow> rows, read_table(file, parse_memory_table));
    const std::vector<bool> filled = find_polynomial_fill(rows);
    std::vector<CurvePoint> peaks;
    std::vector<CurvePoint> persistents;
    for (const MemoryRow& row : rows) {
      peaks.push_back({row.batch, row.peak});
      persistents.push_back({row.batch, row.persistent});
    }
    collector_.add(Quantity::kPeakMemory, peaks, filled, file);
    collector_.add(Quantity::kPersistentMemory, persistents, filled, file);
    return {};
  }

  fs::path root_;
  Collector& collector_;
};

Result<void> read_folder_layout(const fs::path& root, Collector& collector) {
  const fs::path parts[] = {root / "time" / "compute" / "forward",
                            root / "time" / "compute" / "backward", root / "time" / "transfer",
                            root / "memory"};
  std::map<std::string, std::set<std::string>> models;
  for (const fs::path& part : parts) {
    for (const std::string& gpu : names_in(part, true)) {
      for (const std::string& model : names_in(part / gpu, true)) models[gpu].insert(model);
    }
  }
  FolderReader reader(root, collector);
  for (const auto& [gpu, gpu_models] : models) {
    GPEMU_ASSIGN(const std::string name, collector.gpu(gpu, root));
    for (const std::string& model : gpu_models) {
      if (!is_name(model)) {
        return fail(ErrorCode::kCorruptData, "{}: \"{}\" cannot be a model's name", root.string(),
                    model);
      }
      collector.select(name, model);
      GPEMU_TRY(reader.read(gpu, model));
    }
  }
  return {};
}

/// Adds to `filled`, and counts, rows that the flags call measured, but that lie on the polynomial
/// of the filled rows at the end: single batches that did not fit, among others that did. Where
/// only every so many batches were measured there are none, and the polynomial passes measured rows
/// closely.
int add_forgotten_rows(std::span<const FlatRow> rows, std::vector<bool>& filled) {
  std::size_t tail = rows.size();
  while (tail > 0 && filled[tail - 1]) --tail;
  std::vector<MemoryRow> memory;
  for (const FlatRow& row : rows) memory.push_back({row.batch, row.peak_mib, row.persistent_mib});
  const std::vector<bool> on_tail = find_rows_on_tail(memory, tail);
  const std::vector<bool> flagged = filled;
  int forgotten = 0;
  for (std::size_t row = 1; row < tail; ++row) {
    const bool dense = !flagged[row - 1] && rows[row - 1].batch + 1 == rows[row].batch;
    if (!dense || flagged[row] || !on_tail[row]) continue;
    filled[row] = true;
    ++forgotten;
  }
  return forgotten;
}

/// Returns how many memory rows it took for extrapolated against their flags.
int add_flat_model(std::span<const FlatRow> rows, const fs::path& file, Collector& collector) {
  std::array<std::vector<CurvePoint>, kQuantityNames.size()> columns;
  std::vector<bool> compute_filled;
  std::vector<bool> memory_filled;
  for (const FlatRow& row : rows) {
    const std::array<double, kQuantityNames.size()> values = {
        row.forward_ms, row.backward_ms, row.h2d_pageable_ms, row.peak_mib, row.persistent_mib};
    for (std::size_t i = 0; i < values.size(); ++i) columns[i].push_back({row.batch, values[i]});
    compute_filled.push_back(!row.compute_measured);
    memory_filled.push_back(!row.memory_measured);
  }
  const int forgotten = add_forgotten_rows(rows, memory_filled);
  const std::vector<bool> none(rows.size(), false);
  const std::array<const std::vector<bool>*, kQuantityNames.size()> filled = {
      &compute_filled, &compute_filled, &none, &memory_filled, &memory_filled};
  for (std::size_t i = 0; i < columns.size(); ++i) {
    collector.add(static_cast<Quantity>(i), columns[i], *filled[i], file);
  }
  collector.add_limit(columns[0], compute_filled);
  return forgotten;
}

Result<void> read_flat_file(const fs::path& file, Collector& collector) {
  GPEMU_ASSIGN(const std::string text, read_file(file));
  std::vector<PackFault> faults;
  const std::vector<FlatRow> rows = parse_flat_table(text, file, faults);
  GPEMU_TRY(first_fault(faults));
  GPEMU_ASSIGN(const std::string gpu, collector.gpu(file.stem().string(), file));
  int forgotten = 0;
  for (auto begin = rows.begin(); begin != rows.end();) {
    const auto end = std::find_if(begin, rows.end(),
                                  [&](const FlatRow& row) { return row.model != begin->model; });
    collector.select(gpu, begin->model);
    forgotten += add_flat_model({begin, end}, file, collector);
    begin = end;
  }
  if (forgotten > 0) {
    collector.note(
        fmt::format("{}: took {} memory rows that are flagged as measured for extrapolated, "
                    "because they lie on the polynomial of the extrapolated rows",
                    file.string(), forgotten));
  }
  return {};
}

/// Reports a batch that does not ascend within its model, or the row that is one too many.
class RowOrder {
 public:
  void check(TableReader& table, std::string_view model, std::int64_t batch) {
    if (model != model_) {
      if (!seen_.emplace(model).second) table.fault("the model's rows are not together");
      model_ = model;
      rows_ = 0;
    } else if (batch <= batch_) {
      table.fault("batches must ascend");
    }
    batch_ = batch;
    if (++rows_ == kMaxRowsPerCurve + 1) {
      table.fault(fmt::format("more than {} rows of one curve", kMaxRowsPerCurve));
    }
  }

 private:
  std::set<std::string, std::less<>> seen_;
  std::string model_ = "\n";  // No model is called so.
  std::int64_t batch_ = 0;
  std::size_t rows_ = 0;
};

}  // namespace

std::vector<CurvePoint> parse_time_table(std::string_view csv, const fs::path& file,
                                         std::vector<PackFault>& faults) {
  TableReader table(csv, file, kTimeHeader, faults);
  std::vector<CurvePoint> rows;
  RowOrder order;
  while (table.next()) {
    const auto batch = table.integer(0, 1, kMaxImportedBatch);
    const auto seconds = table.number(1);
    if (!batch || !seconds) continue;
    order.check(table, {}, *batch);
    rows.push_back({static_cast<int>(*batch), *seconds * 1e3});
  }
  return rows;
}

std::vector<MemoryRow> parse_memory_table(std::string_view csv, const fs::path& file,
                                          std::vector<PackFault>& faults) {
  TableReader table(csv, file, kMemoryHeader, faults);
  std::vector<MemoryRow> rows;
  RowOrder order;
  while (table.next()) {
    const auto batch = table.integer(0, 1, kMaxImportedBatch);
    const auto peak = table.number(1);
    const auto persistent = table.number(2);
    if (!batch || !peak || !persistent) continue;
    order.check(table, {}, *batch);
    rows.push_back({static_cast<int>(*batch), *peak, *persistent});
  }
  return rows;
}

std::vector<FlatRow> parse_flat_table(std::string_view csv, const fs::path& file,
                                      std::vector<PackFault>& faults) {
  TableReader table(csv, file, kFlatHeader, faults);
  std::vector<FlatRow> rows;
  RowOrder order;
  while (table.next()) {
    const auto model = table.name(0);
    const auto batch = table.integer(1, 1, kMaxImportedBatch);
    const auto forward = table.number(2);
    const auto backward = table.number(3);
    const auto compute_measured = table.integer(4, 0, 1);
    const auto copy = table.number(5);
    const auto peak = table.number(6);
    const auto persistent = table.number(7);
    const auto memory_measured = table.integer(8, 0, 1);
    if (!model || !batch || !forward || !backward || !compute_measured || !copy || !peak ||
        !persistent || !memory_measured) {
      continue;
    }
    order.check(table, *model, *batch);
    rows.push_back({.model = *model,
                    .batch = static_cast<int>(*batch),
                    .forward_ms = *forward,
                    .backward_ms = *backward,
                    .compute_measured = *compute_measured == 1,
                    .h2d_pageable_ms = *copy,
                    .peak_mib = *peak,
                    .persistent_mib = *persistent,
                    .memory_measured = *memory_measured == 1,
                    .line = table.line()});
  }
  return rows;
}

Result<MeasuredData> read_gpemu_tables(const fs::path& folder, const ImportNames& names) {
  Collector collector(names);
  std::error_code error;
  for (const fs::path& root : {folder, folder / "profiled_data"}) {
    if (fs::is_directory(root / "time" / "compute", error)) {
      GPEMU_TRY(read_folder_layout(root, collector));
      return collector.take();
    }
  }
  bool any_file = false;
  for (const std::string& name : names_in(folder, false)) {
    if (fs::path(name).extension() != ".csv") continue;
    any_file = true;
    GPEMU_TRY(read_flat_file(folder / name, collector));
  }
  if (!any_file) {
    return fail(ErrorCode::kNotFound,
                "{} holds neither GPEmu's time/compute folder nor tables GPU.csv", folder.string());
  }
  return collector.take();
}

}  // namespace gpemu::profile
