//! Opens burn's devices by the names of fangorn's backend features.

use burn::tensor::Device;

#[cfg(feature = "cube")]
use crate::error::caught;

/// Returns the default device of a backend, or `None` if the backend is not built in.
#[allow(deprecated, reason = "burn-ndarray is served as long as burn has it")]
pub fn open(backend: &str) -> Option<Device> {
    match backend {
        #[cfg(feature = "flex")]
        "flex" => Some(Device::flex()),
        #[cfg(feature = "ndarray")]
        "ndarray" => Some(Device::ndarray()),
        #[cfg(feature = "cubecl-cpu")]
        "cubecl-cpu" => Some(Device::cpu()),
        #[cfg(feature = "cuda")]
        "cuda" => Some(Device::cuda(0)),
        #[cfg(feature = "vulkan")]
        "vulkan" => Some(Device::vulkan(burn::tensor::DeviceKind::DefaultDevice)),
        #[cfg(feature = "wgpu")]
        "wgpu" => Some(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
        #[cfg(feature = "metal")]
        "metal" => Some(Device::metal(burn::tensor::DeviceKind::DefaultDevice)),
        #[cfg(feature = "rocm")]
        "rocm" => Some(Device::rocm(0)),
        _ => None,
    }
}

/// Returns the name that a cubecl device reports for itself.
#[cfg(feature = "cube")]
pub fn name(backend: &'static str, device: &Device) -> String {
    let identity = caught(backend, || Ok(device.identity())).ok().flatten();
    identity.map_or_else(|| format!("{device:?}"), |identity| identity.name)
}

/// Returns what schedules are checked against: the description of a cubecl device, or the CPU.
pub fn description(device: &Device) -> fangorn::schedule::Device {
    match device.as_dispatch() {
        #[cfg(feature = "cube")]
        burn::backend::DispatchDevice::Cube(device) => fangorn::cube::device(&device.client()),
        _ => fangorn::schedule::Device::Cpu,
    }
}
