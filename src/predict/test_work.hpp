// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "gpemu/kernels/described_operation.hpp"
#include "gpemu/record/program_work.hpp"

namespace gpemu::predict {

/// Makes a program's work for tests. In lower-case letters: each distinct name is an operation.
class WorkForTest {
 public:
  /// Adds an operation that takes `ns` in the recording.
  WorkForTest& add(std::string_view name, kernels::OperationClass group, int ns = 100,
                   std::int64_t thread = 1) {
    step::RecordedOperation operation;
    operation.kind = GPEMU_OPERATION_WAIT;
    operation.name = name;
    operation.operation_class = group;
    operation.shape[0].constant = ns;
    return add(operation, ns, thread);
  }

  WorkForTest& add(const step::RecordedOperation& operation, int ns, std::int64_t thread = 1) {
    int index = 0;
    while (index < std::ssize(work.operations) && work.operations[index] != operation) ++index;
    if (index == std::ssize(work.operations)) work.operations.push_back(operation);
    now_ += Duration(ns);
    work.events.push_back({.kind = record::WorkEvent::Kind::kOperation,
                           .index = index,
                           .thread = thread,
                           .time = now_,
                           .duration = Duration(ns)});
    return *this;
  }

  /// Adds operations, one a letter: l a layer, m another one, o an optimizer's kernel, p another
  /// one, e any other.
  WorkForTest& add_all(std::string_view letters) {
    using kernels::OperationClass;
    for (const char c : letters) {
      const bool layer = c == 'l' || c == 'm';
      const bool optimizer = c == 'o' || c == 'p';
      add(std::string(1, c), layer       ? OperationClass::kConvolution
                             : optimizer ? OperationClass::kOptimizer
                                         : OperationClass::kElementwise);
    }
    return *this;
  }

  WorkForTest& mark(record::WorkEvent::Kind kind) {
    work.events.push_back({.kind = kind, .thread = 1, .time = now_});
    return *this;
  }

  WorkForTest& range(std::string_view name) {
    int index = 0;
    while (index < std::ssize(work.names) && work.names[index] != name) ++index;
    if (index == std::ssize(work.names)) work.names.emplace_back(name);
    mark(record::WorkEvent::Kind::kRange);
    work.events.back().index = index;
    return *this;
  }

  record::ProgramWork work;

 private:
  TimePoint now_{};
};

}  // namespace gpemu::predict
