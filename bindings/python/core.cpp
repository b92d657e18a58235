// SPDX-License-Identifier: Apache-2.0
// gpemu._core: the C interface of gpemu as Python classes. Statuses become exceptions, handles end
// with their objects, and whatever waits lets other Python threads run. Documented in _core.pyi.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "gpemu/gpemu.h"

namespace py = pybind11;

namespace {

// What Python raises: gpemu.GpemuError or the subclass that its `code` names.
void check(gpemu_status status) {
  if (status == GPEMU_OK) return;
  const std::string message = gpemu_last_error();
  const py::object raise = py::module_::import("gpemu._errors").attr("error_for");
  const py::object error = raise(static_cast<int>(status), gpemu_status_name(status), message);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
  throw py::error_already_set();
}

template <class Handle, class End>
std::shared_ptr<Handle> own(Handle* handle, End end) {
  return {handle, end};
}

// Yields whether a query's work has ended.
bool has_ended(gpemu_status status) {
  if (status == GPEMU_ERROR_NOT_READY) return false;
  check(status);
  return true;
}

struct Interval {
  std::int64_t start_ns;
  std::int64_t end_ns;
};

struct Memory {
  std::uint64_t free_bytes;
  std::uint64_t total_bytes;
};

struct Event {
  Event() {
    gpemu_event* handle = nullptr;
    check(gpemu_event_create(&handle));
    event = own(handle, gpemu_event_destroy);
  }
  [[nodiscard]] bool query() const { return has_ended(gpemu_event_query(event.get())); }
  void synchronize() const {
    gpemu_status status{};
    {
      const py::gil_scoped_release release;
      status = gpemu_event_synchronize(event.get());
    }
    check(status);
  }
  [[nodiscard]] std::int64_t elapsed_ns(const Event& end) const {
    std::int64_t elapsed = 0;
    check(gpemu_event_elapsed(event.get(), end.event.get(), &elapsed));
    return elapsed;
  }

  std::shared_ptr<gpemu_event> event;
};

struct Stream {
  [[nodiscard]] Interval launch(std::int64_t duration_ns) const {
    gpemu_interval interval{};
    check(gpemu_stream_launch(stream.get(), duration_ns, &interval));
    return {interval.start_ns, interval.end_ns};
  }
  [[nodiscard]] Interval copy(gpemu_copy_direction direction, std::uint64_t bytes,
                              std::int64_t duration_ns) const {
    gpemu_interval interval{};
    check(gpemu_stream_copy(stream.get(), direction, bytes, duration_ns, &interval));
    return {interval.start_ns, interval.end_ns};
  }
  [[nodiscard]] bool query() const { return has_ended(gpemu_stream_query(stream.get())); }
  void synchronize() const {
    gpemu_status status{};
    {
      const py::gil_scoped_release release;
      status = gpemu_stream_synchronize(stream.get());
    }
    check(status);
  }
  void wait_event(const Event& event) const {
    check(gpemu_stream_wait_event(stream.get(), event.event.get()));
  }
  void record(const Event& event) const {
    check(gpemu_event_record(event.event.get(), stream.get()));
  }

  std::shared_ptr<gpemu_stream> stream;
};

struct Device {
  [[nodiscard]] gpemu_device_info info() const {
    gpemu_device_info info{};
    info.struct_size = sizeof info;
    check(gpemu_device_get_info(device.get(), &info));
    return info;
  }
  [[nodiscard]] std::uint64_t allocate(std::uint64_t bytes) const {
    std::uint64_t address = 0;
    check(gpemu_device_allocate(device.get(), bytes, &address));
    return address;
  }
  void free(std::uint64_t address) const { check(gpemu_device_free(device.get(), address)); }
  [[nodiscard]] Memory memory() const {
    Memory memory{};
    check(gpemu_device_memory(device.get(), &memory.free_bytes, &memory.total_bytes));
    return memory;
  }
  void synchronize() const {
    gpemu_status status{};
    {
      const py::gil_scoped_release release;
      status = gpemu_device_synchronize(device.get());
    }
    check(status);
  }
  [[nodiscard]] Stream stream(bool blocking) const {
    gpemu_stream* handle = nullptr;
    check(gpemu_stream_create(
        device.get(), blocking ? GPEMU_STREAM_BLOCKING : GPEMU_STREAM_NON_BLOCKING, &handle));
    return {own(handle, gpemu_stream_destroy)};
  }
  [[nodiscard]] Stream default_stream() const {
    gpemu_stream* handle = nullptr;
    check(gpemu_stream_default(device.get(), &handle));
    return {own(handle, gpemu_stream_destroy)};
  }

  std::shared_ptr<gpemu_device> device;
};

struct Node {
  Node(const std::string& gpu, std::int32_t device_count, const std::optional<std::string>& name,
       bool virtual_clock) {
    gpemu_node_config config{};
    config.struct_size = sizeof config;
    config.name = name ? name->c_str() : nullptr;
    config.gpu = gpu.c_str();
    config.device_count = device_count;
    config.clock = virtual_clock ? GPEMU_CLOCK_VIRTUAL : GPEMU_CLOCK_REAL;
    gpemu_node* handle = nullptr;
    check(gpemu_node_create(&config, &handle));
    node = own(handle, gpemu_node_close);
  }
  explicit Node(const std::string& name) {
    gpemu_node* handle = nullptr;
    check(gpemu_node_open(name.c_str(), &handle));
    node = own(handle, gpemu_node_close);
  }
  [[nodiscard]] std::int32_t device_count() const {
    std::int32_t count = 0;
    check(gpemu_node_device_count(node.get(), &count));
    return count;
  }
  [[nodiscard]] std::int64_t now() const {
    std::int64_t now_ns = 0;
    check(gpemu_node_now(node.get(), &now_ns));
    return now_ns;
  }
  void wait_until(std::int64_t time_ns) const {
    gpemu_status status{};
    {
      const py::gil_scoped_release release;
      status = gpemu_node_wait_until(node.get(), time_ns);
    }
    check(status);
  }
  [[nodiscard]] Device device(std::int32_t index) const {
    gpemu_device* handle = nullptr;
    check(gpemu_device_open(node.get(), index, &handle));
    return {own(handle, gpemu_device_close)};
  }

  std::shared_ptr<gpemu_node> node;
};

// Lends its memory to Python through the buffer protocol: views keep the object alive.
struct PinnedMemory {
  explicit PinnedMemory(std::uint64_t size) : bytes(size) {
    void* address = nullptr;
    check(gpemu_pinned_allocate(size, &address));
    memory = {address, [](void* pages) { gpemu_pinned_free(pages); }};
  }

  std::uint64_t bytes;
  std::shared_ptr<void> memory;
};

struct CostModel {
  [[nodiscard]] gpemu_step_cost step(std::int32_t batch) const {
    gpemu_step_cost cost{};
    cost.struct_size = sizeof cost;
    check(gpemu_cost_model_step(model.get(), batch, &cost));
    return cost;
  }
  [[nodiscard]] std::int32_t largest_batch() const {
    std::int32_t batch = 0;
    check(gpemu_cost_model_largest_batch(model.get(), &batch));
    return batch;
  }

  std::shared_ptr<gpemu_cost_model> model;
};

struct Database {
  explicit Database(const std::optional<std::string>& file) {
    gpemu_database* handle = nullptr;
    check(gpemu_database_open(file ? file->c_str() : nullptr, &handle));
    database = own(handle, gpemu_database_close);
  }
  [[nodiscard]] gpemu_gpu_info gpu(const std::string& name) const {
    gpemu_gpu_info info{};
    info.struct_size = sizeof info;
    check(gpemu_database_find_gpu(database.get(), name.c_str(), &info));
    return info;
  }
  [[nodiscard]] gpemu_model_info model(const std::string& name) const {
    gpemu_model_info info{};
    info.struct_size = sizeof info;
    check(gpemu_database_find_model(database.get(), name.c_str(), &info));
    return info;
  }
  [[nodiscard]] std::vector<gpemu_gpu_info> gpus() const {
    std::int32_t count = 0;
    check(gpemu_database_gpu_count(database.get(), &count));
    std::vector<gpemu_gpu_info> all;
    for (std::int32_t index = 0; index < count; ++index) {
      gpemu_gpu_info info{};
      info.struct_size = sizeof info;
      check(gpemu_database_gpu(database.get(), index, &info));
      all.push_back(info);
    }
    return all;
  }
  [[nodiscard]] std::vector<gpemu_model_info> models() const {
    std::int32_t count = 0;
    check(gpemu_database_model_count(database.get(), &count));
    std::vector<gpemu_model_info> all;
    for (std::int32_t index = 0; index < count; ++index) {
      gpemu_model_info info{};
      info.struct_size = sizeof info;
      check(gpemu_database_model(database.get(), index, &info));
      all.push_back(info);
    }
    return all;
  }
  [[nodiscard]] CostModel cost_model(const std::string& model, const std::string& gpu,
                                     const std::optional<std::string>& precision) const {
    gpemu_cost_model* handle = nullptr;
    check(gpemu_database_cost_model(database.get(), model.c_str(), gpu.c_str(),
                                    precision ? precision->c_str() : nullptr, &handle));
    return {own(handle, gpemu_cost_model_destroy)};
  }

  std::shared_ptr<gpemu_database> database;
};

std::int64_t host_now() {
  std::int64_t now_ns = 0;
  check(gpemu_host_now(&now_ns));
  return now_ns;
}

void host_wait_until(std::int64_t time_ns) {
  gpemu_status status{};
  {
    const py::gil_scoped_release release;
    status = gpemu_host_wait_until(time_ns);
  }
  check(status);
}

// Uses a share of a core until a duration has passed: the thread works whenever it has used less of
// its CPU time than that, and sleeps for a slice otherwise.
void host_burn(double load, std::int64_t duration_ns, std::int64_t slice_ns) {
  const py::gil_scoped_release release;
  const auto cpu_time = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  const auto start = std::chrono::steady_clock::now();
  const auto end = start + std::chrono::nanoseconds(duration_ns);
  const std::chrono::nanoseconds used_before = cpu_time();
  for (auto now = start; now < end; now = std::chrono::steady_clock::now()) {
    const auto due = static_cast<double>((now - start).count()) * load;
    if (static_cast<double>((cpu_time() - used_before).count()) < due) continue;
    std::this_thread::sleep_until(std::min(now + std::chrono::nanoseconds(slice_ns), end));
  }
}

void bind_device(py::module_& module) {
  py::class_<Interval>(module, "Interval")
      .def_readonly("start_ns", &Interval::start_ns)
      .def_readonly("end_ns", &Interval::end_ns);
  py::class_<Memory>(module, "Memory")
      .def_readonly("free_bytes", &Memory::free_bytes)
      .def_readonly("total_bytes", &Memory::total_bytes);
  py::class_<Event>(module, "Event")
      .def(py::init<>())
      .def("query", &Event::query)
      .def("synchronize", &Event::synchronize)
      .def("elapsed_ns", &Event::elapsed_ns, py::arg("end"));
  py::class_<Stream>(module, "Stream")
      .def("launch", &Stream::launch, py::arg("duration_ns"))
      .def(
          "copy_to_device",
          [](const Stream& self, std::uint64_t bytes, std::int64_t duration_ns) {
            return self.copy(GPEMU_COPY_HOST_TO_DEVICE, bytes, duration_ns);
          },
          py::arg("nbytes"), py::arg("duration_ns"))
      .def(
          "copy_to_host",
          [](const Stream& self, std::uint64_t bytes, std::int64_t duration_ns) {
            return self.copy(GPEMU_COPY_DEVICE_TO_HOST, bytes, duration_ns);
          },
          py::arg("nbytes"), py::arg("duration_ns"))
      .def("record", &Stream::record, py::arg("event"))
      .def("wait_event", &Stream::wait_event, py::arg("event"))
      .def("query", &Stream::query)
      .def("synchronize", &Stream::synchronize);
  py::class_<Device>(module, "Device")
      .def_property_readonly("gpu", [](const Device& self) { return std::string(self.info().gpu); })
      .def_property_readonly("uuid",
                             [](const Device& self) { return std::string(self.info().uuid); })
      .def_property_readonly("pci_bus_id",
                             [](const Device& self) { return std::string(self.info().pci_bus_id); })
      .def("allocate", &Device::allocate, py::arg("nbytes"))
      .def("free", &Device::free, py::arg("address"))
      .def("memory", &Device::memory)
      .def("stream", &Device::stream, py::arg("blocking") = true)
      .def("default_stream", &Device::default_stream)
      .def("synchronize", &Device::synchronize);
  py::class_<Node>(module, "Node")
      .def(py::init<const std::string&, std::int32_t, const std::optional<std::string>&, bool>(),
           py::arg("gpu"), py::arg("device_count") = 1, py::kw_only(), py::arg("name") = py::none(),
           py::arg("virtual_clock") = false)
      .def_static(
          "open", [](const std::string& name) { return Node(name); }, py::arg("name"))
      .def_property_readonly("device_count", &Node::device_count)
      .def("now", &Node::now)
      .def("wait_until", &Node::wait_until, py::arg("time_ns"))
      .def("device", &Node::device, py::arg("index") = 0);
  py::class_<PinnedMemory>(module, "PinnedMemory", py::buffer_protocol())
      .def(py::init<std::uint64_t>(), py::arg("nbytes"))
      .def("__len__", [](const PinnedMemory& self) { return self.bytes; })
      .def_buffer([](PinnedMemory& self) {
        return py::buffer_info(static_cast<std::uint8_t*>(self.memory.get()),
                               static_cast<py::ssize_t>(self.bytes));
      });
}

void bind_costs(py::module_& module) {
  py::class_<gpemu_estimate>(module, "Estimate")
      .def_readonly("time_ns", &gpemu_estimate::time_ns)
      .def_readonly("relative_error", &gpemu_estimate::relative_error)
      .def_property_readonly("evidence", [](const gpemu_estimate& self) {
        constexpr const char* kNames[] = {"measured",   "interpolated", "extrapolated", "scaled",
                                          "calibrated", "transferred",  "analytic"};
        return kNames[self.evidence];
      });
  py::class_<gpemu_step_cost>(module, "StepCost")
      .def_readonly("forward", &gpemu_step_cost::forward)
      .def_readonly("backward_optimizer", &gpemu_step_cost::backward_optimizer)
      .def_readonly("copy_pageable", &gpemu_step_cost::copy_pageable)
      .def_readonly("copy_pinned", &gpemu_step_cost::copy_pinned)
      .def_readonly("persistent_bytes", &gpemu_step_cost::persistent_bytes)
      .def_readonly("peak_bytes", &gpemu_step_cost::peak_bytes)
      .def_readonly("reserved_bytes", &gpemu_step_cost::reserved_bytes);
  py::class_<CostModel>(module, "CostModel")
      .def("step", &CostModel::step, py::arg("batch"))
      .def_property_readonly("largest_batch", &CostModel::largest_batch);
  py::class_<gpemu_gpu_info>(module, "Gpu")
      .def_property_readonly("name", [](const gpemu_gpu_info& self) { return self.name; })
      .def_property_readonly("product_name",
                             [](const gpemu_gpu_info& self) { return self.product_name; })
      .def_property_readonly("architecture",
                             [](const gpemu_gpu_info& self) { return self.architecture; })
      .def_property_readonly("compute_capability",
                             [](const gpemu_gpu_info& self) {
                               return std::pair(self.compute_capability_major,
                                                self.compute_capability_minor);
                             })
      .def_readonly("multiprocessors", &gpemu_gpu_info::multiprocessors)
      .def_readonly("memory_bytes", &gpemu_gpu_info::memory_bytes)
      .def_readonly("memory_bandwidth_bytes_per_s", &gpemu_gpu_info::memory_bandwidth_bytes_per_s)
      .def_readonly("fp32_flops", &gpemu_gpu_info::fp32_flops)
      .def_readonly("pinned_copy_bytes_per_s", &gpemu_gpu_info::pinned_copy_bytes_per_s);
  py::class_<gpemu_model_info>(module, "Model")
      .def_property_readonly("name", [](const gpemu_model_info& self) { return self.name; })
      .def_readonly("parameters", &gpemu_model_info::parameters)
      .def_property_readonly("input_shape", [](const gpemu_model_info& self) {
        return std::tuple(self.input_shape[0], self.input_shape[1], self.input_shape[2]);
      });
  py::class_<Database>(module, "Database")
      .def(py::init<const std::optional<std::string>&>(), py::arg("file") = py::none())
      .def("gpus", &Database::gpus)
      .def("gpu", &Database::gpu, py::arg("name"))
      .def("models", &Database::models)
      .def("model", &Database::model, py::arg("name"))
      .def("cost_model", &Database::cost_model, py::arg("model"), py::arg("gpu"),
           py::arg("precision") = py::none());
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.attr("__version__") = gpemu_version();
  module.def("host_now", &host_now);
  module.def("host_wait_until", &host_wait_until, py::arg("time_ns"));
  module.def("host_burn", &host_burn, py::arg("load"), py::arg("duration_ns"), py::arg("slice_ns"));
  bind_device(module);
  bind_costs(module);
}
