// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shim.hpp"

/// The alignment of textures, and of rows in pitched memory. Source: CUDA C++ Programming Guide,
/// "Technical Specifications per Compute Capability".
constexpr int kTextureAlignment = 512;

/// Yields an attribute of a device, a DeviceAttribute of cuda_abi.hpp.
///
/// Errors: INVALID_DEVICE; INVALID_VALUE for a null pointer or an attribute that CUDA does not
/// have.
int get_device_attribute(int* value, int attribute, int device);

/// Writes at most `capacity` bytes of a device's PCI address, "0000:01:00.0", with its NUL.
///
/// Errors: INVALID_DEVICE; INVALID_VALUE for a null pointer or no capacity.
int get_pci_bus_id(char* text, int capacity, int device);

/// Yields the device at a PCI address, which may lack the domain or the function.
///
/// Errors: INVALID_DEVICE if there is none; INVALID_VALUE.
int find_device_by_pci_bus_id(int* device, const char* text);

/// Yields a CUdevice_P2PAttribute of two devices.
int get_peer_attribute(int* value, int attribute, int device, int peer);
