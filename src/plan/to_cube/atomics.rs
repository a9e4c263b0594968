//! Atomic additions, if a device has them.

use super::paths::each_op;
use crate::{
    mir::{self, BufferId, Dim, LoopNest, Mode},
    plan::{Combine, Note},
    schedule::Gpu,
};

/// Returns the loops, legalised without atomic additions, if the device or the nest can't have these;
/// otherwise `None`. Also returns notes on the directives that are not carried out as written.
pub(in crate::plan) fn without_atomics(
    loops: &LoopNest,
    legal: &LoopNest,
    combine: Combine,
    gpu: Gpu,
) -> (Option<LoopNest>, Vec<Note>) {
    let mut marked = Vec::new();
    let mut walks = Vec::new();
    each_op(&loops.body, &mut |op| match op {
        mir::Op::Loop(l) if l.reduce.atomic && l.mode != Mode::Serial && l.var.dim == Dim::Tree => {
            marked.push((l.var.name.clone(), l.reduce.shared));
        }
        _ => {}
    });
    each_op(&legal.body, &mut |op| {
        if let mir::Op::Walk(w) = op {
            walks.push((w.into, w.atomic));
        }
    });
    let staged = "partial sums are private and added up in stages";
    // Every device adds whole words atomically.
    let why = if combine == Combine::Sum && !gpu.atomic_add {
        Some("the device does not add to f32 in buffers atomically")
    } else if !matches!(combine, Combine::Sum | Combine::Fixed) {
        Some("atomic operations on f32 are only counted on for sums")
    } else if walks.iter().any(|(into, atomic)| *atomic && *into != BufferId::Result) {
        Some("a loop further out has private sums, to which nothing is added atomically on a GPU")
    } else if walks.iter().any(|(_, atomic)| *atomic) && walks.iter().any(|(_, atomic)| !*atomic) {
        Some("walks of another branch add to the same sums otherwise")
    } else {
        None
    };
    let mut notes = Vec::new();
    for (name, shared) in &marked {
        let why = why.or(shared.then_some("atomic additions in shared memory are not counted on"));
        if let Some(why) = why {
            let directive = format!("atomicReduce({name})");
            notes.push(Note { directive, fallback: format!("{why}; {staged}") });
        }
    }
    if why.is_none() || marked.is_empty() {
        return (None, notes);
    }
    let mut plain = loops.clone();
    clear_atomic(&mut plain.body);
    (Some(plain.legalise()), notes)
}

fn clear_atomic(ops: &mut [mir::Op]) {
    for op in ops {
        match op {
            mir::Op::Loop(l) => {
                l.reduce.atomic = false;
                clear_atomic(&mut l.body);
            }
            mir::Op::Cases(c) => c.cases.iter_mut().for_each(|c| clear_atomic(&mut c.body)),
            mir::Op::Walk(_) | mir::Op::CacheRows | mir::Op::CacheTrees | mir::Op::Reduce(_) => {}
        }
    }
}
