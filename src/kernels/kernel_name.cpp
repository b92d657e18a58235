// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/kernel_name.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cxxabi.h>
#include <memory>

namespace gpemu::kernels {
namespace {

constexpr std::string_view kOpening = "<([{", kClosing = ">)]}";

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

/// Whether the character is one of "->", which is no bracket.
bool is_arrow(std::string_view text, std::size_t at) {
  return at > 0 && text[at] == '>' && text[at - 1] == '-';
}

std::string demangle(std::string_view mangled) {
  if (!mangled.starts_with("_Z")) return {};
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(std::string(mangled).c_str(), nullptr, nullptr, &status), std::free);
  return status == 0 && text != nullptr ? std::string(text.get()) : std::string();
}

/// Returns where the list of parameters, with which the text ends, begins, or npos.
std::size_t parameters_of(std::string_view text) {
  if (!text.ends_with(')')) return std::string_view::npos;
  int depth = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    if (text[at] == ')') ++depth;
    if (text[at] == '(' && --depth == 0) return at;
  }
  return std::string_view::npos;
}

/// Removes the result's type, which templates are shown with: up to a blank in no brackets.
std::string_view without_result(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == ' ') return text.substr(at + 1);
    const std::size_t behind =
        kOpening.find(text[at]) != std::string_view::npos ? skip_brackets(text, at) : at + 1;
    if (behind == std::string_view::npos) break;
    at = behind;
  }
  return text;
}

void remove_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) {
    text.erase(at, part.size());
  }
}

struct TypeBytes {
  std::string_view name;
  std::uint32_t bytes = 0;
};
/// Sizes of the types that tensors hold. Source: c10/core/ScalarType.h.
constexpr std::array kTypes = {
    TypeBytes{"float", 4},
    TypeBytes{"double", 8},
    TypeBytes{"int", 4},
    TypeBytes{"unsigned int", 4},
    TypeBytes{"long", 8},
    TypeBytes{"unsigned long", 8},
    TypeBytes{"long long", 8},
    TypeBytes{"unsigned long long", 8},
    TypeBytes{"short", 2},
    TypeBytes{"unsigned short", 2},
    TypeBytes{"signed char", 1},
    TypeBytes{"unsigned char", 1},
    TypeBytes{"char", 1},
    TypeBytes{"bool", 1},
    TypeBytes{"c10::Half", 2},
    TypeBytes{"__half", 2},
    TypeBytes{"c10::BFloat16", 2},
    TypeBytes{"__nv_bfloat16", 2},
    TypeBytes{"c10::complex<float>", 8},
    TypeBytes{"c10::complex<double>", 16},
    TypeBytes{"c10::complex<c10::Half>", 4},
    TypeBytes{"c10::Float8_e4m3fn", 1},
    TypeBytes{"c10::Float8_e5m2", 1},
    TypeBytes{"c10::Float8_e4m3fnuz", 1},
    TypeBytes{"c10::Float8_e5m2fnuz", 1},
    TypeBytes{"float2", 8},
    TypeBytes{"double2", 16},
    TypeBytes{"c10::qint8", 1},
    TypeBytes{"c10::quint8", 1},
    TypeBytes{"c10::qint32", 4},
};

}  // namespace

std::size_t skip_brackets(std::string_view text, std::size_t open) {
  int depth = 0;
  for (std::size_t at = open; at < text.size(); ++at) {
    if (kOpening.find(text[at]) != std::string_view::npos) ++depth;
    if (kClosing.find(text[at]) != std::string_view::npos && !is_arrow(text, at) && --depth == 0) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (kOpening.find(text[at]) != std::string_view::npos) ++depth;
    if (kClosing.find(text[at]) != std::string_view::npos && !is_arrow(text, at)) --depth;
    if (text[at] != ',' || depth != 0) continue;
    parts.push_back(trimmed(text.substr(start, at - start)));
    start = at + 1;
  }
  const std::string_view last = trimmed(text.substr(start));
  if (!last.empty()) parts.push_back(last);
  return parts;
}

std::vector<std::string_view> template_arguments(std::string_view text, std::string_view name) {
  const std::size_t found = text.find(name);
  if (found == std::string_view::npos) return {};
  const std::size_t open = found + name.size();
  if (open >= text.size() || text[open] != '<') return {};
  const std::size_t end = skip_brackets(text, open);
  if (end == std::string_view::npos) return {};
  return split_list(text.substr(open + 1, end - open - 2));
}

std::uint32_t type_bytes(std::string_view type) {
  if (type.ends_with(" const")) type.remove_suffix(6);
  for (const TypeBytes& entry : kTypes) {
    if (entry.name == type) return entry.bytes;
  }
  return 0;
}

int number_in(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

ParameterKind parameter_kind(std::string_view type) {
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

KernelName read_kernel_name(std::string_view mangled) {
  const std::string text = demangle(mangled);
  const std::size_t list = parameters_of(text);
  if (list == std::string::npos) {
    return {.function = std::string(mangled), .parameters = {}, .mangled = mangled};
  }
  KernelName name{.function = std::string(without_result(std::string_view(text).substr(0, list))),
                  .parameters = {},
                  .is_cpp = true,
                  .mangled = mangled};
  const std::string_view inside = std::string_view(text).substr(list + 1, text.size() - list - 2);
  for (const std::string_view part : split_list(inside)) name.parameters.emplace_back(part);
  return name;
}

std::string readable_name(std::string_view mangled, std::size_t most) {
  constexpr std::array<std::string_view, 5> kNoise = {
      "(anonymous namespace)::", "at::native::", "at::TensorIteratorBase&",
      "operator()() const::", "at_cuda_detail::"};
  std::string name = read_kernel_name(mangled).function;
  for (const std::string_view part : kNoise) remove_all(name, part);
  if (name.size() > most) name = name.substr(0, most - 3) + "...";
  return name;
}

}  // namespace gpemu::kernels
