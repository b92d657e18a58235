// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpemu::device {

/// Two NVLinks join two devices of the kind A below one host bridge.
inline constexpr const char* kPairOfA = R"(
name = "pair"
title = "A pair"
gpu = "A"
sockets = ["A processor"]
[[bridge]]
name = "cpu0"
socket = 0
numa_node = 0
gpus = [0, 1]
source = "us"
[nvlink]
bonds = [[0, 1, 2]]
source = "us"
[sources]
us = "made up"
)";

}  // namespace gpemu::device
