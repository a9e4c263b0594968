//! The device of cubecl that tests run on, for the tests of every crate.

use burn::tensor::Device;
#[cfg(feature = "wgpu")]
use burn::tensor::DeviceKind;

/// The cubecl device under test, if its driver answers: the one that `FANGORN_TEST_DEVICE` names (vulkan, wgpu, cuda,
/// rocm or cubecl-cpu), or else the first of these that is built in. `None` if none is.
pub fn gpu() -> Option<(&'static str, Device)> {
    type Backend = (&'static str, fn() -> Device);
    let built_in: &[Backend] = &[
        #[cfg(feature = "vulkan")]
        ("vulkan", || Device::vulkan(DeviceKind::DefaultDevice)),
        #[cfg(all(feature = "wgpu", not(feature = "vulkan")))]
        ("wgpu", || Device::wgpu(DeviceKind::DefaultDevice)),
        #[cfg(feature = "cuda")]
        ("cuda", || Device::cuda(0)),
        #[cfg(feature = "rocm")]
        ("rocm", || Device::rocm(0)),
        #[cfg(feature = "cubecl-cpu")]
        ("cubecl-cpu", Device::cpu),
    ];
    let (name, make) = match std::env::var("FANGORN_TEST_DEVICE") {
        Ok(wanted) => *built_in
            .iter()
            .find(|(name, _)| *name == wanted)
            .unwrap_or_else(|| panic!("FANGORN_TEST_DEVICE is {wanted}, which is not in this build")),
        Err(_) => *built_in.first()?,
    };
    let open = || {
        let device = make();
        // The first use opens the device; without a driver that panics.
        device.identity();
        (name, device)
    };
    match std::panic::catch_unwind(open) {
        Ok(found) => Some(found),
        Err(_) if std::env::var("FANGORN_REQUIRE_GPU").is_ok_and(|v| v == "1") => {
            panic!("no GPU driver answers, and one is required")
        }
        Err(_) => {
            eprintln!("skipped: no GPU driver answers");
            None
        }
    }
}
