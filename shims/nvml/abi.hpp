// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

/// NVML's types. Source: nvml.h of NVML 13.5. If it helps to find them, structures and enumerators
/// keep their names, without the prefix.
namespace nvml {

/// nvmlReturn_t.
enum Status {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kGpuIsLost = 15,
  kVersionMismatch = 18,  // of library and driver
  kInUse = 19,
  kMemory = 20,
  kInsufficientResources = 23,
  kArgumentVersionMismatch = 25,
  kUnknown = 999
};

/// nvmlEnableState_t.
enum Feature { kDisabled = 0, kEnabled = 1 };

/// nvmlEventTypeXidCriticalError: the only type of event that emulated devices have.
constexpr uint64_t kXidEvent = 0x8;

/// nvmlEventData_t. The first version ends before `gpu_instance`.
struct EventData {
  struct Handle* device;
  uint64_t type;
  uint64_t data;  ///< the Xid.
  unsigned gpu_instance;
  unsigned compute_instance;
};
static_assert(sizeof(EventData) == 32);

/// NVML_API_VERSION.
constexpr int kApiVersion = 13;

/// NVML_DEVICE_ARCH_UNKNOWN.
constexpr unsigned kUnknownArchitecture = 0xFFFFFFFF;

/// nvmlBrandType_t: those of emulated boards.
enum Brand : unsigned {
  kUnknownBrand = 0,
  kQuadro = 1,
  kTesla = 2,
  kGeforce = 5,
  kQuadroRtx = 12,
  kNvidia = 14,
  kGeforceRtx = 15
};

/// nvmlBusType_t.
constexpr unsigned kPcieBus = 2;

/// nvmlGpuTopologyLevel_t. Its numbers are ten times those of gpemu_monitor_path's `pcie`.
constexpr unsigned kSystemLevel = 50, kLevelStep = 10;

/// nvmlGpuP2PCapsIndex_t.
enum PeerCapability : unsigned {
  kPeerRead = 0,
  kPeerWrite = 1,
  kPeerNvlink = 2,
  kPeerAtomics = 3,
  kPeerPcie = 4,
  kPeerCapabilityEnd = 5
};

/// nvmlGpuP2PStatus_t.
enum PeerStatus : unsigned {
  kPeerOk = 0,
  kPeerChipsetNotSupported = 1,
  kPeerNotSupported = 5,
  kPeerUnknown = 6
};

/// nvmlNvLinkCapability_t.
enum NvlinkCapability : unsigned { kNvlinkPeers = 0, kNvlinkValid = 5, kNvlinkCapabilityEnd = 6 };

/// nvmlNvlinkVersion_t, in order from 1: tenths of the versions.
constexpr int kNvlinkVersions[] = {10, 20, 22, 30, 31, 40, 50};

/// nvmlIntNvLinkDeviceType_t.
enum NvlinkEnd : unsigned { kNvlinkToGpu = 0, kNvlinkToSwitch = 2, kNvlinkToUnknown = 255 };

/// nvmlComputeMode_t.
enum ComputeMode : unsigned { kExclusiveThread = 1, kComputeModeEnd = 4 };

/// nvmlGpuVirtualizationMode_t.
constexpr unsigned kNoVirtualization = 0;

/// nvmlUUIDType_t.
enum UuidType : unsigned { kAsciiUuid = 1, kBinaryUuid = 2 };

/// nvmlProcessMode_t.
enum ProcessMode : unsigned { kComputeProcesses = 0, kMpsProcesses = 2 };

/// The instance of a process outside of MIG. Source: nvml.h, nvmlProcessInfo_v2_t.
constexpr unsigned kNoInstance = 0xFFFFFFFF;

/// nvmlClockType_t.
enum ClockType : unsigned {
  kGraphicsClock = 0,
  kSmClock = 1,
  kMemoryClock = 2,
  kVideoClock = 3,
  kClockTypeEnd = 4
};

/// nvmlClockId_t.
enum ClockId : unsigned { kCurrentClock = 0, kClockIdEnd = 4 };

/// nvmlClocksEventReason...
enum ClocksEventReason : uint64_t {
  kNoReason = 0,
  kGpuIdle = 1,
  kClocksSetting = 2,
  kSwPowerCap = 4,
  kHwSlowdown = 8
};

/// nvmlPerfPolicyType_t: why the clock was held down.
enum PerfPolicy : unsigned { kPowerPolicy = 0, kThermalPolicy = 1, kPerfPolicyEnd = 12 };

/// nvmlViolationTime_t: a time in us, and for how many ns the clock was held down.
struct ViolationTime {
  uint64_t reference_us, violation_ns;
};
static_assert(sizeof(ViolationTime) == 16);

/// nvmlPowerScopeType_t: what a power limit concerns.
enum PowerScope : unsigned char { kGpuScope = 0 };

/// nvmlPowerValue_v2_t.
struct PowerValue {
  unsigned version;
  unsigned char scope;
  unsigned milliwatts;
};
static_assert(sizeof(PowerValue) == 12);

/// nvmlClockLimitId_t: numbers that stand for a clock.
enum ClockLimitId : unsigned { kTdpClock = 0xFFFFFF01, kUnlimitedClock = 0xFFFFFF02 };

/// nvmlSamplingType_t.
enum SamplingType : unsigned {
  kTotalPowerSamples = 0,
  kGpuUtilizationSamples = 1,
  kMemoryUtilizationSamples = 2,
  kProcessorClockSamples = 5,
  kSamplingTypeEnd = 10
};

/// nvmlPcieUtilCounter_t: bytes that the device sent or received.
enum PcieCounter : unsigned { kPcieSent = 0, kPcieReceived = 1 };

/// nvmlTemperatureSensors_t.
constexpr unsigned kGpuSensor = 0;

/// nvmlTemperatureThresholds_t.
enum ThresholdType : unsigned {
  kShutdown = 0,
  kSlowdown = 1,
  kMemoryMax = 2,
  kGpuMax = 3,
  kThresholdTypeEnd = 8
};

/// nvmlValueType_t.
enum ValueType { kUnsignedInt = 1, kUnsignedLongLong = 3 };

/// NVML_FI_DEV_...
enum Field : unsigned {
  kPowerViolationField = 74,
  kEnergyField = 83,
  kNvlinkSentField = 138,
  kNvlinkReceivedField = 139,
  kAveragePowerField = 185,
  kInstantPowerField = 186,
  kMinLimitField = 187,
  kMaxLimitField = 188,
  kDefaultLimitField = 189,
  kCurrentLimitField = 190
};

/// The scope of a field of NVLinks that adds up all of them. Source: nvml.h,
/// NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX.
constexpr unsigned kAllLinks = 0xFFFFFFFF;

/// No nvmlNvLinkErrorCounter_t is greater.
constexpr unsigned kNvlinkErrorCounterEnd = 5;

/// nvmlPciInfo_t.
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
static_assert(sizeof(PciInfo) == 68);

/// The structure of nvmlDeviceGetPciInfo and its _v2: the beginning of nvmlPciInfo_t, and reserved
/// words. Source: nvml.h of NVML 2.285 and 8, nvmlPciInfo_t.
struct PciInfoV1 {
  char bus_id[16];
  unsigned domain, bus, device, pci_device_id;
};
static_assert(sizeof(PciInfoV1) == 32);
struct PciInfoV2 {
  char bus_id[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id, reserved[4];
};
static_assert(sizeof(PciInfoV2) == 52);

/// nvmlPciInfoExt_v1_t.
struct PciInfoExt {
  unsigned version, domain, bus, device, pci_device_id, pci_subsystem_id, base_class, sub_class;
  char bus_id[32];
};
static_assert(sizeof(PciInfoExt) == 64);

/// No NVML_GPU_INSTANCE_PROFILE_ and no NVML_COMPUTE_INSTANCE_PROFILE_ is greater.
constexpr unsigned kMostGpuInstanceProfiles = 16, kMostComputeInstanceProfiles = 16;
/// NVML_COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED, the only one.
constexpr unsigned kSharedEngines = 0;

/// nvmlGpuInstancePlacement_t and nvmlComputeInstancePlacement_t.
struct Placement {
  unsigned start, size;
};
static_assert(sizeof(Placement) == 8);

/// nvmlGpuInstanceProfileInfo_t, its _v2_t and _v3_t.
struct GpuInstanceProfileInfo {
  unsigned id, peer_access, slices, instances, multiprocessors;
  unsigned copy_engines, decoders, encoders, jpegs, ofas;
  uint64_t memory_mib;
};
static_assert(sizeof(GpuInstanceProfileInfo) == 48);
struct GpuInstanceProfileInfoV2 {
  unsigned version, id, peer_access, slices, instances, multiprocessors;
  unsigned copy_engines, decoders, encoders, jpegs, ofas;
  uint64_t memory_mib;
  char name[96];
};
static_assert(sizeof(GpuInstanceProfileInfoV2) == 152);
struct GpuInstanceProfileInfoV3 {
  unsigned version, id, slices, instances, multiprocessors;
  unsigned copy_engines, decoders, encoders, jpegs, ofas;
  uint64_t memory_mib;
  char name[96];
  unsigned capabilities;
};
static_assert(sizeof(GpuInstanceProfileInfoV3) == 152);

/// nvmlComputeInstanceProfileInfo_t, its _v2_t and _v3_t.
struct ComputeInstanceProfileInfo {
  unsigned id, slices, instances, multiprocessors;
  unsigned copy_engines, decoders, encoders, jpegs, ofas;
};
static_assert(sizeof(ComputeInstanceProfileInfo) == 36);
struct ComputeInstanceProfileInfoV2 {
  unsigned version, id, slices, instances, multiprocessors;
  unsigned copy_engines, decoders, encoders, jpegs, ofas;
  char name[96];
};
static_assert(sizeof(ComputeInstanceProfileInfoV2) == 136);
struct ComputeInstanceProfileInfoV3 {
  unsigned version, id, slices, instances, multiprocessors;
  unsigned copy_engines, decoders, encoders, jpegs, ofas;
  char name[96];
  unsigned capabilities;
};
static_assert(sizeof(ComputeInstanceProfileInfoV3) == 140);

/// nvmlGpuInstanceInfo_t and nvmlComputeInstanceInfo_t.
struct Handle;
struct GpuInstance;
struct GpuInstanceInfo {
  Handle* device;
  unsigned id, profile;
  Placement placement;
};
static_assert(sizeof(GpuInstanceInfo) == 24);
struct ComputeInstanceInfo {
  Handle* device;
  GpuInstance* instance;
  unsigned id, profile;
  Placement placement;
};
static_assert(sizeof(ComputeInstanceInfo) == 32);

/// nvmlDeviceAttributes_t.
struct DeviceAttributes {
  unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
  unsigned instance_slices, compute_slices;
  uint64_t memory_mib;
};
static_assert(sizeof(DeviceAttributes) == 40);

/// nvmlUUID_v1_t.
struct Uuid {
  unsigned version, type;
  union {
    char text[41];
    unsigned char bytes[16];
  };
};
static_assert(sizeof(Uuid) == 52);

/// nvmlMemory_t.
struct Memory {
  uint64_t total, free, used;
};
static_assert(sizeof(Memory) == 24);

/// nvmlMemory_v2_t.
struct MemoryV2 {
  unsigned version;
  uint64_t total, reserved, free, used;
};
static_assert(sizeof(MemoryV2) == 40);

/// nvmlUtilization_t.
struct Utilization {
  unsigned gpu, memory;
};
static_assert(sizeof(Utilization) == 8);

/// nvmlTemperature_v1_t.
struct Temperature {
  unsigned version;
  int sensor, temperature;
};
static_assert(sizeof(Temperature) == 12);

/// nvmlValue_t.
union Value {
  double as_double;
  unsigned as_unsigned;
  uint64_t as_unsigned_long_long;
};

/// nvmlSample_t.
struct Sample {
  uint64_t time_us;
  Value value;
};
static_assert(sizeof(Sample) == 16);

/// nvmlFieldValue_t.
struct FieldValue {
  unsigned field, scope;
  int64_t time_us, latency_us;
  int type, status;
  Value value;
};
static_assert(sizeof(FieldValue) == 40);

/// nvmlProcessInfo_v1_t.
struct ProcessInfoV1 {
  unsigned pid;
  uint64_t memory;
};
static_assert(sizeof(ProcessInfoV1) == 16);

/// nvmlProcessInfo_v2_t, which version 3 of the functions takes as well.
struct ProcessInfo {
  unsigned pid;
  uint64_t memory;
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24);

/// nvmlProcessDetail_v1_t and nvmlProcessDetailList_v1_t.
struct ProcessDetail {
  unsigned pid;
  uint64_t memory;
  unsigned gpu_instance, compute_instance;
  uint64_t protected_memory;
};
struct ProcessDetailList {
  unsigned version, mode, count;
  ProcessDetail* processes;
};
static_assert(sizeof(ProcessDetail) == 32 && sizeof(ProcessDetailList) == 24);

/// nvmlProcessUtilizationSample_t.
struct ProcessSample {
  unsigned pid;
  uint64_t time_us;
  unsigned sm, memory, encoder, decoder;
};
static_assert(sizeof(ProcessSample) == 32);

/// nvmlProcessUtilizationInfo_v1_t and nvmlProcessesUtilizationInfo_v1_t.
struct ProcessUtilization {
  uint64_t time_us;
  unsigned pid, sm, memory, encoder, decoder, jpeg, optical_flow;
};
struct ProcessUtilizationList {
  unsigned version, count;
  uint64_t last_seen_us;
  ProcessUtilization* processes;
};
static_assert(sizeof(ProcessUtilization) == 40 && sizeof(ProcessUtilizationList) == 24);

}  // namespace nvml
