// SPDX-License-Identifier: Apache-2.0
#include "gpemu_import.hpp"

#include <algorithm>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "gpemu/profile/import.hpp"

namespace gpemu::profile {
namespace {

namespace fs = std::filesystem;

class GpemuImport : public testing::Test {
 protected:
  GpemuImport()
      : folder_(fs::path(testing::TempDir()) /
                fmt::format("GpemuImport.{}",
                            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    names_.gpu = [](std::string_view name) -> Result<std::string> {
      if (name == "Tesla_K80" || name == "K80") return std::string("K80");
      return fail(ErrorCode::kNotFound, "no GPU is called {}", name);
    };
  }
  ~GpemuImport() override { fs::remove_all(folder_); }

  void write(const fs::path& path, std::string_view text) {
    fs::create_directories((folder_ / path).parent_path());
    std::ofstream(folder_ / path, std::ios::binary) << text;
  }

  [[nodiscard]] Result<MeasuredData> read() const { return read_gpemu_tables(folder_, names_); }

  /// Writes the tables of one model whose batches 1 to `measured` of `batches` ran.
  void write_published(int batches, int measured) {
    std::string forward = "Batch_Size,Time_In_SECONDS\n";
    std::string backward = forward;
    std::string copy = forward;
    std::string memory = "batch_size,peak,persistent\n";
    for (int batch = 1; batch <= batches; ++batch) {
      const double wiggle = batch <= measured ? 1.0 + 0.01 * (batch * batch % 7) : 1.0;
      forward += fmt::format("{}.0,{}\n", batch, (0.01 + batch / 300.0) * wiggle);
      backward += fmt::format("{}.0,{}\n", batch, (0.02 + batch / 70.0) * wiggle);
      copy += fmt::format("{}.0,{}\n", batch, batch / 3000.0);
      const bool ran = batch % 8 == 0 && batch <= measured;
      memory += fmt::format("{}.0,{},{}\n", batch, 100.0 * batch + (ran ? 0 : 1 / 3.0),
                            700.5 + (ran ? 0 : 0.1 * batch + 1 / 3.0));
    }
    const fs::path compute = fs::path("time") / "compute";
    const fs::path model = fs::path("Tesla_K80") / "vgg19";
    write(compute / "forward" / model / "time_by_batch_size.csv", forward);
    write(compute / "backward" / model / "time_by_batch_size.csv", backward);
    write(fs::path("time") / "transfer" / model / "data_transfer_time_by_batch_size.csv", copy);
    write(fs::path("memory") / model / "memory.csv", memory);
  }

  fs::path folder_;
  ImportNames names_;
};

std::vector<int> batches(const MeasuredData& data, Quantity quantity) {
  std::vector<int> result;
  for (const MeasuredCurve& curve : data.curves) {
    if (curve.key.quantity != quantity) continue;
    for (const CurvePoint& row : curve.rows) result.push_back(row.batch);
  }
  return result;
}

constexpr std::string_view kFlatHeader =
    "model,batch,forward_ms,backward_ms,compute_measured,h2d_pageable_ms,peak_mib,persistent_mib,"
    "memory_measured\n";

TEST_F(GpemuImport, BelievesTheFlagsOfFlatTables) {
  write("K80.csv", std::string(kFlatHeader) +
                       "alexnet,1,5.5,30.25,1,0.25,847.5,700.5,1\n"
                       "alexnet,2,7.5,31.25,1,0.5,851.5,701.5,0\n"
                       "alexnet,3,9.5,32.25,0,0.75,855.5,702.5,1\n"
                       "vgg11,1,6,33,1,0.25,900,800,1\n");
  const Result<MeasuredData> data = read();
  ASSERT_TRUE(data.has_value()) << data.error().message;
  ASSERT_EQ(data->curves.size(), 10U);
  const MeasuredCurve& forward = data->curves[0];
  EXPECT_EQ(forward.key, (CurveKey{"alexnet", "K80", "fp32", Quantity::kForward}));
  ASSERT_EQ(forward.rows.size(), 2U);
  EXPECT_EQ(forward.rows[1].batch, 2);
  EXPECT_EQ(forward.rows[1].value, 7.5);
  EXPECT_EQ(batches(*data, Quantity::kInputCopyPageable), (std::vector<int>{1, 2, 3, 1}));
  EXPECT_EQ(batches(*data, Quantity::kPeakMemory), (std::vector<int>{1, 3, 1}));
  ASSERT_EQ(data->limits.size(), 2U);
  EXPECT_EQ(data->limits[0].largest_batch_measured, 2);
  EXPECT_EQ(data->limits[0].first_batch_out_of_memory, 3);
  EXPECT_EQ(data->limits[1].largest_batch_measured, 1);
  EXPECT_EQ(data->limits[1].first_batch_out_of_memory, std::nullopt);
  EXPECT_EQ(data->counts.at("K80")[0].measured, 3);
  EXPECT_EQ(data->counts.at("K80")[0].extrapolated, 1);
}

TEST_F(GpemuImport, LabelsThePrecision) {
  names_.precisions["K80"] = "tf32";
  write("K80.csv", std::string(kFlatHeader) + "alexnet,1,5.5,30.25,1,0.25,847.5,700.5,1\n");
  const Result<MeasuredData> data = read();
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_EQ(data->curves[0].key.precision, "tf32");
  EXPECT_EQ(data->limits[0].precision, "tf32");
}

TEST_F(GpemuImport, DropsNonsenseWithAMessage) {
  write("K80.csv", std::string(kFlatHeader) +
                       "alexnet,1,5.5,30.25,1,0.25,847.5,700.5,1\n"
                       "alexnet,2,7.5,31.25,1,0.5,851.5,-1.5,1\n");
  const Result<MeasuredData> data = read();
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_EQ(batches(*data, Quantity::kPersistentMemory), (std::vector<int>{1}));
  EXPECT_EQ(batches(*data, Quantity::kPeakMemory), (std::vector<int>{1, 2}));
  EXPECT_EQ(data->counts.at("K80")[4].dropped, 1);
  ASSERT_EQ(data->messages.size(), 1U);
  EXPECT_NE(data->messages[0].find("persistent_memory of alexnet: dropped 1"), std::string::npos);
}

TEST_F(GpemuImport, FindsWhatWasFilledInInPublishedFolders) {
  write_published(64, 40);
  const Result<MeasuredData> data = read();
  ASSERT_TRUE(data.has_value()) << data.error().message;
  ASSERT_EQ(data->limits.size(), 1U);
  EXPECT_EQ(data->limits[0].gpu, "K80");
  EXPECT_EQ(data->limits[0].largest_batch_measured, 40);
  EXPECT_EQ(data->limits[0].first_batch_out_of_memory, 41);
  EXPECT_EQ(data->counts.at("K80")[0].measured, 40);
  EXPECT_EQ(data->counts.at("K80")[1].extrapolated, 24);
  EXPECT_EQ(data->counts.at("K80")[2].measured, 64);
  EXPECT_EQ(batches(*data, Quantity::kPeakMemory), (std::vector<int>{8, 16, 24, 32, 40}));
  // From seconds, at the resolution of a pack.
  EXPECT_EQ(data->curves[0].rows[0].value, 13.4667);
}

TEST_F(GpemuImport, FindsNoLimitWhereEveryBatchRan) {
  write_published(64, 64);
  const Result<MeasuredData> data = read();
  ASSERT_TRUE(data.has_value()) << data.error().message;
  EXPECT_EQ(data->limits[0].largest_batch_measured, 64);
  EXPECT_EQ(data->limits[0].first_batch_out_of_memory, std::nullopt);
}

TEST_F(GpemuImport, NamesFileAndLineOfMalformedInput) {
  write_published(64, 40);
  const fs::path table = fs::path("memory") / "Tesla_K80" / "vgg19" / "memory.csv";
  write(table, "batch_size,peak,persistent\n1.0,500.5,300.5\n2.0,oops,300.5\n");
  const Result<MeasuredData> data = read();
  ASSERT_FALSE(data.has_value());
  EXPECT_EQ(data.error().code, ErrorCode::kCorruptData);
  EXPECT_EQ(data.error().message,
            (folder_ / table).string() + ":3: peak is \"oops\"; expected a number");
}

TEST_F(GpemuImport, RefusesGpusThatNobodyDescribed) {
  write("T800.csv", kFlatHeader);
  const Result<MeasuredData> data = read();
  ASSERT_FALSE(data.has_value());
  EXPECT_EQ(data.error().code, ErrorCode::kNotFound);
  EXPECT_NE(data.error().message.find("T800.csv: no GPU is called T800"), std::string::npos);
}

TEST_F(GpemuImport, RefusesAFolderWithoutTables) {
  const Result<MeasuredData> data = read();
  ASSERT_FALSE(data.has_value());
  EXPECT_EQ(data.error().code, ErrorCode::kNotFound);
}

TEST(FlatTable, WantsBatchesInOrderAndModelsTogether) {
  std::vector<PackFault> faults;
  const std::string row = ",5.5,30.25,1,0.25,847.5,700.5,1\n";
  (void)parse_flat_table(std::string(kFlatHeader) + "alexnet,2" + row + "alexnet,2" + row +
                             "vgg11,1" + row + "alexnet,3" + row,
                         "K80.csv", faults);
  ASSERT_EQ(faults.size(), 2U);
  EXPECT_EQ(faults[0].line, 3);
  EXPECT_EQ(faults[1].line, 5);
}

/// Fits a pack of noisy tables and compares it with them.
class PackFit : public testing::Test {
 protected:
  PackFit() {
    MeasuredCurve curve{.key = {"alexnet", "K80", "fp32", Quantity::kForward}, .rows = {}};
    for (int batch = 1; batch <= 100; ++batch) {
      curve.rows.push_back({batch, 5 + batch * (1 + 0.02 * (batch * batch % 5))});
    }
    data_.curves = {curve};
    data_.limits = {{"alexnet", "K80", "fp32", "", 100, 101}};
    info_.name = "sample";
    models_ = {{"alexnet", 61100840, {3, 224, 224}, ""}, {"vgg11", 1, {3, 224, 224}, ""}};
  }

  MeasuredData data_;
  PackInfo info_;
  std::vector<ModelInfo> models_;
};

TEST_F(PackFit, ReproducesTheRowsWithinTheTolerance) {
  const Result<Pack> pack = fit_pack(data_, info_, models_, {.time = 0.03});
  ASSERT_TRUE(pack.has_value());
  ASSERT_EQ(pack->models.size(), 1U);
  const Curve& curve = pack->curves[0];
  EXPECT_LT(curve.points.size(), 60U);
  EXPECT_EQ(curve.measured_rows, 100);
  EXPECT_LE(curve.max_relative_error, 0.03);
  EXPECT_LE(curve.p95_relative_error, curve.max_relative_error);

  const PackComparison comparison = compare_pack(*pack, data_);
  EXPECT_TRUE(comparison.faults.empty());
  EXPECT_EQ(comparison.times.rows, 100);
  EXPECT_DOUBLE_EQ(comparison.times.mean_error, curve.mean_relative_error);
  EXPECT_DOUBLE_EQ(comparison.fidelity.at("K80")[0].p95_error, curve.p95_relative_error);
  EXPECT_DOUBLE_EQ(comparison.fidelity.at("all")[0].max_error, curve.max_relative_error);
}

TEST_F(PackFit, NeedsToKnowTheModels) {
  const Result<Pack> pack = fit_pack(data_, info_, {}, {});
  ASSERT_FALSE(pack.has_value());
  EXPECT_EQ(pack.error().code, ErrorCode::kNotFound);
}

TEST_F(PackFit, NeedsAProperName) {
  info_.name = "bad/name";
  const Result<Pack> pack = fit_pack(data_, info_, models_, {});
  ASSERT_FALSE(pack.has_value());
  EXPECT_EQ(pack.error().code, ErrorCode::kInvalidArgument);
}

TEST_F(PackFit, IsComparedPointByPoint) {
  Pack pack = fit_pack(data_, info_, models_, {}).value();
  const auto only_fault = [&]() -> std::string {
    const PackComparison comparison = compare_pack(pack, data_);
    return comparison.faults.size() == 1 ? comparison.faults[0] : "not one fault";
  };
  const MeasuredData complete = data_;
  const int batch = pack.curves[0].points[1].batch;
  data_.curves[0].rows.erase(data_.curves[0].rows.begin() + batch - 1);
  pack.curves[0].measured_rows = 99;
  EXPECT_NE(only_fault().find(fmt::format("batch {} is not a measured row", batch)),
            std::string::npos);
  data_ = complete;

  pack = fit_pack(data_, info_, models_, {}).value();
  pack.limits[0].first_batch_out_of_memory = 102;
  EXPECT_NE(only_fault().find("the memory limit is batch 100 and 102 instead of 100 and 101"),
            std::string::npos);

  pack = fit_pack(data_, info_, models_, {}).value();
  pack.curves[0].points.pop_back();
  EXPECT_NE(only_fault().find("does not reach"), std::string::npos);

  pack = fit_pack(data_, info_, models_, {}).value();
  pack.curves[0].points[3].value += 1;
  EXPECT_NE(only_fault().find("is not a measured row"), std::string::npos);
}

}  // namespace
}  // namespace gpemu::profile
