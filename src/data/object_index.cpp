// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <utility>

#include "gpemu/base/text.hpp"

#include "index_reader.hpp"

namespace gpemu::data {
namespace {

/// A listing may say anything, and whoever reads the object makes room for it.
constexpr Bytes kMostObject = 64'000'000;

}  // namespace

Result<DataIndex> index_objects(const std::string& bucket, const std::string& prefix,
                                const ObjectList& objects) {
  DataIndex index;
  std::vector<ObjectList::Entry> entries = objects.entries();
  // A server may list anything.
  std::erase_if(entries, [&prefix](const ObjectList::Entry& object) {
    return !object.key.starts_with(prefix);
  });
  // As the files of a folder: classes, and within them images.
  std::ranges::sort(entries, {}, [&prefix](const ObjectList::Entry& object) {
    const std::string_view rest = object.key.substr(prefix.size());
    return std::pair(rest.substr(0, rest.find('/')), object.key);
  });
  for (const ObjectList::Entry& object : entries) {
    const std::string_view rest = object.key.substr(prefix.size());
    const std::size_t slash = rest.find('/');
    if (slash == std::string_view::npos || !is_image_name(std::string(rest))) continue;
    if (object.bytes > kMostObject) {
      return fail(ErrorCode::kCorruptData,
                  "the server says that {}{} has {} bytes; images of more than {} MB are not read",
                  bucket, printable(object.key), object.bytes, kMostObject / 1'000'000);
    }
    const std::string_view name = rest.substr(0, slash);
    if (index.classes.empty() || index.classes.back() != name) index.classes.emplace_back(name);
    const auto number = static_cast<std::uint32_t>(index.files.size());
    index.files.emplace_back(bucket + std::string(object.key));
    index.units.push_back({.file = number, .offset = 0, .bytes = object.bytes});
    index.samples.push_back({.unit = number,
                             .label = static_cast<std::int32_t>(index.classes.size()) - 1,
                             .offset = 0,
                             .bytes = object.bytes});
  }
  if (index.samples.empty()) {
    return fail(ErrorCode::kCorruptData,
                "{} holds no class folder with JPEG or PNG objects; other formats are read from "
                "files only",
                bucket + prefix);
  }
  return index;
}

}  // namespace gpemu::data
