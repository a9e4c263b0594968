//! Runs a tree's instructions for the rows of some registers, at all points of a pass.

use super::{
    lanes::Lanes,
    program::{FIRST, Instruction, MOST_POINTS, Opcode, Pass, TreeProgram},
};
use crate::forest::Side;

/// The maximum number of registers of rows that take each instruction together. An opcode is tested once for all of
/// them, because a processor can't predict the instructions of a large tree.
pub(super) const MOST_REGISTERS: usize = 4;

/// Makes the list of an expression's values at all `M` points. A closure may stay a function of its own, without the
/// target features of the kernel, and registers would then go through memory.
macro_rules! at_points {
    ($q:ident => $value:expr) => {{
        let mut values = [V::splat(0.0); M];
        let mut $q = 0;
        while $q < M {
            values[$q] = $value;
            $q += 1;
        }
        values
    }};
}
pub(super) use at_points;

/// Registers that take each instruction together.
pub(super) type Registers<T> = [T; MOST_REGISTERS];

/// Scratch of a thread: masks and stacks for the rows of some registers.
pub(super) struct Scratch<V> {
    /// For each split of the tree, the rows that go left.
    pub(super) left: Vec<Registers<V>>,
    /// For each split whose feature has a split above, the rows that took the path's sides at the feature's splits
    /// above.
    pub(super) reached: Vec<Registers<V>>,
    /// The two stacks, with a number for each level of the path, register and point.
    pub(super) stacks: Stacks<V>,
    /// The contributions of the group's features.
    pub(super) sums: Vec<Registers<V>>,
}

/// The stacks of a tree's instructions; `program` says what is on them.
pub(super) struct Stacks<V> {
    paths: Vec<V>,
    belows: Vec<V>,
}

/// The levels of a stack, with the numbers of `M` points.
pub(super) type Levels<V, const M: usize> = [Registers<[V; M]>];

impl<V: Lanes> Stacks<V> {
    fn new(deepest: usize) -> Self {
        let room = vec![V::splat(0.0); (deepest + 2) * MOST_POINTS * MOST_REGISTERS];
        Self { paths: room.clone(), belows: room }
    }

    /// Returns the stack of paths, whose lowest level has the weights of the points, and the stack of what is below.
    #[inline(always)]
    pub(super) fn of_pass<const M: usize>(&mut self, pass: &Pass) -> (&mut Levels<V, M>, &mut Levels<V, M>) {
        let (paths, _) = self.paths.as_chunks_mut::<M>();
        let (paths, _) = paths.as_chunks_mut::<MOST_REGISTERS>();
        let (belows, _) = self.belows.as_chunks_mut::<M>();
        let (belows, _) = belows.as_chunks_mut::<MOST_REGISTERS>();
        paths[0] = [at_points!(q => V::splat(pass.weights[q])); MOST_REGISTERS];
        (paths, belows)
    }
}

impl<V: Lanes> Scratch<V> {
    pub(super) fn new(splits: usize, deepest: usize, features: usize) -> Self {
        let of = |length: usize| vec![[V::splat(0.0); MOST_REGISTERS]; length];
        Self { left: of(splits), reached: of(splits), stacks: Stacks::new(deepest), sums: of(features) }
    }

    /// Fills [`reached`](Self::reached) for the rows of the first `registers` registers, from [`left`](Self::left).
    #[inline(always)]
    pub(super) fn find_reached(&mut self, tree: &TreeProgram, registers: usize) {
        for (s, split) in tree.splits.iter().enumerate() {
            let Some((above, side)) = split.above else { continue };
            let above = above as usize;
            let (before, here) = self.reached.split_at_mut(s);
            for (r, reached) in here[0][..registers].iter_mut().enumerate() {
                let left = self.left[above][r];
                // If no split above that one has its feature, all rows count.
                let all = match tree.splits[above].above {
                    Some(_) => before[above][r],
                    None => V::splat(f32::from_bits(u32::MAX)),
                };
                *reached = match side {
                    Side::Left => all.and(left),
                    Side::Right => all.and_not(left),
                };
            }
        }
    }
}

/// Calls a function that takes a register's type and the number of a pass's points as a constant.
macro_rules! with_points {
    ($pass:expr, $function:ident::<$v:ty>$arguments:tt) => {
        match $pass.at.len() {
            1 => $function::<$v, 1>$arguments,
            2 => $function::<$v, 2>$arguments,
            3 => $function::<$v, 3>$arguments,
            4 => $function::<$v, 4>$arguments,
            5 => $function::<$v, 5>$arguments,
            6 => $function::<$v, 6>$arguments,
            7 => $function::<$v, 7>$arguments,
            _ => $function::<$v, 8>$arguments,
        }
    };
}
pub(super) use with_points;

/// Adds a tree's contributions at the points of one pass to [`Scratch::sums`], for the rows of the first `registers`
/// registers.
#[inline(always)]
pub(super) fn run<V: Lanes>(tree: &TreeProgram, pass: &Pass, registers: usize, scratch: &mut Scratch<V>) {
    with_points!(pass, execute::<V>(tree, pass, registers, scratch))
}

/// What all instructions of a pass share.
pub(super) struct Run<'a, V, const M: usize> {
    at: [V; M],
    rest: [V; M],
    lists: &'a [f32],
}

/// The rows of one register at a split.
#[derive(Clone, Copy)]
pub(super) struct Masks<V> {
    /// Those that go left.
    pub(super) left: V,
    /// Those that took the path's sides at the splits above on the same feature, if there are such splits.
    pub(super) reached: V,
}

impl<'a, V: Lanes, const M: usize> Run<'a, V, M> {
    #[inline(always)]
    pub(super) fn new(pass: &'a Pass) -> Self {
        Self {
            at: at_points!(q => V::splat(pass.at[q])),
            rest: at_points!(q => V::splat(1.0 - pass.at[q])),
            lists: &pass.lists,
        }
    }

    /// Returns the change of a split at each point, by which a contribution is multiplied.
    #[inline(always)]
    pub(super) fn changes(&self, instruction: &Instruction, masks: Masks<V>) -> [V; M] {
        if instruction.lists == FIRST {
            let share = instruction.share;
            return [V::select(masks.left, V::splat(1.0 - share), V::splat(-share)); M];
        }
        let [.., yes, no] = self.numbers(instruction);
        at_points!(q => V::select(masks.left, V::splat(yes[q]), V::splat(no[q])).and(masks.reached))
    }

    /// Returns the fraction of the path that the left child gets, at each point.
    #[inline(always)]
    pub(super) fn left_fractions(&self, instruction: &Instruction, masks: Masks<V>) -> [V; M] {
        let share = V::splat(instruction.share);
        if instruction.lists == FIRST {
            return at_points!(q => share.mul_add(self.rest[q], self.at[q].and(masks.left)));
        }
        let [yes, no, ..] = self.numbers(instruction);
        at_points!(q => {
            let after = V::select(masks.left, V::splat(yes[q]), V::splat(no[q]));
            V::select(masks.reached, after, share)
        })
    }

    /// Returns the four lists of a split whose feature has a split above.
    #[inline(always)]
    fn numbers(&self, instruction: &Instruction) -> [&[f32; M]; 4] {
        let (lists, _) = self.lists[4 * M * instruction.lists as usize..][..4 * M].as_chunks::<M>();
        [&lists[0], &lists[1], &lists[2], &lists[3]]
    }

    /// Returns the integral of `path x change x difference`.
    #[inline(always)]
    fn contribution(
        &self,
        instruction: &Instruction,
        masks: Masks<V>,
        path: &[V; M],
        difference: &[V; M],
    ) -> V {
        if instruction.lists == FIRST {
            // The change is the same at all points.
            let share = instruction.share;
            return integral(path, difference).mul(V::select(
                masks.left,
                V::splat(1.0 - share),
                V::splat(-share),
            ));
        }
        let [.., yes, no] = self.numbers(instruction);
        let terms = at_points!(q => path[q].mul(V::select(masks.left, V::splat(yes[q]), V::splat(no[q]))));
        integral(&terms, difference).and(masks.reached)
    }
}

/// Returns the sum of the terms, each times its weight.
#[inline(always)]
pub(super) fn integral<V: Lanes, const M: usize>(terms: &[V; M], weights: &[V; M]) -> V {
    let mut sum = terms[0].mul(weights[0]);
    let mut q = 1;
    while q < M {
        sum = terms[q].mul_add(weights[q], sum);
        q += 1;
    }
    sum
}

#[inline(always)]
fn execute<V: Lanes, const M: usize>(
    tree: &TreeProgram,
    pass: &Pass,
    registers: usize,
    scratch: &mut Scratch<V>,
) {
    let Scratch { left, reached, stacks, sums } = scratch;
    let (paths, belows) = stacks.of_pass::<M>(pass);
    let registers = registers.min(MOST_REGISTERS);
    let run = Run::<V, M>::new(pass);
    // The index of the top of `paths`, and the number of entries of `belows`.
    let (mut top, mut count) = (0, 0);
    for instruction in &tree.instructions {
        let (left, reached) = (&left[instruction.split as usize], &reached[instruction.split as usize]);
        let masks = |r: usize| Masks { left: left[r], reached: reached[r] };
        let (of_left, of_right) = (V::splat(instruction.leaves[0]), V::splat(instruction.leaves[1]));
        match instruction.opcode {
            Opcode::Left => {
                let (upper, lower) = paths.split_at_mut(top + 1);
                for r in 0..registers {
                    let (path, fractions) = (&upper[top][r], run.left_fractions(instruction, masks(r)));
                    lower[0][r] = at_points!(q => path[q].mul(fractions[q]));
                }
                top += 1;
            }
            Opcode::Right => {
                let (upper, lower) = paths.split_at_mut(top + 1);
                for r in 0..registers {
                    let (path, fractions) = (&upper[top][r], run.left_fractions(instruction, masks(r)));
                    lower[0][r] = at_points!(q => path[q].sub(path[q].mul(fractions[q])));
                }
                top += 1;
            }
            Opcode::Back => top -= 1,
            Opcode::Leaves => {
                let (path, below) = (&paths[top], &mut belows[count]);
                let sum = &mut sums[instruction.feature as usize];
                let difference = [of_left.sub(of_right); M];
                for r in 0..registers {
                    let fractions = run.left_fractions(instruction, masks(r));
                    below[r] = at_points!(q => fractions[q].mul_add(difference[q], of_right));
                    sum[r] = sum[r].add(run.contribution(instruction, masks(r), &path[r], &difference));
                }
                count += 1;
            }
            Opcode::RightLeaf | Opcode::LeftLeaf => {
                let (path, below) = (&paths[top], &mut belows[count - 1]);
                let sum = &mut sums[instruction.feature as usize];
                for r in 0..registers {
                    let fractions = run.left_fractions(instruction, masks(r));
                    let (lefts, rights) = match instruction.opcode {
                        Opcode::RightLeaf => (below[r], [of_right; M]),
                        _ => ([of_left; M], below[r]),
                    };
                    let difference = at_points!(q => lefts[q].sub(rights[q]));
                    below[r] = at_points!(q => fractions[q].mul_add(difference[q], rights[q]));
                    sum[r] = sum[r].add(run.contribution(instruction, masks(r), &path[r], &difference));
                }
            }
            Opcode::Join => {
                count -= 1;
                let (lefts, rights) = belows.split_at_mut(count);
                let (lefts, rights) = (&mut lefts[count - 1], &rights[0]);
                let path = &paths[top];
                let sum = &mut sums[instruction.feature as usize];
                for r in 0..registers {
                    let fractions = run.left_fractions(instruction, masks(r));
                    let difference = at_points!(q => lefts[r][q].sub(rights[r][q]));
                    lefts[r] = at_points!(q => fractions[q].mul_add(difference[q], rights[r][q]));
                    sum[r] = sum[r].add(run.contribution(instruction, masks(r), &path[r], &difference));
                }
            }
        }
    }
}
