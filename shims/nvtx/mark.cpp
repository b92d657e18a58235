// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cwchar>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>

#include "gpemu/base/mutex.hpp"

#include "nvtx.hpp"

namespace {

thread_local int depth = 0;

// Never destroyed, because programs set marks until the last destructor.
struct Marks {
  // The strings that programs have registered; a handle is the address of one.
  gpemu::Mutex strings_mutex;
  std::unordered_set<std::string> strings GPEMU_GUARDED_BY(strings_mutex);
  // The names of the ranges that have started but not ended.
  gpemu::Mutex ranges_mutex;
  std::unordered_map<uint64_t, std::string> ranges GPEMU_GUARDED_BY(ranges_mutex);
};
Marks& marks = *new Marks;

std::string narrow(const wchar_t* text) {
  std::string result;
  for (; text != nullptr && *text != L'\0'; ++text) {
    const auto point = static_cast<uint32_t>(static_cast<std::make_unsigned_t<wchar_t>>(*text));
    if (point < 0x80) {
      result += static_cast<char>(point);
    } else if (point < 0x800) {
      result += static_cast<char>(0xC0 | (point >> 6));
      result += static_cast<char>(0x80 | (point & 0x3F));
    } else if (point < 0x10000) {
      result += static_cast<char>(0xE0 | (point >> 12));
      result += static_cast<char>(0x80 | ((point >> 6) & 0x3F));
      result += static_cast<char>(0x80 | (point & 0x3F));
    } else {
      result += static_cast<char>(0xF0 | ((point >> 18) & 0x07));
      result += static_cast<char>(0x80 | ((point >> 12) & 0x3F));
      result += static_cast<char>(0x80 | ((point >> 6) & 0x3F));
      result += static_cast<char>(0x80 | (point & 0x3F));
    }
  }
  return result;
}

std::string registered(const void* handle) {
  const gpemu::Lock lock(marks.strings_mutex);
  for (const std::string& text : marks.strings) {
    if (&text == handle) {
      return text;
    }
  }
  return {};
}

std::string message(const NvtxAttributes* attributes) {
  if (attributes == nullptr || attributes->size < sizeof(NvtxAttributes)) {
    return {};
  }
  switch (attributes->message_type) {
    case kMessageAscii:
      return attributes->message == nullptr ? "" : static_cast<const char*>(attributes->message);
    case kMessageWide:
      return narrow(static_cast<const wchar_t*>(attributes->message));
    case kMessageRegistered:
      return registered(attributes->message);
    default:
      return {};
  }
}

std::string plain(const char* text) {
  return text == nullptr ? "" : text;
}

void mark(const std::string& text) {
  gpemu_cuda_mark(GPEMU_CUDA_MARK_INSTANT, text.c_str());
}

int push(const std::string& text) {
  gpemu_cuda_mark(GPEMU_CUDA_MARK_PUSH, text.c_str());
  return depth++;
}

int pop() {
  if (depth == 0) {
    return kNoTracking;
  }
  gpemu_cuda_mark(GPEMU_CUDA_MARK_POP, nullptr);
  return --depth;
}

// Ranges that start and end in different threads do not nest, so the end names the range again.
uint64_t start(std::string text) {
  static std::atomic<uint64_t> next{1};
  const uint64_t id = next++;
  gpemu_cuda_mark(GPEMU_CUDA_MARK_START, text.c_str());
  const gpemu::Lock lock(marks.ranges_mutex);
  marks.ranges.emplace(id, std::move(text));
  return id;
}

void end(uint64_t id) {
  std::string text;
  {
    const gpemu::Lock lock(marks.ranges_mutex);
    const auto found = marks.ranges.find(id);
    if (found == marks.ranges.end()) {
      return;
    }
    text = std::move(found->second);
    marks.ranges.erase(found);
  }
  gpemu_cuda_mark(GPEMU_CUDA_MARK_END, text.c_str());
}

const void* keep(std::string text) {
  const gpemu::Lock lock(marks.strings_mutex);
  return &*marks.strings.insert(std::move(text)).first;
}

}  // namespace

GPEMU_SHIM_EXPORT void nvtxMarkEx(const NvtxAttributes* attributes) {
  mark(message(attributes));
}
GPEMU_SHIM_EXPORT void nvtxMarkA(const char* text) {
  mark(plain(text));
}
GPEMU_SHIM_EXPORT void nvtxMarkW(const wchar_t* text) {
  mark(narrow(text));
}
GPEMU_SHIM_EXPORT int nvtxRangePushEx(const NvtxAttributes* attributes) {
  return push(message(attributes));
}
GPEMU_SHIM_EXPORT int nvtxRangePushA(const char* text) {
  return push(plain(text));
}
GPEMU_SHIM_EXPORT int nvtxRangePushW(const wchar_t* text) {
  return push(narrow(text));
}
GPEMU_SHIM_EXPORT int nvtxRangePop() {
  return pop();
}
GPEMU_SHIM_EXPORT uint64_t nvtxRangeStartEx(const NvtxAttributes* attributes) {
  return start(message(attributes));
}
GPEMU_SHIM_EXPORT uint64_t nvtxRangeStartA(const char* text) {
  return start(plain(text));
}
GPEMU_SHIM_EXPORT uint64_t nvtxRangeStartW(const wchar_t* text) {
  return start(narrow(text));
}
GPEMU_SHIM_EXPORT void nvtxRangeEnd(uint64_t id) {
  end(id);
}

// Domains group ranges for a viewer; the recording has one group.
GPEMU_SHIM_EXPORT void nvtxDomainMarkEx(const void*, const NvtxAttributes* attributes) {
  mark(message(attributes));
}
GPEMU_SHIM_EXPORT int nvtxDomainRangePushEx(const void*, const NvtxAttributes* attributes) {
  return push(message(attributes));
}
GPEMU_SHIM_EXPORT int nvtxDomainRangePop(const void*) {
  return pop();
}
GPEMU_SHIM_EXPORT uint64_t nvtxDomainRangeStartEx(const void*, const NvtxAttributes* attributes) {
  return start(message(attributes));
}
GPEMU_SHIM_EXPORT void nvtxDomainRangeEnd(const void*, uint64_t id) {
  end(id);
}
GPEMU_SHIM_EXPORT const void* nvtxDomainCreateA(const char* name) {
  return keep(plain(name));
}
GPEMU_SHIM_EXPORT const void* nvtxDomainCreateW(const wchar_t* name) {
  return keep(narrow(name));
}
GPEMU_SHIM_EXPORT void nvtxDomainDestroy(const void*) {}
GPEMU_SHIM_EXPORT const void* nvtxDomainRegisterStringA(const void*, const char* text) {
  return keep(plain(text));
}
GPEMU_SHIM_EXPORT const void* nvtxDomainRegisterStringW(const void*, const wchar_t* text) {
  return keep(narrow(text));
}
