// SPDX-License-Identifier: Apache-2.0

// Asks NVML what NVIDIA's device plugin, GPU feature discovery, DRA driver and DCGM ask it, by
// NVIDIA's own Go packages, and prints the answers as JSON, by call. A call that fails has the
// error's text, which callers of NVML act on.
package main

import (
	"encoding/json"
	"os"
	"reflect"
	"sort"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// The methods of a device that take no arguments, as its users call them.
var plain = strings.Fields(`
	GetUUID GetMinorNumber GetName GetBrand GetArchitecture GetCudaComputeCapability GetMemoryInfo
	GetPciInfo GetIndex GetMigMode GetMaxMigDeviceCount IsMigDeviceHandle GetSupportedEventTypes
	GetComputeMode GetPersistenceMode GetUtilizationRates GetPowerUsage GetEnforcedPowerLimit
	GetTotalEnergyConsumption GetCurrPcieLinkGeneration GetCurrPcieLinkWidth GetPcieReplayCounter
	GetEncoderUtilization GetDecoderUtilization GetPerformanceState GetCurrentClocksEventReasons
	GetComputeRunningProcesses GetVirtualizationMode GetGpuFabricInfo GetRemappedRows
	GetBAR1MemoryInfo GetEccMode GetSerial GetVbiosVersion GetNumGpuCores GetMemoryBusWidth
	GetAttributes GetBoardId GetDisplayActive GetDisplayMode GetInforomImageVersion
	GetBoardPartNumber GetPowerManagementLimit GetPowerManagementDefaultLimit`)

// answer turns what a call returned, whose last value is the status, into what is printed.
func answer(returned []reflect.Value) any {
	last := returned[len(returned)-1]
	if status, ok := last.Interface().(nvml.Return); ok && status != nvml.SUCCESS {
		return nvml.ErrorString(status)
	}
	if _, isStatus := last.Interface().(nvml.Return); !isStatus {
		if err, ok := last.Interface().(error); ok && err != nil {
			return err.Error()
		}
	}
	values := []any{}
	for _, value := range returned[:len(returned)-1] {
		values = append(values, value.Interface())
	}
	if len(values) == 1 {
		return values[0]
	}
	return values
}

func call(on any, method string, arguments ...any) any {
	values := []reflect.Value{}
	for _, argument := range arguments {
		values = append(values, reflect.ValueOf(argument))
	}
	return answer(reflect.ValueOf(on).MethodByName(method).Call(values))
}

func aboutDevice(gpu nvml.Device, others []nvml.Device) map[string]any {
	said := map[string]any{}
	for _, method := range plain {
		said[method] = call(gpu, method)
	}
	said["GetTemperature"] = call(gpu, "GetTemperature", nvml.TEMPERATURE_GPU)
	for name, kind := range map[string]nvml.ClockType{"SM": nvml.CLOCK_SM, "MEM": nvml.CLOCK_MEM} {
		said["GetClockInfo "+name] = call(gpu, "GetClockInfo", kind)
		said["GetMaxClockInfo "+name] = call(gpu, "GetMaxClockInfo", kind)
	}
	// How the device plugin finds GPUs that are near each other.
	ancestors, links := []any{}, []any{}
	for _, other := range others {
		ancestors = append(ancestors, call(gpu, "GetTopologyCommonAncestor", other))
	}
	for link := 0; link < nvml.NVLINK_MAX_LINKS; link++ {
		state, status := gpu.GetNvLinkState(link)
		if status == nvml.SUCCESS && state == nvml.FEATURE_ENABLED {
			remote, status := gpu.GetNvLinkRemotePciInfo(link)
			links = append(links, []any{link, remote.BusId, nvml.ErrorString(status)})
		}
	}
	said["GetTopologyCommonAncestor"], said["NvLinks"] = ancestors, links
	// What the DRA driver and the MIG manager ask.
	profiles := map[string]any{}
	for profile := 0; profile < nvml.GPU_INSTANCE_PROFILE_COUNT; profile++ {
		info, status := gpu.GetGpuInstanceProfileInfo(profile)
		if status != nvml.SUCCESS {
			continue
		}
		placements := call(gpu, "GetGpuInstancePossiblePlacements", &info)
		profiles[string(rune('0'+profile))] = []any{info, placements}
	}
	said["GpuInstanceProfiles"] = profiles
	// DCGM reads most of its values so.
	values := []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION}, {FieldId: nvml.FI_DEV_NVLINK_LINK_COUNT},
		{FieldId: nvml.FI_DEV_MEMORY_TEMP}, {FieldId: nvml.FI_DEV_PCIE_REPLAY_COUNTER}}
	fields := []any{nvml.ErrorString(gpu.GetFieldValues(values))}
	for _, value := range values {
		fields = append(fields, nvml.ErrorString(nvml.Return(value.NvmlReturn)))
	}
	said["GetFieldValues"] = fields
	return said
}

func events(gpu nvml.Device) any {
	set, status := nvml.EventSetCreate()
	if status != nvml.SUCCESS {
		return nvml.ErrorString(status)
	}
	defer set.Free()
	kinds := uint64(nvml.EventTypeXidCriticalError | nvml.EventTypeDoubleBitEccError |
		nvml.EventTypeSingleBitEccError)
	supported, _ := gpu.GetSupportedEventTypes()
	if status := gpu.RegisterEvents(kinds&supported, set); status != nvml.SUCCESS {
		return nvml.ErrorString(status)
	}
	begin := time.Now()
	_, status = set.Wait(100)
	return []any{nvml.ErrorString(status), time.Since(begin) >= 100*time.Millisecond}
}

func main() {
	said := map[string]any{"Init": nvml.ErrorString(nvml.Init())}
	for name, function := range map[string]any{
		"SystemGetDriverVersion":     nvml.SystemGetDriverVersion,
		"SystemGetCudaDriverVersion": nvml.SystemGetCudaDriverVersion,
		"SystemGetNVMLVersion":       nvml.SystemGetNVMLVersion,
	} {
		said[name] = answer(reflect.ValueOf(function).Call(nil))
	}
	// Every function that the package can call must exist, whether it is supported or not.
	missing := []string{}
	for _, name := range os.Args[1:] {
		if nvml.Extensions().LookupSymbol(name) != nil {
			missing = append(missing, name)
		}
	}
	sort.Strings(missing)
	said["missing"] = missing
	count, _ := nvml.DeviceGetCount()
	handles := []nvml.Device{}
	for i := 0; i < count; i++ {
		gpu, status := nvml.DeviceGetHandleByIndex(i)
		if status != nvml.SUCCESS {
			said["DeviceGetHandleByIndex"] = nvml.ErrorString(status)
			continue
		}
		handles = append(handles, gpu)
	}
	gpus := []any{}
	for _, gpu := range handles {
		gpus = append(gpus, aboutDevice(gpu, handles))
	}
	said["gpus"] = gpus
	if len(handles) > 0 {
		said["events"] = events(handles[0])
	}
	// The way in which the device plugin and GPU feature discovery visit GPUs.
	visited := []any{}
	library := nvml.New()
	said["second Init"] = nvml.ErrorString(library.Init())
	err := device.New(library).VisitDevices(func(i int, gpu device.Device) error {
		visited = append(visited, map[string]any{
			"architecture": call(gpu, "GetArchitectureAsString"),
			"brand":        call(gpu, "GetBrandAsString"),
			"capability":   call(gpu, "GetCudaComputeCapabilityAsString"),
			"address":      call(gpu, "GetPCIBusID"),
			"mig capable":  call(gpu, "IsMigCapable"),
			"mig enabled":  call(gpu, "IsMigEnabled"),
			"fabric":       call(gpu, "IsFabricAttached"),
			"coherent":     call(gpu, "IsCoherent"),
		})
		return nil
	})
	said["visited"] = visited
	if err != nil {
		said["VisitDevices"] = err.Error()
	}
	said["Shutdown"] = []string{
		nvml.ErrorString(library.Shutdown()), nvml.ErrorString(nvml.Shutdown())}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(said); err != nil {
		os.Exit(1)
	}
}
