// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/sample_source.hpp"

#include <algorithm>
#include <utility>

#include "file_part.hpp"

namespace gpemu::data {

Result<SampleBytes> read_sample(const Dataset& dataset, std::uint32_t sample,
                                StorageDevice* storage) {
  const Unit part = dataset.extent(sample);
  const Bytes size = std::min(part.bytes, kMostPartBytes);
  auto memory = std::make_unique_for_overwrite<std::byte[]>(size);
  SampleBytes read;
  GPEMU_ASSIGN(read.size, read_part(dataset, part, {memory.get(), size}, storage));
  read.memory = std::move(memory);
  return read;
}

}  // namespace gpemu::data
