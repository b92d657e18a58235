// SPDX-License-Identifier: Apache-2.0
#include "gpemu/data/data_index.hpp"

#include <utility>

namespace gpemu::data {
namespace {

constexpr std::size_t kSkippedKept = 10;

}  // namespace

void DataIndex::skip(std::string what) {
  if (skipped.size() < kSkippedKept) skipped.push_back(std::move(what));
  ++skipped_count;
}

}  // namespace gpemu::data
