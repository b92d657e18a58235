// SPDX-License-Identifier: Apache-2.0
#include "test_jpeg.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <jpeglib.h>

#include "gpemu/sim/random.hpp"

namespace gpemu::data {

std::vector<std::uint8_t> test_pixels(const ImageSize& size, int components, std::uint64_t seed) {
  sim::Rng rng(seed);
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < size.height; ++y) {
    for (int x = 0; x < size.width; ++x) {
      for (int c = 0; c < components; ++c) {
        const double smooth = 128 + 70 * std::sin(x * 0.05 + c) * std::cos(y * 0.07 + 2 * c);
        const double edge = (x / 23 + y / 17 + c) % 3 == 0 ? 40 : 0;
        const double value = smooth + edge + rng.uniform(-12, 12);
        pixels.push_back(static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0)));
      }
    }
  }
  return pixels;
}

std::vector<std::byte> encode_test_jpeg(std::span<const std::uint8_t> pixels, const ImageSize& size,
                                        const TestJpeg& how) {
  jpeg_compress_struct compress{};
  jpeg_error_mgr errors{};
  compress.err = jpeg_std_error(&errors);  // Exits with a message when something is wrong.
  jpeg_create_compress(&compress);
  unsigned char* memory = nullptr;
  unsigned long length = 0;
  jpeg_mem_dest(&compress, &memory, &length);
  compress.image_width = static_cast<JDIMENSION>(size.width);
  compress.image_height = static_cast<JDIMENSION>(size.height);
  compress.input_components = how.components;
  compress.in_color_space = how.components == 1   ? JCS_GRAYSCALE
                            : how.components == 3 ? JCS_RGB
                                                  : JCS_CMYK;
  jpeg_set_defaults(&compress);
  jpeg_set_quality(&compress, how.quality, TRUE);
  if (how.components == 4) jpeg_set_colorspace(&compress, JCS_YCCK);
  if (how.components > 1) {
    compress.comp_info[0].h_samp_factor = how.horizontal_subsampling;
    compress.comp_info[0].v_samp_factor = how.vertical_subsampling;
  }
  if (how.components == 4) {
    compress.comp_info[3].h_samp_factor = how.horizontal_subsampling;
    compress.comp_info[3].v_samp_factor = how.vertical_subsampling;
  }
  compress.restart_in_rows = how.restart_interval;
  if (how.progressive) jpeg_simple_progression(&compress);
  jpeg_start_compress(&compress, TRUE);
  const std::size_t stride =
      static_cast<std::size_t>(size.width) * static_cast<std::size_t>(how.components);
  while (compress.next_scanline < compress.image_height) {
    auto* row = const_cast<JSAMPROW>(pixels.data() + compress.next_scanline * stride);
    jpeg_write_scanlines(&compress, &row, 1);
  }
  jpeg_finish_compress(&compress);
  const auto* bytes = reinterpret_cast<const std::byte*>(memory);
  std::vector<std::byte> jpeg(bytes, bytes + length);
  jpeg_destroy_compress(&compress);
  std::free(memory);
  return jpeg;
}

std::vector<std::byte> make_test_jpeg(const ImageSize& size, const TestJpeg& how,
                                      std::uint64_t seed) {
  return encode_test_jpeg(test_pixels(size, how.components, seed), size, how);
}

std::vector<std::uint8_t> decode_test_jpeg(std::span<const std::byte> jpeg) {
  jpeg_decompress_struct decompress{};
  jpeg_error_mgr errors{};
  decompress.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&decompress);
  jpeg_mem_src(&decompress, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
  jpeg_read_header(&decompress, TRUE);
  decompress.out_color_space = JCS_RGB;
  jpeg_start_decompress(&decompress);
  const std::size_t stride = std::size_t{decompress.output_width} * 3;
  std::vector<std::uint8_t> pixels(stride * decompress.output_height);
  while (decompress.output_scanline < decompress.output_height) {
    JSAMPROW row = pixels.data() + decompress.output_scanline * stride;
    jpeg_read_scanlines(&decompress, &row, 1);
  }
  jpeg_finish_decompress(&decompress);
  jpeg_destroy_decompress(&decompress);
  return pixels;
}

}  // namespace gpemu::data
