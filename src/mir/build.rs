//! Turns the loops of a schedule into the statements of a loop nest.

use super::{BufferId, Dim, Loop, LoopNest, Mode, Op, Target, Walk};
use crate::schedule::{GpuDim, Mapping, Marks, Nest, NestLoop, Schedule};

impl LoopNest {
    /// Returns the statements of `nest` on `target`. Each innermost loop holds a walk, whose reduce means an
    /// atomic addition until [`LoopNest::legalise`].
    ///
    /// On the CPU, `grid.*` loops are parallel and `block.*` loops serial. On a GPU, `parallel` loops are
    /// serial.
    ///
    /// Each step of a walk decides a tile of `tile` nodes.
    pub fn build(nest: &Nest, target: Target, tile: u32) -> Self {
        let body = nest.body.iter().map(|l| build_loop(l, target)).collect();
        Self { target, tile, legal: false, partials: Vec::new(), body }
    }
}

fn build_loop(l: &NestLoop, target: Target) -> Op {
    let Marks {
        mapping,
        unrolled,
        specialize,
        cache,
        interleave,
        unroll,
        peel,
        likely,
        evaluate,
        mut reduce,
    } = l.marks.clone();
    // A CPU has no memory that only some of its threads share.
    reduce.shared &= target == Target::Cube;
    let into = BufferId::Result;
    let walk =
        |lanes| Op::Walk(Walk { lanes, unroll, peel, likely, evaluate, table: false, into, atomic: false });
    if interleave {
        return walk(Some(l.var.clone()));
    }
    let mode = match (mapping, target) {
        (Mapping::Serial, _) => Mode::Serial,
        (Mapping::Parallel, Target::Cpu) => Mode::Parallel,
        (Mapping::Parallel, Target::Cube) => Mode::Serial,
        (Mapping::Gpu(GpuDim::Grid(_)), Target::Cpu) => Mode::Parallel,
        (Mapping::Gpu(GpuDim::Block(_)), Target::Cpu) => Mode::Serial,
        (Mapping::Gpu(dim), Target::Cube) => Mode::Gpu(dim),
    };
    let mut body = Vec::new();
    if cache {
        body.push(if l.var.dim == Dim::Batch { Op::CacheRows } else { Op::CacheTrees });
    }
    match l.body.is_empty() {
        true => body.push(walk(None)),
        false => body.extend(l.body.iter().map(|inner| build_loop(inner, target))),
    }
    let touched_rows = Schedule::touched_rows(&l.body);
    Op::Loop(Loop { var: l.var.clone(), mode, unrolled, specialize, reduce, touched_rows, body })
}
