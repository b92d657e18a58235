// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

#include <jpeglib.h>

#include "gpemu/base/units.hpp"
#include "gpemu/data/image.hpp"
#include "gpemu/sim/random.hpp"

namespace gpemu::data {

/// Makes JPEG images of a wanted file size that resemble photographs. Keeps its buffers between
/// images.
///
/// Thread safety: none.
class ImageSynthesizer {
 public:
  ImageSynthesizer();
  ImageSynthesizer(const ImageSynthesizer&) = delete;
  ImageSynthesizer& operator=(const ImageSynthesizer&) = delete;
  ~ImageSynthesizer();

  /// Returns an image of about `target` bytes, valid until the next call. Everything about it but
  /// the strength of its texture is drawn from `rng`; that is searched until the size fits.
  [[nodiscard]] std::span<const std::byte> make(Bytes target, sim::Rng& rng);

 private:
  /// One colour component, with room for whole blocks on the right and at the bottom.
  struct Plane {
    int width = 0;
    int height = 0;
    std::vector<float> values;

    void reset(int new_width, int new_height, float value);
    [[nodiscard]] float* row(int y) {
      return values.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(width);
    }
  };

  void draw_content(const ImageSize& size, sim::Rng& rng);
  void add_noise(Plane& plane, int spacing, float amplitude, sim::Rng& rng);
  void add_shape(const ImageSize& size, sim::Rng& rng);
  void draw_lattice_row(int spacing, int width, sim::Rng& rng, std::vector<float>& row);
  std::size_t encode(const ImageSize& size, int quality, float texture_strength);
  void write_blocks();

  jpeg_compress_struct compress_{};
  jpeg_error_mgr errors_{};
  Plane luma_;         ///< smooth areas and shapes.
  Plane texture_;      ///< fine detail, of unit strength.
  Plane chroma_blue_;  ///< at half the resolution, as is chroma_red_.
  Plane chroma_red_;
  std::vector<float> upper_;  ///< a row of noise, expanded to full width, and the next below.
  std::vector<float> lower_;
  std::vector<std::uint8_t> luma_bytes_;
  std::vector<std::uint8_t> blue_bytes_;
  std::vector<std::uint8_t> red_bytes_;
  std::vector<std::uint8_t> jpeg_;
};

}  // namespace gpemu::data
