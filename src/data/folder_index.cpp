// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "index_reader.hpp"

namespace gpemu::data {
namespace {

namespace fs = std::filesystem;

struct ImageFile {
  fs::path path;
  Bytes bytes = 0;
};

/// Finds the image files of a class folder, and of folders in it.
class ClassFolder {
 public:
  ClassFolder(DataIndex& index, std::vector<ImageFile>& images) : index_(index), images_(images) {}

  /// Adds what a folder holds, and notes what cannot be read.
  void add(const fs::path& folder) {
    std::error_code error;
    fs::path real = fs::canonical(folder, error);
    if (error) return skip(folder, error.message());
    // A link back would bring the same files again and again.
    if (std::ranges::find(chain_, real) != chain_.end()) {
      return skip(folder,
                  fmt::format("it is a link back to {}, the folder that it is in", real.string()));
    }
    chain_.push_back(std::move(real));
    auto entries = fs::directory_iterator(folder, error);
    while (!error && entries != fs::directory_iterator()) {
      add_entry(*entries);
      entries.increment(error);
    }
    if (error) skip(folder, error.message());
    chain_.pop_back();
  }

  /// Adds a folder that the class's is in, to which links may lead back.
  void enter(const fs::path& folder) {
    std::error_code ignored;
    chain_.push_back(fs::canonical(folder, ignored));
  }

 private:
  void add_entry(const fs::directory_entry& entry) {
    std::error_code error;
    const fs::file_status status = entry.status(error);
    if (fs::is_directory(status)) return add(entry.path());
    if (!is_image_name(entry.path())) return;
    if (error) return skip(entry.path(), error.message());
    if (!fs::is_regular_file(status)) return skip(entry.path(), "it is not a regular file");
    if (::access(entry.path().c_str(), R_OK) != 0) {
      return skip(entry.path(), errno_message(errno));
    }
    const Bytes bytes = entry.file_size(error);
    if (error) return skip(entry.path(), error.message());
    images_.push_back({entry.path(), bytes});
  }

  void skip(const fs::path& path, std::string_view reason) {
    index_.skip(fmt::format("{}: {}", path.string(), reason));
  }

  DataIndex& index_;
  std::vector<ImageFile>& images_;
  std::vector<fs::path> chain_;  ///< from the data set's folder down, without links.
};

}  // namespace

bool is_image_name(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

Result<DataIndex> index_folder(const fs::path& root, const std::atomic<bool>* stop) {
  DataIndex index;
  GPEMU_ASSIGN(const std::vector<fs::path> paths, list_folder(root));
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::path& path : paths) {
    if (fs::is_directory(path, ignored)) names.push_back(path.filename().string());
  }
  std::ranges::sort(names);
  std::vector<ImageFile> images;
  for (std::string& name : names) {
    GPEMU_TRY(check_stop(stop, root));
    images.clear();
    const std::size_t skipped_before = index.skipped_count;
    ClassFolder folder(index, images);
    folder.enter(root);
    folder.add(root / name);
    if (images.empty()) {
      // Nothing of it can be read, which has been noted.
      if (index.skipped_count > skipped_before) continue;
      return fail(ErrorCode::kCorruptData,
                  "class folder {} holds no .jpg, .jpeg or .png file; put some in or remove the "
                  "folder",
                  (root / name).string());
    }
    std::ranges::sort(images, {}, [](const ImageFile& image) -> const std::string& {
      return image.path.native();
    });
    for (ImageFile& image : images) {
      const auto number = static_cast<std::uint32_t>(index.files.size());
      index.files.push_back(std::move(image.path));
      index.units.push_back({.file = number, .offset = 0, .bytes = image.bytes});
      index.samples.push_back({.unit = number,
                               .label = static_cast<std::int32_t>(index.classes.size()),
                               .offset = 0,
                               .bytes = image.bytes});
    }
    index.classes.push_back(std::move(name));
  }
  if (index.samples.empty()) {
    return fail(ErrorCode::kCorruptData,
                "{} holds no class folder{}; a data set has one folder per class with JPEG or PNG "
                "files in it, or tar or TFRecord files (docs/reference/data-formats.md)",
                root.string(),
                index.skipped.empty() ? "" : " that can be read (" + index.skipped.front() + ")");
  }
  return index;
}

}  // namespace gpemu::data
