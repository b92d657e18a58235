// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpemu/base/error.hpp"
#include "gpemu/experiment/expression.hpp"
#include "gpemu/profile/experiment_spec.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using gpemu::experiment::Value;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto dataset = gpemu::profile::parse_dataset_spec(text, "fuzz");
  if (dataset) GPEMU_CHECK(dataset->percentiles.back().first == 100, "it has all files");
  const auto experiment = gpemu::profile::parse_experiment_spec(text, "fuzz");
  if (!experiment) {
    GPEMU_CHECK(experiment.error().message.starts_with("fuzz:"), "a message without its place");
    return 0;
  }
  const auto names = [](std::string_view name) -> gpemu::Result<Value> {
    return name.contains('.') ? Value{2} : Value{1, 2, 3};
  };
  for (const auto& column : experiment->columns) {
    const auto value = gpemu::experiment::compute(column.value, names);
    GPEMU_CHECK(!value || !value->empty(), "a value without numbers");
  }
  for (const auto& check : experiment->checks) {
    static_cast<void>(gpemu::experiment::compare(check.test, names));
  }
  return 0;
}
