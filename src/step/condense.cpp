// SPDX-License-Identifier: Apache-2.0
//
// Recordings for any batch, from recordings at some batches.
#include "condense.hpp"

#include <algorithm>
#include <charconv>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <span>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "gpemu/base/file.hpp"
#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/step/recording.hpp"

#include "recording_fields.hpp"

namespace gpemu::step {
namespace {

using nlohmann::json;

constexpr std::string_view kOperationsFormat = "gpemu-operations-2";

/// Operations in the order of the requests; their shapes have no slopes.
struct Step {
  std::vector<RecordedOperation> operations;
  HeldMemory memory;
};

struct JoinedRecordings {
  std::string phase;
  std::map<int, Step> by_batch;
};

struct RecordedModel {
  std::string gpu;
  std::vector<JoinedRecordings> phases;
};

struct Models {
  std::map<std::string, RecordedModel> by_name;
  std::deque<std::vector<MemoryChange>> histories;  ///< of the processes.
};

struct RangeName {
  std::string model;
  int batch = 0;
  std::string phase;
};

/// Splits "MODEL batch=BATCH PHASE"; returns nothing for other names. The model becomes a file
/// name.
std::optional<RangeName> range_name(std::string_view text) {
  constexpr std::string_view kBatch = " batch=";
  const std::size_t found = text.find(kBatch);
  if (found == std::string_view::npos || found == 0 || text.front() == '.') return std::nullopt;
  RangeName name{.model = std::string(text.substr(0, found))};
  const bool plain = std::ranges::all_of(name.model, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
  });
  const std::string_view rest = text.substr(found + kBatch.size());
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), name.batch);
  if (!plain || error != std::errc() || name.batch < 1) return std::nullopt;
  const auto digits = static_cast<std::size_t>(end - rest.data());
  if (digits + 1 >= rest.size() || rest[digits] != ' ') return std::nullopt;
  name.phase = std::string(rest.substr(digits + 1));
  return name;
}

/// Returns a kernel's name without namespaces, templates and arguments: the last of the consecutive
/// names after "_ZN". Other names stay as they are. Source: the Itanium C++ ABI, mangling.
std::string plain_name(std::string_view name) {
  if (!name.starts_with("_Z")) return std::string(name);
  std::string_view rest = name.substr(2);
  if (rest.starts_with('N')) rest.remove_prefix(1);
  std::string_view last = name;
  while (!rest.empty()) {
    if (rest.front() == 'L') rest.remove_prefix(1);  // Of one file only.
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<std::size_t>(end - rest.data());
    if (error != std::errc() || length > rest.size() - digits) break;
    last = rest.substr(digits, length);
    rest.remove_prefix(digits + length);
  }
  return std::string(last);
}

/// Reads one file of operations into the models. Its functions return the first fault.
class OperationsFile {
 public:
  OperationsFile(std::string path, Models& models) : path_(std::move(path)), models_(models) {}

  Result<void> read() {
    // A model's steps take some 10 MB.
    GPEMU_ASSIGN(const std::string content, read_file(path_, 4096 * kMiB));
    std::string_view rest = content;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      ++line_;
      GPEMU_TRY(read_line(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (line_ == 0) return fault("is empty");
    return {};
  }

 private:
  [[nodiscard]] std::string place() const { return fmt::format("{}:{}", path_, line_); }

  [[nodiscard]] std::unexpected<Error> fault(std::string_view what) const {
    return fail(ErrorCode::kCorruptData, "{}: {}", place(), what);
  }

  Result<void> read_line(std::string_view text) {
    const json line = json::parse(text, nullptr, false);
    if (!line.is_object()) return fault("is not a JSON object");
    const std::string source = place();
    Fields fields(source, "the line", line);
    if (line_ == 1) return read_head(fields);
    if (fields.has("process")) return read_process(fields);
    if (fields.has("mark")) return read_mark(fields);
    if (fields.has("op")) return read_operation(fields);
    if (fields.has("memory")) return read_memory(fields);
    GPEMU_ASSIGN(const std::int64_t number, fields.integer("name", 0));
    GPEMU_ASSIGN(const std::string name, fields.text("text"));
    names_[number] = plain_name(name);
    return {};
  }

  Result<void> read_head(Fields& fields) {
    GPEMU_ASSIGN(const std::string format, fields.text("format"));
    if (format != kOperationsFormat) {
      return fail(ErrorCode::kIncompatible, "{}: format is \"{}\"; this gpemu reads \"{}\"",
                  place(), format, kOperationsFormat);
    }
    GPEMU_ASSIGN(const json* const gpus, fields.array("gpus"));
    if (gpus->size() != 1 || !gpus->front().is_string()) {
      return fail(ErrorCode::kInvalidArgument, "{}: the run must have exactly one GPU", place());
    }
    gpu_ = gpus->front().get<std::string>();
    return {};
  }

  Result<void> read_process(Fields& fields) {
    GPEMU_ASSIGN(const std::int64_t left_out, fields.integer("lines_left_out", 0));
    if (left_out > 0) {
      return fail(ErrorCode::kInvalidArgument,
                  "{}: {} lines were left out because there was no space", place(), left_out);
    }
    names_.clear();
    open_.clear();
    current_ = nullptr;
    moment_ = {.history = &models_.histories.emplace_back()};
    return {};
  }

  Result<void> read_memory(Fields& fields) {
    GPEMU_ASSIGN(const std::int64_t bytes, fields.integer("memory", INT64_MIN));
    GPEMU_ASSIGN(const std::int64_t address, fields.integer("address", 0));
    if (models_.histories.empty()) return fault("belongs to no process");
    models_.histories.back().push_back({static_cast<std::uint64_t>(address), bytes});
    ++moment_.changes;
    moment_.held += bytes;
    return {};
  }

  Result<void> read_mark(Fields& fields) {
    GPEMU_ASSIGN(const std::string mark, fields.text("mark"));
    GPEMU_ASSIGN(const std::int64_t thread, fields.integer("thread", 0));
    std::vector<bool>& ranges = open_[thread];  // True: is what `current_` belongs to.
    if (mark == "push") {
      GPEMU_ASSIGN(const std::string text, fields.text("text"));
      const std::optional<RangeName> name = range_name(text);
      ranges.push_back(name.has_value());
      if (name) return begin(*name, text);
    } else if (mark == "pop" && !ranges.empty()) {
      if (ranges.back() && current_ != nullptr) {
        current_->memory.end = moment_;
        current_ = nullptr;
      }
      ranges.pop_back();
    }
    return {};
  }

  Result<void> begin(const RangeName& name, const std::string& text) {
    if (current_ != nullptr) {
      return fail(ErrorCode::kInvalidArgument, "{}: range \"{}\" lies inside another range",
                  place(), text);
    }
    RecordedModel& model = models_.by_name[name.model];
    if (!model.gpu.empty() && model.gpu != gpu_) {
      return fail(ErrorCode::kInvalidArgument, "{}: {} was recorded on {} and on {}", place(),
                  name.model, model.gpu, gpu_);
    }
    model.gpu = gpu_;
    auto steps = std::ranges::find(model.phases, name.phase, &JoinedRecordings::phase);
    if (steps == model.phases.end()) {
      steps = model.phases.insert(steps, {.phase = name.phase, .by_batch = {}});
    }
    const auto [step, added] = steps->by_batch.try_emplace(name.batch);
    if (!added) {
      return fail(ErrorCode::kInvalidArgument, "{}: range \"{}\" occurs twice", place(), text);
    }
    current_ = &step->second;
    return {};
  }

  Result<void> read_operation(Fields& fields) {
    if (current_ == nullptr) return {};
    GPEMU_ASSIGN(const std::string kind, fields.text("op"));
    static constexpr std::array kLinkCopies = {"copy_host_to_device", "copy_device_to_host",
                                               "copy_to_peer"};
    if (std::ranges::find(kLinkCopies, kind) != kLinkCopies.end()) {
      return fail(ErrorCode::kInvalidArgument,
                  "{}: a {} lies in a recorded range; begin ranges after copies over the link and "
                  "end them before the next",
                  place(), kind);
    }
    GPEMU_ASSIGN(RecordedOperation operation, read_kind(fields));
    GPEMU_ASSIGN(const std::int64_t number, fields.integer("name", 0));
    const auto name = names_.find(number);
    if (name == names_.end()) return fault("no earlier line defines its name");
    operation.name = name->second;
    // Copies have no shape.
    if (operation.kind == GPEMU_OPERATION_COPY_ON_DEVICE && fields.has("bytes")) {
      GPEMU_ASSIGN(operation.shape[0].constant, fields.integer("bytes", 0));
    } else {
      GPEMU_ASSIGN(const json* const shape, fields.array("shape"));
      if (shape->size() > operation.shape.size()) return fault("its shape is too long");
      for (std::size_t i = 0; i < shape->size(); ++i) {
        if (!(*shape)[i].is_number_integer())
          return fault("its shape has entries that are not whole numbers");
        operation.shape[i].constant = (*shape)[i].get<std::int64_t>();
      }
    }
    // A PyTorch reduction in which blocks share an output sets their counters to zero first. That
    // depends on the batch, and such a small set is not work of the model. Source:
    // gpu_reduce_kernel in aten/src/ATen/native/cuda/Reduce.cuh.
    auto& operations = current_->operations;
    if (operation.name == "reduce_kernel" && !operations.empty() &&
        operations.back().kind == GPEMU_OPERATION_SET) {
      operations.pop_back();
      current_->memory.moments.pop_back();
    }
    operations.push_back(std::move(operation));
    current_->memory.moments.push_back(moment_);
    return {};
  }

  std::string path_;
  Models& models_;
  std::string gpu_;
  int line_ = 0;
  std::map<std::int64_t, std::string> names_;
  std::map<std::int64_t, std::vector<bool>> open_;  ///< ranges, by thread.
  Step* current_ = nullptr;
  Moment moment_;  ///< the current position in the file.
};

/// Returns an operation without its shape.
RecordedOperation shapeless(RecordedOperation operation) {
  operation.shape = {};
  return operation;
}

/// Makes one operation from those at the same place of each batch's step. `where` names the place.
Result<RecordedOperation> join(std::span<const int> batches,
                               std::span<const RecordedOperation* const> at_batches,
                               const std::string& where) {
  RecordedOperation result = shapeless(*at_batches.front());
  for (const RecordedOperation* const other : at_batches) {
    if (shapeless(*other) == result) continue;
    return fail(ErrorCode::kInvalidArgument,
                "{}: {} ({}) at one batch and {} ({}) at another, or they differ in type or access",
                where, result.name, kernels::kOperationKindNames[result.kind], other->name,
                kernels::kOperationKindNames[other->kind]);
  }
  for (std::size_t i = 0; i < result.shape.size(); ++i) {
    std::vector<std::int64_t> values;
    values.reserve(at_batches.size());
    for (const RecordedOperation* const other : at_batches) {
      values.push_back(other->shape[i].constant);
    }
    const std::optional<AffineEntry> entry = affine(batches, values);
    if (!entry) {
      return fail(ErrorCode::kInvalidArgument,
                  "{}: {} ({}): shape[{}] is {} at batches {}: not affine", where, result.name,
                  kernels::kOperationKindNames[result.kind], i, fmt::join(values, ", "),
                  fmt::join(batches, ", "));
    }
    result.shape[i] = *entry;
  }
  return result;
}

Result<RecordedPhase> join_phase(const JoinedRecordings& steps, Recording& recording) {
  RecordedPhase phase{.name = steps.phase, .operations = {}};
  std::vector<int> batches;
  batches.reserve(steps.by_batch.size());
  for (const auto& [batch, step] : steps.by_batch) batches.push_back(batch);
  const std::string where = fmt::format("{} {}", recording.model, steps.phase);
  if (recording.batches.empty()) recording.batches = batches;
  if (batches != recording.batches || std::ssize(batches) < kFewestBatches) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: recorded at batches {}; needs {} or more, the same for each phase", where,
                fmt::join(batches, ", "), kFewestBatches);
  }
  const auto& first = steps.by_batch.begin()->second.operations;
  for (const auto& [batch, step] : steps.by_batch) {
    if (step.operations.size() == first.size()) continue;
    return fail(ErrorCode::kInvalidArgument, "{}: {} operations at batch {}, {} at batch {}", where,
                first.size(), batches.front(), step.operations.size(), batch);
  }
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::vector<const RecordedOperation*> at_batches;
    at_batches.reserve(batches.size());
    for (const auto& [batch, step] : steps.by_batch) at_batches.push_back(&step.operations[i]);
    GPEMU_ASSIGN(RecordedOperation operation,
                 join(batches, at_batches, fmt::format("{} operation {}", where, i)));
    auto& known = recording.operations;
    const auto found = std::ranges::find(known, operation);
    phase.operations.push_back(static_cast<int>(found - known.begin()));
    if (found == known.end()) known.push_back(std::move(operation));
  }
  return phase;
}

/// Returns the memory that the phases together held at each batch.
std::vector<HeldMemory> held_memory(const RecordedModel& model) {
  std::vector<HeldMemory> steps(model.phases.front().by_batch.size());
  for (const JoinedRecordings& phase : model.phases) {
    std::size_t i = 0;
    for (const auto& [batch, step] : phase.by_batch) {
      HeldMemory& held = steps[i++];
      std::ranges::copy(step.memory.moments, std::back_inserter(held.moments));
      held.end = step.memory.end;
    }
  }
  return steps;
}

}  // namespace

std::optional<AffineEntry> affine(std::span<const int> batches,
                                  std::span<const std::int64_t> values) {
  const std::int64_t step = batches[1] - batches[0];
  std::int64_t difference = 0, change = 0, value = 0;
  AffineEntry entry;
  if (__builtin_sub_overflow(values[1], values[0], &difference) || difference % step != 0) {
    return std::nullopt;
  }
  entry.slope = difference / step;
  if (__builtin_mul_overflow(entry.slope, batches[0], &change) ||
      __builtin_sub_overflow(values[0], change, &entry.constant)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < batches.size(); ++i) {
    if (__builtin_mul_overflow(entry.slope, batches[i], &change) ||
        __builtin_add_overflow(entry.constant, change, &value) || value != values[i]) {
      return std::nullopt;
    }
  }
  return entry;
}

Result<std::vector<Recording>> condense(const std::vector<std::filesystem::path>& files) {
  Models models;
  for (const std::filesystem::path& file : files) {
    GPEMU_TRY(OperationsFile(file.string(), models).read());
  }
  std::vector<Recording> recordings;
  for (const auto& [name, model] : models.by_name) {
    Recording recording{.model = name,
                        .gpu = model.gpu,
                        .batches = {},
                        .operations = {},
                        .phases = {},
                        .memory = {}};
    for (const JoinedRecordings& steps : model.phases) {
      GPEMU_ASSIGN(RecordedPhase phase, join_phase(steps, recording));
      recording.phases.push_back(std::move(phase));
    }
    recording.memory = join_memory(recording.batches, held_memory(model));
    recordings.push_back(std::move(recording));
  }
  if (recordings.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "the recording contains no range \"MODEL batch=BATCH PHASE\"");
  }
  return recordings;
}

}  // namespace gpemu::step
