//! Checks whether a schedule can run on a device. A refusal names the directive to change and the remedy.

use super::{CodeLimits, Dim, Directive, Mapping, Nest, NestLoop, Schedule};

/// The error of a directive that can't be carried out, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schedule{}: {remedy}", if *number == 0 { String::new() } else { format!(", directive {number} `{directive}`") })]
pub struct ScheduleError {
    /// The directive's number, from 1. It is 0 if the error concerns the schedule as a whole.
    pub number: usize,
    /// The directive's text. It is empty if the error concerns the schedule as a whole.
    pub directive: String,
    /// What is wrong and what to do.
    pub remedy: String,
}

impl ScheduleError {
    pub(super) fn new(index: usize, directive: &Directive, remedy: String) -> Self {
        Self { number: index + 1, directive: directive.to_string(), remedy }
    }

    pub(crate) fn whole(remedy: impl Into<String>) -> Self {
        Self { number: 0, directive: String::new(), remedy: remedy.into() }
    }
}

/// The properties of a device that a schedule is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The native CPU target.
    Cpu,
    /// A cubecl device.
    Gpu(Gpu),
}

/// The limits and capabilities of a cubecl device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    /// The greatest number of units of a cube.
    pub max_units: u32,
    /// The greatest number of units of a cube along each axis.
    pub max_dim: [u32; 3],
    /// Number of multiprocessors, each of which runs several cubes side by side; a guess if the driver does not say.
    pub multiprocessors: u32,
    /// Bytes of shared memory of a cube.
    pub shared_bytes: u32,
    /// Whether kernels with shared memory give correct results on the device.
    pub shared_memory: bool,
    /// Whether the device has plane operations.
    pub plane_ops: bool,
    /// Whether the device has atomic additions to `f32` values in buffers.
    pub atomic_add: bool,
    /// Whether units are threads of a processor. Each spins at a barrier until all others have reached it.
    pub units_are_threads: bool,
    /// How much code the device's compiler can take.
    pub code: CodeLimits,
}

impl Gpu {
    /// The capabilities that every WebGPU device has: 256 units, 16 KiB of shared memory, neither plane
    /// operations nor atomic additions to `f32`.
    pub const PORTABLE: Self = Self {
        max_units: 256,
        max_dim: [256, 256, 64],
        multiprocessors: 64,
        shared_bytes: 16 << 10,
        shared_memory: true,
        plane_ops: false,
        atomic_add: false,
        units_are_threads: false,
        code: CodeLimits::PORTABLE,
    };
}

impl Device {
    /// A GPU with the capabilities of [`Gpu::PORTABLE`].
    pub const PORTABLE_GPU: Self = Self::Gpu(Gpu::PORTABLE);
}

impl Schedule {
    /// Checks the schedule against a device, and returns its loops.
    ///
    /// On [`Device::Cpu`] it refuses no loop nest: `grid.*` loops are parallel there, and `block.*` loops
    /// serial.
    ///
    /// # Errors
    /// Returns the first directive that can't be carried out on the device, with the remedy.
    pub fn verify(&self, device: Device) -> Result<Nest, ScheduleError> {
        let nest = self.nest()?;
        let Device::Gpu(gpu) = device else { return Ok(nest) };
        let loops = nest.loops();
        if !loops.iter().any(|l| matches!(l.marks.mapping, Mapping::Gpu(_))) {
            return Err(ScheduleError::whole(
                "no loop is mapped to the GPU, so one unit would do all the work; add gpuDimension(…, grid.x) and \
                 gpuDimension(…, block.x), or use a preset such as tahoe_direct",
            ));
        }
        if let Some((nodes, _)) = self.tiles() {
            let remedy = format!(
                "a GPU's units walk node by node, and have no tiles of {nodes}; leave the directive out, or use the CPU"
            );
            return Err(self.last_of(|d| matches!(d, Directive::TileNodes { .. }), remedy));
        }
        if let Some(l) = loops.iter().find(|l| l.marks.cache || l.marks.reduce.shared)
            && !gpu.shared_memory
        {
            return Err(self.blame(
                &l.var.name,
                "this device's driver lacks VK_KHR_workgroup_memory_explicit_layout, without which SPIR-V kernels \
                 with shared memory are miscompiled; use the wgpu build, or leave the directive out"
                    .to_owned(),
            ));
        }
        let walks = loops.iter().filter(|l| l.body.is_empty()).count();
        let most = gpu.code.siblings;
        if walks > most as usize {
            return Err(ScheduleError::whole(format!(
                "{walks} innermost loops, at most {most} on this GPU; split less"
            )));
        }
        Ok(nest)
    }

    /// Returns an error at the last directive that marks the loop `name`.
    pub(crate) fn blame(&self, name: &str, remedy: String) -> ScheduleError {
        let marks = |d: &Directive| match d {
            Directive::GpuDimension { var, .. }
            | Directive::Cache { var }
            | Directive::SharedReduce { var }
            | Directive::AtomicReduce { var }
            | Directive::VectorReduce { var, .. }
            | Directive::Unroll { var }
            | Directive::Specialize { var }
            | Directive::PeelWalk { var, .. }
            | Directive::PeelLikely { var, .. }
            | Directive::Evaluate { var, .. }
            | Directive::Interleave { var }
            | Directive::UnrollWalk { var, .. }
            | Directive::Parallel { var } => var.rsplit('.').next() == Some(name),
            _ => false,
        };
        match self.directives.iter().enumerate().rev().find(|(_, d)| marks(d)) {
            Some((i, directive)) => ScheduleError::new(i, directive, remedy),
            None => ScheduleError::whole(format!("loop `{name}`: {remedy}")),
        }
    }

    /// Returns an error at the last directive that `kind` accepts.
    pub(crate) fn last_of(&self, kind: impl Fn(&Directive) -> bool, remedy: String) -> ScheduleError {
        match self.directives.iter().enumerate().rev().find(|(_, d)| kind(d)) {
            Some((i, directive)) => ScheduleError::new(i, directive, remedy),
            None => ScheduleError::whole(remedy),
        }
    }

    /// Returns how many rows, from the current row on, one iteration of a loop with this body can touch, if
    /// the number is a constant. Shared memory has to hold that many rows.
    pub(crate) fn touched_rows(body: &[NestLoop]) -> Option<u32> {
        let reach = |l: &NestLoop| -> Option<u32> {
            let inside = Self::touched_rows(&l.body)?;
            if l.var.dim == Dim::Tree {
                return Some(inside);
            }
            let own = l.var.bounds.iter().filter_map(|b| b.end.constant()).min()?;
            let stride = l.var.stride.constant()?;
            let last = own.checked_sub(1)? / stride.max(1) * stride.max(1);
            last.checked_add(inside)
        };
        body.iter().map(reach).try_fold(1u32, |most, r| r.map(|r| most.max(r)))
    }
}
