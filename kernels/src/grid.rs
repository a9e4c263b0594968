//! The number of cubes of a launch, and the maximum number of its rows.

use fangorn_ir::{
    Extents, GpuDim,
    cube::{Partial, PlanRef},
};

use super::device::{MOST_CUBES, Rows};

/// Maximum number of partial sums in global memory. If trees that are spread over the grid would take more,
/// the grid gets fewer cubes, and each cube runs several iterations of the grid's loops.
pub(crate) const MOST_PARTIALS: u64 = 1 << 26;
/// The number of rows of a piece is a multiple of this, so that a piece begins where a binding may begin.
pub(crate) const PIECE: u32 = 128;

/// Returns the maximum number of rows of one launch. With so many rows, indices stay below 2^32, no binding
/// is larger than `most_bytes` bytes, and the private copies of the units of one cube stay below their limit.
/// It is at least 128.
pub fn most_rows(plan: &PlanRef, rows: &Rows, trees: u32, most_bytes: u64) -> u32 {
    let words = most_bytes.min(1 << 33) / 4;
    let width = plan.emit.width(plan.outputs, trees).max(plan.sum_words());
    let of_unit = |p: &Partial| {
        let in_cube = p.dims.iter().filter(|d| matches!(d, GpuDim::Block(_)));
        in_cube.map(|d| u64::from(copies_of(plan, *d, [1; 3]))).product::<u64>() * u64::from(plan.sum_words())
    };
    let partials = plan.own.partials.iter().map(of_unit).sum::<u64>();
    let limits = [
        words / u64::from(width.max(1)),
        words / u64::from(rows.row_stride.max(1)),
        MOST_PARTIALS / partials.max(1),
    ];
    let least = limits.into_iter().min().unwrap_or(1).min(1 << 31) as u32;
    (least / PIECE * PIECE).max(PIECE)
}

/// Returns the number of cubes along each grid axis. Grid loops take strides of this number, so any number
/// gives the right result. If each cube has a copy of the sums, the axes are cut until the copies fit.
pub fn cubes(plan: &PlanRef, at: Extents) -> [u32; 3] {
    let mut count = plan.own.grid.map(|g| g.map_or(1, |v| plan.resolve(v, at)).clamp(1, MOST_CUBES));
    let sums = u64::from(at.batch) * u64::from(plan.sum_words());
    for partial in &plan.own.partials {
        let total = |count: [u32; 3]| {
            sums * partial.dims.iter().map(|d| u64::from(copies_of(plan, *d, count))).product::<u64>()
        };
        while total(count) > MOST_PARTIALS {
            let on_grid = partial
                .dims
                .iter()
                .filter_map(|d| if let GpuDim::Grid(a) = d { Some(*a as usize) } else { None });
            match on_grid.max_by_key(|a| count[*a]).filter(|a| count[*a] > 1) {
                Some(axis) => count[axis] = count[axis].div_ceil(2),
                None => break,
            }
        }
    }
    count
}

/// Returns the number of private copies along a launch dimension.
pub(crate) fn copies_of(plan: &PlanRef, dim: GpuDim, count: [u32; 3]) -> u32 {
    match dim {
        GpuDim::Grid(axis) => count[axis as usize],
        GpuDim::Block(axis) => plan.own.cube_dim[axis as usize],
    }
}
