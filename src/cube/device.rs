//! Reads the capabilities of a cubecl device into a [`crate::schedule::Device`].

use cubecl::{client::Client, frontend::Scalar};

use crate::schedule::{CodeLimits, Device, Gpu};

/// Name of an environment variable. Set to 1, it says that the SPIR-V compiler at hand has been corrected, so
/// that kernels with shared memory may run on a driver without `VK_KHR_workgroup_memory_explicit_layout`. It
/// is for testing that path on a software driver.
pub const SPIRV_SHARED_MEMORY: &str = "FANGORN_SPIRV_SHARED_MEMORY";

/// Name of an environment variable. Set to 1, it says that plane operations may be used although the device
/// does not declare them. It is for testing that path on a software driver, which has them.
pub const PLANE_OPS: &str = "FANGORN_PLANE_OPS";

/// Returns the capabilities of a client's device.
pub fn device(client: &Client) -> Device {
    let properties = client.properties();
    let hardware = &properties.hardware;
    let (x, y, z) = hardware.max_cube_dim;
    let plane = properties.features.plane.contains(cubecl::ir::features::Plane::Ops);
    let add = cubecl::ir::features::AtomicUsage::Add;
    let float = cubecl::ir::Type::atomic(f32::elem_type_native());
    Device::Gpu(Gpu {
        plane_ops: plane || std::env::var_os(PLANE_OPS).is_some_and(|v| v == "1"),
        atomic_add: properties.atomic_type_usage(float).contains(add),
        max_units: hardware.max_units_per_cube,
        max_dim: [x, y, z],
        multiprocessors: hardware.num_streaming_multiprocessors.unwrap_or(Gpu::PORTABLE.multiprocessors),
        code: match client.name() {
            "cuda" => CodeLimits::PTX,
            _ => CodeLimits::PORTABLE,
        },
        units_are_threads: hardware.num_cpu_cores.is_some(),
        shared_bytes: u32::try_from(hardware.max_shared_memory_size).unwrap_or(u32::MAX),
        shared_memory: shared_memory_is_right(&properties.identity.name, client.name()),
    })
}

/// Whether kernels with shared memory are compiled correctly. cubecl-spirv 0.11.3 miscompiles shared memory
/// if the driver lacks `VK_KHR_workgroup_memory_explicit_layout`. Mesa's software driver lacks it, the
/// drivers of GPUs have it. cubecl can't report the extension itself, so this function checks the driver's
/// name.
fn shared_memory_is_right(driver: &str, runtime: &str) -> bool {
    !(software(driver) && compiles_spirv(runtime))
        || std::env::var_os(SPIRV_SHARED_MEMORY).is_some_and(|v| v == "1")
}

/// Whether a runtime of this name compiles kernels to SPIR-V. A build with `vulkan` compiles them to WGSL where the
/// driver is no Vulkan, OpenGL for example.
pub(super) fn compiles_spirv(runtime: &str) -> bool {
    runtime == "wgpu<spirv>"
}

fn software(name: &str) -> bool {
    ["llvmpipe", "lavapipe", "softpipe"].iter().any(|n| name.to_lowercase().contains(n))
}

/// Whether the driver is Mesa's software driver.
#[cfg(feature = "vulkan")]
pub(super) fn is_software(client: &Client) -> bool {
    software(&client.properties().identity.name)
}
