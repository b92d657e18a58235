// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/oci_runtime.hpp"

int main(int argc, char** argv) {
  return gpemu::tools::run_oci_runtime({argv + std::min(argc, 1), argv + argc});
}
