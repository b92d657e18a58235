// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "gpemu/base/units.hpp"

namespace gpemu::step {

/// The gradient of a parameter.
struct Gradient {
  Bytes bytes = 0;   ///< in FP32.
  Duration ready{};  ///< when it exists, from the start of StepCost::backward_optimizer.
};

/// What a step consists of, by the model's recorded operations.
struct StepParts {
  std::vector<Gradient> gradients;  ///< of all parameters, in the order in which they are computed.
  Duration optimizer{};             ///< what follows the last gradient.
  Bytes output_bytes = 0;           ///< of the forward pass, of one sample.
  // The fully connected layers after the last convolution:
  std::size_t head_gradients = 0;  ///< the first of the gradients are theirs.
  Bytes head_input_bytes = 0;      ///< of one sample.
};

/// How long the fully connected layers after a network's last convolution take.
struct HeadTime {
  Duration forward{};
  Duration backward{};
};

}  // namespace gpemu::step
