// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <system_error>
#include <utility>

#include "index_reader.hpp"

// Reads file groups as GPEmu's scripts write them: files of concatenated images, and `metadata.txt`
// with the number of classes, the name of each, and for each group a line "FILE,IMAGES" and for
// each image in it a line "NUMBER,CLASS,OFFSET,BYTES,PATH".

namespace gpemu::data {
namespace {

constexpr Bytes kMaxMetadata = 4 * kGiB;

class GroupReader {
 public:
  GroupReader(std::filesystem::path metadata, std::string_view text)
      : path_(std::move(metadata)), text_(text) {}

  Result<DataIndex> read(const std::atomic<bool>* stop) {
    GPEMU_ASSIGN(const std::string_view first, line());
    GPEMU_ASSIGN(const std::uint64_t classes, number(first, 1, kMaxLabel, "the number of classes"));
    for (std::uint64_t i = 0; i < classes; ++i) {
      GPEMU_ASSIGN(const std::string_view name, line());
      index_.classes.emplace_back(name);
    }
    while (position_ < text_.size()) {
      GPEMU_TRY(check_stop(stop, path_));
      GPEMU_TRY(read_group());
    }
    if (index_.samples.empty()) return wrong("there is no image");
    return std::move(index_);
  }

 private:
  template <typename... Args>
  [[nodiscard]] std::unexpected<Error> wrong(fmt::format_string<Args...> format,
                                             Args&&... args) const {
    return corrupt_at(path_, line_begin_, "{}", fmt::format(format, std::forward<Args>(args)...));
  }

  Result<std::string_view> line() {
    line_begin_ = position_;
    const std::size_t end = text_.find('\n', position_);
    if (end == std::string_view::npos) return wrong("the file is cut off");
    position_ = end + 1;
    return text_.substr(line_begin_, end - line_begin_);
  }

  Result<std::uint64_t> number(std::string_view text, std::uint64_t least, std::uint64_t most,
                               std::string_view what) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
      return wrong("{} is '{}'; expected {} to {}", what, text.substr(0, 40), least, most);
    }
    return value;
  }

  /// Takes what is before the next comma.
  static std::string_view take(std::string_view& rest) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(comma == std::string_view::npos ? rest.size() : comma + 1);
    return part;
  }

  Result<void> read_group() {
    GPEMU_ASSIGN(std::string_view rest, line());
    const std::string_view name = take(rest);
    // A name from elsewhere must not lead out of the folder.
    if (name.empty() || name == ".." || name.find('/') != std::string_view::npos) {
      return wrong("'{}' is no file beside this one", name.substr(0, 80));
    }
    const std::filesystem::path file = path_.parent_path() / name;
    std::error_code error;
    const Bytes size = std::filesystem::file_size(file, error);
    if (error) return wrong("cannot read {}: {}", file.string(), error.message());
    GPEMU_ASSIGN(const std::uint64_t images,
                 number(rest, 1, UINT32_MAX, "the number of images of a group"));
    index_.files.push_back(file);
    const auto unit = static_cast<std::uint32_t>(index_.units.size());
    index_.units.push_back(
        {.file = static_cast<std::uint32_t>(index_.files.size() - 1), .offset = 0, .bytes = size});
    for (std::uint64_t i = 0; i < images; ++i) GPEMU_TRY(read_image(unit));
    return {};
  }

  Result<void> read_image(std::uint32_t unit) {
    const Bytes size = index_.units[unit].bytes;
    GPEMU_ASSIGN(std::string_view rest, line());
    static_cast<void>(take(rest));  // The image's number in the group.
    GPEMU_ASSIGN(const std::uint64_t label,
                 number(take(rest), 0, index_.classes.size() - 1, "a class"));
    GPEMU_ASSIGN(const std::uint64_t offset, number(take(rest), 0, size, "an offset"));
    GPEMU_ASSIGN(const std::uint64_t bytes, number(take(rest), 0, size - offset, "a size"));
    index_.samples.push_back({.unit = unit,
                              .label = static_cast<std::int32_t>(label),
                              .offset = offset,
                              .bytes = bytes});
    return {};
  }

  std::filesystem::path path_;
  std::string_view text_;
  std::size_t position_ = 0;
  std::size_t line_begin_ = 0;
  DataIndex index_{.format = DataFormat::kGroups};
};

}  // namespace

Result<DataIndex> index_groups(const std::filesystem::path& metadata,
                               const std::atomic<bool>* stop) {
  GPEMU_ASSIGN(const std::string text, read_file(metadata, kMaxMetadata));
  return GroupReader(metadata, text).read(stop);
}

}  // namespace gpemu::data
