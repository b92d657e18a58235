// SPDX-License-Identifier: Apache-2.0
#include "gpemu/mps/limits.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <ranges>

#include "gpemu/base/text.hpp"

namespace gpemu::mps {

Limits Limits::tightened(const Limits& other) const {
  Limits both = *this;
  both.active_thread_percentage =
      std::min(active_thread_percentage, other.active_thread_percentage);
  for (const auto& [device, bytes] : other.device_memory) {
    const auto [known, is_new] = both.device_memory.try_emplace(device, bytes);
    if (!is_new) known->second = std::min(known->second, bytes);
  }
  return both;
}

Bytes Limits::memory_of(int number, const std::string& uuid) const {
  Bytes least = std::numeric_limits<Bytes>::max();
  for (const std::string& key : {std::to_string(number), uuid}) {
    const auto found = device_memory.find(key);
    if (found != device_memory.end()) least = std::min(least, found->second);
  }
  return least;
}

Result<double> parse_percentage(std::string_view text) {
  double percentage = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), percentage);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  // Not a number compares as false.
  if (is_number && percentage > 0 && percentage <= 100) return percentage;
  return fail(ErrorCode::kInvalidArgument, "\"{}\" is no percentage above 0, up to 100",
              printable(text));
}

std::string percentage_text(double percentage) {
  return fmt::format("{:.1f}", percentage);
}

Result<Bytes> parse_size(std::string_view text) {
  Bytes number = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  const std::string_view unit(end, last);
  const Bytes factor = unit.empty()                 ? 1
                       : unit == "K" || unit == "k" ? kKiB
                       : unit == "M" || unit == "m" ? kMiB
                       : unit == "G" || unit == "g" ? kGiB
                                                    : 0;
  if (error != std::errc() || factor == 0 || number > std::numeric_limits<Bytes>::max() / factor) {
    return fail(ErrorCode::kInvalidArgument, "\"{}\" is no size such as 4G or 4096M",
                printable(text));
  }
  return number * factor;
}

Result<std::map<std::string, Bytes>> parse_device_memory(std::string_view text) {
  std::map<std::string, Bytes> memory;
  if (text.empty()) return fail(ErrorCode::kInvalidArgument, "there are no limits");
  for (const auto part : std::views::split(text, ',')) {
    const std::string_view entry(part.begin(), part.end());
    const std::size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      return fail(ErrorCode::kInvalidArgument, "\"{}\" is no list of limits such as 0=4G,1=4096M",
                  printable(text));
    }
    GPEMU_ASSIGN(const Bytes bytes, parse_size(entry.substr(equals + 1)));
    memory.insert_or_assign(std::string(entry.substr(0, equals)), bytes);
  }
  return memory;
}

std::string device_memory_text(const std::map<std::string, Bytes>& memory) {
  std::string text;
  for (const auto& [device, bytes] : memory) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", device, bytes);
  }
  return text;
}

int multiprocessors_of(double percentage, int all) {
  // In pairs. Source: 25 % of the 132 of an H200 were 32 (tools/measure/measure_sharing.py,
  // 2026-11-26); since Volta, a texture processing cluster has two.
  const int whole = static_cast<int>(std::floor(percentage * all / 100));
  return std::min(std::max(whole / 2 * 2, 2), all);
}

}  // namespace gpemu::mps
