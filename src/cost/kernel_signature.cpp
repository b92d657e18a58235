// SPDX-License-Identifier: Apache-2.0
#include "gpemu/cost/kernel_signature.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cxxabi.h>
#include <memory>

namespace gpemu::cost {
namespace {

constexpr bool opens(char letter) {
  return letter == '(' || letter == '<' || letter == '{' || letter == '[';
}
constexpr bool closes(char letter) {
  return letter == ')' || letter == '>' || letter == '}' || letter == ']';
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

ParameterKind kind_of(std::string_view type) {
  if (type.ends_with('*')) {
    const std::string_view target = trimmed(type.substr(0, type.size() - 1));
    return target.ends_with("const") ? ParameterKind::kConstPointer : ParameterKind::kPointer;
  }
  if (type.ends_with(" const")) type.remove_suffix(6);
  constexpr std::array<std::string_view, 2> kInt = {"int", "unsigned int"};
  constexpr std::array<std::string_view, 4> kLong = {"long", "unsigned long", "long long",
                                                     "unsigned long long"};
  if (std::ranges::find(kInt, type) != kInt.end()) return ParameterKind::kInteger32;
  if (std::ranges::find(kLong, type) != kLong.end()) return ParameterKind::kInteger64;
  return ParameterKind::kOther;
}

/// Returns where the list of parameters at the end of a function's text begins, or npos.
std::size_t list_begin(std::string_view text) {
  int depth = 0;
  for (std::size_t i = text.size(); i-- > 0;) {
    if (text[i] == ')') ++depth;
    if (text[i] == '(' && --depth == 0) return i + 1;
  }
  return std::string_view::npos;
}

}  // namespace

std::optional<std::vector<KernelParameter>> kernel_parameters(std::string_view mangled_name) {
  if (!mangled_name.starts_with("_Z")) return std::nullopt;
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> owned(
      abi::__cxa_demangle(std::string(mangled_name).c_str(), nullptr, nullptr, &status),
      &std::free);
  if (status != 0 || owned == nullptr) return std::nullopt;
  std::string_view text = owned.get();
  if (!text.ends_with(')')) return std::nullopt;
  const std::size_t begin = list_begin(text);
  if (begin == std::string_view::npos) return std::nullopt;
  text = text.substr(begin, text.size() - begin - 1);
  std::vector<KernelParameter> parameters;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && opens(text[i])) ++depth;
    if (i < text.size() && closes(text[i])) --depth;
    if (i < text.size() && (text[i] != ',' || depth != 0)) continue;
    const std::string_view type = trimmed(text.substr(start, i - start));
    if (!type.empty()) parameters.push_back({.kind = kind_of(type), .type = std::string(type)});
    start = i + 1;
  }
  return parameters;
}

}  // namespace gpemu::cost
