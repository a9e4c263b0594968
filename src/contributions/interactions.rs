//! Runs interactions on rows: as `kernel` and `run` do for contributions, with the features above each split (`pairs`).

use rayon::prelude::*;

use super::{
    kernel::{Run, Scratch},
    lanes::{self, Lanes, Work},
    pairs::{Above, GroupPairs, OutputPairs, Pairs, TreePairs},
    program::{Group, OutputProgram, Pass, Program, StepKind, TreeProgram},
    run::{Block, Cell, LEAST_ROWS},
};
use crate::cpu::{Read, Row, Rows};

/// The most rows of a block.
const MOST_ROWS: usize = 128;

/// Bytes of a block's sums that a block of more than [`LEAST_ROWS`] rows may take.
const BLOCK_BYTES: usize = 4 << 20;

/// Writes the interactions of rows into `out`, `rows x outputs x (features + 1) x (features + 1)`. The values are compared as
/// `C`.
pub(super) fn run<T: Row + Read<C>, C: Cell>(
    program: &Program,
    pairs: &Pairs,
    rows: &Rows<'_, T>,
    out: &mut [f32],
) {
    let width = program.width + 1;
    let of_row = program.outputs.len() * width * width;
    if out.is_empty() {
        return;
    }
    let sums = pairs.outputs.iter().map(|output| output.pairs.len()).max().unwrap_or(0);
    let bytes = (program.columns.len() + sums) * size_of::<f64>() + program.columns.len() * size_of::<C>();
    let count = (BLOCK_BYTES / bytes.max(1)).clamp(LEAST_ROWS, MOST_ROWS) / LEAST_ROWS * LEAST_ROWS;
    out.par_chunks_mut(count * of_row).enumerate().for_each(|(b, out)| {
        let rows = rows.slice(b * count, count);
        lanes::run(&InteractionBlock { block: Block::<C>::new(program, &rows), pairs }, out);
    });
}

/// A block of rows.
struct InteractionBlock<'a, C> {
    block: Block<'a, C>,
    pairs: &'a Pairs,
}

/// Scratch of a thread, for the rows of one register.
struct PairScratch<V> {
    /// Masks, and the sums of the group's features.
    of_tree: Scratch<V>,
    /// The stacks of `kernel`, a number for each point and level.
    paths: Vec<V>,
    belows: Vec<V>,
    /// For each level, the rows that took the path's sides at all splits on the level's feature.
    taken: Vec<V>,
    /// The interactions of the group's pairs.
    cells: Vec<V>,
}

impl<C: Cell> Work for InteractionBlock<'_, C> {
    #[inline(always)]
    fn run<V: Lanes>(&self, out: &mut [f32]) {
        let program = self.block.program;
        let of = |length: usize| vec![V::splat(0.0); length];
        let stack = (program.deepest + 2) * super::program::MOST_POINTS;
        let mut scratch = PairScratch {
            of_tree: Scratch::new(program.most_splits, program.deepest, program.most_features),
            paths: of(stack),
            belows: of(stack),
            taken: of(program.deepest + 2),
            cells: of(self.pairs.most_cells),
        };
        let mut sums = Vec::new();
        for (o, (output, pairs)) in program.outputs.iter().zip(&self.pairs.outputs).enumerate() {
            // The sums of the output's features, and of its pairs, one after the other.
            sums.clear();
            sums.resize((output.columns.len() + pairs.pairs.len()) * self.block.room, 0.0f64);
            for (group, of_group) in output.groups.iter().zip(&pairs.groups) {
                for first in (0..self.block.room).step_by(V::WIDTH) {
                    self.run_group((group, of_group), output.columns.len(), first, &mut scratch, &mut sums);
                }
            }
            self.write(o, (output, pairs), &sums, out);
        }
    }
}

impl<C: Cell> InteractionBlock<'_, C> {
    /// Adds what a group's trees give the rows of one register, which begins at row `first`. The sums of pairs come after
    /// those of `features` features.
    #[inline(always)]
    fn run_group<V: Lanes>(
        &self,
        (group, pairs): (&Group, &GroupPairs),
        features: usize,
        first: usize,
        scratch: &mut PairScratch<V>,
        sums: &mut [f64],
    ) {
        scratch.of_tree.sums[..group.features.len()].fill(V::splat(0.0));
        scratch.cells[..pairs.places.len()].fill(V::splat(0.0));
        for (tree, of_tree) in group.trees.iter().zip(&pairs.trees) {
            self.block.ask(tree, first, &mut scratch.of_tree);
            for (pass, ups) in tree.passes.iter().zip(&of_tree.ups) {
                run_pass(tree, pass, of_tree, ups, scratch);
            }
        }
        let mut add = |place: usize, added: V| {
            let mut values = [0f32; 16];
            added.store(&mut values);
            let sums = &mut sums[place * self.block.room + first..][..V::WIDTH];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += f64::from(value));
        };
        for (feature, added) in group.features.iter().zip(&scratch.of_tree.sums) {
            add(*feature as usize, *added);
        }
        for (place, added) in pairs.places.iter().zip(&scratch.cells) {
            add(features + *place as usize, *added);
        }
    }

    /// Writes the interactions of output `o`.
    fn write(
        &self,
        o: usize,
        (output, pairs): (&OutputProgram, &OutputPairs),
        sums: &[f64],
        out: &mut [f32],
    ) {
        let Block { program, room, rows, .. } = &self.block;
        let width = program.width + 1;
        let cells = width * width;
        let column = |place: u32| program.columns[output.columns[place as usize] as usize] as usize;
        let features = output.columns.len();
        let mut first_order = vec![0f64; features];
        for (r, out) in out.chunks_exact_mut(program.outputs.len() * cells).enumerate().take(*rows) {
            let out = &mut out[o * cells..][..cells];
            out.fill(0.0);
            first_order.iter_mut().enumerate().for_each(|(f, first)| *first = sums[f * room + r]);
            for (p, [a, b]) in pairs.pairs.iter().enumerate() {
                // Half of the index in each of the two cells.
                let half = sums[(features + p) * room + r] / 2.0;
                first_order[*a as usize] -= half;
                first_order[*b as usize] -= half;
                let (a, b) = (column(*a), column(*b));
                out[a * width + b] = half as f32;
                out[b * width + a] = half as f32;
            }
            for (f, first) in (0u32..).zip(&first_order) {
                out[column(f) * (width + 1)] = *first as f32;
            }
            out[cells - 1] = output.bias as f32;
        }
    }
}

/// Adds a tree's interactions at the points of one pass.
#[inline(always)]
fn run_pass<V: Lanes>(
    tree: &TreeProgram,
    pass: &Pass,
    pairs: &TreePairs,
    ups: &[f32],
    scratch: &mut PairScratch<V>,
) {
    match pass.at.len() {
        1 => steps::<V, 1>(tree, pass, pairs, ups, scratch),
        2 => steps::<V, 2>(tree, pass, pairs, ups, scratch),
        3 => steps::<V, 3>(tree, pass, pairs, ups, scratch),
        4 => steps::<V, 4>(tree, pass, pairs, ups, scratch),
        5 => steps::<V, 5>(tree, pass, pairs, ups, scratch),
        6 => steps::<V, 6>(tree, pass, pairs, ups, scratch),
        7 => steps::<V, 7>(tree, pass, pairs, ups, scratch),
        _ => steps::<V, 8>(tree, pass, pairs, ups, scratch),
    }
}

#[inline(always)]
fn steps<V: Lanes, const M: usize>(
    tree: &TreeProgram,
    pass: &Pass,
    pairs: &TreePairs,
    ups: &[f32],
    scratch: &mut PairScratch<V>,
) {
    let PairScratch { of_tree, paths, belows, taken, cells } = scratch;
    let Scratch { left, reached, sums, .. } = of_tree;
    let run = Run::<V, M>::new(pass, left, reached);
    let (paths, _) = paths.as_chunks_mut::<M>();
    let (belows, _) = belows.as_chunks_mut::<M>();
    let (ups, _) = ups.as_chunks::<M>();
    // `g` of rows that left the path at some split on the feature.
    let down: [V; M] = std::array::from_fn(|q| V::splat(-1.0 / (1.0 - pass.at[q])));
    paths[0] = std::array::from_fn(|q| V::splat(pass.weights[q]));
    // The index of the top of `paths`, the number of entries of `belows`, and the number of splits that ended.
    let (mut top, mut count, mut ended) = (0, 0, 0);
    for step in &tree.steps {
        if step.kind == StepKind::Back {
            top -= 1;
            continue;
        }
        let (goes_left, reached) = run.masks(step);
        let left = run.parts(step).left;
        let path = paths[top];
        let [of_left, of_right] = step.leaves.map(V::splat);
        let (lefts, rights) = match step.kind {
            StepKind::Left => {
                taken[top] = reached.and(goes_left);
                top += 1;
                paths[top] = std::array::from_fn(|q| path[q].mul(left[q]));
                continue;
            }
            StepKind::Right => {
                taken[top] = reached.and_not(goes_left);
                top += 1;
                paths[top] = std::array::from_fn(|q| path[q].sub(path[q].mul(left[q])));
                continue;
            }
            StepKind::Leaves => {
                count += 1;
                ([of_left; M], [of_right; M])
            }
            StepKind::RightLeaf => (belows[count - 1], [of_right; M]),
            StepKind::LeftLeaf => ([of_left; M], belows[count - 1]),
            StepKind::Join | StepKind::Back => {
                count -= 1;
                (belows[count - 1], belows[count])
            }
        };
        let difference: [V; M] = std::array::from_fn(|q| lefts[q].sub(rights[q]));
        belows[count - 1] = std::array::from_fn(|q| left[q].mul_add(difference[q], rights[q]));
        let change = run.changes(step);
        let terms: [V; M] = std::array::from_fn(|q| path[q].mul(change[q]).mul(difference[q]));
        let sum = &mut sums[step.feature as usize];
        *sum = terms.iter().fold(*sum, |sum, term| sum.add(*term));
        let from = if ended == 0 { 0 } else { pairs.ends[ended - 1] };
        let above = &pairs.above[from as usize..pairs.ends[ended] as usize];
        ended += 1;
        let mut without = terms[0].mul(down[0]);
        for q in 1..M {
            without = terms[q].mul_add(down[q], without);
        }
        for Above { level, edge, cell } in above {
            let up = &ups[*edge as usize];
            let mut with = terms[0].mul(V::splat(up[0]));
            for q in 1..M {
                with = terms[q].mul_add(V::splat(up[q]), with);
            }
            let cell = &mut cells[*cell as usize];
            *cell = cell.add(V::select(taken[*level as usize], with, without));
        }
    }
}
