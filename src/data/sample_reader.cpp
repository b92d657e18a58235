// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/sample_reader.hpp"

#include <algorithm>

#include "file_part.hpp"

namespace gpemu::data {

Result<void> SampleReader::read(std::size_t sample) {
  sample_ = sample;
  part_ = dataset_->extent(sample);
  filled_ = 0;
  if (part_.bytes > capacity_ && part_.bytes <= kMostPartBytes) {
    capacity_ = part_.bytes + part_.bytes / 2;
    buffer_ = std::make_unique_for_overwrite<std::byte[]>(capacity_);
  }
  const std::span<std::byte> buffer(buffer_.get(), std::min(part_.bytes, capacity_));
  GPEMU_ASSIGN(filled_, read_part(*dataset_, part_, buffer, storage_));
  return {};
}

Result<std::span<const std::byte>> SampleReader::image() const {
  return dataset_->image_in(sample_, part_, {buffer_.get(), filled_});
}

}  // namespace gpemu::data
