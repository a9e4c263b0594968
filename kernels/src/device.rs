//! What lies in a device's memory, and launches of a unit a value.

use cubecl::{client::Client, prelude::*, server::Handle};
use fangorn_ir::PlanRef;

/// Cubes a dimension may have on any device.
pub(crate) const MOST_CUBES: u32 = 65_535;
/// Units of a cube in the launches round the kernel, where a device's cubes have so many.
const UNITS: u32 = 256;

/// Values in a device's memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// The memory.
    pub handle: Handle,
    /// How many values. The memory holds as many: kernels don't check it.
    pub len: usize,
}

impl Buffer {
    /// Room for so many words, and for one where that is none: no binding is empty.
    pub fn of_words(client: &Client, len: usize) -> Self {
        Self { handle: client.empty(len.max(1) * 4), len }
    }

    /// One word, where a binding is needed that nothing is read from or written to.
    pub fn none(client: &Client) -> Self {
        Self::of_words(client, 1)
    }

    /// It as a kernel's argument.
    ///
    /// # Safety
    /// The memory holds as many values of the argument's type.
    pub(crate) unsafe fn arg(&self) -> BufferArg {
        // SAFETY: as promised to this function.
        unsafe { BufferArg::from_raw_parts(self.handle.clone(), self.len) }
    }
}

/// A forest on a device: nodes, trees, slots, category sets and base scores in one buffer of words.
#[derive(Clone, Debug)]
pub struct Model {
    /// The words.
    pub words: Buffer,
    /// Where the trees begin: root, constant, output and producer's index of each, by position.
    pub trees_at: u32,
    /// Where the slots begin, by address.
    pub slots_at: u32,
    /// Where the category sets begin.
    pub questions_at: u32,
    /// Where the columns that the model uses begin.
    pub columns_at: u32,
    /// Where the tables begin by which rows become ranks as they are cached.
    pub ranks_at: u32,
    /// Where the base scores begin, as words of sums; after them the sum of no leaves, and of sums that are whole numbers
    /// the bits of a low word and each output's exponent.
    pub base_at: u32,
    /// Number of trees.
    pub trees: u32,
    /// What margins are multiplied with before a transform.
    pub scale: f32,
}

/// Rows on a device, read as words whatever their type.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The words.
    pub words: Buffer,
    /// Number of rows.
    pub batch: u32,
    /// From row to row, in values.
    pub row_stride: u32,
    /// From column to column, in values.
    pub column_stride: u32,
    /// The first value, in values.
    pub offset: u32,
}

/// A plan that verifies, with what all its launches read.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The device.
    pub client: &'a Client,
    /// The plan.
    pub plan: &'a PlanRef,
    /// The forest.
    pub model: &'a Model,
    /// The leaf values by slot.
    pub leaves: &'a Buffer,
}

/// Units of a cube in a launch round the kernel: a power of two that is no more than the device's cubes have.
pub(crate) fn units(client: &Client) -> u32 {
    let most = client.properties().hardware.max_units_per_cube.clamp(1, UNITS);
    1 << most.ilog2()
}

/// A launch of one unit for each of `len` values.
pub(crate) fn flat(client: &Client, len: u32) -> (CubeCount, CubeDim) {
    let units = units(client);
    let cubes = len.div_ceil(units).max(1);
    let x = cubes.min(MOST_CUBES);
    (CubeCount::Static(x, cubes.div_ceil(x), 1), CubeDim::new_1d(units))
}
