//! Whether a schedule can run on a device, and if not, which directive to change and how.

use super::{Dim, Directive, GpuDim, Mapping, Nest, NestLoop, Schedule};
use crate::forest::Forest;

/// A directive that can't be carried out, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schedule{}: {remedy}", if *number == 0 { String::new() } else { format!(", directive {number} `{directive}`") })]
pub struct ScheduleError {
    /// Its number, from 1; 0 where the schedule as a whole is meant.
    pub number: usize,
    /// The directive; empty where the schedule as a whole is meant.
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

/// What a schedule needs to know of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Device {
    /// The native CPU target.
    Cpu,
    /// A cubecl device.
    Gpu {
        /// Units of a cube.
        max_units: u32,
        /// Units of a cube by axis.
        max_dim: [u32; 3],
        /// Bytes of shared memory of a cube.
        shared_bytes: u32,
        /// Whether kernels with shared memory run right there.
        shared_memory: bool,
    },
}

impl Device {
    /// What every WebGPU device grants: 256 units, 16 KiB.
    pub const PORTABLE_GPU: Self =
        Self::Gpu { max_units: 256, max_dim: [256, 256, 64], shared_bytes: 16 << 10, shared_memory: true };
}

/// Innermost loops a GPU kernel may hold side by side: compile time grows far faster than the kernel.
pub const MOST_SIBLING_WALKS: usize = 4;
/// Straight-line walk steps a GPU kernel may hold in all, lanes counted.
pub const MOST_UNROLLED_STEPS: u32 = 256;

impl Schedule {
    /// Checks the schedule against a forest and a device, and gives its loops.
    ///
    /// On [`Device::Cpu`] no schedule is refused for its shape: `grid.*` loops are parallel, `block.*` loops
    /// serial, caches and shared sums the processor's own.
    ///
    /// # Errors
    /// The first directive that can't be carried out there, with the remedy.
    pub fn verify(&self, forest: &Forest, device: Device) -> Result<Nest, ScheduleError> {
        let nest = self.nest()?;
        if let Device::Gpu { shared_memory, .. } = device {
            self.verify_gpu(&nest, forest, shared_memory)?;
        }
        Ok(nest)
    }

    fn verify_gpu(&self, nest: &Nest, forest: &Forest, shared: bool) -> Result<(), ScheduleError> {
        let loops = nest.loops();
        if !loops.iter().any(|l| matches!(l.mapping, Mapping::Gpu(_))) {
            return Err(ScheduleError::whole(
                "no loop is mapped to the GPU, so one unit would do all the work; add gpuDimension(…, grid.x) and \
                 gpuDimension(…, block.x), or take a preset such as tahoe_direct",
            ));
        }
        for l in &loops {
            let is_grid = |m: &NestLoop| matches!(m.mapping, Mapping::Gpu(GpuDim::Grid(_)));
            let is_block = matches!(l.mapping, Mapping::Gpu(GpuDim::Block(_)));
            if is_block && let Some(grid) = l.body.iter().flat_map(NestLoop::walk).find(|m| is_grid(m)) {
                let remedy = format!("it stands inside the block loop `{}`; reorder it outside", l.var.name);
                return Err(self.blame(&grid.var.name, remedy));
            }
            if is_block
                && let Some(cached) = l.body.iter().flat_map(NestLoop::walk).chain([*l]).find(|m| m.cache)
            {
                let remedy = format!(
                    "a cube fills its row cache together, outside its block loops; cache a loop outside `{}`",
                    l.var.name
                );
                return Err(self.blame(&cached.var.name, remedy));
            }
            if l.shared_reduce && !is_block {
                let remedy = format!(
                    "only a block loop's units share memory; add gpuDimension({}, block.y)",
                    l.var.name
                );
                return Err(self.blame(&l.var.name, remedy));
            }
            if (l.cache || l.shared_reduce) && !shared {
                return Err(self.blame(
                    &l.var.name,
                    "this device's driver lacks VK_KHR_workgroup_memory_explicit_layout, without which SPIR-V kernels \
                     with shared memory are miscompiled; take the wgpu build, or leave the directive out"
                        .to_owned(),
                ));
            }
        }
        let mut dims = Vec::new();
        nest.body.iter().for_each(|l| launch_dims(l, &mut Vec::new(), &mut dims));
        if let Some(other) = dims.iter().find(|d| **d != dims[0]) {
            let text = |d: &[GpuDim]| d.iter().map(GpuDim::to_string).collect::<Vec<_>>().join(", ");
            return Err(ScheduleError::whole(format!(
                "one innermost loop is mapped to {}, another to {}; map every branch of a split to the same dimensions",
                text(&dims[0]),
                text(other)
            )));
        }
        let mut caches = Vec::new();
        nest.body.iter().for_each(|l| caches_round(l, Vec::new(), &mut caches));
        if let Some(names) = caches.iter().find(|c| c.len() > 1) {
            let remedy = format!(
                "it stands inside the cached loop `{}`; a walk reads one row cache, so cache one of them",
                names[0]
            );
            return Err(self.blame(&names[1], remedy));
        }
        if let Some(cached) =
            caches.iter().find_map(|c| c.first()).filter(|_| caches.iter().any(Vec::is_empty))
        {
            let remedy = "an innermost loop of another branch stands in no cached loop; a kernel's walks read the row cache \
                          or none does, so cache a loop of every branch"
                .to_owned();
            return Err(self.blame(cached, remedy));
        }
        let walks: Vec<&&NestLoop> = loops.iter().filter(|l| l.body.is_empty()).collect();
        if walks.len() > MOST_SIBLING_WALKS {
            return Err(ScheduleError::whole(format!(
                "{} innermost loops, at most {MOST_SIBLING_WALKS} on a GPU; split less",
                walks.len()
            )));
        }
        let deepest = forest.trees.iter().map(crate::forest::Tree::depth).max().unwrap_or(0);
        let mut steps = 0u32;
        for l in walks {
            let lanes = if l.interleave { l.var.extent().constant().unwrap_or(1) } else { 1 };
            let each = l.unroll.map_or(1, |n| n.unwrap_or(deepest).max(1));
            steps = steps.saturating_add(each.saturating_mul(lanes));
            if steps > MOST_UNROLLED_STEPS {
                let remedy = format!(
                    "{steps} straight-line steps with all lanes, at most {MOST_UNROLLED_STEPS} on a GPU; unroll or \
                     interleave less"
                );
                return Err(self.blame(&l.var.name, remedy));
            }
        }
        Ok(())
    }

    /// An error at the last directive that marks the loop `name`.
    pub(crate) fn blame(&self, name: &str, remedy: String) -> ScheduleError {
        let marks = |d: &Directive| match d {
            Directive::GpuDimension { var, .. }
            | Directive::Cache { var }
            | Directive::SharedReduce { var }
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

    /// The rows one iteration of a loop can touch below its running row, if that is a constant: the window that
    /// shared memory has to hold.
    pub(crate) fn window(body: &[NestLoop]) -> Option<u32> {
        let reach = |l: &NestLoop| -> Option<u32> {
            let inside = Self::window(&l.body)?;
            if l.var.dim == Dim::Tree {
                return Some(inside);
            }
            let own = l.var.bounds.iter().filter_map(|b| b.end.constant()).min()?;
            let step = l.var.step.constant()?;
            let last = own.checked_sub(1)? / step.max(1) * step.max(1);
            last.checked_add(inside)
        };
        body.iter().map(reach).try_fold(1u32, |most, r| r.map(|r| most.max(r)))
    }
}

/// The launch dimensions on the way to each innermost loop, sorted.
fn launch_dims(l: &NestLoop, path: &mut Vec<GpuDim>, all: &mut Vec<Vec<GpuDim>>) {
    let mapped = if let Mapping::Gpu(dim) = l.mapping { Some(dim) } else { None };
    path.extend(mapped);
    if l.body.is_empty() {
        let mut dims = path.clone();
        dims.sort_unstable();
        all.push(dims);
    }
    l.body.iter().for_each(|inner| launch_dims(inner, path, all));
    if mapped.is_some() {
        path.pop();
    }
}

/// The cached loops round each innermost loop, outermost first.
fn caches_round(l: &NestLoop, mut names: Vec<String>, all: &mut Vec<Vec<String>>) {
    if l.cache {
        names.push(l.var.name.clone());
    }
    match l.body.is_empty() {
        true => all.push(names),
        false => l.body.iter().for_each(|inner| caches_round(inner, names.clone(), all)),
    }
}
