//! burn's devices, by the names that their features have.

use burn::tensor::Device;

#[cfg(feature = "cube")]
use crate::error::caught;

/// The default device of a backend, where it is built in.
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

/// What a device of cubecl's calls itself.
#[cfg(feature = "cube")]
pub fn name(backend: &'static str, device: &Device) -> String {
    let identity = caught(backend, || Ok(device.identity())).ok().flatten();
    identity.map_or_else(|| format!("{device:?}"), |identity| identity.name)
}
