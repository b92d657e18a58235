// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpemu {

/// Writes numbers and texts one after the other, as they are in memory: the processes that send
/// each other messages are of one kind of processor.
class Packer {
 public:
  template <typename T>
  Packer& add(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto bytes = std::as_bytes(std::span(&value, 1));
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  template <typename T>
  Packer& add_all(std::span<const T> values) {
    add(static_cast<std::uint32_t>(values.size()));
    const auto bytes = std::as_bytes(values);
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Packer& add_text(std::string_view text) { return add_all(std::span(text)); }
  [[nodiscard]] const std::vector<std::byte>& bytes() const { return bytes_; }
  [[nodiscard]] std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// Reads them again. After bytes that do not fit, it is not good, and values are zero or empty.
class Unpacker {
 public:
  explicit Unpacker(std::span<const std::byte> bytes) : rest_(bytes) {}

  template <typename T>
  void take(T& value) {
    copy(&value, sizeof value, 1);
  }
  template <typename T>
  void take_all(std::vector<T>& values) {
    std::uint32_t count = 0;
    take(count);
    if (rest_.size() / sizeof(T) < count) good_ = false;
    values.resize(good_ ? count : 0);
    copy(values.data(), sizeof(T), values.size());
  }
  void take_text(std::string& text) {
    std::vector<char> characters;
    take_all(characters);
    text.assign(characters.begin(), characters.end());
  }
  /// Takes what is left.
  [[nodiscard]] std::span<const std::byte> take_rest() {
    return std::exchange(rest_, std::span<const std::byte>());
  }
  /// Returns whether all bytes were read, and no more.
  [[nodiscard]] bool done() const { return good_ && rest_.empty(); }

 private:
  void copy(void* to, std::size_t size, std::size_t count) {
    if (!good_ || rest_.size() < size * count) {
      good_ = false;
      return;
    }
    if (count > 0) std::memcpy(to, rest_.data(), size * count);
    rest_ = rest_.subspan(size * count);
  }

  std::span<const std::byte> rest_;
  bool good_ = true;
};

}  // namespace gpemu
