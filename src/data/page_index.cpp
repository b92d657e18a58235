// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

#include "crc32c.hpp"
#include "index_reader.hpp"
#include "page_file.hpp"

namespace gpemu::data {
namespace {

Result<PageFooter> read_footer(FileWindow& file) {
  if (file.size() < sizeof(PageFooter)) {
    return corrupt_at(file.path(), 0, "a page file has at least {} bytes", sizeof(PageFooter));
  }
  const Bytes offset = file.size() - sizeof(PageFooter);
  GPEMU_ASSIGN(const auto bytes, file.read(offset, sizeof(PageFooter)));
  const auto footer = number_at<PageFooter>(bytes, 0);
  if (footer.magic != PageFooter::kMagic) {
    return corrupt_at(file.path(), offset, "this is no page file, or it is cut off");
  }
  if (footer.version != PageFooter::kVersion) {
    return corrupt_at(file.path(), offset, "the page file has version {}; gpemu reads version {}",
                      footer.version, PageFooter::kVersion);
  }
  const bool fits = footer.page_bytes > 0 && footer.page_bytes <= kMostPageBytes &&
                    footer.samples > 0 && footer.samples < UINT32_MAX && footer.classes > 0 &&
                    footer.classes <= static_cast<std::uint64_t>(kMaxLabel) + 1 &&
                    footer.table_offset <= offset &&
                    footer.samples <= (offset - footer.table_offset) / sizeof(PageSample);
  if (!fits) return corrupt_at(file.path(), offset, "the footer's numbers do not fit the file");
  return footer;
}

/// Returns the part of the file from the table to the footer.
Result<std::vector<std::byte>> read_table(FileWindow& file, const PageFooter& footer) {
  std::vector<std::byte> table(file.size() - sizeof(PageFooter) - footer.table_offset);
  for (std::size_t done = 0; done < table.size();) {
    const Bytes part = std::min<Bytes>(FileWindow::kMost, table.size() - done);
    GPEMU_ASSIGN(const auto bytes, file.read(footer.table_offset + done, part));
    std::ranges::copy(bytes, table.begin() + static_cast<std::ptrdiff_t>(done));
    done += part;
  }
  if (crc32c(table) != footer.table_crc) {
    return corrupt_at(file.path(), footer.table_offset,
                      "the table of samples is damaged: its checksum is wrong");
  }
  return table;
}

}  // namespace

Result<DataIndex> index_pages(const std::filesystem::path& path) {
  GPEMU_ASSIGN(FileWindow file, FileWindow::open(path));
  GPEMU_ASSIGN(const PageFooter footer, read_footer(file));
  GPEMU_ASSIGN(const std::vector<std::byte> table, read_table(file, footer));
  DataIndex index{.format = DataFormat::kPages, .files = {path}};
  Bytes free_from = 0;
  for (std::uint64_t i = 0; i < footer.samples; ++i) {
    const auto entry = number_at<PageSample>(table, i * sizeof(PageSample));
    const Bytes page = entry.offset / footer.page_bytes * footer.page_bytes;
    const bool fits = entry.offset >= free_from && entry.offset <= footer.table_offset &&
                      entry.bytes <= footer.table_offset - entry.offset &&
                      entry.offset + entry.bytes <= page + footer.page_bytes && entry.label >= 0 &&
                      static_cast<std::uint64_t>(entry.label) < footer.classes;
    if (!fits) {
      return corrupt_at(path, footer.table_offset + i * sizeof(PageSample),
                        "sample {} is not where a sample can be", i);
    }
    free_from = entry.offset + entry.bytes;
    if (index.units.empty() || index.units.back().offset != page) {
      index.units.push_back({.file = 0, .offset = page, .bytes = 0});
    }
    index.units.back().bytes = free_from - page;
    index.samples.push_back({.unit = static_cast<std::uint32_t>(index.units.size() - 1),
                             .label = entry.label,
                             .offset = entry.offset,
                             .bytes = entry.bytes});
    index.checksums.push_back({.offset = entry.offset, .bytes = entry.bytes, .crc = entry.crc});
  }
  std::span<const std::byte> names = std::span(table).subspan(footer.samples * sizeof(PageSample));
  for (std::uint64_t i = 0; i < footer.classes; ++i) {
    const auto end = std::ranges::find(names, std::byte{'\n'});
    if (end == names.end()) {
      return corrupt_at(path, footer.table_offset, "the names of the classes are cut off");
    }
    const auto length = static_cast<std::size_t>(end - names.begin());
    index.classes.emplace_back(reinterpret_cast<const char*>(names.data()), length);
    names = names.subspan(length + 1);
  }
  return index;
}

}  // namespace gpemu::data
