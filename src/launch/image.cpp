// SPDX-License-Identifier: Apache-2.0
#include "gpemu/launch/image.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <string_view>
#include <utility>

#include "gpemu/process/log.hpp"

namespace gpemu::launch {
namespace {

/// Attributes in the sections ".nv.info", for all kernels, and ".nv.info.<kernel>", for one.
/// Source: the output of ptxas 13.0 for kernels with known registers, stack and launch bounds.
constexpr std::uint8_t kSizedFormat = 4;  ///< a size follows, then so many bytes.
constexpr std::uint8_t kMaxThreads = 0x05;
constexpr std::uint8_t kFrameSize = 0x11;
constexpr std::uint8_t kRegisterCount = 0x2f;
/// A parameter: an index of 4 bytes, its number and its offset of 2 each, and 4 bytes of which the
/// upper 14 bits are its size. Source: as above, for kernels of known parameters.
constexpr std::uint8_t kParameter = 0x17;
/// The same for kernels whose parameters take more than 4 KiB; the last 4 bytes are the size.
/// Source: kernels of PyTorch 2.15 over lists of tensors, whose sizes are in MultiTensorApply.cuh.
constexpr std::uint8_t kParameterOfMany = 0x45;

/// Since Volta an instruction takes 16 bytes, and its first 12 bits are the operation. Source: the
/// output of ptxas 12.8 for mma.sync (HMMA of Volta and later, IMMA, QMMA), wgmma (HGMMA), tcgen05
/// (UTCHMMA) and fma.rn.f32 (FFMA), as nvdisasm shows it.
constexpr std::size_t kInstructionBytes = 16;
constexpr std::array<std::uint16_t, 6> kTensorCoreCodes = {0x236, 0x23c, 0x237,
                                                           0x27a, 0x9f0, 0x5ea};
constexpr std::uint16_t kMultiplyAddCode = 0x223;
/// The first 9 bits tell what an operation does with memory: ST, STG, RED, ATOMG and its
/// compare-and-swap, whose width is in bits 73 to 75. Source: ptxas 12.8 for ld, st, red and atom.
constexpr std::array<std::uint16_t, 5> kStoreCodes = {0x185, 0x186, 0x18e, 0x1a8, 0x1a9};
constexpr std::uint16_t kLoadCode = 0x181;  // LDG
constexpr std::array<std::uint8_t, 8> kAccessBytes = {1, 1, 2, 2, 4, 8, 16, 32};
/// Stores by other units, of any size: UTMASTG, UTMAREDG, UBLKCP, UBLKRED, SUST; and calls to other
/// code. Source: ptxas 12.8 for cp.async.bulk, cp.reduce.async.bulk and sust.
constexpr std::array<std::uint16_t, 6> kUnboundedCodes = {0x1b5, 0x1b6, 0x1ba, 0x1bb, 0x19d, 0x143};
constexpr int kFirstWideCode = 70;
/// Code with this share of multiply-adds computes products: Triton's code with tiles has 70 % and
/// more.
constexpr double kMultipliesShare = 0.25;
constexpr std::size_t kLeastMultiplies = 64;

/// Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
constexpr std::uint64_t kMostThreads = 1024;

/// Entries of a fat binary. Source: as above, with nvcc 13.0.
constexpr std::uint16_t kElfEntry = 2;
constexpr std::uint64_t kLz4Flag = 0x2000, kZstandardFlag = 0x8000;
constexpr std::uint64_t kCompressedFlags = kLz4Flag | kZstandardFlag;

/// Since Ampere the system reserves shared memory in each block; since Hopper the code's size
/// includes it. Source: CUDA C++ Programming Guide, "Compute Capabilities": 1 KB per block.
constexpr int kCountsReserved = 90;
constexpr Bytes kReservedShared = kKiB;

/// Returns the value at an offset, or zeros beyond the end.
template <typename Value>
Value read_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  Value value{};
  if (offset <= bytes.size() && bytes.size() - offset >= sizeof(value)) {
    std::memcpy(&value, bytes.data() + offset, sizeof(value));
  }
  return value;
}

/// The part of a range that begins at an offset, cut at the end.
std::span<const std::byte> part_of(std::span<const std::byte> bytes, std::uint64_t offset,
                                   std::uint64_t size) {
  offset = std::min<std::uint64_t>(offset, bytes.size());
  return bytes.subspan(offset, std::min<std::uint64_t>(size, bytes.size() - offset));
}

std::string_view text_at(std::span<const std::byte> strings, std::uint64_t offset) {
  const auto rest = part_of(strings, offset, strings.size());
  const auto* const text = reinterpret_cast<const char*>(rest.data());
  return {text, ::strnlen(text, rest.size())};
}

class CubinReader {
 public:
  explicit CubinReader(std::span<const std::byte> elf)
      : elf_(elf), header_(read_at<Elf64_Ehdr>(elf, 0)) {}

  std::optional<Image> read() {
    if (header_.e_shentsize != sizeof(Elf64_Shdr) || header_.e_shstrndx >= header_.e_shnum ||
        header_.e_shoff > elf_.size() ||
        (elf_.size() - header_.e_shoff) / sizeof(Elf64_Shdr) < header_.e_shnum) {
      return std::nullopt;
    }
    // The position of the architecture depends on the version of the ABI. Source: as above.
    const Elf64_Word flags = header_.e_flags;
    image_.architecture =
        static_cast<int>(header_.e_ident[EI_ABIVERSION] >= 8 ? flags >> 8 & 0xff : flags & 0xff);
    names_ = content_of(section(header_.e_shstrndx));
    for (unsigned i = 0; i < header_.e_shnum; ++i) {
      if (section(i).sh_type == SHT_SYMTAB) symbols_ = i;
    }
    for (unsigned i = 0; i < header_.e_shnum; ++i) find_kernel(i);
    for (unsigned i = 0; i < header_.e_shnum; ++i) read_section(section(i));
    read_variables();
    return std::move(image_);
  }

 private:
  static constexpr std::string_view kText = ".text.";
  static constexpr std::string_view kInfo = ".nv.info";
  static constexpr std::string_view kShared = ".nv.shared.";
  static constexpr std::string_view kConstant = ".nv.constant3";

  [[nodiscard]] Elf64_Shdr section(unsigned index) const {
    return read_at<Elf64_Shdr>(elf_, header_.e_shoff + index * sizeof(Elf64_Shdr));
  }
  [[nodiscard]] std::span<const std::byte> content_of(const Elf64_Shdr& of) const {
    return of.sh_type == SHT_NOBITS ? std::span<const std::byte>()
                                    : part_of(elf_, of.sh_offset, of.sh_size);
  }
  [[nodiscard]] std::string_view name_of(const Elf64_Shdr& of) const {
    return text_at(names_, of.sh_name);
  }

  void find_kernel(unsigned index) {
    const std::string_view name = name_of(section(index));
    if (name.starts_with(kText)) by_section_[index] = name.substr(kText.size());
    if (name.starts_with(kText)) image_.kernels.try_emplace(by_section_[index]);
  }

  /// Returns the kernel with a name, or null.
  KernelCode* kernel(std::string_view name) {
    const auto found = image_.kernels.find(std::string(name));
    return found == image_.kernels.end() ? nullptr : &found->second;
  }

  void read_section(const Elf64_Shdr& of) {
    const std::string_view name = name_of(of);
    if (name.starts_with(kText)) {
      if (KernelCode* const code = kernel(name.substr(kText.size()))) {
        code->arithmetic = arithmetic_of(content_of(of));
        code->access = access_of(content_of(of));
      }
    } else if (name == kInfo) {
      read_attributes(content_of(of), nullptr);
    } else if (name.starts_with(kInfo) && name.size() > kInfo.size() + 1) {
      read_attributes(content_of(of), kernel(name.substr(kInfo.size() + 1)));
    } else if (name == ".nv_debug_ptx_txt") {
      const auto text = content_of(of);
      image_.ptx.assign(reinterpret_cast<const char*>(text.data()), text.size());
    } else if (name == kConstant) {
      image_.constant = of.sh_size;
    } else if (name.starts_with(kShared)) {
      KernelCode* const code = kernel(name.substr(kShared.size()));
      if (code == nullptr) return;
      const Bytes reserved = image_.architecture >= kCountsReserved ? kReservedShared : 0;
      code->static_shared = of.sh_size - std::min<Bytes>(of.sh_size, reserved);
    }
  }

  /// Finds out which arithmetic the instructions use.
  [[nodiscard]] kernels::LaunchFacts::Arithmetic arithmetic_of(
      std::span<const std::byte> text) const {
    using Arithmetic = kernels::LaunchFacts::Arithmetic;
    if (image_.architecture < kFirstWideCode) return Arithmetic::kUnknown;
    std::size_t multiplies = 0;
    for (std::size_t at = 0; at + kInstructionBytes <= text.size(); at += kInstructionBytes) {
      const std::uint16_t code = read_at<std::uint16_t>(text, at) & 0xfff;
      if (std::ranges::find(kTensorCoreCodes, code) != kTensorCoreCodes.end()) {
        return Arithmetic::kTensorCores;
      }
      if (code == kMultiplyAddCode) ++multiplies;
    }
    const double share =
        static_cast<double>(multiplies * kInstructionBytes) / static_cast<double>(text.size() + 1);
    const bool many = multiplies >= kLeastMultiplies && share >= kMultipliesShare;
    return many ? Arithmetic::kMultiplies : Arithmetic::kOther;
  }

  /// Finds out what the instructions load and store.
  [[nodiscard]] MemoryAccess access_of(std::span<const std::byte> text) const {
    if (image_.architecture < kFirstWideCode) return {};
    MemoryAccess access{.known = true};
    for (std::size_t at = 0; at + kInstructionBytes <= text.size(); at += kInstructionBytes) {
      const std::uint16_t code = read_at<std::uint16_t>(text, at) & 0x1ff;
      if (std::ranges::find(kUnboundedCodes, code) != kUnboundedCodes.end()) return {};
      const Bytes bytes = kAccessBytes.at(read_at<std::uint32_t>(text, at + 8) >> 9 & 7U);
      if (code == kLoadCode) access.loaded += bytes;
      if (std::ranges::find(kStoreCodes, code) == kStoreCodes.end()) continue;
      access.widest = std::max(access.widest, bytes);
      access.stored += bytes;
    }
    return access;
  }

  /// `own` is the kernel of the section; without one, attributes name a symbol.
  void read_attributes(std::span<const std::byte> bytes, KernelCode* own) {
    while (bytes.size() >= 4) {
      const auto format = static_cast<std::uint8_t>(bytes[0]);
      const auto attribute = static_cast<std::uint8_t>(bytes[1]);
      const auto size = format == kSizedFormat ? read_at<std::uint16_t>(bytes, 2) : 0;
      const auto value = part_of(bytes, 4, size);
      const auto first = read_at<std::uint32_t>(value, 0);
      const auto second = read_at<std::uint16_t>(value, 4);
      if (own != nullptr && attribute == kMaxThreads && size >= 12) {
        const std::uint64_t threads =
            std::uint64_t{first} * second * read_at<std::uint16_t>(value, 8);
        own->max_threads_per_block = static_cast<std::int32_t>(std::min(threads, kMostThreads));
      }
      const bool is_parameter = attribute == kParameter || attribute == kParameterOfMany;
      if (own != nullptr && is_parameter && size >= 12) {
        add_parameter(*own, value, attribute == kParameter ? 18 : 0);
      }
      KernelCode* const named = own == nullptr && size >= 8 ? kernel_of_symbol(first) : nullptr;
      if (named != nullptr && attribute == kRegisterCount) named->registers = second;
      if (named != nullptr && attribute == kFrameSize)
        named->local = read_at<std::uint32_t>(value, 4);
      bytes = part_of(bytes, 4 + size, bytes.size());
    }
  }

  /// The size comes after `other_bits` bits of something else.
  static void add_parameter(KernelCode& code, std::span<const std::byte> value, int other_bits) {
    constexpr std::size_t kMost = 256;
    const auto number = read_at<std::uint16_t>(value, 4);
    if (number >= kMost) return;
    if (code.parameters.size() <= number) code.parameters.resize(number + 1U);
    code.parameters[number] = {.offset = read_at<std::uint16_t>(value, 6),
                               .bytes = read_at<std::uint32_t>(value, 8) >> other_bits};
  }

  KernelCode* kernel_of_symbol(std::uint32_t index) {
    const auto symbol =
        read_at<Elf64_Sym>(content_of(section(symbols_)), index * sizeof(Elf64_Sym));
    const auto found = by_section_.find(symbol.st_shndx);
    return found == by_section_.end() ? nullptr : kernel(found->second);
  }

  void read_variables() {
    const Elf64_Shdr table = section(symbols_);
    const auto symbols = content_of(table);
    const auto strings = content_of(section(table.sh_link));
    for (std::uint64_t i = 0; i < symbols.size() / sizeof(Elf64_Sym); ++i) {
      const auto symbol = read_at<Elf64_Sym>(symbols, i * sizeof(Elf64_Sym));
      if (ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT || symbol.st_size == 0) continue;
      const auto initial =
          part_of(content_of(section(symbol.st_shndx)), symbol.st_value, symbol.st_size);
      image_.variables[std::string(text_at(strings, symbol.st_name))] = {
          .bytes = symbol.st_size, .initial = {initial.begin(), initial.end()}};
    }
  }

  std::span<const std::byte> elf_;
  Elf64_Ehdr header_;
  Image image_;
  std::span<const std::byte> names_;
  unsigned symbols_ = 0;  ///< the section of symbols; 0, the empty one, without.
  std::unordered_map<unsigned, std::string> by_section_;  ///< kernels.
};

/// Source: as kElfEntry.
struct FatBinaryHeader {
  std::uint32_t magic;
  std::uint16_t version, header_bytes;
  std::uint64_t bytes;
};

/// The header of an entry of a fat binary. Source: as kElfEntry.
struct Entry {
  std::uint16_t kind, version;
  std::uint32_t header_bytes;
  std::uint64_t bytes;
  std::uint32_t compressed_bytes, reserved;
  std::uint16_t minor, major;
  std::uint32_t architecture;
  std::uint32_t name_offset, name_bytes;
  std::uint64_t flags;
  std::uint64_t reserved_2;
  std::uint64_t uncompressed_bytes;  ///< 0 if it is not compressed.
};

/// Without the last two fields, which only compressed entries must have.
constexpr std::size_t kLeastEntry = 48;

}  // namespace

std::optional<Image> read_cubin(std::span<const std::byte> elf) {
  return CubinReader(elf).read();
}

std::optional<Bytes> cubin_size(const std::byte* elf, Bytes limit) {
  Elf64_Ehdr header;
  if (limit < sizeof(header)) return std::nullopt;
  std::memcpy(&header, elf, sizeof(header));
  if (header.e_shentsize != sizeof(Elf64_Shdr)) return std::nullopt;
  Bytes end = sizeof(header);
  const auto reaches = [&end, limit](Bytes offset, Bytes bytes) {
    if (offset > limit || bytes > limit - offset) return false;
    end = std::max(end, offset + bytes);
    return true;
  };
  if (!reaches(header.e_shoff, Bytes{header.e_shnum} * sizeof(Elf64_Shdr)) ||
      !reaches(header.e_phoff, Bytes{header.e_phnum} * header.e_phentsize)) {
    return std::nullopt;
  }
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, elf + header.e_shoff + i * sizeof(section), sizeof(section));
    if (section.sh_type != SHT_NOBITS && !reaches(section.sh_offset, section.sh_size)) {
      return std::nullopt;
    }
  }
  return end;
}

bool holds_fat_binary(const std::byte* start, Bytes limit) {
  if (limit == kUnknownSize) return true;
  FatBinaryHeader header;
  if (limit < sizeof(header)) return false;
  std::memcpy(&header, start, sizeof(header));
  return header.header_bytes >= sizeof(header) && header.header_bytes <= limit &&
         header.bytes <= limit - header.header_bytes;
}

namespace {

/// Returns the entries of a fat binary, or of what the compiler wraps one in.
std::span<const std::byte> entries_of(const std::byte* start) {
  struct Wrapper {
    std::uint32_t magic, version;
    const std::byte* data;
  };
  std::uint32_t magic = 0;
  std::memcpy(&magic, start, sizeof(magic));
  if (magic == kFatBinaryWrapperMagic) {
    Wrapper wrapper;
    std::memcpy(&wrapper, start, sizeof(wrapper));
    start = wrapper.data;
    if (start == nullptr) return {};
    std::memcpy(&magic, start, sizeof(magic));
  }
  if (magic != kFatBinaryMagic) return {};
  FatBinaryHeader header;
  std::memcpy(&header, start, sizeof(header));
  return {start + header.header_bytes, header.bytes};
}

/// Removes the first entry from `rest` and returns it, or nothing at the end.
std::optional<Entry> next_entry(std::span<const std::byte>& rest,
                                std::span<const std::byte>* content) {
  if (rest.size() < kLeastEntry) return std::nullopt;
  auto entry = read_at<Entry>(rest, 0);
  if (entry.header_bytes < kLeastEntry) return std::nullopt;
  if (entry.header_bytes < sizeof(Entry)) entry.uncompressed_bytes = 0;
  const auto behind = part_of(rest, entry.header_bytes, rest.size());
  *content = part_of(behind, 0, entry.bytes);
  rest = part_of(behind, entry.bytes, behind.size());
  return entry;
}

/// Reads the further bytes of a length in the LZ4 format. Returns false at the end.
bool extend(std::span<const std::byte>& block, Bytes& length) {
  for (unsigned part = 255; part == 255; length += part) {
    if (block.empty()) return false;
    part = static_cast<unsigned char>(block[0]);
    block = block.subspan(1);
  }
  return true;
}

}  // namespace

std::optional<std::vector<std::byte>> decompress_lz4(std::span<const std::byte> block,
                                                     Bytes bytes) {
  // Source: the LZ4 block format: a token, literals, the distance of a match; no match at the end.
  constexpr Bytes kLeastMatch = 4, kMore = 15, kMostBytes = kMiB * 256;
  std::vector<std::byte> out;
  if (bytes > kMostBytes) return std::nullopt;
  out.reserve(bytes);
  while (!block.empty()) {
    const auto token = static_cast<unsigned char>(block[0]);
    block = block.subspan(1);
    Bytes literals = token >> 4;
    if (literals == kMore && !extend(block, literals)) return std::nullopt;
    if (literals > block.size() || literals > bytes - out.size()) return std::nullopt;
    out.insert(out.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(literals));
    block = block.subspan(literals);
    if (block.empty()) break;
    if (block.size() < 2) return std::nullopt;
    const Bytes distance = read_at<std::uint16_t>(block, 0);
    block = block.subspan(2);
    Bytes match = token & kMore;
    if (match == kMore && !extend(block, match)) return std::nullopt;
    match += kLeastMatch;
    if (distance == 0 || distance > out.size() || match > bytes - out.size()) return std::nullopt;
    for (Bytes i = 0; i < match; ++i) out.push_back(out[out.size() - distance]);
  }
  return out.size() == bytes ? std::optional(std::move(out)) : std::nullopt;
}

namespace {

using ZstandardDecompress = std::size_t (*)(void*, std::size_t, const void*, std::size_t);

/// Returns the function of the system's library, or null, which is reported.
ZstandardDecompress find_zstandard() {
  void* const library = ::dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const found = library == nullptr ? nullptr : ::dlsym(library, "ZSTD_decompress");
  if (found == nullptr) {
    process::tell(
        "libzstd.so.1 is not installed: kernels compressed with it are not read, and memory "
        "that they write through structs may show its former content. On Debian: apt-get "
        "install libzstd1");
  }
  return reinterpret_cast<ZstandardDecompress>(found);
}

/// Decompresses a frame of Zstandard; returns nothing if it is malformed or has another size.
std::optional<std::vector<std::byte>> decompress_zstandard(std::span<const std::byte> frame,
                                                           Bytes bytes) {
  constexpr Bytes kMostBytes = kMiB * 256;
  static const ZstandardDecompress decompress = find_zstandard();
  if (decompress == nullptr || bytes > kMostBytes) return std::nullopt;
  std::vector<std::byte> out(bytes);
  const std::size_t got = decompress(out.data(), out.size(), frame.data(), frame.size());
  return got == bytes ? std::optional(std::move(out)) : std::nullopt;
}

}  // namespace

std::optional<KernelCode> kernel_code(const std::byte* fat_binary, std::string_view kernel) {
  // The smallest costs least.
  std::span<const std::byte> best, content;
  Bytes best_bytes = 0;
  bool best_lz4 = false;
  auto rest = entries_of(fat_binary);
  while (const auto entry = next_entry(rest, &content)) {
    const bool compressed = (entry->flags & kCompressedFlags) != 0;
    if (entry->kind != kElfEntry) continue;
    if (!best.empty() && content.size() >= best.size()) continue;
    best = compressed ? part_of(content, 0, entry->compressed_bytes) : content;
    best_bytes = compressed ? entry->uncompressed_bytes : 0;
    best_lz4 = (entry->flags & kLz4Flag) != 0;
  }
  if (best.empty()) return std::nullopt;
  std::optional<std::vector<std::byte>> plain;
  if (best_bytes > 0) {
    plain = best_lz4 ? decompress_lz4(best, best_bytes) : decompress_zstandard(best, best_bytes);
    if (!plain) return std::nullopt;
    best = *plain;
  }
  const std::optional<Image> image = read_cubin(best);
  if (!image) return std::nullopt;
  const auto found = image->kernels.find(std::string(kernel));
  return found == image->kernels.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Image> read_fat_binary(const std::byte* start, int architecture) {
  std::span<const std::byte> rest = entries_of(start);
  std::span<const std::byte> best, content;
  int best_architecture = 0;
  while (const auto entry = next_entry(rest, &content)) {
    const auto own = static_cast<int>(entry->architecture);
    const bool fits = own <= architecture, best_fits = best_architecture <= architecture;
    const bool better = best.empty() || (fits && (!best_fits || own > best_architecture)) ||
                        (!fits && !best_fits && own < best_architecture);
    if (entry->kind == kElfEntry && (entry->flags & kCompressedFlags) == 0 && better) {
      best = content;
      best_architecture = own;
    }
  }
  return best.empty() ? std::nullopt : read_cubin(best);
}

}  // namespace gpemu::launch
