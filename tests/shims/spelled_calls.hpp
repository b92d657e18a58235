// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "loaded_libraries.hpp"

/// Calls whose arguments are spelled, one letter each, so that a table can hold them.
///
/// On x86-64 and AArch64, integers and pointers are passed in the same places, reals in places of
/// their own, and a function does not see the arguments that it does not read.
class SpelledCalls : public LoadedLibraries {
 protected:
  static constexpr size_t kMost = 32;
  using Arguments = std::array<uint64_t, kMost>;

  /// An argument that functions accept, and one that they refuse; `refused` 0: they refuse none.
  struct Letter {
    uint64_t good, bad = 0;
    int refused = 0;
  };

  static uint64_t address_of(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

  Arguments spelled(const std::string& spelling) const {
    Arguments arguments{};
    for (size_t i = 0; i < spelling.size(); ++i) {
      EXPECT_TRUE(letters_.contains(spelling[i])) << spelling << ' ' << i;
      arguments[i] = letters_.at(spelling[i]).good;
    }
    return arguments;
  }

  /// Calls a function; `real` is what its arguments of type double are.
  int call_with(const std::string& name, const Arguments& arguments, double real = 0) {
    return spread(name, arguments, real, std::make_index_sequence<kMost>());
  }

  /// Makes the good call, and a bad one for each argument that the function should check.
  void check(const std::string& name, const std::string& spelling) {
    const Arguments good = spelled(spelling);
    EXPECT_EQ(call_with(name, good), 0) << name;
    for (size_t i = 0; i < spelling.size(); ++i) {
      const Letter& letter = letters_.at(spelling[i]);
      if (letter.refused != 0) {
        Arguments bad = good;
        bad[i] = letter.bad;
        EXPECT_EQ(call_with(name, bad), letter.refused) << name << ", argument " << i + 1;
      }
    }
  }

  std::map<char, Letter> letters_{{'.', {0}}};

 private:
  template <size_t... Indices>
  int spread(const std::string& name, const Arguments& arguments, double real,
             std::index_sequence<Indices...> /*indices*/) {
    return call(name.c_str(), arguments[Indices]..., real, real);
  }
};
