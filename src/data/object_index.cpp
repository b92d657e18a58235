// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <utility>

#include "index_reader.hpp"

namespace gpemu::data {

Result<DataIndex> index_objects(const std::string& bucket, const std::string& prefix,
                                std::vector<StoredObject> objects) {
  DataIndex index;
  // As the files of a folder: classes, and within them images.
  std::ranges::sort(objects, {}, [&prefix](const StoredObject& object) {
    const std::string_view rest = std::string_view(object.key).substr(prefix.size());
    return std::pair(rest.substr(0, rest.find('/')), std::string_view(object.key));
  });
  for (StoredObject& object : objects) {
    const std::string_view rest = std::string_view(object.key).substr(prefix.size());
    const std::size_t slash = rest.find('/');
    if (slash == std::string_view::npos || !is_image_name(std::string(rest))) continue;
    const std::string_view name = rest.substr(0, slash);
    if (index.classes.empty() || index.classes.back() != name) index.classes.emplace_back(name);
    const auto number = static_cast<std::uint32_t>(index.files.size());
    index.files.emplace_back(bucket + object.key);
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
