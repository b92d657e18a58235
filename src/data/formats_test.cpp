// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <unistd.h>

#include <gtest/gtest.h>

#include "gpemu/base/file.hpp"
#include "gpemu/data/convert_dataset.hpp"
#include "gpemu/data/dataset.hpp"
#include "gpemu/data/sample_reader.hpp"

#include "crc32c.hpp"
#include "page_file.hpp"
#include "test_jpeg.hpp"

namespace gpemu::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array kStoredFormats = {DataFormat::kWebDataset, DataFormat::kTfRecord,
                                       DataFormat::kGroups, DataFormat::kPages};

void write(const fs::path& path, std::string_view content) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(content.data(), std::ssize(content));
}

/// A folder data set of 30 images of two classes, and files of other formats made of it.
class FormatsTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            ("gpemu_formats_" + std::to_string(::getpid()) + "_" +
             testing::UnitTest::GetInstance()->current_test_info()->name());
    for (int i = 0; i < 30; ++i) {
      const auto jpeg = make_test_jpeg({20 + i, 30}, {}, static_cast<std::uint64_t>(i));
      write(root_ / "photos" / (i % 3 == 0 ? "cat" : "dog") / (std::to_string(100 + i) + ".jpg"),
            {reinterpret_cast<const char*>(jpeg.data()), jpeg.size()});
    }
    photos_ = std::make_unique<Dataset>(Dataset::open(root_ / "photos").value());
  }
  void TearDown() override { fs::remove_all(root_); }

  [[nodiscard]] fs::path place(DataFormat format) const {
    return root_ / (format == DataFormat::kPages
                        ? "made.pages"
                        : kDataFormatNames[static_cast<std::size_t>(format)]);
  }

  void convert(DataFormat format, ConvertOptions options = {.shard_bytes = 8000, .group = 4}) {
    options.format = format;
    const auto made = convert_dataset(*photos_, place(format), options);
    ASSERT_TRUE(made) << made.error().message;
  }

  /// Returns the images with their labels, in no order.
  static std::multiset<std::pair<std::string, int>> content_of(const Dataset& dataset) {
    std::multiset<std::pair<std::string, int>> content;
    SampleReader reader(dataset);
    for (std::size_t i = 0; i < dataset.samples().size(); ++i) {
      EXPECT_TRUE(reader.read(i));
      const auto image = reader.image();
      EXPECT_TRUE(image) << image.error().message;
      content.emplace(std::string(reinterpret_cast<const char*>(image->data()), image->size()),
                      dataset.samples()[i].label);
    }
    return content;
  }

  /// Returns why a data set cannot be opened.
  static Error open_error(const fs::path& path) {
    const auto dataset = Dataset::open(path);
    return dataset ? Error{ErrorCode::kInternal, "no error"} : dataset.error();
  }

  /// Returns the first file of a converted data set.
  [[nodiscard]] fs::path first_file(DataFormat format) const {
    return Dataset::open(place(format)).value().files().front();
  }

  static std::string content(const fs::path& path) { return read_file(path).value(); }

  fs::path root_;
  std::unique_ptr<Dataset> photos_;
};

TEST_F(FormatsTest, KeepEveryByteAndLabel) {
  const auto expected = content_of(*photos_);
  ASSERT_EQ(expected.size(), 30U);
  for (const DataFormat format : kStoredFormats) {
    convert(format);
    const auto made = Dataset::open(place(format));
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->format(), format);
    EXPECT_EQ(made->classes(), photos_->classes());
    EXPECT_EQ(made->total_bytes(), photos_->total_bytes());
    EXPECT_EQ(content_of(*made), expected) << made->format_name();
    // And back.
    const fs::path back = root_ / ("back_" + std::string(made->format_name()));
    ASSERT_TRUE(convert_dataset(*made, back, {.format = DataFormat::kFolder}));
    const auto folder = Dataset::open(back);
    ASSERT_TRUE(folder) << folder.error().message;
    EXPECT_EQ(content_of(*folder), expected);
  }
}

TEST_F(FormatsTest, AreDividedAsAskedFor) {
  convert(DataFormat::kWebDataset);
  convert(DataFormat::kGroups);
  const Dataset tars = Dataset::open(place(DataFormat::kWebDataset)).value();
  EXPECT_GT(tars.files().size(), 3U);
  for (std::size_t i = 0; i + 1 < tars.files().size(); ++i) {
    EXPECT_GE(fs::file_size(tars.files()[i]), 8000U);
  }
  const Dataset groups = Dataset::open(place(DataFormat::kGroups)).value();
  EXPECT_EQ(groups.files().size(), 8U) << "seven groups of 4 and one of 2";
  EXPECT_EQ(groups.units().size(), 8U);
}

TEST_F(FormatsTest, StoreInRandomOrderUnlessToldNotTo) {
  convert(DataFormat::kPages);
  const Dataset shuffled = Dataset::open(place(DataFormat::kPages)).value();
  fs::remove(place(DataFormat::kPages));
  convert(DataFormat::kPages, {.shuffle = false});
  const Dataset kept = Dataset::open(place(DataFormat::kPages)).value();
  const auto labels = [](const Dataset& dataset) {
    std::string text;
    for (const Sample& sample : dataset.samples()) text += std::to_string(sample.label);
    return text;
  };
  EXPECT_EQ(labels(kept), "000000000011111111111111111111");
  EXPECT_NE(labels(shuffled), labels(kept));
}

TEST_F(FormatsTest, OrdersArePermutations) {
  convert(DataFormat::kWebDataset);
  convert(DataFormat::kGroups);
  for (const DataFormat format : {DataFormat::kWebDataset, DataFormat::kGroups}) {
    const Dataset dataset = Dataset::open(place(format)).value();
    EXPECT_EQ(dataset.natural_order(), ReadOrder::kQuasiRandom);
    for (const ReadOrder order :
         {ReadOrder::kRandom, ReadOrder::kQuasiRandom, ReadOrder::kSequential}) {
      std::vector<std::uint32_t> samples = dataset.epoch_order(order, 2, 5, 1);
      EXPECT_EQ(samples, dataset.epoch_order(order, 2, 5, 1));
      if (order != ReadOrder::kSequential) {
        EXPECT_NE(samples, dataset.epoch_order(order, 2, 5, 2));
        EXPECT_NE(samples, dataset.epoch_order(order, 2, 6, 1));
      }
      // No more than a window of units is in use at a time.
      if (order == ReadOrder::kQuasiRandom) {
        std::map<std::uint32_t, std::size_t> last_use;
        for (std::size_t i = 0; i < samples.size(); ++i) {
          last_use[dataset.samples()[samples[i]].unit] = i;
        }
        std::set<std::uint32_t> in_use;
        for (std::size_t i = 0; i < samples.size(); ++i) {
          const std::uint32_t unit = dataset.samples()[samples[i]].unit;
          in_use.insert(unit);
          EXPECT_LE(in_use.size(), 2U);
          if (last_use[unit] == i) in_use.erase(unit);
        }
      }
      std::ranges::sort(samples);
      for (std::uint32_t i = 0; i < samples.size(); ++i) EXPECT_EQ(samples[i], i);
    }
  }
}

TEST_F(FormatsTest, NameTheFileAndTheOffsetOfDamage) {
  struct Damage {
    DataFormat format;
    std::size_t at;  ///< of the byte that is changed.
    std::string_view says;
  };
  for (const DataFormat format : kStoredFormats) convert(format);
  const fs::path tar = first_file(DataFormat::kWebDataset);
  std::string text = content(tar);
  text[3] ^= 1;
  write(tar, text);
  EXPECT_EQ(open_error(place(DataFormat::kWebDataset)).message,
            tar.string() + ", byte 0: this is no header of a tar file: its sum is wrong");
  const fs::path records = first_file(DataFormat::kTfRecord);
  text = content(records);
  text[0] ^= 1;
  write(records, text);
  EXPECT_EQ(open_error(place(DataFormat::kTfRecord)).message,
            records.string() +
                ", byte 0: this is no record of a TFRecord file: the checksum of its length is "
                "wrong");
  const fs::path pages = place(DataFormat::kPages);
  text = content(pages);
  PageFooter footer;
  std::memcpy(&footer, text.data() + text.size() - sizeof footer, sizeof footer);
  text[footer.table_offset] ^= 1;
  write(pages, text);
  EXPECT_EQ(open_error(pages).message,
            pages.string() + ", byte " + std::to_string(footer.table_offset) +
                ": the table of samples is damaged: its checksum is wrong");
}

TEST_F(FormatsTest, FindDamagedImagesByTheirChecksums) {
  for (const DataFormat format : {DataFormat::kTfRecord, DataFormat::kPages}) {
    convert(format);
    const Dataset dataset = Dataset::open(place(format)).value();
    const fs::path file = dataset.files().front();
    std::string text = content(file);
    const Sample& first = dataset.samples().front();
    text[first.offset + first.bytes / 2] ^= 1;
    write(file, text);
    SampleReader reader(dataset);
    ASSERT_TRUE(reader.read(0));
    ASSERT_FALSE(reader.image());
    EXPECT_EQ(reader.image().error().code, ErrorCode::kCorruptData);
    EXPECT_EQ(reader.image().error().message, "its checksum is wrong");
    EXPECT_EQ(dataset.sample_name(0), file.string() + ", byte " + std::to_string(first.offset));
    ASSERT_TRUE(reader.read(1));
    EXPECT_TRUE(reader.image()) << "the others are whole";
    // A conversion does not pass the damage on.
    const auto again = convert_dataset(dataset, root_ / "again", {});
    EXPECT_EQ(again.error().code, ErrorCode::kCorruptData);
    EXPECT_FALSE(fs::exists(root_ / "again"));
  }
}

TEST_F(FormatsTest, AreRefusedWhereverTheyAreCutOff) {
  for (const DataFormat format : kStoredFormats) {
    convert(format);
    const fs::path file =
        format == DataFormat::kGroups ? place(format) / "metadata.txt" : first_file(format);
    const std::string whole = content(file);
    const std::size_t step = std::max<std::size_t>(whole.size() / 150, 1);
    for (std::size_t size = 0; size < whole.size(); size += step) {
      fs::resize_file(file, size);
      // A tar or TFRecord file may end after any sample; what is left is read as it is.
      if (const auto dataset = Dataset::open(place(format))) {
        EXPECT_TRUE(format == DataFormat::kWebDataset || format == DataFormat::kTfRecord ||
                    format == DataFormat::kGroups)
            << size;
        for (const auto& image : content_of(*dataset)) {
          EXPECT_TRUE(image.first.starts_with("\xff\xd8")) << size;
        }
      } else {
        EXPECT_EQ(dataset.error().code, ErrorCode::kCorruptData) << dataset.error().message;
        EXPECT_NE(dataset.error().message.find(file.string()), std::string::npos)
            << dataset.error().message;
      }
      write(file, whole);
    }
    fs::remove_all(place(format));
  }
}

TEST_F(FormatsTest, SurviveAnyChangedByte) {
  for (const DataFormat format : kStoredFormats) {
    convert(format);
    const fs::path file =
        format == DataFormat::kGroups ? place(format) / "metadata.txt" : first_file(format);
    const std::string whole = content(file);
    const std::size_t step = std::max<std::size_t>(whole.size() / 250, 1);
    for (std::size_t i = 0; i < whole.size(); i += step) {
      std::string changed = whole;
      changed[i] = static_cast<char>(changed[i] ^ (1 << (i % 8)));
      write(file, changed);
      const auto dataset = Dataset::open(place(format));
      if (!dataset) continue;
      SampleReader reader(*dataset);
      for (std::size_t sample = 0; sample < dataset->samples().size(); ++sample) {
        if (reader.read(sample)) static_cast<void>(reader.image());
      }
    }
    fs::remove_all(place(format));
  }
}

TEST_F(FormatsTest, LeaveNothingWhenStopped) {
  for (const DataFormat format : kStoredFormats) {
    std::atomic<bool> stop = false;
    const auto made = convert_dataset(*photos_, place(format),
                                      {.format = format,
                                       .progress = [&](std::int64_t done) { stop = done == 5; },
                                       .stop = &stop});
    EXPECT_EQ(made.error().code, ErrorCode::kInterrupted);
  }
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(root_)) {
    left.push_back(entry.path().filename().string());
  }
  EXPECT_EQ(left, (std::vector<std::string>{"photos"}));
}

TEST_F(FormatsTest, TellWhatCannotBeMade) {
  const auto error_of = [this](const fs::path& target, const ConvertOptions& options) {
    const auto made = convert_dataset(*photos_, target, options);
    return made ? std::string("made") : made.error().message;
  };
  EXPECT_NE(error_of(root_ / "p", {.format = DataFormat::kPages}).find("ends with .pages"),
            std::string::npos);
  EXPECT_NE(error_of(root_ / "photos", {}).find("not an empty folder"), std::string::npos);
  EXPECT_NE(error_of(root_ / "g", {.format = DataFormat::kGroups, .group = 0}).find("at least 1"),
            std::string::npos);
  write(root_ / "odd" / "a\nb" / "c.jpg", "x");
  const Dataset odd = Dataset::open(root_ / "odd").value();
  EXPECT_EQ(convert_dataset(odd, root_ / "o", {}).error().code, ErrorCode::kInvalidArgument);
}

/// One member of a tar file.
std::string tar_member(std::string_view name, std::string_view content, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  header.replace(124, 11, fmt::format("{:011o}", content.size()));
  header.replace(148, 8, "        ");
  header[156] = type;
  header.replace(257, 5, "ustar");
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<unsigned char>(byte);
  header.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
  return header + std::string(content) + std::string((512 - content.size() % 512) % 512, '\0');
}

class TarTest : public FormatsTest {
 protected:
  Result<Dataset> open(const std::string& tar) {
    write(root_ / "t" / "a.tar", tar);
    return Dataset::open(root_ / "t");
  }
};

TEST_F(TarTest, JoinsMembersOfOneKey) {
  const auto dataset =
      open(tar_member("./", "", '5') + tar_member("x/1.CLS", "3\n") + tar_member("x/1.JPG", "abc") +
           tar_member("x/1.json", "{}") + tar_member("x/2.seg.png", "no") +
           tar_member("x/2.png", "de") + tar_member("y.txt", "a text alone"));
  ASSERT_TRUE(dataset) << dataset.error().message;
  ASSERT_EQ(dataset->samples().size(), 2U);
  EXPECT_EQ(dataset->samples()[0].label, 3);
  EXPECT_EQ(dataset->samples()[1].label, 0) << "without a class";
  EXPECT_EQ(content_of(*dataset),
            (std::multiset<std::pair<std::string, int>>{{"abc", 3}, {"de", 0}}));
  EXPECT_EQ(dataset->classes().size(), 4U);
}

TEST_F(TarTest, KnowsLongNames) {
  const std::string name = std::string(150, 'n') + ".jpg";
  const std::string pax = "path=" + name + "\n";
  const std::string line = fmt::format("{} {}", pax.size() + 4, pax);
  ASSERT_EQ(line.size(), pax.size() + 4);
  for (const std::string& long_name :
       {tar_member("././@LongLink", name + '\0', 'L'), tar_member("pax", line, 'x')}) {
    const auto dataset = open(long_name + tar_member(name.substr(0, 100), "abc"));
    ASSERT_TRUE(dataset) << dataset.error().message;
    EXPECT_EQ(content_of(*dataset), (std::multiset<std::pair<std::string, int>>{{"abc", 0}}));
  }
}

TEST_F(TarTest, RefusesWhatItCannotRead) {
  const auto error_of = [this](const std::string& tar) {
    const auto dataset = open(tar);
    return dataset ? std::string("no error") : dataset.error().message;
  };
  const std::string begin = (root_ / "t" / "a.tar").string();
  EXPECT_EQ(error_of(tar_member("a.jpg", "x") + tar_member("a.cls", "cat")),
            begin + ", byte 1536: the class of 'a' is 'cat'; expected a number from 0 to 1000000");
  EXPECT_EQ(error_of(tar_member("a.jpg", "x") + tar_member("a.png", "x")),
            begin + ", byte 1024: sample 'a' has two images");
  EXPECT_EQ(error_of(tar_member("a.jpg", "x").substr(0, 512)),
            begin + ", byte 0: the tar file is cut off within a member of 1 bytes");
  EXPECT_EQ(error_of(tar_member("a.jpg", "x", 'S')),
            begin + ", byte 0: sparse members are not supported");
  EXPECT_EQ(error_of(tar_member("a.txt", "x")),
            begin + " holds no member whose name ends with .jpg, .jpeg or .png");
  fs::rename(root_ / "t" / "a.tar", root_ / "t" / "a.tar.gz");
  EXPECT_NE(open_error(root_ / "t").message.find("is compressed"), std::string::npos);
}

TEST_F(FormatsTest, GroupsStayInTheirFolder) {
  write(root_ / "g" / "a.mytar", "abc");
  write(root_ / "g" / "metadata.txt", "1\ncat\n../../photos,1\n0,0,0,1,x\n");
  EXPECT_NE(open_error(root_ / "g").message.find("byte 6: '../../photos' is no file beside"),
            std::string::npos);
  write(root_ / "g" / "metadata.txt", "1\ncat\na.mytar,1\n0,0,2,2,x\n");
  EXPECT_NE(open_error(root_ / "g").message.find("byte 16: a size is '2'; expected 0 to 1"),
            std::string::npos);
  write(root_ / "g" / "metadata.txt", "1\ncat\na.mytar,1\n0,1,0,1,x\n");
  EXPECT_NE(open_error(root_ / "g").message.find("a class is '1'; expected 0 to 0"),
            std::string::npos);
}

TEST_F(FormatsTest, SeveralInOneFolderAreRefused) {
  write(root_ / "m" / "a.tar", tar_member("a.jpg", "x"));
  write(root_ / "m" / "a.tfrecord", "");
  EXPECT_NE(open_error(root_ / "m").message.find("have different formats"), std::string::npos);
}

TEST(Crc32c, EqualsPublishedValues) {
  // Source: RFC 3720, appendix B.4.
  const std::array<std::byte, 32> zeros{};
  EXPECT_EQ(crc32c(zeros), 0x8a9136aaU);
  std::array<std::byte, 32> ones{};
  ones.fill(std::byte{0xff});
  EXPECT_EQ(crc32c(ones), 0x62a8ab43U);
  std::array<std::byte, 32> ascending{};
  for (std::size_t i = 0; i < 32; ++i) ascending[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(ascending), 0x46dd794eU);
  EXPECT_EQ(crc32c_by_table(ascending), 0x46dd794eU);
  EXPECT_EQ(crc32c({}), 0U);
  for (std::size_t size = 0; size < 32; ++size) {
    const auto part = std::span(ascending).first(size);
    EXPECT_EQ(crc32c(part), crc32c_by_table(part)) << size;
  }
}

}  // namespace
}  // namespace gpemu::data
