//! Turns plan statements into a program's instructions: it joins serial loops over the same range, and the innermost
//! pair of loops becomes a block.

use std::fmt;

use super::{
    cached::{RowAccess, UsedColumns},
    engine::walk::{Ending, Shape},
};
use crate::plan::{
    Dim, Limit, Loop, Map, Op, Range, Remainder, RowLoop, Value, Walk,
    cpu::{Cpu, Parallel, Statement, Sum},
};

/// A loop of a block.
#[derive(Clone, Debug)]
pub(super) struct BlockLoop {
    pub(super) range: Range,
}

/// An instruction of a [`super::Program`].
#[derive(Clone, Debug)]
pub(super) enum Instruction {
    /// A loop that the run interprets. Its iterations may run on threads.
    Loop { dim: Dim, register: u32, range: Range, parallel: bool, body: Vec<Instruction> },
    /// A call of a micro-kernel.
    Block { rows: Option<BlockLoop>, trees: Option<BlockLoop>, shape: Shape, into: Sum },
    /// One of several bodies, chosen by a loop's offset.
    Cases { register: u32, cases: Vec<(u32, Vec<Instruction>)> },
    /// Brings `rows` rows into the caches, from the current row on: the run copies them for the instructions after this
    /// one, or prefetches them.
    CacheRows { rows: u32, copied: bool },
    /// A stage of a reduction: it adds up the copies of a partial buffer over one dimension.
    Reduce { buffer: u32, dimension: u32, rows: Vec<Vec<RowLoop>>, into: Stage },
}

/// The blocks of a program that walk one tree for all their rows before the next tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BlocksByTree {
    /// Whether there is such a block.
    pub(super) exist: bool,
    /// The greatest number of neighbouring rows in such a block, as far as constants limit it.
    pub(super) rows_together: usize,
    /// The greatest number of neighbouring trees in such a block, as far as constants limit it.
    pub(super) trees_together: usize,
}

impl BlocksByTree {
    /// Looks through the instructions of a program of `trees` trees.
    pub(super) fn new(instructions: &[Instruction], trees: usize) -> Self {
        let mut found = Self::default();
        for instruction in instructions {
            match instruction {
                Instruction::Block { rows, trees: own, shape, .. } if shape.rows_inside => {
                    let together = |l: &Option<BlockLoop>| match l.as_ref().map(|l| &l.range) {
                        None => 1,
                        Some(range) if range.stride == Value::Const(1) => most(range),
                        Some(_) => 0,
                    };
                    found = found.or(Self {
                        exist: true,
                        rows_together: together(rows),
                        trees_together: together(own).min(trees),
                    });
                }
                Instruction::Loop { body, .. } => found = found.or(Self::new(body, trees)),
                Instruction::Cases { cases, .. } => {
                    cases.iter().for_each(|(_, body)| found = found.or(Self::new(body, trees)));
                }
                Instruction::Block { .. } | Instruction::CacheRows { .. } | Instruction::Reduce { .. } => {}
            }
        }
        found
    }

    fn or(self, other: Self) -> Self {
        Self {
            exist: self.exist || other.exist,
            rows_together: self.rows_together.max(other.rows_together),
            trees_together: self.trees_together.max(other.trees_together),
        }
    }
}

/// Returns the greatest number of iterations of a loop, as far as constants limit it.
fn most(range: &Range) -> usize {
    let limits = range.limits.iter().filter(|limit| limit.minus.is_empty());
    let known = limits.filter_map(|limit| match (limit.end, range.start) {
        (Value::Const(end), Value::Const(start)) => Some(end.saturating_sub(start) as usize),
        _ => None,
    });
    known.min().unwrap_or(usize::MAX)
}

/// How a reduction stage runs: where it adds its sums, and how many sums it takes at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stage {
    pub(super) in_place: bool,
    pub(super) atomic: bool,
    pub(super) vector: usize,
}

/// A loop of a perfect nest. A walk's lanes count as a loop whose `lanes` walks advance together.
#[derive(Clone)]
struct NestLoop {
    dim: Dim,
    register: u32,
    range: Range,
    map: Map<Cpu>,
    lanes: u32,
}

/// Turns a plan's body into instructions. `vectors` says whether the vector kernels run them.
pub(super) fn instructions(ops: &[Op<Cpu>], used: &UsedColumns, vectors: bool) -> Vec<Instruction> {
    translate(&without_unprofitable(ops, used, vectors), used, vectors)
}

/// Returns whether a statement makes the run faster. A cache that does not pay would only keep the compiler
/// from joining loops.
pub(super) fn pays(op: &Op<Cpu>, used: &UsedColumns, vectors: bool) -> bool {
    match op {
        Op::Own(Statement::CacheRows { rows }) => used.close(*rows, vectors) != RowAccess::Nothing,
        // Measured: a prefetch of nodes that are read right after it is slower than no prefetch.
        Op::Own(Statement::CacheTrees { .. }) => false,
        _ => true,
    }
}

/// Returns the statements without those that do not pay.
fn without_unprofitable(ops: &[Op<Cpu>], used: &UsedColumns, vectors: bool) -> Vec<Op<Cpu>> {
    let inside = |op: &Op<Cpu>| match op.clone() {
        Op::Loop(l) => Op::Loop(Loop { body: without_unprofitable(&l.body, used, vectors), ..l }),
        Op::Cases { register, cases } => {
            let cases =
                cases.iter().map(|(end, body)| (*end, without_unprofitable(body, used, vectors))).collect();
            Op::Cases { register, cases }
        }
        op => op,
    };
    ops.iter().filter(|op| pays(op, used, vectors)).map(inside).collect()
}

fn translate(ops: &[Op<Cpu>], used: &UsedColumns, vectors: bool) -> Vec<Instruction> {
    ops.iter().filter_map(|op| translate_op(op, used, vectors)).collect()
}

fn translate_op(op: &Op<Cpu>, used: &UsedColumns, vectors: bool) -> Option<Instruction> {
    match op {
        Op::Loop(l) => Some(translate_loop(l, used, vectors)),
        Op::Walk(w) => Some(make_block(&[], w)),
        Op::Cases { register, cases } => Some(Instruction::Cases {
            register: *register,
            cases: cases.iter().map(|(end, body)| (*end, translate(body, used, vectors))).collect(),
        }),
        Op::Own(Statement::ReduceDimension { buffer, dimension, rows, in_place, atomic, vector, .. }) => {
            Some(Instruction::Reduce {
                buffer: *buffer,
                dimension: *dimension,
                rows: rows.clone(),
                into: Stage { in_place: *in_place, atomic: *atomic, vector: *vector as usize },
            })
        }
        Op::Own(Statement::CacheRows { rows }) => Some(Instruction::CacheRows {
            rows: *rows,
            copied: used.close(*rows, vectors) == RowAccess::Copied,
        }),
        Op::Own(Statement::CacheTrees { .. }) => None,
    }
}

fn translate_loop(l: &Loop<Cpu>, used: &UsedColumns, vectors: bool) -> Instruction {
    // The chain is the perfect nest from here down to a walk or to a body of several statements.
    let mut chain = Vec::new();
    let mut at = l;
    let last = loop {
        let this =
            NestLoop { dim: at.dim, register: at.register, range: at.range.clone(), map: at.map, lanes: 1 };
        chain.push(this);
        match &at.body[..] {
            [Op::Loop(inner)] => at = inner,
            body => break body,
        }
    };
    match last {
        [Op::Walk(walk)] => make_block(&chain, walk),
        body => {
            let mut below = Vec::new();
            limits(body, &mut below);
            let joined = join(&chain, &below);
            let (innermost, outer) = joined.split_last().expect("the loop itself");
            nest_in_loops(outer, looped(innermost, translate(body, used, vectors)))
        }
    }
}

/// Turns the nest `chain { walk }` into loops around a block.
fn make_block(chain: &[NestLoop], walk: &Walk<Cpu>) -> Instruction {
    let mut chain = chain.to_vec();
    if let Some(lanes) = &walk.lanes {
        let (dim, register, range) = (lanes.dim, lanes.register, lanes.range.clone());
        chain.push(NestLoop { dim, register, range, map: Map::Serial, lanes: lanes.count });
    }
    let mut chain = join(&chain, &[]);
    let mut shape = Shape {
        rows_inside: true,
        lanes: 1,
        steps: walk.steps,
        tested: walk.own.tested,
        ending: match walk.rest {
            Remainder::Nothing => Ending::AfterSteps,
            Remainder::UntilLeaf => Ending::AtLeaf,
            Remainder::Counted => Ending::AtDepth,
        },
        blend: walk.own.blend,
    };
    let (mut rows, mut trees) = (None, None);
    for innermost in [true, false] {
        let fits = |c: &NestLoop| {
            serial(c.map) && if c.dim == Dim::Batch { rows.is_none() } else { trees.is_none() }
        };
        let Some(c) = chain.pop_if(|c| fits(c)) else { break };
        if innermost {
            shape.rows_inside = c.dim == Dim::Batch;
            shape.lanes = c.lanes as usize;
        }
        let taken = Some(BlockLoop { range: c.range });
        match c.dim {
            Dim::Batch => rows = taken,
            Dim::Tree => trees = taken,
        }
    }
    nest_in_loops(&chain, Instruction::Block { rows, trees, shape, into: walk.own.into })
}

/// Puts an instruction inside the loops of `chain`, outermost first.
fn nest_in_loops(chain: &[NestLoop], instruction: Instruction) -> Instruction {
    chain.iter().rev().fold(instruction, |inner, c| looped(c, vec![inner]))
}

fn looped(c: &NestLoop, body: Vec<Instruction>) -> Instruction {
    let (dim, register, range) = (c.dim, c.register, c.range.clone());
    Instruction::Loop { dim, register, range, parallel: c.map == Map::Own(Parallel), body }
}

/// Returns whether a block can hold a loop with this map: the iterations must run one after the other,
/// unrolled or not.
fn serial(map: Map<Cpu>) -> bool {
    matches!(map, Map::Serial | Map::Unrolled { .. })
}

/// Collects the limits of every loop in these statements.
fn limits<'a>(ops: &'a [Op<Cpu>], out: &mut Vec<&'a Limit>) {
    for op in ops {
        match op {
            Op::Loop(l) => {
                out.extend(&l.range.limits);
                limits(&l.body, out);
            }
            Op::Walk(w) => out.extend(w.lanes.iter().flat_map(|l| &l.range.limits)),
            Op::Own(Statement::ReduceDimension { rows, .. }) => {
                out.extend(rows.iter().flatten().flat_map(|l| &l.range.limits))
            }
            op => op.bodies().into_iter().for_each(|body| limits(body, out)),
        }
    }
}

/// Joins neighbouring serial loops if the inner loop goes through a tile of the outer loop. The order of
/// visits stays the same. `below` holds the limits of the loops inside the chain.
fn join(chain: &[NestLoop], below: &[&Limit]) -> Vec<NestLoop> {
    let mut out: Vec<NestLoop> = Vec::new();
    for (i, c) in chain.iter().enumerate() {
        let inside = || chain[i + 1..].iter().flat_map(|c| &c.range.limits).chain(below.iter().copied());
        // The joined loop keeps one offset, so a limit that subtracts one of the two offsets has to subtract
        // both.
        let both = |outer: &NestLoop| {
            inside().all(|l| l.minus.contains(&outer.register) == l.minus.contains(&c.register))
        };
        match out
            .last_mut()
            .filter(|outer| both(outer))
            .and_then(|outer| joined(outer, c).map(|j| (outer, j)))
        {
            Some((outer, joined)) => *outer = joined,
            None => out.push(c.clone()),
        }
    }
    out
}

fn joined(outer: &NestLoop, inner: &NestLoop) -> Option<NestLoop> {
    let tile = Limit { end: outer.range.stride, minus: Vec::new() };
    // If `divisor` does not divide `whole`, a tile ends with a partial iteration, which a single loop can't express.
    let divides = |whole: Value, divisor: Value| match (whole, divisor) {
        (_, Value::Const(1)) => true,
        (Value::Const(whole), Value::Const(divisor)) => whole.is_multiple_of(divisor.max(1)),
        (whole, divisor) => whole == divisor,
    };
    // The outer loop's limits have to hold for the sum of both offsets, or to fall between two tiles.
    let holds = |limit: &Limit| {
        let sum = |l: &&Limit| l.end == limit.end && l.minus.len() == limit.minus.len() + 1;
        let sums = |l: &&Limit| l.minus.iter().all(|r| *r == outer.register || limit.minus.contains(r));
        let between = limit.minus.is_empty()
            && outer.range.start == Value::Const(0)
            && matches!(limit.end, Value::Const(_))
            && divides(limit.end, outer.range.stride);
        between
            || inner.range.limits.iter().filter(sum).any(|l| l.minus.contains(&outer.register) && sums(&l))
    };
    let fits = serial(outer.map)
        && serial(inner.map)
        && outer.dim == inner.dim
        && outer.lanes == 1
        && inner.range.start == Value::Const(0)
        && inner.range.limits.contains(&tile)
        && divides(outer.range.stride, inner.range.stride)
        && outer.range.limits.iter().all(holds);
    if !fits {
        return None;
    }
    let mut limits = outer.range.limits.clone();
    for limit in inner.range.limits.iter().filter(|l| **l != tile) {
        // The joined offset is the sum of both offsets, so the limit no longer subtracts the outer one.
        let mut minus = limit.minus.clone();
        let index = minus.iter().position(|r| *r == outer.register)?;
        minus.remove(index);
        let limit = Limit { end: limit.end, minus };
        if !limits.contains(&limit) {
            limits.push(limit);
        }
    }
    let range = Range { start: outer.range.start, stride: inner.range.stride, limits };
    Some(NestLoop { dim: outer.dim, register: outer.register, range, map: Map::Serial, lanes: inner.lanes })
}

/// Writes an instruction as text.
pub(super) fn write_instruction(
    f: &mut fmt::Formatter<'_>,
    instruction: &Instruction,
    depth: usize,
) -> fmt::Result {
    write!(f, "{:1$}", "", depth * 2)?;
    match instruction {
        Instruction::Loop { dim, register, range, parallel, body } => {
            let how = if *parallel { "par.for" } else { "for" };
            writeln!(f, "{how} r{register} in {dim} {range}:")?;
            body.iter().try_for_each(|s| write_instruction(f, s, depth + 1))
        }
        Instruction::Block { rows, trees, shape, into } => {
            let text = |l: &Option<BlockLoop>| l.as_ref().map_or("1".to_owned(), |l| l.range.to_string());
            let order = if shape.rows_inside { "trees { rows }" } else { "rows { trees }" };
            write!(f, "{into} block {order} rows {} trees {}", text(rows), text(trees))?;
            write!(f, " lanes {} unrolled {}", shape.lanes, shape.steps)?;
            if shape.tested > 0 {
                write!(f, " tested {}", shape.tested)?;
            }
            let ending = match shape.ending {
                Ending::AfterSteps => "",
                Ending::AtLeaf => " until leaf",
                Ending::AtDepth => " to the tree's depth",
            };
            match shape.blend {
                None => writeln!(f, "{ending}"),
                Some(u32::MAX) => writeln!(f, "{ending}, or blend"),
                Some(levels) => writeln!(f, "{ending}, or from {levels} blended levels on"),
            }
        }
        Instruction::Cases { register, cases } => {
            for (i, (end, body)) in cases.iter().enumerate() {
                let pad = if i == 0 { 0 } else { depth * 2 };
                match i + 1 == cases.len() {
                    true => writeln!(f, "{:pad$}otherwise:", "")?,
                    false => writeln!(f, "{:pad$}case r{register} < {end}:", "")?,
                }
                body.iter().try_for_each(|s| write_instruction(f, s, depth + 1))?;
            }
            Ok(())
        }
        Instruction::CacheRows { rows, copied } => {
            writeln!(f, "cacheRows {rows}: {}", if *copied { "packed copy" } else { "prefetch" })
        }
        Instruction::Reduce { buffer, dimension, into, .. } => {
            let destination = match (into.in_place, into.atomic) {
                (true, _) => "in place",
                (false, false) => "into result",
                (false, true) => "atomically into result",
            };
            writeln!(
                f,
                "reduce partial{buffer} dimension {dimension} {destination}, {} at a time",
                into.vector
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        cpu::Program,
        forest::{CompareType, Forest, Side},
        plan::{Request, lower},
        schedule::Schedule,
    };

    /// Returns a loop over rows.
    fn over(register: u32, start: u32, stride: Value, limits: &[(Value, &[u32])]) -> NestLoop {
        let limits = limits.iter().map(|(end, minus)| Limit { end: *end, minus: minus.to_vec() }).collect();
        let range = Range { start: Value::Const(start), stride, limits };
        NestLoop { dim: Dim::Batch, register, range, map: Map::Serial, lanes: 1 }
    }

    #[test]
    fn a_loop_through_anothers_tile_is_joined_with_it() {
        let rows = Value::Size(9);
        let outer = |stride| over(3, 0, stride, &[(rows, &[])]);
        let inner = |tile, start, stride| over(4, start, stride, &[(tile, &[]), (rows, &[3])]);
        let join = |tile, start, stride| joined(&outer(tile), &inner(tile, start, stride));
        let both = join(Value::Const(64), 0, Value::Const(4)).expect("64 is 16 times 4");
        assert_eq!(
            (both.register, both.range.start, both.range.stride),
            (3, Value::Const(0), Value::Const(4))
        );
        assert_eq!(both.range.limits, [Limit { end: rows, minus: vec![] }]);
        // The last iteration in a tile would be cut short, or could be.
        assert!(join(Value::Const(64), 0, Value::Const(48)).is_none());
        assert!(join(Value::Size(1), 0, Value::Size(2)).is_none());
        assert!(join(Value::Size(1), 0, Value::Size(1)).is_some());
        assert!(join(Value::Size(1), 0, Value::Const(1)).is_some());
        // The inner loop begins elsewhere, or has no limit at the end of a tile.
        assert!(join(Value::Const(64), 1, Value::Const(1)).is_none());
        let alone = over(4, 0, Value::Const(1), &[(rows, &[3])]);
        assert!(joined(&outer(Value::Const(64)), &alone).is_none());
    }

    #[test]
    fn an_outer_limit_holds_for_both_loops_or_falls_between_two_tiles() {
        let tile = Value::Const(64);
        let inner = over(4, 0, Value::Const(1), &[(tile, &[])]);
        let with = |start, limits| joined(&over(3, start, tile, limits), &inner).is_some();
        assert!(with(0, &[(Value::Const(128), &[])]));
        assert!(!with(0, &[(Value::Const(100), &[])]), "100 is inside a tile");
        assert!(!with(1, &[(Value::Const(128), &[])]), "tiles that begin at 1 don't end at 128");
        assert!(!with(0, &[(Value::Size(9), &[])]), "nobody knows where it falls");
        assert!(!with(0, &[(Value::Const(128), &[2])]), "an outer loop moves it");
    }

    #[test]
    fn text_says_which_loops_are_parallel_and_which_steps_are_unrolled() {
        let mut forest = Forest::builder(2, 1);
        for _ in 0..4 {
            let mut tree = forest.tree(0);
            tree.split(0, CompareType::F32.less(0.5), Side::Left, 1, 2);
            tree.split(1, CompareType::F32.less(0.5), Side::Left, 3, 4);
            for leaf in [2, 3, 4] {
                tree.leaf(leaf, &[1.0]);
            }
        }
        let forest = forest.build().expect("a forest");
        let text = |schedule: &str| {
            let schedule = Schedule::parse(schedule).expect("a schedule");
            let lowered = lower(&forest, &schedule, Request { threads: 2, ..Request::cpu() });
            let program = Program::new(&forest, &lowered.expect("lowered"), 2).expect("a program");
            program.to_string()
        };
        let tiled = "tile(batch, b0, b1, 64)\nreorder(b0, tree, b1)\n";
        let parallel = text(&format!("{tiled}parallel(b0)"));
        assert!(parallel.contains("par.for r0 in rows"), "{parallel}");
        assert_eq!(parallel.matches("for r").count(), 1, "{parallel}");
        let serial = text(tiled);
        assert!(!serial.contains("par."), "{serial}");
        assert!(!serial.contains("tested"), "{serial}");
        let peeled = text(&format!("{tiled}peelWalk(b1, 1)"));
        assert!(peeled.contains(" unrolled 1 until leaf"), "{peeled}");
        assert!(!peeled.contains("tested"), "{peeled}");
    }
}
