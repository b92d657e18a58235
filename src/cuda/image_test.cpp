// SPDX-License-Identifier: Apache-2.0
#include "gpemu/launch/image.hpp"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "gpemu/cuda.h"

#include "test_gpu.hpp"

namespace gpemu::cuda {
namespace {

std::string bytes_of(const auto& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

std::string words(std::initializer_list<std::uint32_t> values) {
  std::string result;
  for (const std::uint32_t value : values) result += bytes_of(value);
  return result;
}

struct Section {
  std::string name;
  Elf64_Word type;
  std::string content;
  Elf64_Xword bytes = 0;  ///< of one without content.
};

constexpr std::uint32_t kTextSection = 6;

/// Makes an ELF file of sections, the first of which are: none, names, symbols' names, symbols.
std::string elf_of(std::vector<Section> sections, int architecture) {
  std::string names(1, '\0');
  std::vector<Elf64_Word> offsets;
  for (const Section& section : sections) {
    offsets.push_back(static_cast<Elf64_Word>(names.size()));
    names += section.name + '\0';
  }
  sections[1].content = names;
  std::string body, table;
  for (std::size_t i = 0; i < sections.size(); ++i) {
    const Section& section = sections[i];
    const bool empty = section.type == SHT_NOBITS;
    table += bytes_of(Elf64_Shdr{.sh_name = offsets[i],
                                 .sh_type = section.type,
                                 .sh_offset = sizeof(Elf64_Ehdr) + body.size(),
                                 .sh_size = empty ? section.bytes : section.content.size(),
                                 .sh_link = section.type == SHT_SYMTAB ? 2U : 0U});
    body += section.content;
  }
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_ABIVERSION] = 8;
  header.e_flags = static_cast<Elf64_Word>(architecture) << 8;
  header.e_shoff = sizeof(header) + body.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<Elf64_Half>(sections.size());
  header.e_shstrndx = 1;
  return bytes_of(header) + body + table;
}

/// A kernel "add" and the variables "answer", which is 42, and "zeros".
std::string cubin(int architecture) {
  const Elf64_Sym symbols[] = {
      {},
      {.st_name = 1, .st_info = STT_FUNC, .st_shndx = kTextSection},
      {.st_name = 5, .st_info = STT_OBJECT, .st_shndx = 8, .st_value = 4, .st_size = 4},
      {.st_name = 12, .st_info = STT_OBJECT, .st_shndx = 9, .st_size = 400}};
  return elf_of(
      {{"", SHT_NULL, ""},
       {".shstrtab", SHT_STRTAB, ""},
       {".strtab", SHT_STRTAB, std::string("\0add\0answer\0zeros\0", 18)},
       {".symtab", SHT_SYMTAB, bytes_of(symbols)},
       // 94 registers and 16 bytes of stack of symbol 1; an unknown one between them.
       {".nv.info", SHT_LOPROC, words({0x00082f04, 1, 94, 0x00ff1b03, 0x00081104, 1, 16})},
       {".nv.info.add", SHT_LOPROC,
        words({0x000c0504, 32, 4, 2,
               // Parameters: 8 bytes at 8, 4 at 0.
               0x000c1704, 0, 0x00080001, 0x0021f000, 0x000c1704, 0, 0x00000000, 0x0011f000})},
       {".text.add", SHT_PROGBITS, "code"},
       {".nv.shared.add", SHT_NOBITS, "", 3072},
       {".nv.global.init", SHT_PROGBITS, words({7, 42})},
       {".nv.global", SHT_NOBITS, "", 400},
       {".nv.constant3", SHT_PROGBITS, std::string(64, '\1')}},
      architecture);
}

/// A kernel "add" with parameters of 8, 4 and 1 bytes, and so many instructions of a code.
std::string cubin_of_code(std::uint16_t code, std::uint32_t count, int architecture) {
  std::string text;
  for (std::uint32_t i = 0; i < count; ++i) text += words({0x7000U | code, 0, 0, 0});
  for (int i = 0; i < 32; ++i) text += words({0x7918, 0, 0, 0});  // NOP
  return elf_of({{"", SHT_NULL, ""},
                 {".shstrtab", SHT_STRTAB, ""},
                 {".strtab", SHT_STRTAB, std::string("\0add\0", 5)},
                 {".symtab", SHT_SYMTAB, ""},
                 // As ptxas writes it: the parameter's number and place, and its size.
                 {".nv.info.add", SHT_LOPROC,
                  words({0x000c1704, 0, 0x000c0002, 0x0005f000, 0x000c1704, 0, 0x00080001,
                         0x0011f000, 0x000c1704, 0, 0, 0x0021f400})},
                 {".text.add", SHT_PROGBITS, text}},
                architecture);
}

std::span<const std::byte> span_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string entry(std::uint16_t kind, int architecture, std::uint64_t flags,
                  const std::string& content) {
  return bytes_of(kind) + bytes_of(std::uint16_t{0x101}) + words({64}) +
         bytes_of(std::uint64_t{content.size()}) +
         words({0, 0, 0, static_cast<std::uint32_t>(architecture), 0, 0}) + bytes_of(flags) +
         std::string(16, '\0') + content;
}

std::string fat_binary(const std::string& entries) {
  return words({launch::kFatBinaryMagic, 0x00100001}) + bytes_of(std::uint64_t{entries.size()}) +
         entries;
}

/// Reads machine code that is not malformed.
launch::Image image_of(const std::string& elf) {
  auto image = launch::read_cubin(span_of(elf));
  EXPECT_TRUE(image);
  return std::move(image).value_or(launch::Image());
}

int architecture_in(const std::string& entries, int wanted) {
  const std::string binary = fat_binary(entries);
  const auto image = launch::read_fat_binary(span_of(binary).data(), wanted);
  return image ? image->architecture : 0;
}

TEST(Image, TellsWhatTheCompilerWroteOfAKernel) {
  const std::string elf = cubin(80);
  ASSERT_EQ(launch::cubin_size(span_of(elf).data(), launch::kUnknownSize), elf.size());
  const launch::Image image = image_of(elf);
  EXPECT_EQ(image.architecture, 80);
  EXPECT_EQ(image.constant, 64u);
  ASSERT_EQ(image.kernels.size(), 1u);
  const launch::KernelCode& code = image.kernels.at("add");
  EXPECT_EQ(code.registers, 94);
  EXPECT_EQ(code.local, 16u);
  EXPECT_EQ(code.max_threads_per_block, 256);
  EXPECT_EQ(code.static_shared, 3072u);
}

TEST(Image, DoesNotCountWhatHopperReservesOfSharedMemory) {
  const launch::Image image = image_of(cubin(90));
  EXPECT_EQ(image.kernels.at("add").static_shared, 2048u);
}

TEST(Image, HoldsInitialValuesOfVariables) {
  const launch::Image image = image_of(cubin(80));
  ASSERT_EQ(image.variables.size(), 2u);
  const launch::DeviceVariable& answer = image.variables.at("answer");
  const auto expected = span_of(std::string_view("*\0\0\0", 4));
  EXPECT_EQ(answer.bytes, 4u);
  EXPECT_TRUE(std::ranges::equal(answer.initial, expected));
  EXPECT_EQ(image.variables.at("zeros").bytes, 400u);
  EXPECT_TRUE(image.variables.at("zeros").initial.empty());
}

TEST(Image, SurvivesAnyCutAndAnyWrongByte) {
  const std::string whole = cubin(80);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    // A copy of its own size, so that sanitizers see a byte too many.
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const auto bytes = std::as_bytes(std::span(cut));
    EXPECT_FALSE(launch::read_cubin(bytes)) << size;
    EXPECT_FALSE(launch::cubin_size(bytes.data(), bytes.size())) << size;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string wrong = whole;
    wrong[at] = '\xff';
    static_cast<void>(launch::read_cubin(span_of(wrong)));
    static_cast<void>(launch::cubin_size(span_of(wrong).data(), wrong.size()));
  }
}

TEST(Image, TellsWhetherAFileHoldsAWholeFatBinary) {
  const std::string binary = fat_binary(entry(2, 80, 0x11, cubin(80)));
  for (std::size_t size = 4; size < binary.size(); ++size) {
    const std::vector<char> cut(binary.begin(), binary.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(launch::holds_fat_binary(std::as_bytes(std::span(cut)).data(), size)) << size;
  }
  EXPECT_TRUE(launch::holds_fat_binary(span_of(binary).data(), binary.size()));
  EXPECT_TRUE(launch::holds_fat_binary(span_of(binary).data(), launch::kUnknownSize));
}

TEST(Image, TakesTheNewestCodeThatADeviceRuns) {
  const std::string entries =
      entry(2, 70, 0x11, cubin(70)) + entry(2, 80, 0x11, cubin(80)) + entry(2, 90, 0x11, cubin(90));
  EXPECT_EQ(architecture_in(entries, 86), 80);
  EXPECT_EQ(architecture_in(entries, 90), 90);
  EXPECT_EQ(architecture_in(entries, 60), 70) << "none fits: the oldest";
}

TEST(Image, LeavesOutWhatIsCompressedOrNoMachineCode) {
  EXPECT_EQ(architecture_in(entry(1, 80, 0x11, "// PTX"), 80), 0);
  EXPECT_EQ(architecture_in(entry(2, 80, 0x2011, cubin(80)), 80), 0);
  EXPECT_EQ(architecture_in(entry(2, 80, 0x8011, cubin(80)) + entry(2, 70, 0x11, cubin(70)), 80),
            70);
  const std::string other(64, 'x');
  EXPECT_FALSE(launch::read_fat_binary(span_of(other).data(), 80));
}

TEST(Image, FindsParametersInCompressedCode) {
  const std::string plain = cubin(80);
  // All of it as literals, whose number goes on in bytes of 255 and a last one.
  const std::size_t more = plain.size() - 15;
  const std::string block = "\xf0" + std::string(more / 255, '\xff') +
                            std::string(1, static_cast<char>(more % 255)) + plain;
  std::string compressed = entry(2, 80, 0x2011, block);
  const auto sizes = static_cast<std::uint32_t>(block.size());
  const std::uint64_t bytes = plain.size();
  std::memcpy(&compressed[16], &sizes, sizeof(sizes));
  std::memcpy(&compressed[56], &bytes, sizeof(bytes));
  for (const std::string& content : {entry(2, 80, 0x11, plain), compressed}) {
    const std::string binary = fat_binary(content);
    const auto code = launch::kernel_code(span_of(binary).data(), "add");
    ASSERT_TRUE(code.has_value());
    const auto& parameters = code->parameters;
    ASSERT_EQ(parameters.size(), 2U);
    EXPECT_EQ(parameters[0].bytes, 4U);
    EXPECT_EQ(parameters[1].offset, 8U);
    EXPECT_EQ(parameters[1].bytes, 8U);
    EXPECT_FALSE(launch::kernel_code(span_of(binary).data(), "other").has_value());
  }
}

std::vector<std::byte> vector_of(std::string_view text) {
  const auto bytes = span_of(text);
  return {bytes.begin(), bytes.end()};
}

TEST(Lz4, CopiesLiteralsAndMatches) {
  // "abc", then 9 bytes from 3 before, then "xyz" as the last literals.
  const auto plain = launch::decompress_lz4(vector_of(std::string_view("\x35"
                                                                       "abc\x03\x00\x30xyz",
                                                                       10)),
                                            15);
  ASSERT_TRUE(plain);
  EXPECT_EQ(*plain, vector_of("abcabcabcabcxyz"));
}

TEST(Lz4, RefusesWhatIsMalformed) {
  for (const std::string_view block : {std::string_view("\x35"
                                                        "abc\x04\x00",
                                                        6),
                                       std::string_view("\x35"
                                                        "abc\x00\x00",
                                                        6),
                                       std::string_view("\x35"
                                                        "ab",
                                                        3),
                                       std::string_view("\xf0", 1),
                                       std::string_view("\x35"
                                                        "abc\x03",
                                                        5)}) {
    EXPECT_FALSE(launch::decompress_lz4(vector_of(block), 12));
  }
  EXPECT_FALSE(launch::decompress_lz4(vector_of(std::string_view("\x30"
                                                                 "abc",
                                                                 4)),
                                      2));
}

TEST(Image, ReadsTheSizesOfParameters) {
  const launch::Image image = image_of(cubin_of_code(0x918, 1, 80));
  EXPECT_EQ(image.kernels.at("add").parameters.size(), 3U);
}

TEST(Image, ReadsTheSizesOfManyParameters) {
  const launch::Image image =
      image_of(elf_of({{"", SHT_NULL, ""},
                       {".shstrtab", SHT_STRTAB, ""},
                       {".strtab", SHT_STRTAB, std::string("\0add\0", 5)},
                       {".symtab", SHT_SYMTAB, ""},
                       {".nv.info", SHT_LOPROC, ""},
                       // 25768 bytes at 0, 1 behind.
                       {".nv.info.add", SHT_LOPROC,
                        words({0x000c4504, 0, 0x64a80001, 1, 0x000c4504, 0, 0x00000000, 0x64a8})},
                       {".text.add", SHT_PROGBITS, "code"}},
                      80));
  const auto& parameters = image.kernels.at("add").parameters;
  ASSERT_EQ(parameters.size(), 2U);
  EXPECT_EQ(parameters[0].bytes, 25768U);
  EXPECT_EQ(parameters[1].offset, 25768U);
  EXPECT_EQ(parameters[1].bytes, 1U);
}

TEST(Image, SeesWhatInstructionsCalculateWith) {
  using Arithmetic = kernels::LaunchFacts::Arithmetic;
  const auto arithmetic = [](std::uint16_t code, std::uint32_t count, int architecture) {
    return image_of(cubin_of_code(code, count, architecture)).kernels.at("add").arithmetic;
  };
  EXPECT_EQ(arithmetic(0x23c, 1, 80), Arithmetic::kTensorCores);   // HMMA
  EXPECT_EQ(arithmetic(0x9f0, 1, 90), Arithmetic::kTensorCores);   // HGMMA
  EXPECT_EQ(arithmetic(0x5ea, 1, 100), Arithmetic::kTensorCores);  // UTCHMMA
  EXPECT_EQ(arithmetic(0x223, 64, 70), Arithmetic::kMultiplies);   // FFMA
  EXPECT_EQ(arithmetic(0x223, 63, 70), Arithmetic::kOther);
  EXPECT_EQ(arithmetic(0x918, 64, 80), Arithmetic::kOther);
  EXPECT_EQ(arithmetic(0x23c, 1, 61), Arithmetic::kUnknown);  // Instructions of other lengths.
}

TEST(Image, SeesWhatInstructionsStore) {
  const auto access = [](std::uint16_t code, int architecture) {
    return image_of(cubin_of_code(code, 3, architecture)).kernels.at("add").access;
  };
  EXPECT_EQ(access(0x386, 70).stored, 3U);  // STG.U8: the other bits are 0.
  EXPECT_EQ(access(0x986, 90).widest, 1U);
  EXPECT_EQ(access(0x98e, 80).stored, 3U);               // RED
  EXPECT_EQ(access(0x381, 80).loaded, 3U);               // LDG
  const kernels::MemoryAccess none = access(0x223, 80);  // FFMA
  EXPECT_TRUE(none.known);
  EXPECT_EQ(none.widest, 0U);
  EXPECT_FALSE(access(0x3b5, 90).known);  // UTMASTG
  EXPECT_FALSE(access(0x386, 61).known);
}

TEST(Image, SaysWherePackedArgumentsLie) {
  use_test_gpu();
  const std::string elf = cubin_of_code(0x386, 1, 70);  // STG
  gpemu_cuda_module_handle module = nullptr;
  ASSERT_EQ(gpemu_cuda_module_load(elf.data(), &module), GPEMU_CUDA_SUCCESS);
  gpemu_cuda_kernel_handle kernel = nullptr;
  ASSERT_EQ(gpemu_cuda_module_kernel(module, "add", &kernel), GPEMU_CUDA_SUCCESS);
  std::uint64_t memory = 0;
  ASSERT_EQ(gpemu_cuda_malloc(512, &memory), GPEMU_CUDA_SUCCESS);
  const std::uint64_t old = 7;
  ASSERT_EQ(gpemu_cuda_poke(memory, &old, sizeof(old)), GPEMU_CUDA_SUCCESS);
  const std::string packed = bytes_of(memory) + words({128, 0});
  gpemu_cuda_launch launch{.grid = {1, 1, 1}, .block = {32, 1, 1}, .packed = packed.data()};
  launch.packed_bytes = 12;
  EXPECT_EQ(gpemu_cuda_launch_kernel(kernel, &launch, nullptr), GPEMU_CUDA_ERROR_INVALID_VALUE)
      << "one byte too few";
  launch.packed_bytes = packed.size();
  EXPECT_EQ(gpemu_cuda_launch_kernel(kernel, &launch, nullptr), GPEMU_CUDA_SUCCESS);
  std::uint64_t read = 1;
  EXPECT_EQ(gpemu_cuda_peek(memory, &read, sizeof(read)), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(read, 0U) << "not computed, and not what lay there";
  EXPECT_EQ(gpemu_cuda_free(memory), GPEMU_CUDA_SUCCESS);
  EXPECT_EQ(gpemu_cuda_module_unload(module), GPEMU_CUDA_SUCCESS);
}

}  // namespace
}  // namespace gpemu::cuda
