// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "gpemu/profile/gpu_spec.hpp"
#include "gpemu/profile/pack.hpp"
#include "gpemu/profile/profile.hpp"

#include "sqlite.hpp"

namespace gpemu::profile {

/// Makes a value of the current row of a query.
template <typename T>
using RowReader = Result<T> (*)(const SqliteConnection& connection, const SqliteStatement& row);

/// One reader per record, and the columns and tables that its query selects: append a WHERE.
/// Packs are joined in where a record belongs to one, so that `packs.id` orders records by age.

[[nodiscard]] Result<std::string> read_text(const SqliteConnection& connection,
                                            const SqliteStatement& row);

inline constexpr std::string_view kSelectGpu =
    "SELECT gpus.name, toml FROM gpu_spellings JOIN gpus ON gpus.name = gpu_spellings.gpu ";
[[nodiscard]] Result<GpuSpec> read_gpu(const SqliteConnection& connection,
                                       const SqliteStatement& row);

inline constexpr std::string_view kSelectModel =
    "SELECT models.name, parameters, channels, height, width, packs.name "
    "FROM models JOIN packs ON packs.id = models.pack ";
[[nodiscard]] Result<ModelInfo> read_model(const SqliteConnection& connection,
                                           const SqliteStatement& row);

inline constexpr std::string_view kSelectRecording =
    "SELECT model, text FROM recordings JOIN packs ON packs.id = recordings.pack ";
[[nodiscard]] Result<ModelRecording> read_recording(const SqliteConnection& connection,
                                                    const SqliteStatement& row);

inline constexpr std::string_view kSelectCurveKey =
    "SELECT DISTINCT model, gpu, precision, quantity FROM curves ";
[[nodiscard]] Result<CurveKey> read_curve_key(const SqliteConnection& connection,
                                              const SqliteStatement& row);

inline constexpr std::string_view kSelectCurve =
    "SELECT model, gpu, precision, quantity, packs.name, measured_rows, mean_relative_error, "
    "p90_relative_error, p95_relative_error, max_relative_error, curves.id, emulated "
    "FROM curves JOIN packs ON packs.id = curves.pack ";
/// Reads the curve's points too.
[[nodiscard]] Result<Curve> read_curve(const SqliteConnection& connection,
                                       const SqliteStatement& row);

inline constexpr std::string_view kSelectMemoryLimit =
    "SELECT model, gpu, precision, packs.name, largest_batch_measured, first_batch_out_of_memory "
    "FROM memory_limits JOIN packs ON packs.id = memory_limits.pack ";
[[nodiscard]] Result<MemoryLimit> read_memory_limit(const SqliteConnection& connection,
                                                    const SqliteStatement& row);

inline constexpr std::string_view kSelectPackInfo =
    "SELECT id, name, title, citation, url, licence, method, framework, host, samples, "
    "emulated FROM packs ";
/// Reads the pack's notes on GPUs too.
[[nodiscard]] Result<PackInfo> read_pack_info(const SqliteConnection& connection,
                                              const SqliteStatement& row);

}  // namespace gpemu::profile
