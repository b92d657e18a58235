// SPDX-License-Identifier: Apache-2.0
// A CUDA program that reads one command per line from standard input and answers each with a line.
// Driven by share_device_test.py.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kHostToDevice = 1;
constexpr int kDeviceToHost = 2;
constexpr unsigned kSharedEvent = 2 | 4;  // no timing, interprocess

struct Handle {
  unsigned char bytes[64];
};

void* runtime = nullptr;

template <typename... Arguments>
int call(const char* name, Arguments... arguments) {
  const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(runtime, name));
  if (function == nullptr) {
    std::fprintf(stderr, "%s is missing\n", name);
    std::_Exit(1);
  }
  return function(arguments...);
}

std::string to_hex(const Handle& handle) {
  std::string text;
  for (const unsigned char byte : handle.bytes) {
    char digits[3];
    std::snprintf(digits, sizeof(digits), "%02x", byte);
    text += digits;
  }
  return text;
}

Handle from_hex(const std::string& text) {
  Handle handle{};
  for (std::size_t i = 0; i < sizeof(handle.bytes) && 2 * i + 2 <= text.size(); ++i) {
    handle.bytes[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return handle;
}

class Program {
 public:
  /// Runs a command; yields its status and further output.
  int run(const std::string& command, std::istream& arguments, std::ostream& answer) {
    std::size_t number = 0;
    if (command == "info") {
      std::size_t free = 0, total = 0;
      const int status = call("cudaMemGetInfo", &free, &total);
      answer << free << ' ' << total;
      return status;
    }
    if (command == "device") {
      arguments >> number;
      return call("cudaSetDevice", static_cast<int>(number));
    }
    if (command == "alloc") {
      arguments >> bytes_;
      return call("cudaMalloc", &memory_, bytes_);
    }
    if (command == "peer") {
      arguments >> number;
      return call("cudaDeviceEnablePeerAccess", static_cast<int>(number), 0U);
    }
    if (command == "unpeer") {
      arguments >> number;
      return call("cudaDeviceDisablePeerAccess", static_cast<int>(number));
    }
    if (command == "copy_to") return copy_to(arguments);
    if (command == "free") return call("cudaFree", memory_);
    if (command == "write") {
      arguments >> number;
      std::vector<unsigned char> data(bytes_, static_cast<unsigned char>(number));
      return call("cudaMemcpy", memory_, static_cast<void*>(data.data()), bytes_, kHostToDevice);
    }
    if (command == "read") {
      std::vector<unsigned char> data(bytes_, 255);
      const int status =
          call("cudaMemcpy", static_cast<void*>(data.data()), memory_, bytes_, kDeviceToHost);
      answer << int{data.front()} << ' ' << int{data.back()};
      return status;
    }
    return run_shared(command, arguments, answer);
  }

 private:
  int run_shared(const std::string& command, std::istream& arguments, std::ostream& answer) {
    std::string text;
    Handle handle{};
    if (command == "export") {
      const int status = call("cudaIpcGetMemHandle", &handle, memory_);
      answer << to_hex(handle);
      return status;
    }
    if (command == "open") {
      arguments >> text >> bytes_;
      return call("cudaIpcOpenMemHandle", &memory_, from_hex(text), 1U);
    }
    if (command == "close") return call("cudaIpcCloseMemHandle", memory_);
    if (command == "event") return call("cudaEventCreateWithFlags", &event_, kSharedEvent);
    if (command == "export_event") {
      const int status = call("cudaIpcGetEventHandle", &handle, event_);
      answer << to_hex(handle);
      return status;
    }
    if (command == "open_event") {
      arguments >> text;
      return call("cudaIpcOpenEventHandle", &event_, from_hex(text));
    }
    if (command == "destroy_event") return call("cudaEventDestroy", event_);
    if (command == "query") return call("cudaEventQuery", event_);
    if (command == "wait") return call("cudaStreamWaitEvent", nothing(), event_, 0U);
    if (command == "synchronize") return call("cudaDeviceSynchronize");
    if (command == "record") return call("cudaEventRecord", event_, nothing());
    if (command == "work") {
      int count = 0, status = 0;
      arguments >> count;
      for (int i = 0; i < count && status == 0; ++i) {
        status = call("cudaMemsetAsync", memory_, 0, bytes_, nothing());
      }
      return status;
    }
    return -1;
  }

  /// Copies the memory of device 0 to another device, which is used from now on.
  int copy_to(std::istream& arguments) {
    int device = 0;
    void* copied = nullptr;
    arguments >> device;
    if (const int status = call("cudaSetDevice", device); status != 0) return status;
    if (const int status = call("cudaMalloc", &copied, bytes_); status != 0) return status;
    const int status = call("cudaMemcpyPeer", copied, device, memory_, 0, bytes_);
    memory_ = copied;
    return status;
  }

  static void* nothing() { return nullptr; }

  void* memory_ = nullptr;
  void* event_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace

int main() {
  runtime = dlopen("libcudart.so.12", RTLD_NOW | RTLD_LOCAL);
  if (runtime == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  Program program;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::ostringstream answer;
    std::string command;
    words >> command;
    const int status = program.run(command, words, answer);
    std::cout << status << ' ' << answer.str() << '\n' << std::flush;
  }
  return 0;
}
