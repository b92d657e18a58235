// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <elf.h>
#include <string>
#include <vector>

inline std::string bytes_of(const auto& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

/// Machine code of a V100 with a kernel "add" and a variable "answer", which is 42.
inline std::string cubin() {
  struct Section {
    const char* name;
    Elf64_Word type;
    std::string content;
  };
  const Elf64_Sym symbols[] = {
      {}, {.st_name = 1, .st_info = STT_OBJECT, .st_shndx = 5, .st_value = 0, .st_size = 4}};
  const std::vector<Section> sections = {
      {"", SHT_NULL, ""},
      {".shstrtab", SHT_STRTAB, std::string("\0.text.add\0.nv.global.init\0", 27)},
      {".strtab", SHT_STRTAB, std::string("\0answer\0", 8)},
      {".symtab", SHT_SYMTAB, bytes_of(symbols)},
      {".text.add", SHT_PROGBITS, "code"},
      {".nv.global.init", SHT_PROGBITS, bytes_of(42)}};
  constexpr Elf64_Word kNames[] = {0, 0, 0, 0, 1, 11};
  std::string body, table;
  for (size_t index = 0; index < sections.size(); ++index) {
    const Section& section = sections[index];
    table += bytes_of(Elf64_Shdr{.sh_name = kNames[index],
                                 .sh_type = section.type,
                                 .sh_offset = sizeof(Elf64_Ehdr) + body.size(),
                                 .sh_size = section.content.size(),
                                 .sh_link = section.type == SHT_SYMTAB ? 2U : 0U});
    body += section.content;
  }
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_ABIVERSION] = 8;
  header.e_flags = 70 << 8;
  header.e_shoff = sizeof(header) + body.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = static_cast<Elf64_Half>(sections.size());
  header.e_shstrndx = 1;
  return bytes_of(header) + body + table;
}
