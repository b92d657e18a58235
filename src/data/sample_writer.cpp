// SPDX-License-Identifier: Apache-2.0
#include "sample_writer.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"
#include "gpemu/data/output_folder.hpp"

#include "crc32c.hpp"
#include "index_reader.hpp"
#include "output_file.hpp"
#include "page_file.hpp"
#include "png_decoder.hpp"

namespace gpemu::data {
namespace {

namespace fs = std::filesystem;

std::string_view extension_of(std::span<const std::byte> image) {
  return is_png(image) ? "png" : "jpg";
}

std::string lines_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return text;
}

/// Writes a small file of a folder as a whole.
Result<void> write_text(const fs::path& path, std::string_view text) {
  GPEMU_ASSIGN(OutputFile file, OutputFile::create(path));
  GPEMU_TRY(file.append(text));
  return file.close();
}

/// One file per image, in one folder per class.
class FolderWriter final : public SampleWriter {
 public:
  FolderWriter(OutputFolder folder, const std::vector<std::string>& classes)
      : folder_(std::move(folder)) {
    for (const std::string& name : classes) classes_.push_back(folder_name(name));
  }

  Result<void> add(std::int32_t label, std::span<const std::byte> image) override {
    const fs::path folder = folder_.path() / classes_[static_cast<std::size_t>(label)];
    std::error_code error;
    fs::create_directory(folder, error);
    if (error) return fail(ErrorCode::kIo, "cannot make {}: {}", folder.string(), error.message());
    GPEMU_ASSIGN(
        OutputFile file,
        OutputFile::create(folder / fmt::format("image_{:07}.{}", count_++, extension_of(image))));
    GPEMU_TRY(file.append(image));
    return file.close();
  }

  Result<void> commit() override { return folder_.commit(); }

 private:
  /// Returns a name of a folder for a class. Numbers get zeros in front: the labels will follow
  /// from the order of the folders.
  [[nodiscard]] std::string folder_name(const std::string& name) const {
    const bool digits = std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    const bool taken = std::ranges::find(classes_, name) != classes_.end();
    if (digits || taken || name.front() == '.' || name.find('/') != std::string::npos) {
      return fmt::format("class_{:07}", classes_.size());
    }
    return name;
  }

  OutputFolder folder_;
  std::vector<std::string> classes_;
  std::int64_t count_ = 0;
};

/// Files of many samples, one after the other, and the names of the classes.
class ShardWriter : public SampleWriter {
 public:
  ShardWriter(OutputFolder folder, std::string names, std::string_view extension, Bytes shard_bytes)
      : folder_(std::move(folder)),
        names_(std::move(names)),
        extension_(extension),
        shard_bytes_(shard_bytes) {}

  Result<void> add(std::int32_t label, std::span<const std::byte> image) override {
    if (!file_) {
      GPEMU_ASSIGN(OutputFile file,
                   OutputFile::create(folder_.path() /
                                      fmt::format("shard-{:06}.{}", shards_++, extension_)));
      file_ = std::move(file);
    }
    GPEMU_TRY(store(*file_, label, image));
    if (file_->size() < shard_bytes_) return {};
    return finish_shard();
  }

  Result<void> commit() override {
    if (file_) GPEMU_TRY(finish_shard());
    GPEMU_TRY(write_text(folder_.path() / kClassesFile, names_));
    return folder_.commit();
  }

 protected:
  virtual Result<void> store(OutputFile& file, std::int32_t label,
                             std::span<const std::byte> image) = 0;
  virtual Result<void> end(OutputFile& /*file*/) { return {}; }

 private:
  Result<void> finish_shard() {
    GPEMU_TRY(end(*file_));
    GPEMU_TRY(file_->close());
    file_.reset();
    return {};
  }

  OutputFolder folder_;
  std::string names_;
  std::string_view extension_;
  Bytes shard_bytes_;
  std::optional<OutputFile> file_;
  int shards_ = 0;
};

/// Tar files as WebDataset reads them: of each sample a member KEY.jpg and one KEY.cls.
class TarWriter final : public ShardWriter {
 public:
  using ShardWriter::ShardWriter;

 private:
  static constexpr std::size_t kTarBlock = 512;

  Result<void> store(OutputFile& file, std::int32_t label,
                     std::span<const std::byte> image) override {
    const std::string key = fmt::format("{:09}", count_++);
    GPEMU_TRY(add_member(file, fmt::format("{}.{}", key, extension_of(image)), image));
    const std::string text = std::to_string(label);
    return add_member(file, key + ".cls", std::as_bytes(std::span(text)));
  }

  /// Two blocks of zeros end a tar file.
  Result<void> end(OutputFile& file) override {
    return file.append(std::string(2 * kTarBlock, '\0'));
  }

  /// Source: POSIX.1-2017, pax, "ustar Interchange Format".
  static Result<void> add_member(OutputFile& file, const std::string& name,
                                 std::span<const std::byte> content) {
    std::array<char, kTarBlock> header{};
    const auto put = [&header](std::size_t offset, std::string_view text) {
      std::ranges::copy(text, header.begin() + static_cast<std::ptrdiff_t>(offset));
    };
    put(0, name);
    put(100, "0000644");
    put(108, "0000000");
    put(116, "0000000");
    put(124, fmt::format("{:011o}", content.size()));
    put(136, "00000000000");
    put(148, "        ");
    put(156, "0");
    put(257, std::string_view("ustar\00000", 8));
    unsigned sum = 0;
    for (const char byte : header) sum += static_cast<unsigned char>(byte);
    put(148, fmt::format("{:06o}", sum));
    header[154] = '\0';
    GPEMU_TRY(file.append(std::string_view(header.data(), header.size())));
    GPEMU_TRY(file.append(content));
    return file.append(std::string((kTarBlock - content.size() % kTarBlock) % kTarBlock, '\0'));
  }

  std::int64_t count_ = 0;
};

/// TFRecord files of tf.train.Example, with the features of TensorFlow's own ImageNet records.
class TfRecordWriter final : public ShardWriter {
 public:
  using ShardWriter::ShardWriter;

 private:
  Result<void> store(OutputFile& file, std::int32_t label,
                     std::span<const std::byte> image) override {
    const std::string example = field(1, features_of(label, image));
    std::string header(sizeof(std::uint64_t), '\0');
    const std::uint64_t length = example.size();
    std::memcpy(header.data(), &length, sizeof length);
    append_crc(header, header);
    GPEMU_TRY(file.append(header));
    GPEMU_TRY(file.append(example));
    std::string footer;
    append_crc(footer, example);
    return file.append(footer);
  }

  static void append_crc(std::string& text, std::string_view of) {
    const std::uint32_t crc = masked_crc(crc32c(std::as_bytes(std::span(of))));
    text.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  }

  /// A number as protobuf writes it.
  static std::string varint(std::uint64_t value) {
    std::string text;
    for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
    text += static_cast<char>(value);
    return text;
  }

  /// A field of bytes, a text or a message.
  static std::string field(unsigned number, std::string_view content) {
    return varint(number << 3 | 2).append(varint(content.size())).append(content);
  }

  /// An entry of the map of features: its name, and a list of bytes (1) or of numbers (3).
  static std::string feature(std::string_view name, unsigned kind, std::string_view list) {
    return field(1, field(1, name) + field(2, field(kind, list)));
  }

  static std::string features_of(std::int32_t label, std::span<const std::byte> image) {
    const std::string_view bytes(reinterpret_cast<const char*>(image.data()), image.size());
    const std::string_view format = is_png(image) ? "PNG" : "JPEG";
    return feature("image/class/label", 3,
                   varint(1 << 3) + varint(static_cast<std::uint64_t>(label))) +
           feature("image/format", 1, field(1, format)) +
           feature("image/encoded", 1, field(1, bytes));
  }
};

/// File groups as GPEmu's scripts write them. The last group may have fewer images; theirs leave
/// these out.
class GroupWriter final : public SampleWriter {
 public:
  GroupWriter(OutputFolder folder, const std::vector<std::string>& classes, int group)
      : folder_(std::move(folder)),
        metadata_(fmt::format("{}\n{}", classes.size(), lines_of(classes))),
        group_(group) {}

  Result<void> add(std::int32_t label, std::span<const std::byte> image) override {
    members_ += fmt::format("{},{},{},{},image_{:07}.{}\n", in_group_, label, content_.size(),
                            image.size(), count_++, extension_of(image));
    content_.append(reinterpret_cast<const char*>(image.data()), image.size());
    if (++in_group_ < group_) return {};
    return finish_group();
  }

  Result<void> commit() override {
    if (in_group_ > 0) GPEMU_TRY(finish_group());
    GPEMU_TRY(write_text(folder_.path() / "metadata.txt", metadata_));
    return folder_.commit();
  }

 private:
  Result<void> finish_group() {
    const std::string name = fmt::format("filegroup-{}.mytar", groups_++);
    GPEMU_TRY(write_text(folder_.path() / name, content_));
    metadata_ += fmt::format("{},{}\n{}", name, in_group_, members_);
    members_.clear();
    content_.clear();
    in_group_ = 0;
    return {};
  }

  OutputFolder folder_;
  std::string metadata_;
  int group_;
  std::string members_;  ///< lines about the images of the group.
  std::string content_;  ///< the images.
  int in_group_ = 0;
  int groups_ = 0;
  std::int64_t count_ = 0;
};

/// One file of pages; page_file.hpp has its layout.
class PageWriter final : public SampleWriter {
 public:
  PageWriter(AtomicFile file, const std::vector<std::string>& classes, Bytes page_bytes)
      : file_(std::move(file)), classes_(classes), page_bytes_(page_bytes) {}

  Result<void> add(std::int32_t label, std::span<const std::byte> image) override {
    const Bytes in_page = offset_ % page_bytes_;
    if (in_page + image.size() > page_bytes_) GPEMU_TRY(pad(page_bytes_ - in_page));
    table_.push_back({.offset = offset_,
                      .bytes = static_cast<std::uint32_t>(image.size()),
                      .label = label,
                      .crc = crc32c(image)});
    offset_ += image.size();
    return file_.append({reinterpret_cast<const char*>(image.data()), image.size()});
  }

  Result<void> commit() override {
    std::string table(reinterpret_cast<const char*>(table_.data()),
                      table_.size() * sizeof(PageSample));
    table += lines_of(classes_);
    const PageFooter footer{.page_bytes = page_bytes_,
                            .samples = table_.size(),
                            .classes = classes_.size(),
                            .table_offset = offset_,
                            .table_crc = crc32c(std::as_bytes(std::span(table)))};
    GPEMU_TRY(file_.append(table));
    GPEMU_TRY(file_.append({reinterpret_cast<const char*>(&footer), sizeof footer}));
    return file_.commit();
  }

 private:
  Result<void> pad(Bytes bytes) {
    offset_ += bytes;
    return file_.append(std::string(bytes, '\0'));
  }

  AtomicFile file_;
  std::vector<std::string> classes_;
  Bytes page_bytes_;
  Bytes offset_ = 0;
  std::vector<PageSample> table_;
};

/// FFCV's default. Source: FFCV (CVPR 2023), `page_size` of its DatasetWriter.
constexpr Bytes kPageBytes = 8 * kMiB;

Result<std::unique_ptr<SampleWriter>> create_page_writer(const fs::path& target,
                                                         const SamplesToCome& samples) {
  if (target.extension() != ".pages") {
    return fail(ErrorCode::kInvalidArgument,
                "pages are one file: name one that ends with .pages, e.g. {}.pages",
                target.string());
  }
  std::error_code error;
  if (fs::exists(target, error)) {
    return fail(ErrorCode::kInvalidArgument, "{} exists already; name another or remove it",
                target.string());
  }
  const Bytes page_bytes = std::max(kPageBytes, (samples.largest + kMiB - 1) / kMiB * kMiB);
  if (page_bytes > kMostPageBytes) {
    return fail(ErrorCode::kInvalidArgument, "an image has {} bytes; a page holds at most {}",
                samples.largest, kMostPageBytes);
  }
  if (target.has_parent_path()) fs::create_directories(target.parent_path(), error);
  GPEMU_ASSIGN(AtomicFile file, AtomicFile::create(target));
  return std::make_unique<PageWriter>(std::move(file), samples.classes, page_bytes);
}

}  // namespace

Result<std::unique_ptr<SampleWriter>> create_writer(const fs::path& target,
                                                    const SamplesToCome& samples,
                                                    const ConvertOptions& options) {
  if (options.format == DataFormat::kPages) return create_page_writer(target, samples);
  GPEMU_ASSIGN(OutputFolder folder, OutputFolder::create(target));
  switch (options.format) {
    case DataFormat::kFolder:
      return std::make_unique<FolderWriter>(std::move(folder), samples.classes);
    case DataFormat::kWebDataset:
      return std::make_unique<TarWriter>(std::move(folder), lines_of(samples.classes), "tar",
                                         options.shard_bytes);
    case DataFormat::kTfRecord:
      return std::make_unique<TfRecordWriter>(std::move(folder), lines_of(samples.classes),
                                              "tfrecord", options.shard_bytes);
    case DataFormat::kGroups:
      return std::make_unique<GroupWriter>(std::move(folder), samples.classes, options.group);
    case DataFormat::kPages:
      break;
  }
  return fail(ErrorCode::kInternal, "pages have a writer of their own");
}

}  // namespace gpemu::data
