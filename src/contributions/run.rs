//! Runs a program on rows: row blocks on threads, registers of rows within a row block, groups of trees within a
//! register.

use super::{
    kernel::{self, MOST_REGISTERS, Scratch},
    lanes::{self, Lanes, Work},
    lookup,
    program::{Group, OutputProgram, Program, Split, Test, TreeProgram},
};
use crate::{
    cpu::{Read, Row, Rows},
    forest::{Side, reference},
    parallel,
};

/// The maximum number of rows of a row block.
const MOST_ROWS: usize = 256;

/// The number of rows of a row block with many columns.
pub(super) const LEAST_ROWS: usize = 16;

/// The bytes that the values and sums of a row block of more than [`LEAST_ROWS`] rows may take.
const BLOCK_BYTES: usize = 4 << 20;

/// A row block's values, in the type in which they are compared.
pub(super) enum Values {
    Singles(Vec<f32>),
    Doubles(Vec<f64>),
}

impl From<Vec<f32>> for Values {
    fn from(values: Vec<f32>) -> Self {
        Self::Singles(values)
    }
}

impl From<Vec<f64>> for Values {
    fn from(values: Vec<f64>) -> Self {
        Self::Doubles(values)
    }
}

/// Writes the contributions of rows, whose values are compared as `C`, into `out`, `rows x outputs x (features + 1)`.
pub(super) fn run<T, C>(program: &Program, rows: &Rows<'_, T>, out: &mut [f32])
where
    T: Row + Read<C>,
    C: Copy + Default + Send + Sync,
    Values: From<Vec<C>>,
{
    let width = program.outputs.len() * (program.width + 1);
    if out.is_empty() {
        return;
    }
    let of_row = program.columns.len() * (size_of::<C>() + size_of::<f64>());
    let count = (BLOCK_BYTES / of_row.max(1)).clamp(LEAST_ROWS, MOST_ROWS) / LEAST_ROWS * LEAST_ROWS;
    parallel::each_chunk(out, count * width, &|b, out| {
        let rows = rows.slice(b * count, count);
        RowBlock::new(program, &rows).run_widest(out);
    });
}

/// A row block.
pub(super) struct RowBlock<'a> {
    pub(super) program: &'a Program,
    /// The values of the program's columns, column after column, `room` values each.
    pub(super) values: Values,
    /// Number of rows, padding included.
    pub(super) room: usize,
    pub(super) rows: usize,
}

impl Work for RowBlock<'_> {
    #[inline(always)]
    fn run<V: Lanes>(&self, out: &mut [f32]) {
        let program = self.program;
        let mut scratch = Scratch::<V>::new(program.most_splits, program.deepest, program.most_features);
        let mut sums = Vec::new();
        for (o, output) in program.outputs.iter().enumerate() {
            // The sums of the output's features, feature after feature.
            sums.clear();
            sums.resize(output.columns.len() * self.room, 0.0f64);
            for group in &output.groups {
                for first in (0..self.room).step_by(MOST_REGISTERS * V::WIDTH) {
                    self.run_group(group, first, &mut scratch, &mut sums);
                }
            }
            self.write(o, output, &sums, out);
        }
    }
}

impl<'a> RowBlock<'a> {
    /// Runs the program on the widest registers of this machine. This function is not generic, so that this crate
    /// compiles the kernels, and not each crate that calls them.
    #[inline(never)]
    fn run_widest(&self, out: &mut [f32]) {
        lanes::run(self, out);
    }

    /// Reads rows, and adds rows of zeros up to whole registers.
    pub(super) fn new<T, C>(program: &'a Program, rows: &Rows<'_, T>) -> Self
    where
        T: Row + Read<C>,
        C: Copy + Default,
        Values: From<Vec<C>>,
    {
        let room = rows.len().next_multiple_of(LEAST_ROWS);
        let mut values = vec![C::default(); program.columns.len() * room];
        for (column, values) in program.columns.iter().zip(values.chunks_exact_mut(room)) {
            rows.read_column(0, *column as usize, values);
        }
        Self { program, values: values.into(), room, rows: rows.len() }
    }

    /// Returns the number of registers that begin at row `first`, at most [`MOST_REGISTERS`].
    #[inline(always)]
    pub(super) fn registers<V: Lanes>(&self, first: usize) -> usize {
        ((self.room - first) / V::WIDTH).min(MOST_REGISTERS)
    }

    /// Adds the contributions of a group's trees for the rows of some registers, the first of which begins at row
    /// `first`.
    #[inline(always)]
    fn run_group<V: Lanes>(&self, group: &Group, first: usize, scratch: &mut Scratch<V>, sums: &mut [f64]) {
        let registers = self.registers::<V>(first);
        scratch.sums[..group.features.len()].fill([V::splat(0.0); MOST_REGISTERS]);
        for tree in &group.trees {
            match &tree.tables {
                None => {
                    self.test_splits(tree, first, scratch);
                    for pass in &tree.passes {
                        kernel::run(tree, pass, registers, scratch);
                    }
                }
                Some(tables) => {
                    for (left, split) in scratch.left.iter_mut().zip(&tables.tests) {
                        self.test_split(&tree.splits[*split as usize], first, &mut left[..registers]);
                    }
                    lookup::run(tables, registers, &scratch.left, &mut scratch.sums);
                }
            }
        }
        for (feature, added) in group.features.iter().zip(&scratch.sums) {
            let sums = &mut sums[*feature as usize * self.room + first..];
            add(&added[..registers], sums);
        }
    }

    /// Evaluates all splits of a tree on the rows of some registers. The first register begins at row `first`.
    #[inline(always)]
    pub(super) fn test_splits<V: Lanes>(&self, tree: &TreeProgram, first: usize, scratch: &mut Scratch<V>) {
        let registers = self.registers::<V>(first);
        for (split, left) in tree.splits.iter().zip(&mut scratch.left) {
            self.test_split(split, first, &mut left[..registers]);
        }
        scratch.find_reached(tree, registers);
    }

    /// Finds the rows of some registers that go left at a split. The first register begins at row `first`.
    #[inline(always)]
    fn test_split<V: Lanes>(&self, split: &Split, first: usize, registers: &mut [V]) {
        let at = split.column as usize * self.room + first;
        let rows = registers.len() * V::WIDTH;
        match (split.test, &self.values) {
            (Test::Less { threshold, missing_left: false }, Values::Singles(values)) => {
                let threshold = V::splat(threshold);
                for (left, values) in registers.iter_mut().zip(values[at..][..rows].chunks_exact(V::WIDTH)) {
                    *left = V::load(values).less(threshold);
                }
            }
            (Test::Less { threshold, missing_left: true }, Values::Singles(values)) => {
                let threshold = V::splat(threshold);
                for (left, values) in registers.iter_mut().zip(values[at..][..rows].chunks_exact(V::WIDTH)) {
                    *left = V::load(values).less_or_nan(threshold);
                }
            }
            (test, Values::Singles(values)) => self.test_each(test, &values[at..][..rows], registers),
            (test, Values::Doubles(values)) => self.test_each(test, &values[at..][..rows], registers),
        }
    }

    /// Evaluates a split row by row, on the rows of some registers.
    #[inline(always)]
    fn test_each<V: Lanes>(&self, test: Test, values: &[impl Copy + Into<f64>], registers: &mut [V]) {
        for (register, values) in registers.iter_mut().zip(values.chunks_exact(V::WIDTH)) {
            let mut left = [0f32; 16];
            for (left, x) in left.iter_mut().zip(values) {
                let x: f64 = (*x).into();
                let goes_left = match test {
                    Test::Less { threshold, missing_left } => {
                        x < f64::from(threshold) || missing_left && x.is_nan()
                    }
                    Test::LessDouble { threshold, missing_left } => {
                        x < threshold || missing_left && x.is_nan()
                    }
                    Test::Any { predicate, missing } => {
                        reference::side_of_cast(&self.program.sets, predicate, missing, x) == Side::Left
                    }
                };
                *left = f32::from_bits(if goes_left { u32::MAX } else { 0 });
            }
            *register = V::load(&left);
        }
    }

    /// Writes the contributions to output `o`.
    fn write(&self, o: usize, output: &OutputProgram, sums: &[f64], out: &mut [f32]) {
        let width = self.program.width + 1;
        let of_row = self.program.outputs.len() * width;
        let columns = output.columns.iter().map(|column| self.program.columns[*column as usize] as usize);
        let columns: Vec<usize> = columns.collect();
        for (r, out) in out.chunks_exact_mut(of_row).enumerate().take(self.rows) {
            let out = &mut out[o * width..][..width];
            out.fill(0.0);
            for (feature, column) in columns.iter().enumerate() {
                out[*column] = sums[feature * self.room + r] as f32;
            }
            out[width - 1] = output.bias as f32;
        }
    }
}

/// Adds registers to the sums of their rows.
#[inline(always)]
pub(super) fn add<V: Lanes>(added: &[V], sums: &mut [f64]) {
    for (added, sums) in added.iter().zip(sums.chunks_exact_mut(V::WIDTH)) {
        let mut values = [0f32; 16];
        added.store(&mut values);
        sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += f64::from(value));
    }
}
