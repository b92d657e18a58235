// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "index_reader.hpp"

// Reads POSIX ustar files with the extensions that tar programs write: long names of GNU tar and of
// pax. A library such as libarchive reads more, but a stream from its start: it does not tell where
// in the file a member lies, without which samples could not be read in another order.

namespace gpemu::data {
namespace {

constexpr Bytes kBlockBytes = 512;  ///< Source: POSIX.1-2017, pax, "ustar Interchange Format".
constexpr Bytes kMaxHeaderData = 32 * kKiB;  ///< of a long name or a pax header.
constexpr Bytes kMaxLabelBytes = 64;

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Returns a text field: up to the first NUL.
std::string_view field(std::span<const std::byte> block, std::size_t offset, std::size_t size) {
  const std::string_view text = text_of(block.subspan(offset, size));
  return text.substr(0, text.find('\0'));
}

/// Reads a number: octal digits, or in GNU's form, binary after a byte of 0x80.
std::optional<std::uint64_t> number_field(std::span<const std::byte> block, std::size_t offset,
                                          std::size_t size) {
  const auto bytes = block.subspan(offset, size);
  std::uint64_t value = 0;
  if (bytes[0] == std::byte{0x80}) {
    for (const std::byte byte : bytes.subspan(1)) {
      if (value >> 55 != 0) return std::nullopt;
      value = value << 8 | static_cast<std::uint64_t>(byte);
    }
    return value;
  }
  std::string_view digits = field(block, offset, size);
  while (digits.starts_with(' ')) digits.remove_prefix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  if (digits.empty()) return 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 8);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

bool is_zero(std::span<const std::byte> block) {
  return std::ranges::all_of(block, [](std::byte byte) { return byte == std::byte{0}; });
}

/// Checks the sum of a header's bytes, with the sum's own field taken as spaces.
bool has_right_sum(std::span<const std::byte> block) {
  constexpr std::size_t kOffset = 148;
  constexpr std::size_t kSize = 8;
  std::uint64_t sum = kSize * ' ';
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (i < kOffset || i >= kOffset + kSize) sum += static_cast<unsigned>(block[i]);
  }
  return number_field(block, kOffset, kSize) == sum;
}

struct Member {
  std::string name;
  Bytes header = 0;
  Bytes offset = 0;  ///< of its content.
  Bytes bytes = 0;
  bool is_file = false;
};

/// Goes through the members of one tar file.
class TarReader {
 public:
  explicit TarReader(FileWindow& file) : file_(file) {}

  /// Returns the next member; nothing at the end.
  Result<std::optional<Member>> next() {
    std::string long_name;
    std::optional<Bytes> long_size;
    while (true) {
      const Bytes header = position_;
      if (header == file_.size()) return std::nullopt;  // Some programs write no end.
      if (file_.size() - header < kBlockBytes) {
        return corrupt_at(file_.path(), header, "the tar file is cut off within a header");
      }
      GPEMU_ASSIGN(const auto block, file_.read(header, kBlockBytes));
      if (is_zero(block)) return std::nullopt;
      if (!has_right_sum(block)) {
        return corrupt_at(file_.path(), header,
                          "this is no header of a tar file: its sum is wrong");
      }
      std::optional<std::uint64_t> size = number_field(block, 124, 12);
      const char type = static_cast<char>(block[156]);
      std::string name(field(block, 0, 100));
      if (text_of(block.subspan(257, 5)) == "ustar") {
        const std::string_view prefix = field(block, 345, 155);
        // GNU tar has other fields there, and says so by spaces after its mark.
        if (!prefix.empty() && block[262] == std::byte{0})
          name = fmt::format("{}/{}", prefix, name);
      }
      const bool describes_next = type == 'L' || type == 'x' || type == 'X';
      if (long_size && !describes_next) size = long_size;
      if (!size || *size > file_.size() - header - kBlockBytes) {
        return corrupt_at(file_.path(), header,
                          "the tar file is cut off within a member of {} bytes",
                          size ? fmt::to_string(*size) : "too many");
      }
      // The last member's padding may be missing.
      position_ = std::min(file_.size(), header + kBlockBytes +
                                             (*size + kBlockBytes - 1) / kBlockBytes * kBlockBytes);
      if (describes_next) {
        GPEMU_TRY(read_description(header, *size, type == 'L', long_name, long_size));
        continue;
      }
      if (type == 'S') {
        return corrupt_at(file_.path(), header, "sparse members are not supported");
      }
      return Member{.name = long_name.empty() ? std::move(name) : std::move(long_name),
                    .header = header,
                    .offset = header + kBlockBytes,
                    .bytes = *size,
                    .is_file = type == '0' || type == '\0' || type == '7'};
    }
  }

 private:
  /// Reads a long name, or a pax header: lines "LENGTH KEY=VALUE".
  Result<void> read_description(Bytes header, Bytes size, bool is_name, std::string& name,
                                std::optional<Bytes>& bytes) {
    if (size > kMaxHeaderData) {
      return corrupt_at(file_.path(), header, "a member's description has {} bytes", size);
    }
    GPEMU_ASSIGN(const auto content, file_.read(header + kBlockBytes, size));
    std::string_view rest = text_of(content);
    if (is_name) {
      name = rest.substr(0, rest.find('\0'));
      return {};
    }
    while (!rest.empty()) {
      std::size_t length = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
      const auto digits = static_cast<std::size_t>(end - rest.data());
      if (error != std::errc() || length > rest.size() || length < digits + 3 ||
          rest[digits] != ' ' || rest[length - 1] != '\n') {
        return corrupt_at(file_.path(), header, "a pax header is damaged");
      }
      const std::string_view line = rest.substr(digits + 1, length - digits - 2);
      rest.remove_prefix(length);
      if (line.starts_with("path=")) name = line.substr(5);
      if (line.starts_with("size=")) {
        Bytes value = 0;
        const auto number = line.substr(5);
        if (std::from_chars(number.data(), number.data() + number.size(), value).ec !=
            std::errc()) {
          return corrupt_at(file_.path(), header, "a pax header is damaged");
        }
        bytes = value;
      }
    }
    return {};
  }

  FileWindow& file_;
  Bytes position_ = 0;
};

/// Splits a member's name as WebDataset does: the key ends at the first dot of the last part.
struct SplitName {
  std::string_view key;
  std::string extension;
};

SplitName split_name(std::string_view name) {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  SplitName split{.key = name.substr(0, dot)};
  if (dot != std::string_view::npos) split.extension = name.substr(dot + 1);
  std::ranges::transform(split.extension, split.extension.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return split;
}

/// Makes samples of the members of one tar file: those that follow each other with the same key.
class ShardIndex {
 public:
  ShardIndex(DataIndex& index, FileWindow& file) : index_(index), file_(file) {}

  Result<void> read(const std::atomic<bool>* stop) {
    TarReader members(file_);
    while (true) {
      GPEMU_TRY(check_stop(stop, file_.path()));
      GPEMU_ASSIGN(const std::optional<Member> member, members.next());
      if (!member) break;
      if (!member->is_file) continue;
      const SplitName name = split_name(member->name);
      if (name.key != key_) {
        finish_sample();
        key_ = name.key;
      }
      if (name.extension == "cls") {
        GPEMU_TRY(read_label(*member));
      } else if (name.extension == "jpg" || name.extension == "jpeg" || name.extension == "png") {
        if (image_) {
          return corrupt_at(file_.path(), member->header, "sample '{}' has two images", key_);
        }
        image_ = *member;
      }
    }
    finish_sample();
    return {};
  }

 private:
  Result<void> read_label(const Member& member) {
    if (member.bytes > kMaxLabelBytes) {
      return corrupt_at(file_.path(), member.header, "the class of '{}' has {} bytes", key_,
                        member.bytes);
    }
    GPEMU_ASSIGN(const auto content, file_.read(member.offset, member.bytes));
    std::string_view text = text_of(content);
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
    std::int64_t label = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), label);
    if (error != std::errc() || end != text.data() + text.size() || label < 0 ||
        label > kMaxLabel) {
      return corrupt_at(file_.path(), member.offset,
                        "the class of '{}' is '{}'; expected a number from 0 to {}", key_, text,
                        kMaxLabel);
    }
    label_ = static_cast<std::int32_t>(label);
    return {};
  }

  void finish_sample() {
    if (image_) {
      const Sample sample{.label = label_, .offset = image_->offset, .bytes = image_->bytes};
      add_stored_sample(index_, sample, nullptr);
    }
    image_.reset();
    label_ = 0;
  }

  DataIndex& index_;
  FileWindow& file_;
  std::string key_;
  std::optional<Member> image_;
  std::int32_t label_ = 0;
};

}  // namespace

Result<DataIndex> index_tars(std::vector<std::filesystem::path> files,
                             const std::atomic<bool>* stop) {
  DataIndex index{.format = DataFormat::kWebDataset};
  for (std::filesystem::path& path : files) {
    GPEMU_ASSIGN(FileWindow file, FileWindow::open(path));
    index.files.push_back(std::move(path));
    GPEMU_TRY(ShardIndex(index, file).read(stop));
  }
  const std::filesystem::path folder = index.files.front().parent_path();
  if (index.samples.empty()) {
    return fail(ErrorCode::kCorruptData,
                "{} holds no member whose name ends with .jpg, .jpeg or .png",
                index.files.front().string());
  }
  GPEMU_TRY(name_classes(index, folder));
  return index;
}

}  // namespace gpemu::data
