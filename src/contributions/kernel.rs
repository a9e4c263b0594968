//! Runs a tree's steps for the rows of one register, at all points of a pass.

use super::{
    lanes::Lanes,
    program::{FIRST, Pass, Step, StepKind, TreeProgram},
};

/// Scratch of a thread: masks and stacks for the rows of one register.
pub(super) struct Scratch<V> {
    /// For each split of the tree, the rows that go left.
    pub(super) left: Vec<V>,
    /// For each split with its feature above it, the rows that took the path's sides at the splits above.
    pub(super) reached: Vec<V>,
    /// A number for each point and level of the path.
    paths: Vec<V>,
    belows: Vec<V>,
    /// The contributions of the group's features.
    pub(super) sums: Vec<V>,
}

impl<V: Lanes> Scratch<V> {
    pub(super) fn new(splits: usize, deepest: usize, features: usize) -> Self {
        let of = |length: usize| vec![V::splat(0.0); length];
        let stack = (deepest + 2) * super::program::MOST_POINTS;
        Self {
            left: of(splits),
            reached: of(splits),
            paths: of(stack),
            belows: of(stack),
            sums: of(features),
        }
    }
}

/// Adds a tree's contributions at the points of one pass to [`Scratch::sums`].
#[inline(always)]
pub(super) fn run<V: Lanes>(tree: &TreeProgram, pass: &Pass, scratch: &mut Scratch<V>) {
    match pass.at.len() {
        1 => steps::<V, 1>(tree, pass, scratch),
        2 => steps::<V, 2>(tree, pass, scratch),
        3 => steps::<V, 3>(tree, pass, scratch),
        4 => steps::<V, 4>(tree, pass, scratch),
        5 => steps::<V, 5>(tree, pass, scratch),
        6 => steps::<V, 6>(tree, pass, scratch),
        7 => steps::<V, 7>(tree, pass, scratch),
        _ => steps::<V, 8>(tree, pass, scratch),
    }
}

/// What all steps of a pass share.
pub(super) struct Run<'a, V, const M: usize> {
    at: [V; M],
    rest: [V; M],
    parts: &'a [f32],
    left: &'a [V],
    reached: &'a [V],
}

/// A split's numbers for the rows of a register: at each point, the part of the left child.
pub(super) struct SplitParts<V, const M: usize> {
    pub(super) left: [V; M],
}

impl<'a, V: Lanes, const M: usize> Run<'a, V, M> {
    /// `left` and `reached` are those of [`Scratch`].
    #[inline(always)]
    pub(super) fn new(pass: &'a Pass, left: &'a [V], reached: &'a [V]) -> Self {
        Self {
            at: std::array::from_fn(|q| V::splat(pass.at[q])),
            rest: std::array::from_fn(|q| V::splat(1.0 - pass.at[q])),
            parts: &pass.parts,
            left,
            reached,
        }
    }

    /// Returns the rows that go left at a split, and those that reach it by the sides of its feature's splits above.
    #[inline(always)]
    pub(super) fn masks(&self, step: &Step) -> (V, V) {
        let all = V::splat(f32::from_bits(u32::MAX));
        let reached = if step.parts == FIRST { all } else { self.reached[step.split as usize] };
        (self.left[step.split as usize], reached)
    }

    /// Returns the change of a split at each point: what a contribution is multiplied with.
    #[inline(always)]
    pub(super) fn changes(&self, step: &Step) -> [V; M] {
        let (goes_left, reached) = self.masks(step);
        if step.parts == FIRST {
            return [V::select(goes_left, V::splat(1.0 - step.share), V::splat(-step.share)); M];
        }
        let [.., yes, no] = self.numbers(step);
        std::array::from_fn(|q| V::select(goes_left, V::splat(yes[q]), V::splat(no[q])).and(reached))
    }

    /// Returns the part of the left child at each point.
    #[inline(always)]
    pub(super) fn parts(&self, step: &Step) -> SplitParts<V, M> {
        let goes_left = self.left[step.split as usize];
        let share = V::splat(step.share);
        if step.parts == FIRST {
            let part = |q: usize| share.mul_add(self.rest[q], self.at[q].and(goes_left));
            return SplitParts { left: std::array::from_fn(part) };
        }
        let reached = self.reached[step.split as usize];
        let [yes, no, ..] = self.numbers(step);
        let part = |q: usize| {
            let after = V::select(goes_left, V::splat(yes[q]), V::splat(no[q]));
            V::select(reached, after, share)
        };
        SplitParts { left: std::array::from_fn(part) }
    }

    /// Returns the four lists of a split that has its feature above it.
    #[inline(always)]
    fn numbers(&self, step: &Step) -> [&[f32; M]; 4] {
        let (lists, _) = self.parts[4 * M * step.parts as usize..][..4 * M].as_chunks::<M>();
        [&lists[0], &lists[1], &lists[2], &lists[3]]
    }

    /// Returns the integral of `path x change x difference`.
    #[inline(always)]
    fn contribution(&self, step: &Step, path: &[V; M], difference: impl Fn(usize) -> V) -> V {
        let goes_left = self.left[step.split as usize];
        if step.parts == FIRST {
            // The change is the same at all points.
            let mut sum = path[0].mul(difference(0));
            for (q, path) in path.iter().enumerate().skip(1) {
                sum = path.mul_add(difference(q), sum);
            }
            return sum.mul(V::select(goes_left, V::splat(1.0 - step.share), V::splat(-step.share)));
        }
        let [.., yes, no] = self.numbers(step);
        let term = |q: usize| path[q].mul(V::select(goes_left, V::splat(yes[q]), V::splat(no[q])));
        let mut sum = term(0).mul(difference(0));
        for q in 1..M {
            sum = term(q).mul_add(difference(q), sum);
        }
        sum.and(self.reached[step.split as usize])
    }
}

#[inline(always)]
fn steps<V: Lanes, const M: usize>(tree: &TreeProgram, pass: &Pass, scratch: &mut Scratch<V>) {
    let Scratch { left, reached, paths, belows, sums } = scratch;
    let (paths, _) = paths.as_chunks_mut::<M>();
    let (belows, _) = belows.as_chunks_mut::<M>();
    let run = Run::<V, M>::new(pass, left, reached);
    paths[0] = std::array::from_fn(|q| V::splat(pass.weights[q]));
    // The index of the top of `paths`, and the number of entries of `belows`.
    let (mut top, mut count) = (0, 0);
    for step in &tree.steps {
        let path = paths[top];
        match step.kind {
            StepKind::Left => {
                let parts = run.parts(step).left;
                top += 1;
                paths[top] = std::array::from_fn(|q| path[q].mul(parts[q]));
                continue;
            }
            StepKind::Right => {
                let parts = run.parts(step).left;
                top += 1;
                paths[top] = std::array::from_fn(|q| path[q].sub(path[q].mul(parts[q])));
                continue;
            }
            StepKind::Back => {
                top -= 1;
                continue;
            }
            StepKind::Leaves | StepKind::RightLeaf | StepKind::LeftLeaf | StepKind::Join => {}
        }
        let parts = run.parts(step).left;
        let [of_left, of_right] = step.leaves.map(V::splat);
        let added = match step.kind {
            StepKind::Leaves => {
                let difference = of_left.sub(of_right);
                belows[count] = std::array::from_fn(|q| parts[q].mul_add(difference, of_right));
                count += 1;
                run.contribution(step, &path, |_| difference)
            }
            StepKind::RightLeaf => {
                let below = belows[count - 1];
                let difference: [V; M] = std::array::from_fn(|q| below[q].sub(of_right));
                belows[count - 1] = std::array::from_fn(|q| parts[q].mul_add(difference[q], of_right));
                run.contribution(step, &path, |q| difference[q])
            }
            StepKind::LeftLeaf => {
                let below = belows[count - 1];
                let difference: [V; M] = std::array::from_fn(|q| of_left.sub(below[q]));
                belows[count - 1] = std::array::from_fn(|q| parts[q].mul_add(difference[q], below[q]));
                run.contribution(step, &path, |q| difference[q])
            }
            _ => {
                let (lefts, rights) = (belows[count - 2], belows[count - 1]);
                let difference: [V; M] = std::array::from_fn(|q| lefts[q].sub(rights[q]));
                count -= 1;
                belows[count - 1] = std::array::from_fn(|q| parts[q].mul_add(difference[q], rights[q]));
                run.contribution(step, &path, |q| difference[q])
            }
        };
        let sum = &mut sums[step.feature as usize];
        *sum = sum.add(added);
    }
}
