// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/element_count.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"

namespace gpemu::kernels {
namespace {

/// Splits a formula after each factor; the sign before it tells whether it divides.
std::vector<std::string_view> split_factors(std::string_view formula) {
  std::vector<std::string_view> factors;
  std::size_t start = 0;
  for (std::size_t at = 0; at <= formula.size(); ++at) {
    if (at < formula.size() && formula[at] != '*' && formula[at] != '/') continue;
    factors.push_back(formula.substr(start, at - start));
    start = at + 1;
  }
  return factors;
}

}  // namespace

std::uint8_t integer_bytes(std::string_view type) {
  // A struct whose first member is an integer. Source: offset_t in PyTorch's Sort.cu.
  if (type.ends_with("offset_t")) return 4;
  if (!type.ends_with("int") && !type.ends_with("long")) return 0;
  return static_cast<std::uint8_t>(type_bytes(type));
}

std::optional<ElementCount::Term> ElementCount::read_term(std::string_view text,
                                                          const KernelName& kernel) {
  Term term;
  if (text.size() == 2 && (text[0] == 'g' || text[0] == 'b') && text[1] >= 'x' && text[1] <= 'z') {
    term.kind = text[0] == 'g' ? Term::Kind::kGrid : Term::Kind::kBlock;
    term.value = static_cast<std::uint32_t>(text[1] - 'x');
    return term;
  }
  term.kind = text.starts_with('#') ? Term::Kind::kNumber : Term::Kind::kArgument;
  const bool template_argument = text.starts_with('t');
  if (text.starts_with('#') || template_argument) text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, term.value);
  if (error != std::errc() || rest != end) return std::nullopt;
  if (term.kind == Term::Kind::kNumber) return term;
  if (template_argument) {
    const auto arguments = template_arguments(
        kernel.function, std::string_view(kernel.function).substr(0, kernel.function.find('<')));
    if (term.value >= arguments.size()) return std::nullopt;
    term.kind = Term::Kind::kNumber;
    term.value = static_cast<std::uint32_t>(std::max(number_in(arguments[term.value]), 0));
    return term;
  }
  if (term.value >= kernel.parameters.size()) return std::nullopt;
  term.bytes = integer_bytes(kernel.parameters[term.value]);
  if (term.bytes != 4 && term.bytes != 8) return std::nullopt;
  return term;
}

std::optional<ElementCount> ElementCount::read(std::string_view formula, const KernelName& kernel) {
  ElementCount count;
  for (const std::string_view text : split_factors(formula)) {
    const bool first = text.data() == formula.data();
    Factor factor{.sum = {}, .divides = !first && text.data()[-1] == '/'};
    for (std::size_t start = 0; start <= text.size();) {
      const std::size_t end = std::min(text.find('+', start), text.size());
      const auto term = read_term(text.substr(start, end - start), kernel);
      if (!term) return std::nullopt;
      factor.sum.push_back(*term);
      start = end + 1;
    }
    count.factors_.push_back(std::move(factor));
  }
  return count;
}

std::int64_t ElementCount::value_of(const Term& term, const gpemu_cuda_launch& launch) {
  switch (term.kind) {
    case Term::Kind::kArgument: {
      const void* const from = launch.arguments[term.value];
      if (from == nullptr) return 0;
      return term.bytes == 4 ? gpemu::kernels::read<std::int32_t>(from)
                             : gpemu::kernels::read<std::int64_t>(from);
    }
    case Term::Kind::kGrid:
      return launch.grid[term.value];
    case Term::Kind::kBlock:
      return launch.block[term.value];
    case Term::Kind::kNumber:
      break;
  }
  return term.value;
}

Bytes ElementCount::of(const gpemu_cuda_launch& launch) const {
  constexpr Bytes kMost = Bytes{1} << 40;
  Bytes product = 1;
  for (const Factor& factor : factors_) {
    std::int64_t sum = 0;
    for (const Term& term : factor.sum) sum += value_of(term, launch);
    if (sum <= 0) return 0;
    if (factor.divides) {
      product /= static_cast<Bytes>(sum);
    } else if (__builtin_mul_overflow(product, static_cast<Bytes>(sum), &product)) {
      return kMost;
    }
  }
  return std::min(product, kMost);
}

}  // namespace gpemu::kernels
