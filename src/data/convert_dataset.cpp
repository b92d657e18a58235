// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/convert_dataset.hpp"

#include <algorithm>
#include <memory>

#include "gpemu/data/sample_reader.hpp"

#include "sample_writer.hpp"

namespace gpemu::data {
namespace {

Result<void> check_convert_options(const ConvertOptions& options) {
  if (options.group < 1) {
    return fail(ErrorCode::kInvalidArgument, "a group has {} images; it must have at least 1",
                options.group);
  }
  if (options.shard_bytes < 1) {
    return fail(ErrorCode::kInvalidArgument, "a file of many samples has at least one byte");
  }
  return {};
}

/// The names of classes stand in lines of text, and some name folders.
Result<void> check_class_names(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const bool plain = !name.empty() && std::ranges::none_of(name, [](char c) {
      return static_cast<unsigned char>(c) < ' ' || c == '\x7f';
    });
    if (plain) continue;
    return fail(ErrorCode::kInvalidArgument,
                "the name of class '{}' is empty or has control characters; rename it", name);
  }
  return {};
}

}  // namespace

Result<void> convert_dataset(const Dataset& source, const std::filesystem::path& target,
                             const ConvertOptions& options) {
  GPEMU_TRY(check_convert_options(options));
  GPEMU_TRY(check_class_names(source.classes()));
  SamplesToCome to_come{.classes = source.classes()};
  for (const Sample& sample : source.samples()) {
    to_come.largest = std::max(to_come.largest, sample.bytes);
  }
  GPEMU_ASSIGN(const std::unique_ptr<SampleWriter> writer, create_writer(target, to_come, options));
  const ReadOrder order = options.shuffle ? ReadOrder::kRandom : ReadOrder::kSequential;
  SampleReader reader(source);
  std::int64_t done = 0;
  for (const std::uint32_t sample : source.epoch_order(order, 1, options.seed, 0)) {
    if (options.stop != nullptr && options.stop->load(std::memory_order_relaxed)) {
      return fail(ErrorCode::kInterrupted, "stopped; no data set was made");
    }
    GPEMU_TRY(reader.read(sample));
    const auto image = reader.image();
    if (!image) {
      return fail(image.error().code, "{}: {}", source.sample_name(sample), image.error().message);
    }
    GPEMU_TRY(writer->add(source.samples()[sample].label, *image));
    if (options.progress) options.progress(++done);
  }
  return writer->commit();
}

}  // namespace gpemu::data
