// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpemu::data {

struct ImageSize {
  int width = 0;
  int height = 0;
};

/// A rectangle of pixels within an image.
struct Region {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
};

}  // namespace gpemu::data
