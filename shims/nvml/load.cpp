// SPDX-License-Identifier: Apache-2.0
//
// The state of a device that changes: memory, load, and the clocks, power and temperature that
// follow from it (docs/reference/watching.md). Settings of power and clocks: power.cpp.
#include <algorithm>
#include <chrono>

#include "nvml.hpp"

using nvml::Handle;
using Device = gpemu_monitor_device;
using Load = gpemu_monitor_load;
using State = gpemu_monitor_state;

namespace nvml {
namespace {

/// The shortest period of gpemu_monitor_get_load.
constexpr unsigned kSamplePeriodUs = 1'000'000 / 6;

/// Copies write and read device memory; the traffic of kernels is not known.
unsigned memory_percent(const Load& load) {
  return percent(std::max(load.copy_h2d, load.copy_d2h));
}

unsigned milliwatts(double watts) {
  return rounded(1000 * watts);
}

/// Yields a number about the load of the last period.
template <typename Number, typename Compute>
int put_load(const Handle* device, Number* destination, Compute compute) {
  if (destination == nullptr) return kInvalidArgument;
  return with_load(device, [&](const Load& load) {
    *destination = static_cast<Number>(compute(load));
    return static_cast<int>(kSuccess);
  });
}

/// The clock of a device under full load.
int put_max_clock(const Handle* device, unsigned type, unsigned* clock) {
  if (type >= kClockTypeEnd) return kInvalidArgument;
  return put_known(device, clock, [type](const Device& known) {
    return type == kVideoClock    ? 0
           : type == kMemoryClock ? known.memory_clock_mhz
                                  : known.boost_clock_mhz;
  });
}

int put_clock(const Handle* device, unsigned type, unsigned* clock) {
  if (type != kGraphicsClock && type != kSmClock) return put_max_clock(device, type, clock);
  if (clock == nullptr) return kInvalidArgument;
  return with_load(device, [clock](const Load& load) -> int {
    if (load.sm_clock_mhz <= 0) return kNotSupported;
    *clock = rounded(load.sm_clock_mhz);
    return kSuccess;
  });
}

/// Yields the clocks that a device can have, the highest first.
int put_clocks(unsigned* count, unsigned* clocks, std::initializer_list<double> known) {
  unsigned found = 0;
  for (const double clock : known) found += clock > 0 ? 1 : 0;
  const bool fits = clocks != nullptr && *count >= found;
  *count = found;
  if (!fits) return kInsufficientSize;
  for (const double clock : known) {
    if (clock > 0) *clocks++ = rounded(clock);
  }
  return kSuccess;
}

/// Engines that no program can reach do nothing.
int put_unused_engine(const Handle* device, unsigned* utilization, unsigned* period_us) {
  if (utilization == nullptr || period_us == nullptr) return kInvalidArgument;
  const int status = index_of(device).status;
  if (status != kSuccess) return status;
  *utilization = 0;
  *period_us = kSamplePeriodUs;
  return kSuccess;
}

/// Sets what nvmlDeviceGetSamples reports about a period; false for a type that is not known.
bool sample_value(unsigned type, const Load& load, unsigned& value) {
  switch (type) {
    case kTotalPowerSamples:
      value = milliwatts(load.power_w);
      return true;
    case kGpuUtilizationSamples:
      value = percent(load.compute);
      return true;
    case kMemoryUtilizationSamples:
      value = memory_percent(load);
      return true;
    case kProcessorClockSamples:
      value = rounded(load.sm_clock_mhz);
      return true;
    default:
      return false;
  }
}

int put_unsigned(const Handle* device, FieldValue& field, int (*get)(Handle*, unsigned*)) {
  field.type = kUnsignedInt;
  return get(const_cast<Handle*>(device), &field.value.as_unsigned);
}

}  // namespace
}  // namespace nvml

GPEMU_SHIM_EXPORT int nvmlDeviceGetMemoryInfo(Handle* device, nvml::Memory* memory) {
  if (memory == nullptr) return nvml::kInvalidArgument;
  if (nvml::is_mig_handle(device)) {
    gpemu_monitor_mig_device known{};
    const int status = nvml::mig_device_of(device, known);
    if (status != nvml::kSuccess) return status;
    *memory = {known.memory_total, known.memory_total - known.memory_used, known.memory_used};
    return nvml::kSuccess;
  }
  return nvml::with_state(device, [memory](const State& state) {
    *memory = {state.memory_total + state.memory_reserved, state.memory_total - state.memory_used,
               state.memory_reserved + state.memory_used};
    return static_cast<int>(nvml::kSuccess);
  });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetMemoryInfo_v2(Handle* device, nvml::MemoryV2* memory) {
  if (memory == nullptr) return nvml::kInvalidArgument;
  if (!nvml::is_version(*memory, 2)) return nvml::kArgumentVersionMismatch;
  if (nvml::is_mig_handle(device)) {
    gpemu_monitor_mig_device known{};
    const int status = nvml::mig_device_of(device, known);
    if (status != nvml::kSuccess) return status;
    *memory = {memory->version, known.memory_total, 0, known.memory_total - known.memory_used,
               known.memory_used};
    return nvml::kSuccess;
  }
  return nvml::with_state(device, [memory](const State& state) {
    *memory = {memory->version, state.memory_total + state.memory_reserved, state.memory_reserved,
               state.memory_total - state.memory_used, state.memory_used};
    return static_cast<int>(nvml::kSuccess);
  });
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetUtilizationRates(Handle* device, nvml::Utilization* rates) {
  if (nvml::is_divided(device)) return nvml::kNotSupported;
  return nvml::put_load(device, rates, [](const Load& load) {
    return nvml::Utilization{nvml::percent(load.compute), nvml::memory_percent(load)};
  });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetEncoderUtilization(Handle* device, unsigned* utilization,
                                                      unsigned* period_us) {
  if (nvml::is_divided(device)) return nvml::kNotSupported;
  return nvml::put_unused_engine(device, utilization, period_us);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetDecoderUtilization(Handle* device, unsigned* utilization,
                                                      unsigned* period_us) {
  if (nvml::is_divided(device)) return nvml::kNotSupported;
  return nvml::put_unused_engine(device, utilization, period_us);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetJpgUtilization(Handle* device, unsigned* utilization,
                                                  unsigned* period_us) {
  return nvml::put_unused_engine(device, utilization, period_us);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetOfaUtilization(Handle* device, unsigned* utilization,
                                                  unsigned* period_us) {
  return nvml::put_unused_engine(device, utilization, period_us);
}

/// Units: 1000 bytes per second.
GPEMU_SHIM_EXPORT int nvmlDeviceGetPcieThroughput(Handle* device, unsigned counter,
                                                  unsigned* value) {
  if (counter != nvml::kPcieSent && counter != nvml::kPcieReceived) return nvml::kInvalidArgument;
  return nvml::put_load(device, value, [counter](const Load& load) {
    return nvml::rounded(
        (counter == nvml::kPcieSent ? load.d2h_bytes_per_s : load.h2d_bytes_per_s) / 1000);
  });
}

/// Yields the last period as one sample if it is newer than `last_seen_us`.
GPEMU_SHIM_EXPORT int nvmlDeviceGetSamples(Handle* device, unsigned type, uint64_t last_seen_us,
                                           int* value_type, unsigned* count,
                                           nvml::Sample* samples) {
  if (type >= nvml::kSamplingTypeEnd || value_type == nullptr || count == nullptr ||
      (samples != nullptr && *count == 0)) {
    return nvml::kInvalidArgument;
  }
  return nvml::with_load(device, [&](const Load& load) -> int {
    unsigned value = 0;
    if (!nvml::sample_value(type, load, value)) return nvml::kNotSupported;
    const uint64_t time_us = nvml::epoch_us(load.end_ns);
    if (time_us <= last_seen_us) return nvml::kNotFound;
    *value_type = nvml::kUnsignedInt;
    *count = 1;
    if (samples != nullptr) {
      samples[0].time_us = time_us;
      samples[0].value.as_unsigned_long_long = value;
    }
    return nvml::kSuccess;
  });
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetClockInfo(Handle* device, unsigned type, unsigned* clock) {
  return nvml::put_clock(device, type, clock);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetMaxClockInfo(Handle* device, unsigned type, unsigned* clock) {
  return nvml::put_max_clock(device, type, clock);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetApplicationsClock(Handle* device, unsigned type,
                                                     unsigned* clock) {
  return nvml::put_max_clock(device, type, clock);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetDefaultApplicationsClock(Handle* device, unsigned type,
                                                            unsigned* clock) {
  return nvml::put_max_clock(device, type, clock);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetMaxCustomerBoostClock(Handle* device, unsigned type,
                                                         unsigned* clock) {
  return nvml::put_max_clock(device, type, clock);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetClock(Handle* device, unsigned type, unsigned id,
                                         unsigned* clock) {
  if (id >= nvml::kClockIdEnd) return nvml::kInvalidArgument;
  return id == nvml::kCurrentClock ? nvml::put_clock(device, type, clock)
                                   : nvml::put_max_clock(device, type, clock);
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetSupportedMemoryClocks(Handle* device, unsigned* count,
                                                         unsigned* clocks) {
  if (count == nullptr) return nvml::kInvalidArgument;
  return nvml::with_device(device, [&](const Device& known) {
    return nvml::put_clocks(count, clocks, {known.memory_clock_mhz});
  });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetSupportedGraphicsClocks(Handle* device, unsigned memory_clock,
                                                           unsigned* count, unsigned* clocks) {
  if (count == nullptr) return nvml::kInvalidArgument;
  return nvml::with_device(device, [&](const Device& known) -> int {
    if (memory_clock != nvml::rounded(known.memory_clock_mhz)) return nvml::kNotFound;
    return nvml::put_clocks(count, clocks, {known.boost_clock_mhz, known.base_clock_mhz});
  });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetPerformanceState(Handle* device, int* state) {
  return nvml::put_load(device, state, [](const Load& load) { return load.performance_state; });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetPowerState(Handle* device, int* state) {
  return nvmlDeviceGetPerformanceState(device, state);
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetPowerUsage(Handle* device, unsigned* power) {
  return nvml::put_load(device, power,
                        [](const Load& load) { return nvml::milliwatts(load.power_w); });
}
/// Units: millijoules.
GPEMU_SHIM_EXPORT int nvmlDeviceGetTotalEnergyConsumption(Handle* device, uint64_t* energy) {
  if (energy == nullptr) return nvml::kInvalidArgument;
  return nvml::with_state(device, [energy](const State& state) {
    *energy = state.energy_mj;
    return static_cast<int>(nvml::kSuccess);
  });
}

GPEMU_SHIM_EXPORT int nvmlDeviceGetTemperature(Handle* device, unsigned sensor, unsigned* degrees) {
  if (sensor != nvml::kGpuSensor) return nvml::kInvalidArgument;
  return nvml::put_load(device, degrees,
                        [](const Load& load) { return nvml::rounded(load.temperature_c); });
}
GPEMU_SHIM_EXPORT int nvmlDeviceGetTemperatureV(Handle* device, nvml::Temperature* temperature) {
  if (temperature == nullptr) return nvml::kInvalidArgument;
  if (!nvml::is_version(*temperature, 1)) return nvml::kArgumentVersionMismatch;
  unsigned degrees = 0;
  const int status =
      nvmlDeviceGetTemperature(device, static_cast<unsigned>(temperature->sensor), &degrees);
  if (status == nvml::kSuccess) temperature->temperature = static_cast<int>(degrees);
  return status;
}
/// Source: the thresholds that nvidia-smi -q prints for a Tesla V100-PCIE, from which the emulated
/// temperatures derive.
GPEMU_SHIM_EXPORT int nvmlDeviceGetTemperatureThreshold(Handle* device, unsigned type,
                                                        unsigned* degrees) {
  constexpr unsigned kThresholds[] = {90, 87, 85, 83};  // numbered as nvml::ThresholdType
  if (type >= nvml::kThresholdTypeEnd) return nvml::kInvalidArgument;
  if (type >= std::size(kThresholds)) return nvml::absent(device);
  return nvml::put_constant(device, degrees, kThresholds[type]);
}

/// Each field has its own status.
GPEMU_SHIM_EXPORT int nvmlDeviceGetFieldValues(Handle* device, int count,
                                               nvml::FieldValue* fields) {
  const int status = nvml::index_of(device).status;
  if (status != nvml::kSuccess) return status;
  if (count <= 0 || fields == nullptr) return nvml::kInvalidArgument;
  for (int i = 0; i < count; ++i) {
    nvml::FieldValue& field = fields[i];
    field.time_us = std::chrono::duration_cast<std::chrono::microseconds>(
                        std::chrono::system_clock::now().time_since_epoch())
                        .count();
    field.latency_us = 0;
    switch (field.field) {
      case nvml::kEnergyField:
        field.type = nvml::kUnsignedLongLong;
        field.status =
            nvmlDeviceGetTotalEnergyConsumption(device, &field.value.as_unsigned_long_long);
        break;
      case nvml::kAveragePowerField:
      case nvml::kInstantPowerField:
        field.status = nvml::put_unsigned(device, field, nvmlDeviceGetPowerUsage);
        break;
      default:
        field.status = nvml::put_power_field(device, field);
        if (field.status == nvml::kNotSupported) {
          field.status = nvml::put_link_field(device, field);
        }
    }
  }
  return nvml::kSuccess;
}
