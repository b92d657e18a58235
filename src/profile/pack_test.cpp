// SPDX-License-Identifier: Apache-2.0
#include "gpemu/profile/pack.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "pack_format.hpp"

namespace gpemu::profile {
namespace {

namespace fs = std::filesystem;

/// A folder that is there for one test.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(test->test_suite_name()) + "." + test->name();
    std::ranges::replace(name, '/', '_');
    path_ = fs::path(testing::TempDir()) / name;
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { fs::remove_all(path_); }

  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

Curve curve(const std::string& model, Quantity quantity, std::vector<CurvePoint> points) {
  Curve result;
  result.key = {model, "V100-PCIE-32GB", "fp32", quantity};
  result.pack = "sample";
  result.points = std::move(points);
  result.measured_rows = 8;
  result.mean_relative_error = 0.00125;
  result.p90_relative_error = 0.01;
  result.p95_relative_error = 0.0125;
  result.max_relative_error = 0.02;
  return result;
}

Pack full_pack() {
  Pack pack;
  pack.info = {.name = "sample",
               .title = "A \"sample\" with a back\\slash",
               .citation = "A. Author, \"Measurements\", 2025",
               .url = "https://example.org",
               .licence = "CC0-1.0",
               .method =
                   "Ten passes per batch size with a synchronisation before each reading of the "
                   "clock; the two  longest were dropped and the mean taken of the other eight. "
                   "Then a second sentence that makes this text long enough to be folded twice.",
               .framework = "PyTorch 1.8",
               .host = "one host",
               .samples = 8,
               .gpu_notes = {{"V100-PCIE-32GB", "a note"}}};
  pack.models = {{"alexnet", 61100840, {3, 224, 224}, "sample"},
                 {"vgg11", 132863336, {3, 224, 224}, "sample"}};
  pack.curves = {curve("alexnet", Quantity::kForward, {{1, 1.5}, {4, 2.25}, {8, 4.0001}}),
                 curve("alexnet", Quantity::kBackwardOptimizer, {{1, 3}, {8, 8}}),
                 curve("alexnet", Quantity::kPeakMemory, {{1, 800}, {8, 900.5}}),
                 curve("alexnet", Quantity::kPersistentMemory, {{1, 700}, {8, 701.5}}),
                 curve("vgg11", Quantity::kForward, {{1, 5}, {2, 9.5}})};
  pack.limits = {{"alexnet", "V100-PCIE-32GB", "fp32", "sample", 8, std::nullopt},
                 {"vgg11", "V100-PCIE-32GB", "fp32", "sample", 2, 3}};
  return pack;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

void write(const fs::path& path, std::string_view text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

void expect_equal(const Pack& actual, const Pack& expected) {
  EXPECT_EQ(actual.info.name, expected.info.name);
  EXPECT_EQ(actual.info.title, expected.info.title);
  EXPECT_EQ(actual.info.method, expected.info.method);
  EXPECT_EQ(actual.info.samples, expected.info.samples);
  EXPECT_EQ(actual.info.emulated, expected.info.emulated);
  EXPECT_EQ(actual.info.gpu_notes, expected.info.gpu_notes);
  ASSERT_EQ(actual.models.size(), expected.models.size());
  for (std::size_t i = 0; i < actual.models.size(); ++i) {
    EXPECT_EQ(actual.models[i].name, expected.models[i].name);
    EXPECT_EQ(actual.models[i].parameters, expected.models[i].parameters);
    EXPECT_EQ(actual.models[i].input_shape, expected.models[i].input_shape);
    EXPECT_EQ(actual.models[i].pack, expected.models[i].pack);
  }
  ASSERT_EQ(actual.curves.size(), expected.curves.size());
  for (std::size_t i = 0; i < actual.curves.size(); ++i) {
    const Curve& a = actual.curves[i];
    const Curve& e = expected.curves[i];
    EXPECT_EQ(a.key, e.key);
    EXPECT_EQ(a.pack, e.pack);
    EXPECT_EQ(a.measured_rows, e.measured_rows);
    EXPECT_DOUBLE_EQ(a.mean_relative_error, e.mean_relative_error);
    EXPECT_DOUBLE_EQ(a.p90_relative_error, e.p90_relative_error);
    EXPECT_DOUBLE_EQ(a.p95_relative_error, e.p95_relative_error);
    EXPECT_DOUBLE_EQ(a.max_relative_error, e.max_relative_error);
    ASSERT_EQ(a.points.size(), e.points.size());
    for (std::size_t j = 0; j < a.points.size(); ++j) {
      EXPECT_EQ(a.points[j].batch, e.points[j].batch);
      EXPECT_EQ(a.points[j].value, e.points[j].value);
    }
  }
  ASSERT_EQ(actual.limits.size(), expected.limits.size());
  for (std::size_t i = 0; i < actual.limits.size(); ++i) {
    EXPECT_EQ(actual.limits[i].model, expected.limits[i].model);
    EXPECT_EQ(actual.limits[i].gpu, expected.limits[i].gpu);
    EXPECT_EQ(actual.limits[i].precision, expected.limits[i].precision);
    EXPECT_EQ(actual.limits[i].largest_batch_measured, expected.limits[i].largest_batch_measured);
    EXPECT_EQ(actual.limits[i].first_batch_out_of_memory,
              expected.limits[i].first_batch_out_of_memory);
  }
}

TEST(Pack, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  const Pack pack = full_pack();
  ASSERT_TRUE(write_pack(pack, folder.path() / "sample").has_value());
  const Result<Pack> read_back = load_pack(folder.path() / "sample");
  ASSERT_TRUE(read_back.has_value()) << read_back.error().message;
  expect_equal(*read_back, pack);
  EXPECT_TRUE(check_pack(folder.path() / "sample").empty());
}

TEST(Pack, DoesNotDependOnTheOrderOfRecords) {
  Pack pack = full_pack();
  const auto files = format_pack(pack);
  ASSERT_TRUE(files.has_value());
  std::ranges::reverse(pack.models);
  std::ranges::reverse(pack.curves);
  std::ranges::reverse(pack.limits);
  EXPECT_EQ(format_pack(pack).value(), *files);
}

TEST(Pack, KeepsTextThatTomlMustEscape) {
  Pack pack = full_pack();
  pack.info.method = "  " + std::string(200, 'x') + "  two spaces\n\"\"\" \\ tab\t" +
                     std::string(90, 'y') + " " + std::string(90, 'z') + "\" " +
                     std::string(90, 'a') + " \u00a0" + std::string(90, 'b') + " \ufeff";
  std::vector<PackFault> faults;
  const auto files = format_pack(pack);
  const PackInfo info = parse_pack_info(files->at("pack.toml"), "pack.toml", faults).info;
  EXPECT_TRUE(faults.empty()) << faults.front().message;
  EXPECT_EQ(info.method, pack.info.method);
}

TEST(Pack, MayBringRawResults) {
  const TemporaryFolder folder;
  const fs::path pack = folder.path() / "sample";
  ASSERT_TRUE(write_pack(full_pack(), pack).has_value());
  write(pack / "raw" / "steps.csv", "whatever\r\n");
  write(pack / "raw" / "facts.json", "{");
  EXPECT_TRUE(check_pack(pack).empty());
  const Result<Pack> read_back = load_pack(pack);
  ASSERT_TRUE(read_back.has_value()) << read_back.error().message;
  expect_equal(*read_back, full_pack());
}

TEST(Pack, HasThePermissionsThatTheProcessGives) {
  const TemporaryFolder folder;
  const mode_t old = ::umask(027);
  ASSERT_TRUE(write_pack(full_pack(), folder.path() / "sample").has_value());
  ::umask(old);
  EXPECT_EQ(fs::status(folder.path() / "sample").permissions(),
            fs::perms::owner_all | fs::perms::group_read | fs::perms::group_exec);
  const fs::directory_iterator entries(folder.path());
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 1) << "nothing else is left";
}

TEST(Pack, IsNotWrittenOverAnother) {
  const TemporaryFolder folder;
  write(folder.path() / "sample" / "something", "precious");
  const Result<void> result = write_pack(full_pack(), folder.path() / "sample");
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(read(folder.path() / "sample" / "something"), "precious");
}

TEST(Pack, LeavesNothingWhenItCannotBeWritten) {
  const TemporaryFolder folder;
  Pack pack = full_pack();
  // A file name may have at most 255 bytes, and the temporary folder's name comes on top.
  EXPECT_FALSE(write_pack(pack, folder.path() / std::string(254, 'x')).has_value());
  pack.curves.front().key.gpu = "../outside";
  EXPECT_FALSE(write_pack(pack, folder.path() / "sample").has_value());
  pack = full_pack();
  pack.curves.push_back(pack.curves.front());
  EXPECT_FALSE(write_pack(pack, folder.path() / "sample").has_value());
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(Pack, NamesFileAndLineOfTheFirstFault) {
  const TemporaryFolder folder;
  const fs::path pack = folder.path() / "sample";
  ASSERT_TRUE(write_pack(full_pack(), pack).has_value());
  const fs::path table = pack / "V100-PCIE-32GB" / "fp32" / "forward.csv";
  write(table, read(table) + "vgg11,4,fast\n");
  const Result<Pack> result = load_pack(pack);
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kCorruptData);
  EXPECT_EQ(result.error().message,
            table.string() + ":7: forward_ms is \"fast\"; expected a number");
}

TEST(Pack, IsNotFoundWithoutItsInfo) {
  const TemporaryFolder folder;
  const Result<Pack> result = load_pack(folder.path());
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(check_pack(folder.path()).size(), 1U);
}

/// A way to spoil the sample: line `line` of `file` (the one after the last to append, 0 to write
/// the whole file) becomes `text`; the check then reports one fault, at that line unless
/// `fault_line` says another.
struct Damage {
  const char* name;
  const char* file;
  int line;
  const char* text;
  const char* message;
  int fault_line = -1;
};

std::ostream& operator<<(std::ostream& out, const Damage& damage) {
  return out << damage.name;
}

std::string replace_line(const std::string& text, int line, const std::string& replacement) {
  std::istringstream in(text);
  std::string result;
  int number = 0;
  for (std::string old; std::getline(in, old);) {
    result += ++number == line ? replacement : old + "\n";
  }
  return number < line ? result + replacement : result;
}

class DamagedPack : public testing::TestWithParam<Damage> {};

TEST_P(DamagedPack, HasOneFaultAtItsLine) {
  const Damage& damage = GetParam();
  const TemporaryFolder folder;
  const fs::path pack = folder.path() / "sample";
  ASSERT_TRUE(write_pack(full_pack(), pack).has_value());
  const fs::path file = pack / damage.file;
  write(file, damage.line == 0 ? std::string(damage.text)
                               : replace_line(read(file), damage.line, damage.text));
  const std::string known[] = {"V100-PCIE-32GB"};
  const std::vector<PackFault> faults = check_pack(pack, known);
  ASSERT_FALSE(faults.empty());
  for (const PackFault& fault : faults) {
    EXPECT_EQ(faults.size(), 1U) << fault.file << ":" << fault.line << ": " << fault.message;
  }
  EXPECT_EQ(faults.front().file, file);
  EXPECT_EQ(faults.front().line, damage.fault_line >= 0 ? damage.fault_line : damage.line);
  EXPECT_NE(faults.front().message.find(damage.message), std::string::npos)
      << faults.front().message;
}

constexpr const char* kForward = "V100-PCIE-32GB/fp32/forward.csv";
constexpr const char* kCurves = "V100-PCIE-32GB/fp32/curves.csv";
constexpr const char* kLimits = "V100-PCIE-32GB/fp32/limits.csv";
constexpr const char* kPersistent = "V100-PCIE-32GB/fp32/persistent_memory.csv";

INSTANTIATE_TEST_SUITE_P(
    Tables, DamagedPack,
    testing::Values(
        Damage{"UnsortedBatch", kForward, 2, "alexnet,5,1.5\n", "ascending", 3},
        Damage{"DuplicateBatch", kForward, 3, "alexnet,1,2.25\n", "same record"},
        Damage{"Zero", kForward, 3, "alexnet,4,0\n", "not positive"},
        Damage{"Negative", kForward, 3, "alexnet,4,-2.25\n", "not positive"},
        Damage{"NotANumber", kForward, 3, "alexnet,4,nan\n", "expected a number"},
        Damage{"Infinite", kForward, 3, "alexnet,4,inf\n", "expected a number"},
        Damage{"DecimalComma", kForward, 3, "alexnet,4,2,25\n", "4 fields"},
        Damage{"TrailingJunk", kForward, 3, "alexnet,4,2.25ms\n", "expected a number"},
        Damage{"Space", kForward, 3, "alexnet, 4,2.25\n", "whole number"},
        Damage{"HalfABatch", kForward, 3, "alexnet,4.5,2.25\n", "whole number"},
        Damage{"NoBatch", kForward, 3, "alexnet,0,2.25\n", "whole number"},
        Damage{"MissingField", kForward, 3, "alexnet,4\n", "2 fields"},
        Damage{"EmptyLine", kForward, 3, "\n", "empty line"},
        Damage{"EmptyLineAtTheEnd", kForward, 7, "\n", "empty line"},
        Damage{"CarriageReturn", kForward, 3, "alexnet,4,2.25\r\n", "carriage return"},
        Damage{"NotUtf8", kForward, 3, "alexnet,4,2.25\xff\n", "byte 0xff in column 15"},
        Damage{"CutOff", kForward, 6, "vgg11,2,9.5", "line feed"},
        Damage{"AbsurdFall", kForward, 4, "alexnet,8,1.1\n", "below 0.5 of the 2.25"},
        Damage{"PointWithoutCurve", kForward, 7, "wgg11,4,20\n", "curves.csv has no row"},
        Damage{"PointBeyondTheLimit", kForward, 7, "vgg11,3,12\n", "largest batch"},
        Damage{"PersistentAbovePeak", kPersistent, 3, "alexnet,8,950\n", "more than the peak"},
        Damage{"UnknownQuantity", kCurves, 7, "vgg11,sideways,8,0,0,0,0\n", "unknown quantity"},
        Damage{"NoRows", kCurves, 7, "vgg11,peak_memory,0,0,0,0,0\n", "whole number"},
        Damage{"ErrorAboveRange", kCurves, 7, "vgg11,peak_memory,8,1,1,1,101\n", "0 to 100"},
        Damage{"ErrorBelowRange", kCurves, 7, "vgg11,peak_memory,8,-1,1,1,1\n", "0 to 100"},
        Damage{"ErrorsDoNotAscend", kCurves, 6, "vgg11,forward,8,1,3,2,4\n", "ascend"},
        Damage{"MoreErrorOnAverageThanAtMost", kCurves, 6, "vgg11,forward,8,3,0,1,2\n", "ascend"},
        Damage{"MorePointsThanRows", kCurves, 6, "vgg11,forward,1,0,0,0,0\n", "2 points"},
        Damage{"CurveWithoutPoints", kCurves, 7, "vgg11,peak_memory,8,1,1,1,1\n", "has no row"},
        Damage{"LimitBelowItself", kLimits, 3, "vgg11,2,2\n", "did not fit"},
        Damage{"LimitNotANumber", kLimits, 3, "vgg11,2,none\n", "whole number"},
        Damage{"UnknownModel", kLimits, 4, "wgg11,2,3\n", "models.csv has no model"},
        Damage{"ModelTwice", "models.csv", 4, "vgg11,132863336,3,224,224\n", "same record"},
        Damage{"ModelNobodyMeasured", "models.csv", 4, "wgg11,1,3,224,224\n", "no table"},
        Damage{"ModelWithoutName", "models.csv", 4, ",1,3,224,224\n", "expected a name"},
        Damage{"ModelWithoutParameters", "models.csv", 4, "wgg11,0,3,224,224\n", "whole number"}),
    [](const auto& parameters) { return parameters.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Info, DamagedPack,
    testing::Values(Damage{"NotToml", "pack.toml", 2, "name = sample\n", ""},
                    Damage{"OtherFormat", "pack.toml", 1, "format = 2\n", "format = 1"},
                    Damage{"OtherName", "pack.toml", 2, "name = \"other\"\n", "its folder sample"},
                    Damage{"BadName", "pack.toml", 2, "name = \"sam/ple\"\n", "must be of letters"},
                    Damage{"NoCitation", "pack.toml", 4, "", "\"citation\" is missing", 0},
                    Damage{"EmptyLicence", "pack.toml", 6, "licence = \"\"\n", "must be a string"},
                    Damage{"LicenceNotStated", "pack.toml", 6, "licence = \"not stated\"\n",
                           "not stated"},
                    Damage{"TitleOfAnotherType", "pack.toml", 3, "title = 3\n", "must be a string"},
                    Damage{"UnknownKey", "pack.toml", 6, "licence = \"x\"\nlicense = \"x\"\n",
                           "unknown key", 7}),
    [](const auto& parameters) { return parameters.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Folder, DamagedPack,
    testing::Values(Damage{"WrongHeader", "V100-PCIE-32GB/fp32/limits.csv", 0, "model,largest\n",
                           "expected the header", 1},
                    Damage{"StrayFile", "V100-PCIE-32GB/fp32/forward.csv~", 0, "", "not a part"},
                    Damage{"StrayRawFile", "raw/steps.csv.tmp", 0, "", "not a part"},
                    Damage{"StrayFileInTheRoot", "forward.csv", 0, "", "not a part"},
                    Damage{"FileInsteadOfFolder", "V100-PCIE-32GB/forward.csv", 0, "",
                           "not a part"}),
    [](const auto& parameters) { return parameters.param.name; });

TEST(PackCheck, KnowsWhichGpusThereAre) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_pack(full_pack(), folder.path() / "sample").has_value());
  const std::string known[] = {"A100-SXM4-40GB"};
  const std::vector<PackFault> faults = check_pack(folder.path() / "sample", known);
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].file, folder.path() / "sample" / "V100-PCIE-32GB");
  EXPECT_NE(faults[0].message.find("unknown GPU V100-PCIE-32GB"), std::string::npos);
}

TEST(PackCheck, StopsAfterManyFaultsInOneFile) {
  std::string csv = "model,batch,forward_ms\n";
  for (int i = 0; i < 1000; ++i) csv += "junk\n";
  std::vector<PackFault> faults;
  EXPECT_TRUE(parse_points(csv, Quantity::kForward, "forward.csv", faults).empty());
  ASSERT_EQ(faults.size(), 21U);
  EXPECT_EQ(faults.back().line, 22);
}

}  // namespace
}  // namespace gpemu::profile
