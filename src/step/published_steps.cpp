// SPDX-License-Identifier: Apache-2.0
#include "gpemu/step/published_steps.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"

#include "recording_fields.hpp"

namespace gpemu::step {
namespace {

using nlohmann::json;

constexpr std::string_view kPublishedFormat = "gpemu-published-operations-1";

/// Reads one file. Its functions return the first fault.
class PublishedFile {
 public:
  explicit PublishedFile(std::string path) : path_(std::move(path)) {}

  Result<void> read(std::string_view content, std::vector<PublishedStep>& steps) {
    while (!content.empty()) {
      const std::size_t end = std::min(content.find('\n'), content.size());
      source_ = fmt::format("{}:{}", path_, ++line_);
      const json object = json::parse(content.substr(0, end), nullptr, false);
      if (!object.is_object()) return fault("is not a JSON object");
      Fields fields(source_, "the line", object);
      if (line_ == 1) {
        GPEMU_TRY(read_head(fields));
      } else {
        GPEMU_ASSIGN(PublishedStep step, read_step(fields));
        steps.push_back(std::move(step));
      }
      content.remove_prefix(std::min(end + 1, content.size()));
    }
    return {};
  }

 private:
  [[nodiscard]] std::unexpected<Error> fault(std::string_view what) const {
    return fail(ErrorCode::kCorruptData, "{}: {}", source_, what);
  }

  Result<void> read_head(Fields& fields) {
    GPEMU_ASSIGN(const std::string format, fields.text("format"));
    if (format != kPublishedFormat) {
      return fail(ErrorCode::kIncompatible, "{}: format is \"{}\"; this gpemu reads \"{}\"",
                  source_, format, kPublishedFormat);
    }
    GPEMU_ASSIGN(head_.source, fields.text("source"));
    GPEMU_ASSIGN(head_.precision, fields.text("precision"));
    GPEMU_ASSIGN(head_.layout, fields.text("layout"));
    GPEMU_ASSIGN(const std::string phase, fields.text("phase"));
    head_.training = phase == "training";
    head_.is_operation = phase == "operations";
    if (!head_.training && !head_.is_operation && phase != "inference") {
      return fault("phase is not training, inference or operations");
    }
    GPEMU_ASSIGN(const json* const calls, fields.array("calls"));
    for (const json& call : *calls) {
      Fields call_fields(source_, "calls", call);
      GPEMU_ASSIGN(RecordedOperation operation, read_kind(call_fields));
      GPEMU_TRY(call_fields.end());
      calls_.push_back(std::move(operation));
    }
    return fields.end();
  }

  Result<PublishedStep> read_step(Fields& fields) {
    PublishedStep step = head_;
    GPEMU_ASSIGN(step.model, fields.text("model"));
    GPEMU_ASSIGN(const std::int64_t batch, fields.integer("batch", 1));
    step.batch = static_cast<int>(batch);
    GPEMU_ASSIGN(const std::int64_t size, fields.integer("size", 1));
    step.size = static_cast<int>(size);
    if (fields.has("copied")) {
      GPEMU_ASSIGN(step.copied, fields.integer("copied", 1));
    }
    GPEMU_ASSIGN(const json* const times, fields.object("ms"));
    for (const auto& [gpu, time] : times->items()) {
      if (!time.is_number() || time.get<double>() <= 0) return fault("ms has a time below 0");
      step.seconds.emplace_back(gpu, time.get<double>() * 1e-3);
    }
    GPEMU_ASSIGN(const json* const operations, fields.array("operations"));
    if (operations->empty()) return fault("operations is empty");
    for (const json& entry : *operations) {
      GPEMU_ASSIGN(CountedOperation operation, read_operation(entry));
      step.operations.push_back(std::move(operation));
    }
    GPEMU_TRY(fields.end());
    return step;
  }

  /// An operation is its call, its counts forward and backward, and its shape.
  [[nodiscard]] Result<CountedOperation> read_operation(const json& entry) const {
    constexpr std::int64_t kMost = std::int64_t{1} << 50;
    constexpr std::int64_t kMostOften = 1 << 24;
    constexpr std::size_t kShape = 3;
    const auto whole = [](const json& value) {
      return value.is_number_integer() && value >= 0 && value <= kMost;
    };
    if (!entry.is_array() || entry.size() < kShape ||
        entry.size() > GPEMU_OPERATION_SHAPE_LENGTH + kShape ||
        !std::ranges::all_of(entry, whole) || entry[0] >= calls_.size() || entry[1] > kMostOften ||
        entry[2] > kMostOften || (entry[1] == 0 && entry[2] == 0)) {
      return fault("an operation is not a call, two counts and a shape, or both counts are 0");
    }
    CountedOperation counted{.operation = calls_[entry[0].get<std::size_t>()],
                             .forward = entry[1].get<int>(),
                             .backward = entry[2].get<int>()};
    // Recordings did not tell the layout of normalizations, but steps have one.
    const bool images = entry.size() > kShape + 1 && entry[kShape + 1] > 0;
    const gpemu_operation_kind kind = counted.operation.kind;
    if (head_.layout == "nhwc" && images &&
        (kind == GPEMU_OPERATION_NORMALIZATION_FORWARD ||
         kind == GPEMU_OPERATION_NORMALIZATION_BACKWARD)) {
      counted.operation.channels_last = 1;
    }
    for (std::size_t i = kShape; i < entry.size(); ++i) {
      counted.operation.shape[i - kShape].constant = entry[i].get<std::int64_t>();
    }
    return counted;
  }

  std::string path_;
  std::string source_;  ///< file and line.
  int line_ = 0;
  PublishedStep head_;
  std::vector<RecordedOperation> calls_;
};

}  // namespace

Result<std::vector<PublishedStep>> read_published_steps(const std::filesystem::path& folder) {
  GPEMU_ASSIGN(std::vector<std::filesystem::path> files, list_folder(folder));
  std::erase_if(files, [](const auto& file) { return file.extension() != ".jsonl"; });
  if (files.empty())
    return fail(ErrorCode::kNotFound, "{} has no steps (*.jsonl)", folder.string());
  std::vector<PublishedStep> steps;
  for (const std::filesystem::path& file : files) {
    GPEMU_ASSIGN(const std::string content, read_file(file));
    GPEMU_TRY(PublishedFile(file.string()).read(content, steps));
  }
  return steps;
}

}  // namespace gpemu::step
