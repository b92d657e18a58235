// SPDX-License-Identifier: Apache-2.0
#include "gpemu/calibrate/nearest_gpu.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace gpemu::calibrate {

std::string_view nearest_gpu(std::string_view gpu) {
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr std::array kNearest = {Pair{"K80", "M40"},
                                   Pair{"M40", "P100-PCIE-16GB"},
                                   Pair{"P100-PCIE-16GB", "M40"},
                                   Pair{"V100-PCIE-32GB", "Quadro-RTX-6000"},
                                   Pair{"Quadro-RTX-6000", "V100-PCIE-32GB"},
                                   Pair{"A100-SXM4-40GB", "V100-PCIE-32GB"}};
  const auto found = std::ranges::find(kNearest, gpu, &Pair::first);
  return found == kNearest.end() ? std::string_view() : found->second;
}

}  // namespace gpemu::calibrate
