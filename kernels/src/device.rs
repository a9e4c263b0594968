//! The buffers in a device's memory, and the size of launches with one unit for each value.

use cubecl::{client::Client, prelude::*, server::Handle};
use fangorn_ir::cube::PlanRef;

/// Maximum number of cubes of a grid axis on every device.
pub(crate) const MOST_CUBES: u32 = 65_535;
/// Maximum number of units of a cube in the launches before and after a plan's kernel.
const UNITS: u32 = 256;

/// A buffer of values in a device's memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Handle of the memory.
    pub handle: Handle,
    /// Number of values. The memory must hold as many: kernels don't check their indices.
    pub len: usize,
}

impl Buffer {
    /// Allocates `len` words, and one word if `len` is 0, because no binding may be empty.
    pub fn of_words(client: &Client, len: usize) -> Self {
        Self { handle: client.empty(len.max(1) * 4), len }
    }

    /// Allocates one word, for a binding that a kernel neither reads nor writes.
    pub fn none(client: &Client) -> Self {
        Self::of_words(client, 1)
    }

    /// Returns the buffer as a kernel's argument.
    ///
    /// # Safety
    /// The memory holds at least `len` values of the argument's type.
    pub(crate) unsafe fn arg(&self) -> BufferArg {
        // SAFETY: the caller upholds that the memory holds `len` values of the argument's type.
        unsafe { BufferArg::from_raw_parts(self.handle.clone(), self.len) }
    }
}

/// A forest on a device: nodes, trees, leaf slots, questions, columns, rank tables and base scores in one
/// buffer of words.
#[derive(Clone, Debug)]
pub struct Model {
    /// The words.
    pub words: Buffer,
    /// Index of the first word of the trees' records: root, constant, output, producer's index and depth of
    /// each tree, by position.
    pub trees_at: u32,
    /// Index of the first word of the leaf slots, one for each address.
    pub slots_at: u32,
    /// Index of the first word of the questions.
    pub questions_at: u32,
    /// Index of the first word of the columns that the model uses.
    pub columns_at: u32,
    /// Index of the first word of the tables that turn values into ranks as rows are cached.
    pub ranks_at: u32,
    /// Index of the first word of the base scores, which are words of sums. After them comes the sum of no
    /// leaves. If sums are integers, the number of bits of a low word and the exponent of each output follow.
    pub base_at: u32,
    /// Number of trees of the forest.
    pub trees: u32,
    /// Factor of margins before the transform.
    pub scale: f32,
}

/// Rows on a device. Kernels read them as words, whatever their type.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The words of the values.
    pub words: Buffer,
    /// Number of rows.
    pub batch: u32,
    /// Distance between two rows, in values.
    pub row_stride: u32,
    /// Distance between two columns, in values.
    pub column_stride: u32,
    /// Index of the first value.
    pub offset: u32,
}

/// A plan that passes `Plan::verify`, with the buffers that all its launches read.
#[derive(Clone, Copy)]
pub struct Job<'a> {
    /// The client of the device.
    pub client: &'a Client,
    /// The plan.
    pub plan: &'a PlanRef,
    /// The forest on the device.
    pub model: &'a Model,
    /// The leaf values by leaf slot.
    pub leaves: &'a Buffer,
}

/// Returns the number of units of a cube in a launch before or after a plan's kernel: a power of two that the
/// device's cubes can have.
pub(crate) fn units(client: &Client) -> u32 {
    let most = client.properties().hardware.max_units_per_cube.clamp(1, UNITS);
    1 << most.ilog2()
}

/// Returns the grid and the cube of a launch with at least one unit for each of `len` values.
pub(crate) fn flat(client: &Client, len: u32) -> (CubeCount, CubeDim) {
    let units = units(client);
    let cubes = len.div_ceil(units).max(1);
    let x = cubes.min(MOST_CUBES);
    (CubeCount::Static(x, cubes.div_ceil(x), 1), CubeDim::new_1d(units))
}
