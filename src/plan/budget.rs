//! Keeps a kernel's code within the limits of the device's compiler, whose time grows faster than the kernel.

use super::{Extents, Note};
use crate::{
    mir::{Dim, Loop, LoopNest, Mode, Op, Walk},
    schedule::{Bound, CodeLimits, Device, Gpu, IndexVar, ReduceMarks, Size},
};

/// Maximum number of walks that `specialize` may make on the CPU, where a walk is a line of a program and not
/// code.
pub(super) const MOST_CPU_WALKS: usize = 256;
/// Number of steps that a walk counts as, in addition to its straight-line steps.
const STEPS_OF_A_WALK: u32 = 3;

/// The number of straight-line steps that a kernel's walks may still take. `None` is no limit.
pub(super) struct Steps(Option<u32>);

impl Steps {
    /// Returns the steps of a kernel with `walks` walks on a device. Steps are no code on the CPU.
    pub(super) fn new(device: Device, walks: u32, questions: bool) -> Self {
        let Device::Gpu(Gpu { code, .. }) = device else { return Self(None) };
        let most = if questions { code.steps / code.question.max(1) } else { code.steps };
        Self(Some(most.saturating_sub(walks.saturating_mul(STEPS_OF_A_WALK))))
    }

    /// Takes as many of `wanted` steps as there is room for in each of `walks` walks, and returns their
    /// number.
    pub(super) fn take(&mut self, wanted: u32, walks: u32) -> u32 {
        let Some(left) = &mut self.0 else { return wanted };
        let taken = wanted.min(*left / walks.max(1));
        *left -= taken * walks;
        taken
    }
}

/// Returns the walks in order, each with the number of times that a kernel's text holds it: its lanes times
/// the iterations of the unrolled loops around it.
pub(super) fn occurrences(ops: &[Op], trees: u32, threads: u32) -> Vec<(&Walk, u32)> {
    fn each<'a>(ops: &'a [Op], at: Extents, times: u32, out: &mut Vec<(&'a Walk, u32)>) {
        for op in ops {
            match op {
                Op::Walk(w) => out.push((w, times.saturating_mul(lanes(w)))),
                Op::Loop(l) if l.unrolled => {
                    let count = l.var.extent().resolve(at).max(1);
                    each(&l.body, at, times.saturating_mul(count), out);
                }
                op => op.bodies().into_iter().for_each(|body| each(body, at, times, out)),
            }
        }
    }
    let mut out = Vec::new();
    each(ops, Extents { batch: 1, trees, threads }, 1, &mut out);
    out
}

/// Cuts lanes and unrolled loops down to the limits of a kernel's code, and returns notes on the cuts.
pub(super) fn within(
    nest: &mut LoopNest,
    trees: u32,
    threads: u32,
    code: CodeLimits,
    questions: bool,
) -> Vec<Note> {
    let mut notes = Vec::new();
    let most = if questions { code.walks / code.question.max(1) } else { code.walks };
    let side_by_side = statements(&nest.body).max(1);
    let lanes = 1 << (most / side_by_side).clamp(1, code.lanes.max(1)).ilog2();
    narrow(&mut nest.body, 0, lanes, &mut notes);
    let at = Extents { batch: 1, trees, threads };
    roll(&mut nest.body, at, 1, most, &mut 0, &mut notes);
    notes
}

/// Returns the number of walk statements.
fn statements(ops: &[Op]) -> u32 {
    let of = |op: &Op| match op {
        Op::Walk(_) => 1,
        op => op.bodies().into_iter().map(statements).sum(),
    };
    ops.iter().map(of).sum()
}

/// Cuts walks of more than `most` lanes into groups of `most` lanes, one group after the other.
fn narrow(ops: &mut [Op], depth: usize, most: u32, notes: &mut Vec<Note>) {
    for op in ops {
        match op {
            Op::Loop(l) => narrow(&mut l.body, depth + 1, most, notes),
            Op::Cases(c) => c.cases.iter_mut().for_each(|c| narrow(&mut c.body, depth, most, notes)),
            Op::Walk(walk) => {
                let Some(lanes) = walk.lanes.clone() else { continue };
                let count = lanes.extent().constant().unwrap_or(1);
                if count <= most {
                    continue;
                }
                notes.push(Note {
                    directive: format!("interleave({})", lanes.name),
                    fallback: format!(
                        "{count} walks at once, at most {most} in this kernel; they go in groups of {most}"
                    ),
                });
                let (outer, inner) = tiled(&lanes, depth, most);
                let touched_rows = match (lanes.dim, lanes.stride.constant()) {
                    (Dim::Tree, _) => Some(1),
                    (Dim::Batch, Some(stride)) => Some((most - 1).saturating_mul(stride).saturating_add(1)),
                    (Dim::Batch, None) => None,
                };
                let walk = Walk { lanes: Some(inner), ..walk.clone() };
                *op = Op::Loop(Loop {
                    var: outer,
                    mode: Mode::Serial,
                    unrolled: false,
                    specialize: false,
                    reduce: ReduceMarks::default(),
                    touched_rows,
                    body: vec![Op::Walk(walk)],
                });
            }
            Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => {}
        }
    }
}

/// Tiles a loop variable at `depth`: returns the loop over tiles of `lanes` iterations, and the loop inside a
/// tile.
fn tiled(var: &IndexVar, depth: usize, lanes: u32) -> (IndexVar, IndexVar) {
    let span = Size::Const(lanes).times(var.stride.clone());
    let outer = IndexVar { stride: span.clone(), ..var.clone() };
    let below = |b: &Bound| {
        let mut minus = b.minus.clone();
        minus.push(depth);
        Bound { end: b.end.clone(), minus }
    };
    let mut bounds = vec![Bound { end: span, minus: Vec::new() }];
    bounds.extend(var.bounds.iter().map(below));
    let inner = IndexVar { start: Size::Const(0), bounds, ..var.clone() };
    (outer, inner)
}

/// Rolls up unrolled loops that would hold too many walks. `times` is how often enclosing unrolled loops
/// repeat `ops`, `taken` the number of walks so far.
fn roll(ops: &mut [Op], at: Extents, times: u32, most: u32, taken: &mut u32, notes: &mut Vec<Note>) {
    for op in ops {
        match op {
            Op::Loop(l) => {
                let mut inside = times;
                if l.unrolled {
                    let count = l.var.extent().resolve(at).max(1);
                    let walks = walks(&l.body).saturating_mul(count).saturating_mul(times);
                    if taken.saturating_add(walks) > most {
                        l.unrolled = false;
                        notes.push(Note {
                            directive: format!("unroll({})", l.var.name),
                            fallback: format!(
                                "the kernel would hold {walks} walks, at most {most} on this GPU; it stays a loop"
                            ),
                        });
                    } else {
                        inside = times.saturating_mul(count);
                    }
                }
                roll(&mut l.body, at, inside, most, taken, notes);
            }
            Op::Cases(c) => c.cases.iter_mut().for_each(|c| roll(&mut c.body, at, times, most, taken, notes)),
            Op::Walk(w) => *taken = taken.saturating_add(times.saturating_mul(lanes(w))),
            Op::CacheRows | Op::CacheTrees | Op::Reduce(_) => {}
        }
    }
}

fn lanes(walk: &Walk) -> u32 {
    walk.lanes.as_ref().map_or(1, |v| v.extent().constant().unwrap_or(1))
}

fn walks(ops: &[Op]) -> u32 {
    let of = |op: &Op| match op {
        Op::Walk(w) => lanes(w),
        op => op.bodies().into_iter().map(walks).fold(0, u32::saturating_add),
    };
    ops.iter().map(of).fold(0, u32::saturating_add)
}
