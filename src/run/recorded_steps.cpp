// SPDX-License-Identifier: Apache-2.0
#include "recorded_steps.hpp"

#include <fmt/format.h>

namespace gpemu::run {
namespace {

constexpr std::size_t kGiveUpEvents = 1'000'000;
constexpr int kLinesShown = 15;

}  // namespace

std::vector<std::string> with_batch(std::vector<std::string> words, int batch) {
  if (batch == 0) return words;
  constexpr std::string_view kPlace = "{batch}";
  for (std::string& word : words) {
    for (std::size_t at = word.find(kPlace); at != std::string::npos; at = word.find(kPlace)) {
      word.replace(at, kPlace.size(), std::to_string(batch));
    }
  }
  return words;
}

bool recorded_enough(const Result<predict::FoundSteps>& found, std::size_t events,
                     std::size_t wanted) {
  const std::size_t last_step = found ? found->steps.back().end : 0;
  return (found && found->steps.size() >= wanted) || events - last_step >= kGiveUpEvents;
}

Result<predict::FoundSteps> steps_of_run(const record::ProgramWork* work,
                                         const predict::NamePattern* pattern, std::size_t wanted,
                                         const RunEnd& end) {
  const int code = end.exit_code.value_or(0);
  const std::string ended =
      code == 0 ? "the program ended" : fmt::format("the program ended with exit code {}", code);
  if (work == nullptr) {
    return fail(ErrorCode::kNotFound, "{} without using the GPU{}", ended, last_lines(end.output));
  }
  Result<predict::FoundSteps> found =
      predict::find_steps(*work, {.pattern = pattern, .complete = end.exit_code == 0});
  if (!found && code != 0) {
    return fail(ErrorCode::kNotFound, "{} before its second step{}{}{}", ended,
                end.not_computed.empty() ? "" : "; ", end.not_computed, last_lines(end.output));
  }
  // The number of further steps before the program was ended is random.
  if (found && found->steps.size() > wanted) found->steps.resize(wanted);
  return found;
}

std::string not_computed_text(std::span<const record::RecordedProcess> processes) {
  std::int64_t bytes = 0;
  const process::RecordedRead* most = nullptr;
  for (const record::RecordedProcess& process : processes) {
    bytes += process.totals.not_computed_bytes;
    for (const process::RecordedRead& read : process.totals.reads) {
      if (read.count > 0 && (most == nullptr || read.bytes > most->bytes)) most = &read;
    }
  }
  if (bytes == 0) return {};
  return fmt::format(
      "the program read {} bytes that were not computed: zeros, or values from before an in-place "
      "update{}; gpemu run lists them",
      bytes, most == nullptr ? "" : fmt::format(", most of {}", most->writer));
}

std::string last_lines(std::string_view output) {
  while (output.ends_with('\n')) output.remove_suffix(1);
  std::string shown;
  for (int i = 0; i < kLinesShown && !output.empty(); ++i) {
    const std::size_t line_break = output.rfind('\n');
    const std::size_t begin = line_break == std::string_view::npos ? 0 : line_break + 1;
    shown.insert(0, fmt::format("\n  | {}", output.substr(begin)));
    output = output.substr(0, begin == 0 ? 0 : line_break);
  }
  return shown;
}

}  // namespace gpemu::run
