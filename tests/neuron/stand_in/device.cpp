// A device "neuron" of PyTorch in the memory of the host, of the type PrivateUse1, as in TorchNeuron.
//
// The device has its own views, storage and copies. The CPU fallback runs every other operator, which
// is counted by name. Copies between host and device are counted, too, except those of the fallback.
// Dtypes that a NeuronCore cannot store raise an error: float64, and complex ones in the first mode.

#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/extension.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>

namespace {

constexpr auto kNeuron = c10::DeviceType::PrivateUse1;

// Counts since the last reset: bytes and copies over the bus, and operators that the CPU computed.
struct Counts {
  std::atomic<int64_t> to_host{0}, to_device{0}, to_host_bytes{0}, to_device_bytes{0};
  std::mutex lock;
  std::map<std::string, int64_t> fallbacks;
};

Counts& counts() {
  static Counts all;
  return all;
}

thread_local int in_fallback = 0;

struct InFallback {
  InFallback() { ++in_fallback; }
  ~InFallback() { --in_fallback; }
};

struct Allocator final : at::Allocator {
  at::DataPtr allocate(size_t bytes) override {
    void* data = c10::alloc_cpu(bytes);
    return {data, data, &c10::free_cpu, at::Device(kNeuron, 0)};
  }
  at::DeleterFnPtr raw_deleter() const override { return &c10::free_cpu; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

Allocator allocator;
REGISTER_ALLOCATOR(kNeuron, &allocator)

struct Guard final : c10::impl::DeviceGuardImplInterface {
  static constexpr at::DeviceType static_type = kNeuron;
  at::DeviceType type() const override { return kNeuron; }
  at::Device exchangeDevice(at::Device) const override { return getDevice(); }
  at::Device getDevice() const override { return {kNeuron, 0}; }
  void setDevice(at::Device) const override {}
  void uncheckedSetDevice(at::Device) const noexcept override {}
  at::Stream getStream(at::Device device) const override {
    return at::Stream(at::Stream::DEFAULT, device);
  }
  at::Stream getDefaultStream(at::Device device) const override { return getStream(device); }
  at::Stream getNewStream(at::Device device, int) const override { return getStream(device); }
  at::Stream exchangeStream(at::Stream stream) const override { return stream; }
  at::DeviceIndex deviceCount() const noexcept override { return 1; }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
  at::DeviceIndex deviceCount() const override { return 1; }
  at::DeviceIndex getCurrentDevice() const override { return 0; }
  at::Allocator* getPinnedMemoryAllocator() const override { return at::getCPUAllocator(); }
  at::Device getDeviceFromPtr(void*) const override { return {kNeuron, 0}; }
  const at::Generator& getDefaultGenerator(at::DeviceIndex) const override {
    static auto generator = at::detail::getDefaultCPUGenerator();
    return generator;
  }
};

// Returns a tensor of the host in the same memory.
at::Tensor on_host(const at::Tensor& x) {
  if (x.is_cpu()) return x;
  auto options = at::TensorOptions().dtype(x.dtype()).device(at::kCPU);
  auto host = at::from_blob(x.data_ptr(), x.sizes(), x.strides(), options);
  host._set_conj(x.is_conj());
  host._set_neg(x.is_neg());
  return host;
}

bool has_complex = false;  // the second mode, in which complex64 can be stored

void check_dtype(at::ScalarType dtype) {
  TORCH_CHECK_TYPE(
      (!at::isComplexType(dtype) || (has_complex && dtype == at::kComplexFloat)) &&
          dtype != at::kDouble,
      "neuron: a NeuronCore has no storage for ", dtype);
}

at::Tensor empty_strided(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  auto type = dtype.value_or(at::typeMetaToScalarType(at::get_default_dtype()));
  check_dtype(type);
  return at::detail::empty_strided_generic(
      size, stride, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type);
}

at::Tensor empty(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  auto type = dtype.value_or(at::typeMetaToScalarType(at::get_default_dtype()));
  check_dtype(type);
  return at::detail::empty_generic(
      size, &allocator, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), type, format);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool) {
  if (self.is_cpu() != to.is_cpu() && !in_fallback) {
    auto& all = counts();
    (to.is_cpu() ? all.to_host : all.to_device) += 1;
    (to.is_cpu() ? all.to_host_bytes : all.to_device_bytes) += self.nbytes();
  }
  on_host(to).copy_(on_host(self));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  if (to.sizes() != self.sizes()) to.resize_(self.sizes());
  return copy_from(self, to, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  if (!in_fallback) {
    counts().to_host += 1;
    counts().to_host_bytes += self.nbytes();
  }
  return on_host(self).item();
}

at::Tensor& set_source_tensor(at::Tensor& self, const at::Tensor& source) {
  return at::native::set_tensor_(self, source);
}

at::Tensor& set_storage(
    at::Tensor& self, at::Storage storage, int64_t offset, at::IntArrayRef size,
    at::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(storage), offset, size, stride);
}

at::Tensor to_device(const at::Tensor& x) {
  auto result = at::empty(x.sizes(), x.options().device(at::Device(kNeuron, 0)));
  on_host(result).copy_(x);
  return result;
}

// PyTorch requires these two functions of a device, because the fallback lacks them.
at::Tensor convolution(
    const at::Tensor& x, const at::Tensor& w, const std::optional<at::Tensor>& b,
    c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation,
    bool transposed, c10::SymIntArrayRef output_padding, c10::SymInt groups) {
  std::optional<at::Tensor> bias;
  if (b.has_value() && b->defined()) bias = on_host(*b);
  return to_device(at::convolution_symint(
      on_host(x), on_host(w), bias, stride, padding, dilation, transposed, output_padding, groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward(
    const at::Tensor& grad, const at::Tensor& x, const at::Tensor& w, c10::SymIntArrayRef stride,
    c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation, bool transposed,
    c10::SymIntArrayRef output_padding, c10::SymInt groups, std::array<bool, 3> wanted) {
  c10::SymIntArrayRef bias_sizes(w.sym_sizes().slice(transposed ? 1 : 0, 1));
  auto found = at::convolution_backward_symint(
      on_host(grad), on_host(x), on_host(w), bias_sizes, stride, padding, dilation, transposed,
      output_padding, groups, wanted);
  auto moved = [](const at::Tensor& y) { return y.defined() ? to_device(y) : y; };
  return {moved(std::get<0>(found)), moved(std::get<1>(found)), moved(std::get<2>(found))};
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage storage) {
  auto count = static_cast<int64_t>(storage.nbytes() / self.itemsize());
  return at::native::set_storage_cpu_(self, std::move(storage), 0, {count}, {1});
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  {
    std::lock_guard<std::mutex> held(counts().lock);
    ++counts().fallbacks[op.schema().operator_name().name];
  }
  InFallback inside;
  at::native::cpu_fallback(op, stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

// With autocast, products are computed in the smaller dtype, as on every device.
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(bmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(addmm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("as_strided", &at::native::as_strided_tensorimpl);
  m.impl("view", &at::native::view);
  m.impl("unfold", &at::native::unfold);
  m.impl("view_as_real", &at::native::view_as_real);
  m.impl("view_as_complex", &at::native::view_as_complex);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("resize_", &at::native::resize_);
  m.impl("set_.source_Tensor", &set_source_tensor);
  m.impl("set_.source_Storage", &set_whole_storage);
  m.impl("set_.source_Storage_storage_offset", &set_storage);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);
  m.impl("convolution_overrideable", &convolution);
  m.impl("convolution_backward_overrideable", &convolution_backward);
}

// Copies resolve the bits of lazy conjugates and negatives; otherwise more copies would do so.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

py::dict read_counts() {
  auto& all = counts();
  std::lock_guard<std::mutex> held(all.lock);
  py::dict result;
  result["to_host"] = all.to_host.load();
  result["to_device"] = all.to_device.load();
  result["to_host_bytes"] = all.to_host_bytes.load();
  result["to_device_bytes"] = all.to_device_bytes.load();
  result["fallbacks"] = all.fallbacks;
  return result;
}

void reset_counts() {
  auto& all = counts();
  std::lock_guard<std::mutex> held(all.lock);
  all.to_host = all.to_device = all.to_host_bytes = all.to_device_bytes = 0;
  all.fallbacks.clear();
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  m.def("read_counts", &read_counts);
  m.def("reset_counts", &reset_counts);
  m.def("store_complex", [](bool stored) { has_complex = stored; });
  // Kernels, which run in a simulator on the host, need tensors that share memory with the device.
  m.def("on_host", &on_host);
}
