//! Compiles kernels for a GPU architecture, to the form that its driver takes. This machine needs no such
//! GPU.
//!
//! ```no_run
//! use fangorn::{
//!     cube::offline,
//!     import,
//!     plan::{Request, lower},
//!     schedule::{Architecture, Schedule},
//! };
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let forest = import::load("model.ubj".as_ref(), &Default::default())?;
//! let schedule = Schedule::parse(&std::fs::read_to_string("schedule.txt")?)?;
//! let hopper: Architecture = "sm_90a".parse()?;
//! let request = Request { device: hopper.device(), ..Request::cpu() };
//! let kernel = offline::kernel(hopper, &lower(&forest, &schedule, request)?)?;
//! std::fs::write("kernel.ptx", kernel.binary)?;
//! # Ok(()) }
//! ```

use std::sync::Arc;

use cubecl::{
    Compiler,
    ir::{
        DeviceIdentity, DeviceProperties, HardwareProperties, MemoryDeviceProperties,
        features::{Features, Plane},
    },
    profile::TimingMethod,
};

use crate::{
    error::{Error, Result},
    plan::{LoweredForest, cube::PlanRef},
    schedule::{Architecture, Device},
};

/// A compiled kernel, in the form that a driver takes.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// The kernel as text: PTX for NVIDIA. For AMD the assembly if `CUBECL_DEBUG_PLIRON` is set, otherwise
    /// LLVM's IR.
    pub text: String,
    /// The kernel for the driver: PTX for NVIDIA, a code object (ELF) for AMD.
    pub binary: Vec<u8>,
    /// Shared memory of a cube, in bytes.
    pub shared_bytes: usize,
}

/// Compiles the kernel of a forest that was lowered for [`Architecture::device`].
///
/// # Errors
/// The architecture's backend is not built in, the forest was lowered for the CPU, or the compiler refuses
/// the kernel.
pub fn kernel(architecture: Architecture, lowered: &LoweredForest) -> Result<Kernel> {
    let plan = PlanRef::new(lowered.cube_plan()?.clone());
    match architecture {
        #[cfg(feature = "cuda")]
        Architecture::Nvidia(capability) => nvidia(architecture, capability, &plan),
        #[cfg(feature = "rocm")]
        Architecture::Amd(_) => amd(architecture, &plan),
        #[cfg(not(all(feature = "cuda", feature = "rocm")))]
        _ => {
            let _ = plan;
            let feature = if matches!(architecture, Architecture::Nvidia(_)) { "cuda" } else { "rocm" };
            Err(Error::Device(format!("kernels for {architecture} need a build with --features {feature}")))
        }
    }
}

#[cfg(feature = "cuda")]
fn nvidia(architecture: Architecture, capability: u32, plan: &PlanRef) -> Result<Kernel> {
    use cubecl::{
        cuda::{CudaCompilationOptions, CudaCompiler, CudaRepresentation, compiler::CudaBackend},
        ir::nvidia::SmArch,
    };
    let mut options =
        CudaCompilationOptions { arch: Some(SmArch::new(capability, true)), ..Default::default() };
    // Scalars are among the kernel's parameters, as in cubecl's runtime.
    options.cpp.supports_features.grid_constants = capability >= 70;
    match compile(architecture, plan, CudaCompiler::new(CudaBackend::Llvm), &options)? {
        CudaRepresentation::Llvm(module) => {
            let ptx: Vec<u8> = module.ptx.iter().map(|c| *c as u8).take_while(|c| *c != 0).collect();
            Ok(Kernel {
                text: String::from_utf8_lossy(&ptx).into_owned(),
                binary: ptx,
                shared_bytes: module.shared_memory_size,
            })
        }
        CudaRepresentation::Cpp(_) => Err(Error::Internal("CUDA C++ where PTX was asked for".into())),
    }
}

#[cfg(feature = "rocm")]
fn amd(architecture: Architecture, plan: &PlanRef) -> Result<Kernel> {
    use cubecl::{
        hip::{HipCompilationOptions, HipCompiler, HipRepresentation, compiler::HipBackend},
        ir::amd::GfxArch,
    };
    let options =
        HipCompilationOptions { arch: Some(GfxArch::parse(&architecture.to_string())), ..Default::default() };
    match compile(architecture, plan, HipCompiler::new(HipBackend::Llvm), &options)? {
        HipRepresentation::Llvm(module) => Ok(Kernel {
            text: module.asm.unwrap_or(module.ir),
            binary: module.code_object.to_vec(),
            shared_bytes: module.shared_memory_size,
        }),
        HipRepresentation::Cpp(_) => Err(Error::Internal("HIP C++ where a code object was asked for".into())),
    }
}

#[cfg_attr(
    not(any(feature = "cuda", feature = "rocm")),
    allow(dead_code, reason = "what compiles needs LLVM")
)]
fn compile<C: Compiler>(
    architecture: Architecture,
    plan: &PlanRef,
    compiler: C,
    options: &C::CompilationOptions,
) -> Result<C::Representation> {
    fangorn_kernels::compile(properties(architecture), plan, compiler, options)
        .map_err(|e| Error::Device(format!("{architecture}: {e}")))
}

fn properties(architecture: Architecture) -> Arc<DeviceProperties> {
    let Device::Gpu(gpu) = architecture.device() else { unreachable!("an architecture is a GPU's") };
    let [x, y, z] = gpu.max_dim;
    let hardware = HardwareProperties {
        load_width: 128,
        vector_register_count: None,
        plane_size_min: architecture.plane(),
        plane_size_max: architecture.plane(),
        max_bindings: 1024,
        max_shared_memory_size: gpu.shared_bytes as usize,
        max_cube_count: (i32::MAX as u32, u16::MAX.into(), u16::MAX.into()),
        max_units_per_cube: gpu.max_units,
        max_cube_dim: (x, y, z),
        num_streaming_multiprocessors: None,
        num_tensor_cores: None,
        min_tensor_cores_dim: None,
        num_cpu_cores: None,
        last_level_cache_size: None,
        max_vector_size: cubecl::ir::VectorSize::MAX,
        cube_mma_reserved_shared_memory: 0,
    };
    let mut features = Features::default();
    features.plane.insert(Plane::Ops);
    features.plane.insert(Plane::NonUniformControlFlow);
    features.memory_reinterpret = true;
    features.alignment = true;
    features.device_memory_scope = true;
    let name = architecture.to_string();
    let identity = DeviceIdentity { name: name.clone(), fingerprint: name, physical: None };
    let memory = MemoryDeviceProperties::new(u64::MAX, 256);
    Arc::new(DeviceProperties::new(features, memory, hardware, TimingMethod::Device, identity))
}
