// SPDX-License-Identifier: Apache-2.0
#include "database_rows.hpp"

namespace gpemu::profile {

Result<std::string> read_text(const SqliteConnection&, const SqliteStatement& row) {
  return row.text(0);
}

Result<GpuSpec> read_gpu(const SqliteConnection& connection, const SqliteStatement& row) {
  return parse_gpu_spec(row.text(1), fmt::format("{}: {}", connection.name(), row.text(0)));
}

Result<ModelInfo> read_model(const SqliteConnection&, const SqliteStatement& row) {
  ModelInfo model;
  model.name = row.text(0);
  model.parameters = static_cast<std::uint64_t>(row.integer(1));
  for (int i = 0; i < 3; ++i) {
    model.input_shape.at(static_cast<std::size_t>(i)) = static_cast<int>(row.integer(2 + i));
  }
  model.pack = row.text(5);
  return model;
}

Result<CurveKey> read_curve_key(const SqliteConnection& connection, const SqliteStatement& row) {
  const std::string quantity = row.text(3);
  for (std::size_t i = 0; i < kQuantityNames.size(); ++i) {
    if (kQuantityNames.at(i) == quantity) {
      return CurveKey{row.text(0), row.text(1), row.text(2), static_cast<Quantity>(i)};
    }
  }
  return fail(ErrorCode::kCorruptData, "{} holds a curve of the unknown quantity \"{}\"",
              connection.name(), quantity);
}

Result<Curve> read_curve(const SqliteConnection& connection, const SqliteStatement& row) {
  Curve curve;
  GPEMU_ASSIGN(curve.key, read_curve_key(connection, row));
  curve.pack = row.text(4);
  curve.measured_rows = static_cast<int>(row.integer(5));
  curve.mean_relative_error = row.real(6);
  curve.p90_relative_error = row.real(7);
  curve.p95_relative_error = row.real(8);
  curve.max_relative_error = row.real(9);
  curve.emulated = row.integer(11) != 0;
  GPEMU_ASSIGN(SqliteStatement point,
               connection.query("SELECT batch, value FROM curve_points WHERE curve = ? "
                                "ORDER BY batch",
                                row.integer(10)));
  while (true) {
    GPEMU_ASSIGN(const bool found, point.step());
    if (!found) break;
    curve.points.push_back({static_cast<int>(point.integer(0)), point.real(1)});
  }
  if (!curve.points.empty()) return curve;
  return fail(ErrorCode::kCorruptData, "{} holds a curve of {} on {} without points",
              connection.name(), curve.key.model, curve.key.gpu);
}

Result<ModelRecording> read_recording(const SqliteConnection&, const SqliteStatement& row) {
  return ModelRecording{.model = std::string(row.text(0)), .text = std::string(row.text(1))};
}

Result<MemoryLimit> read_memory_limit(const SqliteConnection&, const SqliteStatement& row) {
  MemoryLimit limit;
  limit.model = row.text(0);
  limit.gpu = row.text(1);
  limit.precision = row.text(2);
  limit.pack = row.text(3);
  limit.largest_batch_measured = static_cast<int>(row.integer(4));
  if (!row.is_null(5)) limit.first_batch_out_of_memory = static_cast<int>(row.integer(5));
  return limit;
}

Result<PackInfo> read_pack_info(const SqliteConnection& connection, const SqliteStatement& row) {
  PackInfo info;
  info.name = row.text(1);
  info.title = row.text(2);
  info.citation = row.text(3);
  info.url = row.text(4);
  info.licence = row.text(5);
  info.method = row.text(6);
  info.framework = row.text(7);
  info.host = row.text(8);
  info.samples = static_cast<int>(row.integer(9));
  info.emulated = row.integer(10) != 0;
  GPEMU_ASSIGN(
      SqliteStatement note,
      connection.query("SELECT gpu, note FROM pack_gpu_notes WHERE pack = ?", row.integer(0)));
  while (true) {
    GPEMU_ASSIGN(const bool found, note.step());
    if (!found) return info;
    info.gpu_notes.emplace(note.text(0), note.text(1));
  }
}

}  // namespace gpemu::profile
