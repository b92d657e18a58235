// SPDX-License-Identifier: Apache-2.0
#include "identity.hpp"

#include <atomic>
#include <sys/random.h>

#include <fmt/format.h>

#include "gpemu/base/units.hpp"
#include "gpemu/sim/clock.hpp"

#include "process_id.hpp"

namespace gpemu::device {
namespace {

// 64-bit FNV-1a. Source: Fowler, Noll, Vo, IETF draft-eastlake-fnv.
std::uint64_t hash(std::string_view text, std::uint64_t salt) {
  std::uint64_t value = 0xcbf29ce484222325 ^ (salt * 0x9e3779b97f4a7c15);
  for (const char character : text) {
    value = (value ^ static_cast<unsigned char>(character)) * 0x100000001b3;
  }
  return value;
}

std::string uuid_of(std::string_view kind, std::string_view identity) {
  const std::uint64_t high = hash(identity, 0);
  const std::uint64_t low = hash(identity, 1);
  // Version 8 ("custom") and the variant of RFC 9562, so that it parses as a UUID.
  return fmt::format("{}-{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}", kind, high >> 32,
                     (high >> 16) & 0xffff, high & 0xfff, 0x8000 | ((low >> 48) & 0x3fff),
                     low & 0xffffffffffff);
}

}  // namespace

std::string device_uuid(std::string_view node_name, std::size_t index) {
  return uuid_of("GPU", fmt::format("{}/{}", node_name, index));
}

std::string mig_uuid(std::string_view gpu_uuid, int gpu_instance, int compute_instance) {
  return uuid_of("MIG", fmt::format("{}/{}/{}", gpu_uuid, gpu_instance, compute_instance));
}

std::string device_pci_bus_id(std::size_t index) {
  constexpr std::size_t kBusesPerDomain = 255;
  return fmt::format("{:08x}:{:02x}:00.0", index / kBusesPerDomain, index % kBusesPerDomain + 1);
}

std::uint64_t unique_number() {
  static std::atomic<std::uint64_t> refusals{0};
  std::uint64_t number = 0;
  do {
    if (::getrandom(&number, sizeof number, 0) != sizeof number) {
      // The kernel or a sandbox refuses. Time, pid and a count are good enough.
      number = static_cast<std::uint64_t>(to_ns(sim::RealClock().now())) ^
               static_cast<std::uint64_t>(own_pid()) << 32;
      number += ++refusals;
    }
    number &= (std::uint64_t{1} << 54) - 1;
  } while (number == 0);
  return number;
}

}  // namespace gpemu::device
