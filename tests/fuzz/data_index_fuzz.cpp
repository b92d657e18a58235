// SPDX-License-Identifier: Apache-2.0
// Reads what the input holds as a file of many samples. Its first byte chooses the format.
// Checksums are made right, so that the input gets beyond them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include <fmt/format.h>

#include "gpemu/base/file.hpp"

#include "crc32c.hpp"
#include "index_reader.hpp"
#include "page_file.hpp"

namespace {

using gpemu::Bytes;
using gpemu::Result;
using gpemu::data::DataIndex;

constexpr std::size_t kBlock = 512;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

/// Gives each block that could be a header of a tar file the right sum.
void repair_tar(std::string& tar) {
  for (std::size_t at = 0; at + kBlock <= tar.size(); at += kBlock) {
    std::string block = tar.substr(at, kBlock);
    if (block.compare(257, 5, "ustar") != 0) continue;
    block.replace(148, 8, "        ");
    unsigned sum = 0;
    for (const char byte : block) sum += static_cast<unsigned char>(byte);
    block.replace(148, 7, fmt::format("{:06o}", sum) + '\0');
    tar.replace(at, kBlock, block);
  }
}

/// Makes a record of a TFRecord file that has this content.
std::string record_of(const std::string& content) {
  const auto append_crc = [](std::string& text, const std::string& of) {
    const std::uint32_t crc = gpemu::data::masked_crc(gpemu::data::crc32c(bytes_of(of)));
    text.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  };
  const std::uint64_t length = content.size();
  std::string record(reinterpret_cast<const char*>(&length), sizeof length);
  append_crc(record, record);
  record += content;
  append_crc(record, content);
  return record;
}

/// Gives the table of a page file its right checksum.
void repair_pages(std::string& pages) {
  gpemu::data::PageFooter footer;
  if (pages.size() < sizeof footer) return;
  const std::size_t end = pages.size() - sizeof footer;
  std::memcpy(&footer, pages.data() + end, sizeof footer);
  if (footer.table_offset > end) return;
  footer.table_crc =
      gpemu::data::crc32c(bytes_of(pages).subspan(footer.table_offset, end - footer.table_offset));
  std::memcpy(pages.data() + end, &footer, sizeof footer);
}

/// Every sample must lie in its unit, and every unit in the file.
void check(const Result<DataIndex>& index, Bytes size) {
  if (!index) return;
  for (const gpemu::data::Sample& sample : index->samples) {
    const gpemu::data::Unit& unit = index->units[sample.unit];
    const bool fits = unit.offset <= size && unit.bytes <= size - unit.offset &&
                      sample.offset >= unit.offset && sample.offset - unit.offset <= unit.bytes &&
                      sample.bytes <= unit.bytes - (sample.offset - unit.offset) &&
                      sample.label >= 0 &&
                      static_cast<std::size_t>(sample.label) < index->classes.size();
    if (!fits) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  std::string content(reinterpret_cast<const char*>(data + 1), size - 1);
  const unsigned format = data[0] % 3;
  if (format == 0) repair_tar(content);
  if (format == 1) content = record_of(content);
  if (format == 2) repair_pages(content);
  const gpemu::FileDescriptor file(::memfd_create("fuzz", MFD_CLOEXEC));
  if (::write(file.get(), content.data(), content.size()) != static_cast<ssize_t>(content.size())) {
    std::abort();
  }
  const std::string path = fmt::format("/proc/self/fd/{}", file.get());
  check(format == 0   ? gpemu::data::index_tars({path}, nullptr)
        : format == 1 ? gpemu::data::index_tfrecords({path}, nullptr)
                      : gpemu::data::index_pages(path),
        content.size());
  return 0;
}
