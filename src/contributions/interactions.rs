//! Computes interactions of rows, like `kernel` and `run` for contributions, with the features above each split
//! (`pairs`).

use super::{
    kernel::{MOST_REGISTERS, Masks, Registers, Run, Scratch, at_points, integral, with_points},
    lanes::{self, Lanes, Work},
    pairs::{Ancestor, GroupPairs, OutputPairs, Pairs, TreePairs},
    program::{FIRST, Group, Opcode, OutputProgram, Pass, Program, TreeProgram},
    run::{LEAST_ROWS, RowBlock, Values, add},
};
use crate::{
    cpu::{Read, Row, Rows},
    parallel,
};

/// The maximum number of rows of a row block.
const MOST_ROWS: usize = 128;

/// The bytes that the sums of a row block of more than [`LEAST_ROWS`] rows may take.
const BLOCK_BYTES: usize = 4 << 20;

/// Writes the interactions of rows into `out`, `rows x outputs x (features + 1) x (features + 1)`. The values are
/// compared as `C`.
pub(super) fn run<T, C>(program: &Program, pairs: &Pairs, rows: &Rows<'_, T>, out: &mut [f32])
where
    T: Row + Read<C>,
    C: Copy + Default + Send + Sync,
    Values: From<Vec<C>>,
{
    let width = program.width + 1;
    let of_row = program.outputs.len() * width * width;
    if out.is_empty() {
        return;
    }
    let sums = pairs.outputs.iter().map(|output| output.pairs.len()).max().unwrap_or(0);
    let bytes = (program.columns.len() + sums) * size_of::<f64>() + program.columns.len() * size_of::<C>();
    let count = (BLOCK_BYTES / bytes.max(1)).clamp(LEAST_ROWS, MOST_ROWS) / LEAST_ROWS * LEAST_ROWS;
    parallel::each_chunk(out, count * of_row, &|b, out| {
        let rows = rows.slice(b * count, count);
        InteractionBlock { block: RowBlock::new(program, &rows), pairs }.run_widest(out);
    });
}

/// A row block.
struct InteractionBlock<'a> {
    block: RowBlock<'a>,
    pairs: &'a Pairs,
}

/// Scratch of a thread, for the rows of some registers.
struct PairScratch<V> {
    /// Masks, stacks, and the sums of the group's features.
    of_tree: Scratch<V>,
    /// For each level, the rows that took the path's sides at all splits on the level's feature.
    taken: Vec<Registers<V>>,
    /// The interactions of the group's pairs.
    interactions: Vec<Registers<V>>,
}

impl Work for InteractionBlock<'_> {
    #[inline(always)]
    fn run<V: Lanes>(&self, out: &mut [f32]) {
        let program = self.block.program;
        let of = |length: usize| vec![[V::splat(0.0); MOST_REGISTERS]; length];
        let mut scratch = PairScratch {
            of_tree: Scratch::new(program.most_splits, program.deepest, program.most_features),
            taken: of(program.deepest + 2),
            interactions: of(self.pairs.most_pairs),
        };
        let mut sums = Vec::new();
        for (o, (output, pairs)) in program.outputs.iter().zip(&self.pairs.outputs).enumerate() {
            // The sums of the output's features, and of its pairs, one after the other.
            sums.clear();
            sums.resize((output.columns.len() + pairs.pairs.len()) * self.block.room, 0.0f64);
            for (group, of_group) in output.groups.iter().zip(&pairs.groups) {
                for first in (0..self.block.room).step_by(MOST_REGISTERS * V::WIDTH) {
                    let features = output.columns.len();
                    self.run_group(group, of_group, features, first, &mut scratch, &mut sums);
                }
            }
            self.write(o, output, pairs, &sums, out);
        }
    }
}

impl InteractionBlock<'_> {
    /// Runs the program on the widest registers of this machine, compiled by this crate (see [`RowBlock::run_widest`]).
    #[inline(never)]
    fn run_widest(&self, out: &mut [f32]) {
        lanes::run(self, out);
    }

    /// Adds the contributions and interactions of a group's trees for the rows of some registers, the first of which
    /// begins at row `first`. The sums of pairs come after those of `features` features.
    #[inline(always)]
    fn run_group<V: Lanes>(
        &self,
        group: &Group,
        pairs: &GroupPairs,
        features: usize,
        first: usize,
        scratch: &mut PairScratch<V>,
        sums: &mut [f64],
    ) {
        let registers = self.block.registers::<V>(first);
        scratch.of_tree.sums[..group.features.len()].fill([V::splat(0.0); MOST_REGISTERS]);
        scratch.interactions[..pairs.indices.len()].fill([V::splat(0.0); MOST_REGISTERS]);
        for (tree, of_tree) in group.trees.iter().zip(&pairs.trees) {
            self.block.test_splits(tree, first, &mut scratch.of_tree);
            for (pass, edge_terms) in tree.passes.iter().zip(&of_tree.edge_terms) {
                with_points!(pass, execute::<V>(tree, of_tree, pass, edge_terms, registers, scratch));
            }
        }
        for (feature, added) in group.features.iter().zip(&scratch.of_tree.sums) {
            add(&added[..registers], &mut sums[*feature as usize * self.block.room + first..]);
        }
        for (pair, added) in pairs.indices.iter().zip(&scratch.interactions) {
            let index = features + *pair as usize;
            add(&added[..registers], &mut sums[index * self.block.room + first..]);
        }
    }

    /// Writes the interactions of output `o`.
    fn write(&self, o: usize, output: &OutputProgram, pairs: &OutputPairs, sums: &[f64], out: &mut [f32]) {
        let RowBlock { program, room, rows, .. } = &self.block;
        let width = program.width + 1;
        let elements = width * width;
        let column = |feature: u32| program.columns[output.columns[feature as usize] as usize] as usize;
        let features = output.columns.len();
        let mut first_order = vec![0f64; features];
        for (r, out) in out.chunks_exact_mut(program.outputs.len() * elements).enumerate().take(*rows) {
            let out = &mut out[o * elements..][..elements];
            out.fill(0.0);
            first_order.iter_mut().enumerate().for_each(|(f, first)| *first = sums[f * room + r]);
            for (p, [a, b]) in pairs.pairs.iter().enumerate() {
                // Each of the two elements has half of the interaction index.
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
            out[elements - 1] = output.bias as f32;
        }
    }
}

/// Adds a tree's interactions at the points of one pass.
#[inline(always)]
fn execute<V: Lanes, const M: usize>(
    tree: &TreeProgram,
    pairs: &TreePairs,
    pass: &Pass,
    edge_terms: &[f32],
    registers: usize,
    scratch: &mut PairScratch<V>,
) {
    let PairScratch { of_tree, taken, interactions } = scratch;
    let Scratch { left, reached, stacks, sums } = of_tree;
    let (paths, belows) = stacks.of_pass::<M>(pass);
    let run = Run::<V, M>::new(pass);
    let (edge_terms, _) = edge_terms.as_chunks::<M>();
    // `g` of rows that left the path at some split on the feature.
    let down: [V; M] = at_points!(q => V::splat(-1.0 / (1.0 - pass.at[q])));
    // The index of the top of `paths`, the number of entries of `belows`, and the number of splits that ended.
    let (mut top, mut count, mut ended) = (0, 0, 0);
    for instruction in &tree.instructions {
        if instruction.opcode == Opcode::Back {
            top -= 1;
            continue;
        }
        let (left, reached) = (&left[instruction.split as usize], &reached[instruction.split as usize]);
        let all = V::splat(f32::from_bits(u32::MAX));
        let masks = |r: usize| Masks {
            left: left[r],
            reached: if instruction.lists == FIRST { all } else { reached[r] },
        };
        if matches!(instruction.opcode, Opcode::Left | Opcode::Right) {
            let (path, child) = paths.split_at_mut(top + 1);
            for r in 0..registers {
                let (masks, path) = (masks(r), &path[top][r]);
                let fractions = run.left_fractions(instruction, masks);
                (taken[top][r], child[0][r]) = match instruction.opcode {
                    Opcode::Left => {
                        (masks.reached.and(masks.left), at_points!(q => path[q].mul(fractions[q])))
                    }
                    _ => {
                        let right = at_points!(q => path[q].sub(path[q].mul(fractions[q])));
                        (masks.reached.and_not(masks.left), right)
                    }
                };
            }
            top += 1;
            continue;
        }
        let from = if ended == 0 { 0 } else { pairs.ends[ended - 1] };
        let ancestors = &pairs.ancestors[from as usize..pairs.ends[ended] as usize];
        ended += 1;
        match instruction.opcode {
            Opcode::Leaves => count += 1,
            Opcode::Join => count -= 1,
            _ => {}
        }
        let (of_left, of_right) =
            ([V::splat(instruction.leaves[0]); M], [V::splat(instruction.leaves[1]); M]);
        for r in 0..registers {
            let (masks, path) = (masks(r), &paths[top][r]);
            let (lefts, rights) = match instruction.opcode {
                Opcode::Leaves => (of_left, of_right),
                Opcode::RightLeaf => (belows[count - 1][r], of_right),
                Opcode::LeftLeaf => (of_left, belows[count - 1][r]),
                _ => (belows[count - 1][r], belows[count][r]),
            };
            let fractions = run.left_fractions(instruction, masks);
            let difference: [V; M] = at_points!(q => lefts[q].sub(rights[q]));
            belows[count - 1][r] = at_points!(q => fractions[q].mul_add(difference[q], rights[q]));
            let change = run.changes(instruction, masks);
            let terms: [V; M] = at_points!(q => path[q].mul(change[q]).mul(difference[q]));
            let sum = &mut sums[instruction.feature as usize][r];
            *sum = terms.iter().fold(*sum, |sum, term| sum.add(*term));
            let without = integral(&terms, &down);
            for Ancestor { level, edge, pair } in ancestors {
                let edge_term = &edge_terms[*edge as usize];
                let with = integral(&terms, &at_points!(q => V::splat(edge_term[q])));
                let interaction = &mut interactions[*pair as usize][r];
                *interaction = interaction.add(V::select(taken[*level as usize][r], with, without));
            }
        }
    }
}
