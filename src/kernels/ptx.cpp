// SPDX-License-Identifier: Apache-2.0
#include "gpemu/kernels/ptx.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <limits>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "gpemu/kernels/arguments.hpp"
#include "gpemu/kernels/kernel_name.hpp"

namespace gpemu::kernels {
namespace {

/// The parameters from which a register was computed.
using Origins = std::uint64_t;
/// It may also have been loaded from memory.
constexpr Origins kLoaded = Origins{1} << 63;
constexpr std::size_t kMostParameters = 62;

constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$' || c == '%';
}

std::string_view unpadded(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.remove_suffix(1);
  }
  return text;
}

/// Returns the text without comments and lines that are not instructions.
std::string plain_text(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(std::string_view("\n\0", 2)), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line = unpadded(line.substr(0, line.find("//")));
    if (line.starts_with(".loc") || line.starts_with(".file")) continue;
    plain.append(line).push_back('\n');
  }
  return plain;
}

/// A statement's operation and operands.
struct Statement {
  std::string_view operation;
  std::vector<std::string_view> operands;
};

/// Splits at commas outside of brackets.
std::vector<std::string_view> split_operands(std::string_view text) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t start = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    const char c = at < text.size() ? text[at] : ',';
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c != ',' || (depth > 0 && at < text.size())) continue;
    if (const auto part = unpadded(text.substr(start, at - start)); !part.empty()) {
      parts.push_back(part);
    }
    start = at + 1;
  }
  return parts;
}

Statement read_statement(std::string_view text) {
  if (text.starts_with('@')) {
    text = unpadded(text.substr(std::min(text.find_first_of(" \t\n"), text.size())));
  }
  const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
  return {.operation = text.substr(0, end), .operands = split_operands(text.substr(end))};
}

/// Calls `found` for each name in an operand, but not for numbers.
template <typename Found>
void for_each_name(std::string_view operand, Found found) {
  for (std::size_t at = 0; at < operand.size();) {
    if (!is_word(operand[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < operand.size() && is_word(operand[end])) ++end;
    if (std::isdigit(static_cast<unsigned char>(operand[at])) == 0) {
      found(operand.substr(at, end - at));
    }
    at = end;
  }
}

/// Returns the size of an operation's type, with which its name ends, and of all elements of a
/// vector.
std::pair<std::uint32_t, Bytes> access_bytes(std::string_view operation) {
  const std::size_t dot = operation.rfind('.');
  std::string_view type = operation.substr(dot == std::string_view::npos ? 0 : dot + 1);
  while (!type.empty() && std::isdigit(static_cast<unsigned char>(type.front())) == 0) {
    type.remove_prefix(1);
  }
  unsigned bits = 0;
  std::from_chars(type.data(), type.data() + type.size(), bits);
  if (contains(type, "x2")) bits *= 2;
  const std::uint32_t bytes = std::clamp(bits / 8, 1U, 16U);
  const Bytes elements = contains(operation, ".v8")   ? 8
                         : contains(operation, ".v4") ? 4
                         : contains(operation, ".v2") ? 2
                                                      : 1;
  return {bytes, bytes * elements};
}

class KernelReader {
 public:
  /// Reads the parameters of a kernel that begins at its list of parameters, and its body.
  std::optional<PtxFacts> read(std::string_view text) {
    const std::size_t end = text.find(')');
    const std::size_t open = text.find('{', end);
    if (end == std::string_view::npos || open == std::string_view::npos) return std::nullopt;
    if (!read_parameters(text.substr(1, end - 1))) return std::nullopt;
    read_body(text.substr(open + 1));
    for (changed_ = true; changed_ && known_;) {
      changed_ = false;
      for (const Statement& statement : statements_) follow(statement);
    }
    for (std::size_t i = 0; i < statements_.size() && known_; ++i) look_at_memory(i);
    if (!known_) return std::nullopt;
    return facts();
  }

 private:
  struct Use {
    std::size_t first_read = kNever, first_write = kNever;
    WrittenParameter written;
  };

  bool read_parameters(std::string_view list) {
    bool any_marked = false;
    Origins marked = 0;
    for (const std::string_view parameter : split_operands(list)) {
      const std::size_t index = names_.size();
      if (index == kMostParameters) return false;
      std::string_view name;
      for_each_name(parameter, [&name](std::string_view word) { name = word; });
      if (parameter.ends_with(']')) name = {};
      const auto is = [parameter](std::string_view part) { return contains(parameter, part); };
      names_.push_back(name);
      const Origins bit = Origins{1} << index;
      const bool wide = is(".u64") || is(".b64") || is(".s64");
      facts_.wide.push_back(wide);
      if (wide) pointers_ |= bit;
      if (is(".ptr")) marked |= bit;
      any_marked |= is(".ptr");
      if (is(".u32") || is(".b32") || is(".s32")) {
        facts_.integers.push_back({.argument = static_cast<std::uint32_t>(index)});
      }
      by_name_.emplace(name, index);
    }
    if (any_marked) pointers_ = marked;
    uses_.resize(names_.size());
    return true;
  }

  void read_body(std::string_view body) {
    int depth = 1;
    std::size_t start = 0;
    for (std::size_t at = 0; at < body.size() && depth > 0; ++at) {
      const std::string_view before = unpadded(body.substr(start, at - start));
      switch (body[at]) {
        case '{':
        case '}':  // Of a block, unless an operand is begun.
          if (!before.empty()) break;
          depth += body[at] == '{' ? 1 : -1;
          start = at + 1;
          break;
        case ':':
          if (!std::ranges::all_of(before, is_word) || before.empty()) break;
          labels_.emplace(before, statements_.size());
          start = at + 1;
          break;
        case ';':
          if (!before.starts_with('.')) add_statement(before);
          start = at + 1;
          break;
        default:
          break;
      }
    }
  }

  void add_statement(std::string_view text) {
    if (text.empty()) return;
    statements_.push_back(read_statement(text));
    const Statement& statement = statements_.back();
    if (!statement.operation.starts_with("bra") || statement.operands.empty()) return;
    const auto label = labels_.find(statement.operands.back());
    if (label != labels_.end()) loops_.emplace_back(label->second, statements_.size());
  }

  [[nodiscard]] Origins origins_of(std::string_view operand) const {
    Origins origins = 0;
    for_each_name(operand, [&](std::string_view name) {
      const auto found = origins_.find(name);
      if (found != origins_.end()) origins |= found->second;
    });
    return origins;
  }

  void set(std::string_view operand, Origins origins) {
    for_each_name(operand, [&](std::string_view name) {
      Origins& of = origins_[name];
      changed_ |= (of | origins) != of;
      of |= origins;
    });
  }

  /// Follows the effect of a statement on registers.
  void follow(const Statement& statement) {
    const std::string_view operation = statement.operation;
    const auto& operands = statement.operands;
    if (operands.size() < 2 || operation.starts_with("st") || operation.starts_with("red.")) return;
    if (operation.starts_with("call")) return;
    if (operation.starts_with("ld.param")) {
      Origins origins = kLoaded;  // Results of functions.
      for_each_name(operands[1], [&](std::string_view name) {
        const auto found = by_name_.find(name);
        if (found != by_name_.end()) origins = Origins{1} << found->second;
      });
      copies_.insert(operands[0]);
      return set(operands[0], origins);
    }
    if (operation.starts_with("ld") || operation.starts_with("atom")) {
      return set(operands[0], access_bytes(operation).first == 8 ? kLoaded : 0);
    }
    const bool moves = operation.starts_with("cvta") || operation.starts_with("mov");
    if (moves && operands.size() == 2 && copies_.contains(operands[1])) {
      copies_.insert(operands[0]);
    } else {
      copies_.erase(operands[0]);
    }
    Origins origins = 0;
    for (std::size_t i = 1; i < operands.size(); ++i) {
      origins |= origins_of(operands[i]);
      for_each_name(operands[i], [this](std::string_view name) {
        if (by_name_.contains(name)) known_ = false;  // A parameter's own address.
      });
    }
    set(operands[0], origins);
  }

  void look_at_memory(std::size_t at) {
    const Statement& statement = statements_[at];
    const std::string_view operation = statement.operation;
    const auto starts = [operation](std::string_view part) { return operation.starts_with(part); };
    if (starts("call")) {
      const bool harmless = std::ranges::any_of(statement.operands, [](std::string_view operand) {
        return contains(operand, "__assertfail") || contains(operand, "vprintf");
      });
      known_ &= harmless;
      return;
    }
    const bool copies = starts("cp.");
    const bool reads = starts("ld") || starts("atom") || starts("red.") || copies;
    const bool writes = starts("st.") || starts("atom") || starts("red.");
    if (copies && !contains(operation, ".global")) return;
    if (copies && operation.find(".shared") > operation.find(".global")) known_ = false;
    if (starts("multimem") || starts("tensormap") || starts("cp.reduce") || starts("surf") ||
        starts("sust")) {
      known_ = false;
    }
    const bool elsewhere = contains(operation, ".shared") || contains(operation, ".local") ||
                           contains(operation, ".param") || contains(operation, "matrix") ||
                           starts("tcgen05");
    if (elsewhere && !copies) return;
    if (!reads && !writes) {
      // Any statement with an address may write there, as wmma.store does.
      known_ &=
          std::ranges::none_of(statement.operands,
                               [](std::string_view operand) { return operand.starts_with('['); }) ||
          starts("prefetch");
      return;
    }
    for (std::size_t i = 0; i < statement.operands.size(); ++i) {
      const std::string_view operand = statement.operands[i];
      if (!operand.starts_with('[') || (copies && i == 0)) continue;
      const Origins origins = origins_of(operand);
      if (reads) note(origins, &Use::first_read, at);
      if (!writes) continue;
      if ((origins & pointers_) == 0) known_ = false;
      note(origins, &Use::first_write, at);
      add_write(origins, at, operand);
    }
  }

  void note(Origins origins, std::size_t Use::* first, std::size_t at) {
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      if ((origins >> i & 1) != 0) uses_[i].*first = std::min(uses_[i].*first, at);
    }
  }

  /// Returns whether an operand such as "[ %rd1 + 0 ]" is what a parameter holds.
  [[nodiscard]] bool is_pointer_itself(std::string_view operand) const {
    std::size_t names = 0;
    bool itself = true;
    for_each_name(operand, [&](std::string_view name) {
      ++names;
      itself &= copies_.contains(name);
    });
    const std::size_t offset = operand.find_first_of("+-");
    return itself && names == 1 &&
           (offset == std::string_view::npos || unpadded(operand.substr(offset)) == "+ 0]" ||
            unpadded(operand.substr(offset)) == "+ 0 ]");
  }

  void add_write(Origins origins, std::size_t at, std::string_view operand) {
    const std::pair<std::uint32_t, Bytes> bytes = access_bytes(statements_[at].operation);
    const bool in_loop = std::ranges::any_of(
        loops_, [at](const auto& loop) { return at >= loop.first && at < loop.second; });
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      if ((origins >> i & 1) == 0) continue;
      WrittenParameter& written = uses_[i].written;
      written.in_loop |= in_loop;
      written.bytes_of_thread += bytes.second;
      written.fixed &= is_pointer_itself(operand);
      written.element_bytes = std::max(written.element_bytes, bytes.first);
    }
  }

  PtxFacts facts() {
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      Use& use = uses_[i];
      const bool is_pointer = (pointers_ >> i & 1) != 0;
      if (use.first_read != kNever && is_pointer) {
        facts_.read.push_back(static_cast<std::uint32_t>(i));
      }
      if (use.first_write == kNever || !is_pointer) continue;
      use.written.argument = static_cast<std::uint32_t>(i);
      use.written.updates = use.first_read <= use.first_write;
      facts_.written.push_back(use.written);
    }
    return std::move(facts_);
  }

  std::vector<std::string_view> names_;  ///< of parameters.
  std::unordered_map<std::string_view, std::size_t> by_name_;
  Origins pointers_ = 0;  ///< the parameters that may be addresses.
  std::vector<Statement> statements_;
  std::unordered_map<std::string_view, std::size_t> labels_;  ///< the statement after each.
  std::vector<std::pair<std::size_t, std::size_t>> loops_;    ///< of statements.
  std::unordered_map<std::string_view, Origins> origins_;     ///< of registers.
  std::unordered_set<std::string_view> copies_;               ///< registers that hold a parameter.
  std::vector<Use> uses_;                                     ///< of parameters.
  PtxFacts facts_;
  bool changed_ = false;
  bool known_ = true;
};

}  // namespace

std::optional<PtxFacts> read_ptx(std::string_view text, std::string_view kernel) {
  const std::string plain = plain_text(text);
  constexpr std::string_view kEntry = ".entry";
  for (std::size_t at = plain.find(kEntry); at != std::string::npos; at = plain.find(kEntry, at)) {
    at += kEntry.size();
    const std::string_view rest = std::string_view(plain).substr(at);
    const std::size_t open = rest.find('(');
    if (open == std::string_view::npos) break;
    if (unpadded(rest.substr(0, open)) == kernel) return KernelReader().read(rest.substr(open));
  }
  return std::nullopt;
}

}  // namespace gpemu::kernels
