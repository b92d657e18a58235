// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/database.hpp"

#include <filesystem>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/profile/database_writer.hpp"

#include "sqlite.hpp"

namespace gpemu::profile {
namespace {

namespace fs = std::filesystem;

constexpr const char* kV100 = "V100-PCIE-32GB";
constexpr const char* kT4 = "T4";

GpuText gpu_text(const std::string& name) {
  const fs::path path = fs::path(GPEMU_GPUS_FOLDER) / (name + ".toml");
  std::string toml = read_file(path).value();
  // Which names GPUs that are not in these tests' databases.
  toml.erase(std::min(toml.find("\n[calibration]"), toml.size()));
  return {std::move(toml), path.string()};
}

std::vector<GpuText> two_gpus() {
  return {gpu_text(kV100), gpu_text(kT4)};
}

Curve curve(const std::string& model, const std::string& gpu, Quantity quantity,
            std::vector<CurvePoint> points) {
  Curve result;
  result.key = {model, gpu, "fp32", quantity};
  result.points = std::move(points);
  result.measured_rows = 256;
  result.mean_relative_error = 0.001;
  result.p90_relative_error = 0.002;
  result.p95_relative_error = 0.003;
  result.max_relative_error = 0.004;
  return result;
}

Pack sample_pack(const std::string& name = "sample", double forward_ms = 10.5) {
  Pack pack;
  pack.info = {.name = name,
               .title = "Title",
               .citation = "A. Author, 2025",
               .url = "https://example.org",
               .licence = "CC0-1.0",
               .method = "Method",
               .framework = "PyTorch 1.8",
               .host = "Host",
               .samples = 8,
               .gpu_notes = {{kV100, "a note"}}};
  pack.models = {{"resnet50", 25557032, {3, 224, 224}, name},
                 {"alexnet", 61100840, {3, 224, 224}, name}};
  pack.recordings = {{"alexnet", "{}"}};
  pack.curves = {
      curve("resnet50", kV100, Quantity::kForward, {{1, forward_ms}, {64, 58.25}, {256, 230}}),
      curve("resnet50", kV100, Quantity::kPeakMemory, {{1, 400}, {256, 22000}}),
      curve("alexnet", kT4, Quantity::kForward, {{1, 1.5}, {2, 1.625}})};
  pack.limits = {{"resnet50", kV100, "fp32", name, 256, std::nullopt},
                 {"alexnet", kT4, "fp32", name, 2, 3}};
  return pack;
}

Database database_of(const std::vector<Pack>& packs) {
  return Database::from_image(build_database_image(two_gpus(), packs).value()).value();
}

// The record that a query must have found.
template <typename T>
T found(const Result<std::optional<T>>& result) {
  EXPECT_TRUE(result.value().has_value());
  return result.value().value_or(T());
}

const CurveKey kForwardKey = {"resnet50", kV100, "fp32", Quantity::kForward};

/// An installed database and room for a user's one, for one test.
class DatabaseFiles : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) / (std::string("gpemu_database.") + test->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    paths_ = {folder_ / "installed 100%?#.db", folder_ / "user" / "profiles.db"};
    ASSERT_TRUE(write_file_atomically(paths_.installed,
                                      build_database_image(two_gpus(), {{sample_pack()}}).value()));
  }
  void TearDown() override { fs::remove_all(folder_); }

  [[nodiscard]] double forward_of_batch_1() const {
    return found(Database::open(paths_)->curve(kForwardKey)).points.at(0).value;
  }

  fs::path folder_;
  Database::Paths paths_;
};

TEST(Database, FindsAGpuByNameAndAliasIgnoringCase) {
  const Database database = database_of({});
  EXPECT_EQ(database.gpu("V100-PCIE-32GB")->name, kV100);
  EXPECT_EQ(database.gpu("v100-pcie-32gb")->name, kV100);
  EXPECT_EQ(database.gpu("tesla_v100-pcie-32gb")->memory_bytes, 32510 * kMiB);
  EXPECT_EQ(database.gpu_names().value(), (std::vector<std::string>{kT4, kV100}));
}

TEST(Database, SuggestsGpusForAWrongName) {
  const auto result = database_of({}).gpu("V100-PCIE-23GB");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(result.error().message.contains("did you mean V100-PCIE-32GB"))
      << result.error().message;
}

TEST(Database, ReadsAGpuFromAFile) {
  const Database database = database_of({});
  EXPECT_EQ(database.gpu(gpu_text("K80").origin)->name, "K80");
  EXPECT_EQ(database.gpu("./no_such_gpu.toml").error().code, ErrorCode::kNotFound);
}

TEST(Database, TellsAnEditedGpuFromTheOneThatWasMeasured) {
  const auto write = [](std::string toml) {
    const fs::path path = fs::path(testing::TempDir()) / "V100-PCIE-32GB.toml";
    EXPECT_TRUE(write_file_atomically(path, toml));
    return path.string();
  };
  const Database database = database_of({sample_pack()});
  std::string toml = gpu_text(kV100).toml;
  EXPECT_EQ(database.gpu(write(toml))->name, kV100);
  const std::size_t at = toml.find("bandwidth_gb_per_s = { value = ");
  ASSERT_NE(at, std::string::npos);
  toml.replace(toml.find("value = ", at) + 8, 3, "450");
  const GpuSpec edited = database.gpu(write(toml)).value();
  EXPECT_EQ(edited.name, "V100-PCIE-32GB-edited");
  EXPECT_FALSE(database.curve({"resnet50", edited.name, "fp32", Quantity::kForward})->has_value());
}

TEST(Database, KeepsWhatAnEmulatedGpuDidApart) {
  Pack pack = sample_pack();
  pack.info.emulated = true;
  const Database database = database_of({pack});
  const CurveKey key{"resnet50", kV100, "fp32", Quantity::kForward};
  EXPECT_TRUE(found(database.curve(key)).emulated);
  EXPECT_FALSE(found(database_of({sample_pack()}).curve(key)).emulated);
  EXPECT_TRUE(database.pack("sample")->info.emulated);
}

TEST(Database, ReturnsACurveAsItWasStored) {
  const Curve stored = sample_pack().curves.at(0);
  const Curve read = found(database_of({sample_pack()}).curve(stored.key));
  EXPECT_EQ(read.key, stored.key);
  EXPECT_EQ(read.pack, "sample");
  EXPECT_EQ(read.measured_rows, 256);
  EXPECT_EQ(read.mean_relative_error, 0.001);
  EXPECT_EQ(read.p90_relative_error, 0.002);
  EXPECT_EQ(read.p95_relative_error, 0.003);
  EXPECT_EQ(read.max_relative_error, 0.004);
  ASSERT_EQ(read.points.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(read.points[i].batch, stored.points[i].batch);
    EXPECT_EQ(read.points[i].value, stored.points[i].value);
  }
}

TEST(Database, HasNoCurveThatNobodyMeasured) {
  const Database database = database_of({sample_pack()});
  EXPECT_FALSE(database.curve({"resnet50", kT4, "fp32", Quantity::kForward}).value());
  EXPECT_FALSE(database.curve({"resnet50", kV100, "tf32", Quantity::kForward}).value());
  EXPECT_FALSE(database.curve({"resnet50", kV100, "fp32", Quantity::kInputCopyPageable}).value());
  EXPECT_EQ(database.precisions("resnet50", kV100).value(), std::vector<std::string>{"fp32"});
  EXPECT_TRUE(database.precisions("resnet50", kT4)->empty());
}

TEST(Database, TellsWhereAModelStopsFitting) {
  const Database database = database_of({sample_pack()});
  const MemoryLimit fits = found(database.memory_limit("resnet50", kV100, "fp32"));
  EXPECT_EQ(fits.largest_batch_measured, 256);
  EXPECT_FALSE(fits.first_batch_out_of_memory.has_value());
  const MemoryLimit limited = found(database.memory_limit("alexnet", kT4, "fp32"));
  EXPECT_EQ(limited.largest_batch_measured, 2);
  EXPECT_EQ(limited.first_batch_out_of_memory, 3);
  EXPECT_FALSE(database.memory_limit("alexnet", kV100, "fp32").value().has_value());
}

TEST(Database, FindsAModelIgnoringCase) {
  const Database database = database_of({sample_pack()});
  const ModelInfo model = database.model("ResNet50").value();
  EXPECT_EQ(model.name, "resnet50");
  EXPECT_EQ(model.parameters, 25557032U);
  EXPECT_EQ(model.input_shape, (std::array<int, 3>{3, 224, 224}));
  const auto unknown = database.model("resnet51");
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(unknown.error().message.contains("did you mean resnet50?"));
  EXPECT_EQ(database.model_names().value(), (std::vector<std::string>{"alexnet", "resnet50"}));
}

TEST(Database, ListsCurvesOfAModelOrAGpu) {
  const Database database = database_of({sample_pack()});
  EXPECT_EQ(database.curve_keys()->size(), 3U);
  EXPECT_EQ(database.curve_keys("resnet50")->size(), 2U);
  EXPECT_EQ(database.curve_keys({}, kT4).value(),
            (std::vector<CurveKey>{{"alexnet", kT4, "fp32", Quantity::kForward}}));
  EXPECT_TRUE(database.curve_keys("resnet50", kT4)->empty());
}

TEST(Database, GivesAPackBackWhole) {
  const Pack pack = database_of({sample_pack()}).pack("sample").value();
  EXPECT_EQ(pack.info.citation, "A. Author, 2025");
  EXPECT_EQ(pack.info.samples, 8);
  EXPECT_EQ(pack.info.gpu_notes.at(kV100), "a note");
  EXPECT_EQ(pack.curves.size(), 3U);
  EXPECT_EQ(pack.limits.size(), 2U);
  EXPECT_EQ(pack.models.size(), 2U);
  ASSERT_EQ(pack.recordings.size(), 1U);
  EXPECT_EQ(pack.recordings[0].model, "alexnet");
  EXPECT_EQ(pack.recordings[0].text, "{}");
  EXPECT_EQ(database_of({sample_pack()}).pack("simple").error().code, ErrorCode::kNotFound);
}

TEST(Database, FindsARecordingIgnoringCase) {
  const Database database = database_of({sample_pack()});
  EXPECT_EQ(database.recording("AlexNet").value(), "{}");
  EXPECT_EQ(database.recording("resnet50").value(), std::nullopt);
}

TEST(DatabaseImage, IsTheSameForTheSameInput) {
  const std::vector<Pack> packs = {sample_pack()};
  EXPECT_EQ(build_database_image(two_gpus(), packs).value(),
            build_database_image(two_gpus(), packs).value());
}

TEST(DatabaseImage, RefusesARecordInTwoPacks) {
  const std::vector<Pack> packs = {sample_pack("one"), sample_pack("two")};
  const auto result = build_database_image(two_gpus(), packs);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kCorruptData);
  EXPECT_TRUE(result.error().message.starts_with("packs one and two both give "))
      << result.error().message;
}

TEST(DatabaseImage, RefusesACurveWithoutPoints) {
  Pack pack = sample_pack();
  pack.curves.at(1).points.clear();
  const auto result = build_database_image(two_gpus(), {{pack}});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().message,
            "pack sample: the peak_memory curve of resnet50 on V100-PCIE-32GB has no points");
}

TEST(DatabaseImage, RefusesAGpuWithoutSpecification) {
  const std::vector<GpuText> gpus = {gpu_text(kV100)};
  const auto result = build_database_image(gpus, {{sample_pack()}});
  ASSERT_FALSE(result.has_value());
  EXPECT_TRUE(result.error().message.contains("pack sample names the GPU \"T4\""))
      << result.error().message;
}

TEST(DatabaseImage, RefusesTwoGpusOfOneName) {
  GpuText copy = gpu_text(kV100);
  copy.toml.replace(copy.toml.find(kV100), std::string(kV100).size(), "Other");
  const std::vector<GpuText> gpus = {gpu_text(kV100), copy};
  const auto result = build_database_image(gpus, {});
  ASSERT_FALSE(result.has_value());
  EXPECT_TRUE(result.error().message.contains("already names the GPU V100-PCIE-32GB"))
      << result.error().message;
}

TEST_F(DatabaseFiles, OpensWithoutAUsersDatabase) {
  EXPECT_EQ(forward_of_batch_1(), 10.5);
  EXPECT_FALSE(fs::exists(paths_.user));
}

TEST_F(DatabaseFiles, PrefersTheUsersRecords) {
  ASSERT_TRUE(add_pack(paths_.user, sample_pack("mine", 9.0)));
  EXPECT_EQ(forward_of_batch_1(), 9.0);
  const Database database = Database::open(paths_).value();
  const std::vector<PackEntry> packs = database.packs().value();
  ASSERT_EQ(packs.size(), 2U);
  EXPECT_EQ(packs[0].info.name, "mine");
  EXPECT_TRUE(packs[0].from_user);
  EXPECT_EQ(packs[1].info.name, "sample");
  EXPECT_FALSE(packs[1].from_user);
  EXPECT_EQ(database.curve_keys()->size(), 3U);
  EXPECT_EQ(database.gpu("v100")->name, kV100);
}

TEST_F(DatabaseFiles, LetsThePackAddedLastWin) {
  ASSERT_TRUE(add_pack(paths_.user, sample_pack("b", 2.0)));
  ASSERT_TRUE(add_pack(paths_.user, sample_pack("a", 1.0)));
  EXPECT_EQ(forward_of_batch_1(), 1.0);
  ASSERT_TRUE(add_pack(paths_.user, sample_pack("b", 3.0)));
  EXPECT_EQ(forward_of_batch_1(), 3.0);
  EXPECT_EQ(Database::open(paths_)->packs()->size(), 3U);
}

TEST_F(DatabaseFiles, RemovesAPackWithAllItsRecords) {
  ASSERT_TRUE(add_pack(paths_.user, sample_pack("mine", 9.0)));
  ASSERT_TRUE(remove_pack(paths_.user, "mine"));
  EXPECT_EQ(forward_of_batch_1(), 10.5);
  const SqliteConnection user = SqliteConnection::open_file(paths_.user, false).value();
  for (const char* table :
       {"packs", "pack_gpu_notes", "models", "curves", "curve_points", "memory_limits"}) {
    SqliteStatement rows = user.query(fmt::format("SELECT count(*) FROM {}", table)).value();
    ASSERT_TRUE(rows.step().value());
    EXPECT_EQ(rows.integer(0), 0) << table;
  }
}

TEST_F(DatabaseFiles, DoesNotRemoveWhatIsNotThere) {
  EXPECT_EQ(remove_pack(paths_.user, "mine").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(fs::exists(paths_.user));
  ASSERT_TRUE(add_pack(paths_.user, sample_pack("mine")));
  EXPECT_EQ(remove_pack(paths_.user, "sample").error().code, ErrorCode::kNotFound);
}

TEST_F(DatabaseFiles, AddsAllOfAPackOrNothing) {
  ASSERT_TRUE(add_pack(paths_.user, sample_pack("mine", 9.0)));
  Pack twice = sample_pack("mine", 8.0);
  twice.curves.push_back(twice.curves.at(0));
  EXPECT_EQ(add_pack(paths_.user, twice).error().code, ErrorCode::kCorruptData);
  EXPECT_EQ(forward_of_batch_1(), 9.0);
}

TEST_F(DatabaseFiles, TakesAnInterruptedCreationForAnEmptyDatabase) {
  fs::create_directories(paths_.user.parent_path());
  ASSERT_TRUE(write_file_atomically(paths_.user, ""));
  EXPECT_EQ(forward_of_batch_1(), 10.5);
  ASSERT_TRUE(add_pack(paths_.user, sample_pack("mine", 9.0)));
  EXPECT_EQ(forward_of_batch_1(), 9.0);
}

TEST_F(DatabaseFiles, SaysWhatIsMissing) {
  paths_.installed = folder_ / "none.db";
  const auto result = Database::open(paths_);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(result.error().message.contains(paths_.installed.string()));
}

TEST_F(DatabaseFiles, RefusesAFileOfAnotherKind) {
  const std::string text(4096, 'x');
  ASSERT_TRUE(write_file_atomically(paths_.installed, text));
  const auto installed = Database::open(paths_);
  ASSERT_FALSE(installed.has_value());
  EXPECT_EQ(installed.error().code, ErrorCode::kIncompatible);
  EXPECT_TRUE(installed.error().message.contains(paths_.installed.string()));

  fs::create_directories(paths_.user.parent_path());
  ASSERT_TRUE(write_file_atomically(paths_.user, text));
  EXPECT_EQ(add_pack(paths_.user, sample_pack()).error().code, ErrorCode::kIncompatible);
  EXPECT_EQ(read_file(paths_.user).value(), text);
}

TEST_F(DatabaseFiles, RefusesASqliteFileOfAnotherProgram) {
  fs::create_directories(paths_.user.parent_path());
  ASSERT_TRUE(SqliteConnection::open_file(paths_.user, true)->run_script("CREATE TABLE t (x)"));
  EXPECT_EQ(Database::open(paths_).error().code, ErrorCode::kIncompatible);
  EXPECT_EQ(add_pack(paths_.user, sample_pack()).error().code, ErrorCode::kIncompatible);
}

TEST_F(DatabaseFiles, RefusesAnotherVersionAndNamesBoth) {
  ASSERT_TRUE(
      SqliteConnection::open_file(paths_.installed, false)->run_script("PRAGMA user_version = 77"));
  const auto result = Database::open(paths_);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kIncompatible);
  EXPECT_TRUE(result.error().message.contains("format 77")) << result.error().message;
  EXPECT_TRUE(result.error().message.contains("format 3")) << result.error().message;
}

TEST_F(DatabaseFiles, SaysWhenAnotherProcessHoldsTheUsersDatabase) {
  ASSERT_TRUE(add_pack(paths_.user, sample_pack("mine", 9.0)));
  const SqliteConnection other = SqliteConnection::open_file(paths_.user, false).value();
  ASSERT_TRUE(other.run_script("BEGIN EXCLUSIVE"));
  EXPECT_EQ(Database::open(paths_).error().code, ErrorCode::kUnavailable);
  const auto added = add_pack(paths_.user, sample_pack("more"));
  ASSERT_FALSE(added.has_value());
  EXPECT_EQ(added.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(added.error().message.contains(paths_.user.string()));
  ASSERT_TRUE(other.run_script("ROLLBACK"));
  EXPECT_EQ(forward_of_batch_1(), 9.0);
}

TEST_F(DatabaseFiles, CompilesTheRepositorysFolders) {
  const fs::path packs = folder_ / "packs";
  fs::create_directories(packs);
  ASSERT_TRUE(write_pack(sample_pack(), packs / "sample"));
  const fs::path output = folder_ / "compiled.db";
  const auto result = compile_database(GPEMU_GPUS_FOLDER, packs, output);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  const std::string first = read_file(output).value();
  ASSERT_TRUE(compile_database(GPEMU_GPUS_FOLDER, packs, output));
  EXPECT_EQ(read_file(output).value(), first);

  const Database database = Database::open({output, {}}).value();
  EXPECT_EQ(database.gpu("h200")->name, "H200-SXM-141GB");
  EXPECT_EQ(found(database.curve(kForwardKey)).points.size(), 3U);
}

TEST_F(DatabaseFiles, LeavesTheOldDatabaseWhenCompilingFails) {
  const std::string old = read_file(paths_.installed).value();
  const fs::path gpus = folder_ / "gpus";
  fs::create_directories(gpus);
  fs::copy_file(gpu_text(kV100).origin, gpus / "OtherName.toml");
  const auto result = compile_database(gpus, folder_, paths_.installed);
  ASSERT_FALSE(result.has_value());
  EXPECT_TRUE(result.error().message.contains("OtherName.toml")) << result.error().message;
  EXPECT_EQ(read_file(paths_.installed).value(), old);
}

}  // namespace
}  // namespace gpemu::profile
