//! Random schedules that shrink: moves, each a directive if the language's rules allow it where it would stand.

use fangorn::{
    ranks::Choice,
    schedule::{Dim, Directive, Evaluation, FewRows, GpuDim, LayoutKind, Schedule, Tiler, TreeOrder},
};
use proptest::prelude::*;

use super::Seeded;
use super::writer::{BLOCK, GRID, Marks, Writer};

/// What a schedule is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Any directive anywhere.
    Any,
    /// Loops mapped to a launch in most draws.
    MappedLoop,
}

/// Ways to find leaves.
const EVALUATIONS: [Evaluation; 5] = [
    Evaluation::Walk,
    Evaluation::Blend,
    Evaluation::BlendTop(1),
    Evaluation::BlendTop(3),
    Evaluation::BlendTop(8),
];

/// A move in the writing of a schedule; the numbers pick among what the rules allow.
#[derive(Clone, Debug)]
enum Move {
    Tile(u8, u8),
    Split(u8, u8),
    Reorder(u8, u8, u64),
    Parallel(u8),
    Map(u8, u8),
    Unroll(u8),
    Specialize(u8),
    Cache(u8, Dim),
    Interleave(u8),
    UnrollWalk(u8, Option<u8>),
    PeelWalk(u8, u8),
    PeelLikely(u8, u8),
    Evaluate(u8, Evaluation),
    Atomic(u8),
    Shared(u8),
    Vector(u8, u8),
    Layout(LayoutKind),
    TileNodes(u32, Tiler),
    Sort(TreeOrder),
    Pad(u8),
    Ranks(Option<Choice>),
    FewRows(FewRows),
}

/// Draws a move that replaces or reorders loops.
fn shape() -> impl Strategy<Value = Move> {
    prop_oneof![
        8 => any::<(u8, u8)>().prop_map(|(v, s)| Move::Tile(v, s)),
        3 => any::<(u8, u8)>().prop_map(|(v, s)| Move::Split(v, s)),
        6 => any::<(u8, u8, u64)>().prop_map(|(v, n, s)| Move::Reorder(v, n, s)),
    ]
}

/// Draws a move that marks a loop, or a directive without a loop, such as `layout` or `sort`.
fn mark(kind: Kind) -> impl Strategy<Value = Move> {
    let threads = if kind == Kind::MappedLoop { 1 } else { 3 };
    let dim = prop_oneof![1 => Just(Dim::Batch), 1 => Just(Dim::Tree)];
    // A GPU has no tiles of more than one node.
    let nodes = if kind == Kind::MappedLoop {
        prop_oneof![5 => Just(1), 1 => 2..=8u32]
    } else {
        prop_oneof![1 => Just(1), 7 => 2..=8u32]
    };
    prop_oneof![
        threads => any::<u8>().prop_map(Move::Parallel),
        3 => any::<(u8, u8)>().prop_map(|(v, d)| Move::Map(v, d)),
        3 => any::<u8>().prop_map(Move::Unroll),
        2 => any::<u8>().prop_map(Move::Specialize),
        3 => (any::<u8>(), dim).prop_map(|(v, dim)| Move::Cache(v, dim)),
        4 => any::<u8>().prop_map(Move::Interleave),
        2 => (any::<u8>(), prop::option::of(0..9u8)).prop_map(|(v, n)| Move::UnrollWalk(v, n)),
        2 => (any::<u8>(), 0..9u8).prop_map(|(v, n)| Move::PeelWalk(v, n)),
        2 => (any::<u8>(), 1..=100u8).prop_map(|(v, percent)| Move::PeelLikely(v, percent)),
        2 => (any::<u8>(), prop::sample::select(EVALUATIONS.to_vec())).prop_map(|(v, e)| Move::Evaluate(v, e)),
        2 => any::<u8>().prop_map(Move::Atomic),
        2 => any::<u8>().prop_map(Move::Shared),
        2 => any::<(u8, u8)>().prop_map(|(v, n)| Move::Vector(v, n)),
        3 => prop::sample::select(LayoutKind::ALL.to_vec()).prop_map(Move::Layout),
        2 => (nodes, prop::sample::select(Tiler::ALL.to_vec())).prop_map(|(n, by)| Move::TileNodes(n, by)),
        3 => prop::sample::select(TreeOrder::ALL.to_vec()).prop_map(Move::Sort),
        2 => prop::sample::select(vec![0, 10, 50, 200]).prop_map(Move::Pad),
        2 => prop::option::weighted(0.9, prop::sample::select(Choice::ALL.to_vec())).prop_map(Move::Ranks),
        2 => prop::sample::select(FewRows::ALL.to_vec()).prop_map(Move::FewRows),
    ]
}

/// A schedule that keeps the language's rules.
pub fn schedule(kind: Kind) -> impl Strategy<Value = Schedule> {
    // Most moves of loops come before the marks, because a marked loop can be neither tiled nor split.
    let mixed = prop_oneof![1 => shape(), 1 => mark(kind)];
    let moves = (
        prop::collection::vec(shape(), 0..5),
        prop::collection::vec(mixed, 0..4),
        prop::collection::vec(mark(kind), 0..11),
    );
    (moves, any::<u64>()).prop_map(move |((shapes, mixed, marks), seed)| {
        let mut writer = Writer::new(if kind == Kind::MappedLoop { 8 } else { 24 });
        shapes.iter().chain(&mixed).chain(&marks).for_each(|m| apply(m, &mut writer));
        if kind == Kind::MappedLoop {
            finish_mapped(&mut writer, seed);
        }
        writer.out
    })
}

fn apply(one: &Move, w: &mut Writer) {
    let plain = |m: &Marks| !m.interleaved;
    match *one {
        Move::Tile(which, size) => w.tile(which, size),
        Move::Split(which, at) => w.split(which, at),
        Move::Reorder(which, length, seed) => w.reorder(which, length, seed),
        Move::Parallel(which) => w.map(which, None),
        Move::Map(which, dim) => w.map(which, Some([GRID, BLOCK].concat()[dim as usize % 6])),
        Move::Unroll(which) => w.unroll(which),
        Move::Specialize(which) => {
            w.mark(which, |l| plain(&l.marks), |m| m.specialized = true, |var| Directive::Specialize { var })
        }
        Move::Cache(which, dim) => w.mark(
            which,
            |l| l.dim == dim && plain(&l.marks),
            |m| m.cached = true,
            |var| Directive::Cache { var },
        ),
        Move::Interleave(which) => w.mark(
            which,
            |l| {
                let Marks { mapped, cached, unrolled, specialized, .. } = l.marks;
                let counted = l.constant_iterations().is_some_and(|n| (1..=64).contains(&n));
                l.children.is_empty() && mapped.is_none() && !(cached || unrolled || specialized) && counted
            },
            |m| m.interleaved = true,
            |var| Directive::Interleave { var },
        ),
        Move::UnrollWalk(which, steps) => w.mark(
            which,
            |l| l.children.is_empty(),
            |m| m.steps = true,
            |var| Directive::UnrollWalk { var, steps: steps.map(u32::from) },
        ),
        Move::PeelWalk(which, steps) => w.mark(
            which,
            |l| l.children.is_empty(),
            |m| m.steps = true,
            |var| Directive::PeelWalk { var, steps: u32::from(steps) },
        ),
        Move::PeelLikely(which, percent) => w.mark(
            which,
            |l| l.children.is_empty(),
            |m| m.steps = true,
            |var| Directive::PeelLikely { var, percent: u32::from(percent) },
        ),
        Move::Evaluate(which, how) => w.mark(
            which,
            |l| l.children.is_empty(),
            |m| m.steps = true,
            |var| Directive::Evaluate { var, how },
        ),
        Move::Atomic(which) => w.reduce(which, |var| Directive::AtomicReduce { var }),
        Move::Shared(which) => w.reduce(which, |var| Directive::SharedReduce { var }),
        Move::Vector(which, n) => {
            let width = [1, 2, 4, 8, 16][n as usize % 5];
            w.reduce(which, |var| Directive::VectorReduce { var, width });
        }
        Move::Layout(kind) => w.out.directives.push(Directive::Layout { kind }),
        Move::TileNodes(nodes, by) => w.out.directives.push(Directive::TileNodes { nodes, by }),
        Move::Sort(by) => w.out.directives.push(Directive::Sort { by }),
        Move::Ranks(choice) => w.out.directives.push(Directive::Ranks { choice }),
        Move::FewRows(by) => w.out.directives.push(Directive::FewRows { by }),
        Move::Pad(percent) => w.out.directives.push(Directive::Pad { percent: u32::from(percent) }),
    }
}

/// Maps what is left to a launch: the grid from the outside, the block from the inside.
fn finish_mapped(w: &mut Writer, seed: u64) {
    let mut random = Seeded(seed);
    w.map(0, Some(GRID[0]));
    for dim in [BLOCK[0], BLOCK[1]] {
        if random.below(3) > 0 {
            let live = w.live().len();
            w.map(random.below(live.min(128)) as u8, Some(dim));
        }
    }
    if !w.live().iter().any(|n| matches!(w.lines[*n].marks.mapped, Some(Some(_)))) {
        for which in 0..w.live().len() {
            w.map(which as u8, Some(BLOCK[2]));
        }
    }
    if random.below(2) == 0 {
        apply(&Move::Cache(0, Dim::Batch), w);
    }
    let shared = w.live().into_iter().find(|n| {
        let l = &w.lines[*n];
        l.dim == Dim::Tree && matches!(l.marks.mapped, Some(Some(GpuDim::Block(_))))
    });
    if let Some(n) = shared.filter(|_| random.below(2) == 0) {
        let var = w.lines[n].name.clone();
        w.out.directives.push(Directive::SharedReduce { var });
    }
}
