//! A plan on a device: what is bound, how many cubes, and the launches round the kernel.

use cubecl::{client::Client, prelude::*, server::Handle};

use super::{
    expand::{CallLaunch, forest},
    reduce::{fill_base, fill_zero, reduce_copies},
};
use crate::plan::{Emit, Extents, GpuDim, Partial, PlanRef};

/// A forest on a device: nodes, trees, slots, category sets and base scores in one buffer of words.
#[derive(Clone, Debug)]
pub struct Model {
    /// The buffer.
    pub words: Handle,
    /// Its length.
    pub len: usize,
    /// Where the trees begin: root, constant, output and producer's index of each, by position.
    pub trees_at: u32,
    /// Where the slots begin, by address.
    pub slots_at: u32,
    /// Where the category sets begin.
    pub sets_at: u32,
    /// Where the base scores begin, by their bits.
    pub base_at: u32,
    /// Number of trees.
    pub trees: u32,
}

/// Rows on a device, read as words whatever their type.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The buffer.
    pub words: Handle,
    /// Its length in words.
    pub len: usize,
    /// Number of rows.
    pub batch: u32,
    /// From row to row, in values.
    pub row_stride: u32,
    /// From column to column, in values.
    pub column_stride: u32,
    /// The first value, in values.
    pub offset: u32,
}

/// Cubes a dimension may have on any device.
const MOST_CUBES: u32 = 65_535;
/// Partial sums, in values, that trees spread over the grid may take; the grid wraps beyond.
const MOST_PARTIALS: u64 = 1 << 26;
/// Units of a cube in the launches round the kernel.
const UNITS: u32 = 256;

/// Runs a plan that verifies: writes margins (bits of `f32`), slots or a trace of all rows into `out`.
///
/// `leaves` are the leaf values by slot. Nothing is read back; a batch of 0 launches nothing.
pub fn launch(client: &Client, plan: &PlanRef, model: &Model, rows: &Rows, leaves: (Handle, usize), out: (Handle, usize)) {
    if rows.batch == 0 {
        return;
    }
    let at = Extents { batch: rows.batch, trees: model.trees, threads: 1 };
    let row_sums = rows.batch * plan.outputs;
    let count = cubes(plan, at);
    let copies = |p: &Partial| p.dims.iter().map(|d| copies_of(plan, d.gpu, count)).product::<u32>();
    let mut partials_at = vec![0u32];
    for partial in &plan.partials {
        partials_at.push(partials_at[partials_at.len() - 1] + copies(partial) * row_sums);
    }
    let partial_len = partials_at.pop().unwrap_or(0);
    let partial = client.empty(partial_len.max(1) as usize * 4);
    if partial_len > 0 {
        let (count, dim) = flat(partial_len);
        // SAFETY: the buffer was made for this many values.
        unsafe {
            fill_zero::launch_unchecked(client, count, dim, buffer(&partial, partial_len as usize), partial_len);
        }
    }
    if plan.emit == Emit::Margins && !plan.sums_once() {
        let (count, dim) = flat(row_sums);
        // SAFETY: the model's base scores and the output's rows are in range.
        unsafe {
            let (model_arg, out) = (buffer(&model.words, model.len), buffer(&out.0, out.1));
            fill_base::launch_unchecked(client, count, dim, model_arg, out, model.base_at, plan.outputs, row_sums);
        }
    }
    let [x, y, z] = plan.cube_dim;
    let call = CallLaunch::new(
        rows.batch,
        model.trees,
        rows.row_stride,
        rows.column_stride,
        rows.offset,
        model.trees_at,
        model.slots_at,
        model.sets_at,
        model.base_at,
        plan.sizes.iter().map(|s| s.resolve(at)).collect(),
        partials_at.iter().copied().collect(),
    );
    // SAFETY: loops are bounded by the rows and trees, walks by the layout (checked when it was packed), and the
    // buffers were made for them.
    unsafe {
        forest::launch_unchecked(
            client,
            CubeCount::Static(count[0], count[1], count[2]),
            CubeDim::new_3d(x, y, z),
            buffer(&rows.words, rows.len),
            buffer(&model.words, model.len),
            buffer(&leaves.0, leaves.1),
            buffer(&out.0, out.1),
            buffer(&partial, partial_len.max(1) as usize),
            call,
            plan.clone(),
        );
    }
    for (p, at) in plan.partials.iter().zip(partials_at) {
        let (count, dim) = flat(row_sums);
        // SAFETY: the partial buffer was made for these copies.
        unsafe {
            let (partial, out) = (buffer(&partial, partial_len as usize), buffer(&out.0, out.1));
            reduce_copies::launch_unchecked(client, count, dim, partial, out, at, copies(p), row_sums);
        }
    }
}

/// # Safety
/// The handle holds `len` values.
unsafe fn buffer(handle: &Handle, len: usize) -> BufferArg {
    // SAFETY: as promised to this function.
    unsafe { BufferArg::from_raw_parts(handle.clone(), len) }
}

/// Cubes of each grid axis. Grid loops take strides of them, so any number is right; where each cube has a copy of
/// the sums, the axes are cut until the copies fit.
pub fn cubes(plan: &PlanRef, at: Extents) -> [u32; 3] {
    let mut count = plan.grid.map(|g| g.map_or(1, |v| plan.resolve(v, at)).clamp(1, MOST_CUBES));
    let sums = u64::from(at.batch) * u64::from(plan.outputs);
    for partial in &plan.partials {
        let total = |count: [u32; 3]| {
            sums * partial.dims.iter().map(|d| u64::from(copies_of(plan, d.gpu, count))).product::<u64>()
        };
        while total(count) > MOST_PARTIALS {
            let on_grid = partial.dims.iter().filter_map(|d| if let Some(GpuDim::Grid(a)) = d.gpu { Some(a as usize) } else { None });
            match on_grid.max_by_key(|a| count[*a]).filter(|a| count[*a] > 1) {
                Some(axis) => count[axis] = count[axis].div_ceil(2),
                None => break,
            }
        }
    }
    count
}

fn copies_of(plan: &PlanRef, dim: Option<GpuDim>, count: [u32; 3]) -> u32 {
    match dim {
        Some(GpuDim::Grid(axis)) => count[axis as usize],
        Some(GpuDim::Block(axis)) => plan.cube_dim[axis as usize],
        None => 1,
    }
}

/// A launch of one unit for each of `len` values.
fn flat(len: u32) -> (CubeCount, CubeDim) {
    let cubes = len.div_ceil(UNITS).max(1);
    let x = cubes.min(MOST_CUBES);
    (CubeCount::Static(x, cubes.div_ceil(x), 1), CubeDim::new_1d(UNITS))
}
