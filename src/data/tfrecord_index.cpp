// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "crc32c.hpp"
#include "index_reader.hpp"

// Reads TFRecord files of tf.train.Example. It walks through the few messages of protobuf's wire
// format that an Example consists of, instead of having protobuf parse them: that would read and
// copy each image to find out where it lies.

namespace gpemu::data {
namespace {

// A record: its length, a CRC of that, the content, a CRC of that. Source: TensorFlow, "TFRecord
// and tf.train.Example".
constexpr Bytes kLengthBytes = 8;
constexpr Bytes kCrcBytes = 4;
constexpr Bytes kHeaderBytes = kLengthBytes + kCrcBytes;

/// Bytes of a file.
struct Range {
  Bytes begin = 0;
  Bytes end = 0;

  [[nodiscard]] Bytes size() const { return end - begin; }
};

/// One field of a message. Source: Protocol Buffers, "Encoding".
struct WireField {
  std::uint64_t number = 0;
  std::uint64_t value = 0;  ///< of a number.
  Range content;            ///< of a text, bytes or a message.
  bool has_content = false;
};

/// Goes through the fields of a message that is stored in a range of a file.
class WireReader {
 public:
  WireReader(FileWindow& file, const Range& message)
      : file_(file), position_(message.begin), end_(message.end) {}

  /// Returns the next field; nothing at the end.
  Result<std::optional<WireField>> next() {
    if (position_ == end_) return std::nullopt;
    const Bytes begin = position_;
    GPEMU_ASSIGN(const std::uint64_t key, varint());
    WireField field{.number = key >> 3};
    switch (key & 7) {
      case 0: {
        GPEMU_ASSIGN(field.value, varint());
        return field;
      }
      case 1:
        return skip(begin, field, 8);
      case 2: {
        GPEMU_ASSIGN(const std::uint64_t size, varint());
        field.has_content = true;
        field.content = {position_, position_};
        GPEMU_ASSIGN(field, skip(begin, field, size));
        field.content.end = position_;
        return field;
      }
      case 5:
        return skip(begin, field, 4);
      default:
        return corrupt_at(file_.path(), begin, "the record holds no tf.train.Example");
    }
  }

  /// Reads one number. Errors: kCorruptData.
  Result<std::uint64_t> varint() {
    const Bytes begin = position_;
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && position_ < end_; shift += 7) {
      GPEMU_ASSIGN(const auto byte, file_.read(position_, 1));
      ++position_;
      const auto bits = static_cast<std::uint64_t>(byte[0]);
      value |= (bits & 0x7f) << shift;
      if ((bits & 0x80) == 0) return value;
    }
    return corrupt_at(file_.path(), begin, "a number of the tf.train.Example is cut off");
  }

  [[nodiscard]] bool at_end() const { return position_ == end_; }

 private:
  Result<WireField> skip(Bytes begin, WireField field, std::uint64_t size) {
    if (size > end_ - position_) {
      return corrupt_at(file_.path(), begin,
                        "a field of the tf.train.Example is longer than what it is in");
    }
    position_ += size;
    return field;
  }

  FileWindow& file_;
  Bytes position_;
  Bytes end_;
};

/// What is wanted of an Example.
struct Example {
  std::optional<Range> image;
  std::optional<std::int64_t> label;
};

/// Reads the Example that a range of a file holds: Features of Feature by name.
class ExampleReader {
 public:
  explicit ExampleReader(FileWindow& file) : file_(file) {}

  Result<Example> read(const Range& record) {
    Example example;
    GPEMU_TRY(for_each(record, 1, [&](const Range& features) {
      return for_each(features, 1, [&](const Range& entry) { return read_entry(entry, example); });
    }));
    return example;
  }

 private:
  static constexpr Bytes kMaxName = 256;

  /// Calls a function with each field of this number.
  template <typename Function>
  Result<void> for_each(const Range& message, std::uint64_t number, const Function& function) {
    WireReader fields(file_, message);
    while (true) {
      GPEMU_ASSIGN(const std::optional<WireField> field, fields.next());
      if (!field) return {};
      if (field->number == number && field->has_content) GPEMU_TRY(function(field->content));
    }
  }

  /// An entry of the map: the feature's name and the feature.
  Result<void> read_entry(const Range& entry, Example& example) {
    std::string name;
    std::optional<Range> feature;
    WireReader fields(file_, entry);
    while (true) {
      GPEMU_ASSIGN(const std::optional<WireField> field, fields.next());
      if (!field) break;
      if (!field->has_content) continue;
      if (field->number == 2) feature = field->content;
      if (field->number != 1 || field->content.size() > kMaxName) continue;
      GPEMU_ASSIGN(const auto bytes, file_.read(field->content.begin, field->content.size()));
      name.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    if (!feature) return {};
    // The names of TensorFlow's own ImageNet records, and of TensorFlow Datasets.
    if (name == "image/encoded" || (name == "image" && !example.image)) {
      return for_each(*feature, 1, [&](const Range& list) {
        return for_each(list, 1, [&](const Range& value) -> Result<void> {
          example.image = value;
          return {};
        });
      });
    }
    if (name == "image/class/label" || (name == "label" && !example.label)) {
      return for_each(*feature, 3, [&](const Range& list) { return read_label(list, example); });
    }
    return {};
  }

  /// Reads the numbers of a list, which may be packed into one field.
  Result<void> read_label(const Range& list, Example& example) {
    WireReader fields(file_, list);
    while (true) {
      GPEMU_ASSIGN(const std::optional<WireField> field, fields.next());
      if (!field) return {};
      if (field->number != 1) continue;
      std::uint64_t value = field->value;
      if (field->has_content) {
        if (field->content.size() == 0) continue;
        GPEMU_ASSIGN(value, WireReader(file_, field->content).varint());
      }
      if (!example.label) example.label = static_cast<std::int64_t>(value);
    }
  }

  FileWindow& file_;
};

class RecordFile {
 public:
  RecordFile(DataIndex& index, FileWindow& file) : index_(index), file_(file) {}

  Result<void> read(const std::atomic<bool>* stop) {
    Bytes position = 0;
    while (position < file_.size()) {
      GPEMU_TRY(check_stop(stop, file_.path()));
      GPEMU_ASSIGN(position, read_record(position));
    }
    return {};
  }

 private:
  /// Adds the sample of a record and returns where the next one begins.
  Result<Bytes> read_record(Bytes begin) {
    if (file_.size() - begin < kHeaderBytes) {
      return corrupt_at(file_.path(), begin, "the file is cut off within the header of a record");
    }
    GPEMU_ASSIGN(const auto header, file_.read(begin, kHeaderBytes));
    const auto length = number_at<std::uint64_t>(header, 0);
    if (masked_crc(crc32c(header.first(kLengthBytes))) !=
        number_at<std::uint32_t>(header, kLengthBytes)) {
      return corrupt_at(
          file_.path(), begin,
          "this is no record of a TFRecord file: the checksum of its length is wrong");
    }
    const Bytes content = begin + kHeaderBytes;
    if (length > file_.size() - content || file_.size() - content - length < kCrcBytes) {
      return corrupt_at(file_.path(), begin, "the file is cut off within a record of {} bytes",
                        length);
    }
    const Range record{content, content + length};
    GPEMU_ASSIGN(const Example example, ExampleReader(file_).read(record));
    if (!example.image) {
      return corrupt_at(file_.path(), begin,
                        "the record has no feature 'image/encoded' or 'image' of bytes");
    }
    const std::int64_t label = example.label.value_or(0);
    if (label < 0 || label > kMaxLabel) {
      return corrupt_at(file_.path(), begin, "the label is {}; expected 0 to {}", label, kMaxLabel);
    }
    GPEMU_ASSIGN(const auto footer, file_.read(record.end, kCrcBytes));
    const Checksum checksum{.offset = record.begin,
                            .bytes = record.size(),
                            .crc = number_at<std::uint32_t>(footer, 0),
                            .masked = true};
    add_stored_sample(index_,
                      {.label = static_cast<std::int32_t>(label),
                       .offset = example.image->begin,
                       .bytes = example.image->size()},
                      &checksum);
    return record.end + kCrcBytes;
  }

  DataIndex& index_;
  FileWindow& file_;
};

}  // namespace

Result<DataIndex> index_tfrecords(std::vector<std::filesystem::path> files,
                                  const std::atomic<bool>* stop) {
  DataIndex index{.format = DataFormat::kTfRecord};
  for (std::filesystem::path& path : files) {
    GPEMU_ASSIGN(FileWindow file, FileWindow::open(path));
    index.files.push_back(std::move(path));
    GPEMU_TRY(RecordFile(index, file).read(stop));
  }
  if (index.samples.empty()) {
    return fail(ErrorCode::kCorruptData, "{} holds no record", index.files.front().string());
  }
  GPEMU_TRY(name_classes(index, index.files.front().parent_path()));
  return index;
}

}  // namespace gpemu::data
