//! Sums in the order of the trees, from the slots that a plan's kernel has found.

use cubecl::{client::Client, prelude::*};
use fangorn_ir::{Combine, EpiloguePlan, Transform};

use super::{
    device::{Buffer, flat},
    double::{self, Pair},
    epilogue_kernel::EpilogueStage,
    epilogue_launch::{Sums, launch_epilogue},
    epilogue_steps::EpilogueInputs,
};

/// How sums in the order of the trees are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// Sums a row.
    pub outputs: u32,
    /// Whether a leaf holds a value for each output; otherwise each tree has one output.
    pub vector_leaves: bool,
    /// Whether each addition is rounded to `f32`; otherwise to a double, and the margin to `f32` once.
    pub single: bool,
}

/// What is added up. Leaves and base scores are doubles, the lower word first.
#[derive(CubeType, CubeLaunch)]
pub struct Addends {
    /// Leaf values by slot.
    pub leaves: Box<[u32]>,
    /// Base scores.
    pub base: Box<[u32]>,
    /// Each tree's output.
    pub targets: Box<[u32]>,
}

/// One unit a sum: the base score, then a leaf of each tree.
#[cube(launch_unchecked)]
pub fn add_in_order(
    slots: &[u32],
    of: &Addends,
    margins: &mut [u32],
    rows: u32,
    trees: u32,
    #[comptime] order: Order,
) {
    let i = ABSOLUTE_POS as u32;
    let row = i / order.outputs;
    let output = i % order.outputs;
    if row < rows {
        let low = RuntimeCell::<u32>::new(of.base[(output * 2u32) as usize]);
        let high = RuntimeCell::<u32>::new(of.base[(output * 2u32 + 1u32) as usize]);
        for tree in 0..trees {
            let mine = if comptime![order.vector_leaves || order.outputs == 1] {
                true.runtime()
            } else {
                of.targets[tree as usize] == output
            };
            if mine {
                let slot = slots[(row * trees + tree) as usize];
                let at = if comptime![order.vector_leaves] { slot * order.outputs + output } else { slot };
                let leaf = Pair {
                    low: of.leaves[(at * 2u32) as usize],
                    high: of.leaves[(at * 2u32 + 1u32) as usize],
                };
                let have = Pair { low: low.read(), high: high.read() };
                let sum = double::add(&have, &leaf);
                if comptime![order.single] {
                    let sum = double::of_single(double::to_single(&sum));
                    low.store(sum.low);
                    high.store(sum.high);
                } else {
                    low.store(sum.low);
                    high.store(sum.high);
                }
            }
        }
        margins[i as usize] = double::to_single(&Pair { low: low.read(), high: high.read() });
    }
}

/// What sums in the order of the trees are made of: doubles as two words, the lower first.
#[derive(Clone, Debug)]
pub struct Leaves {
    /// Leaf values by slot.
    pub values: Buffer,
    /// Base scores.
    pub base: Buffer,
    /// Each tree's output; of no meaning where leaves are vectors.
    pub targets: Buffer,
    /// How they are added.
    pub order: Order,
    /// Number of trees.
    pub trees: u32,
    /// What margins are multiplied with before a transform.
    pub scale: f32,
}

/// Writes margins, or values, of `rows` rows whose `slots` were found, trees in the producer's order, and what follows them.
pub fn margins_in_order(
    client: &Client,
    leaves: &Leaves,
    slots: &Buffer,
    rows: u32,
    transform: Option<Transform>,
    then: EpilogueArgs<'_>,
    out: &Buffer,
) {
    let len = rows as usize * leaves.order.outputs as usize;
    let ends = transform.is_some() || !then.epilogue.is_empty();
    let margins = if ends { Buffer::of_words(client, len) } else { out.clone() };
    let (count, dim) = flat(client, len as u32);
    // SAFETY: there are slots of all rows and trees, and every slot has its leaf.
    unsafe {
        let addends = AddendsLaunch::new(leaves.values.arg(), leaves.base.arg(), leaves.targets.arg());
        add_in_order::launch_unchecked(
            client,
            count,
            dim,
            slots.arg(),
            addends,
            margins.arg(),
            rows,
            leaves.trees,
            leaves.order,
        );
    }
    if !ends {
        return;
    }
    let scale = if transform.is_some() { leaves.scale } else { 1.0 };
    let what = EpilogueStage {
        combine: Combine::Sum,
        add_base: false,
        outputs: leaves.order.outputs,
        transform: transform.unwrap_or_default(),
        epilogue: then.epilogue.clone(),
    };
    let sums = Sums {
        rows,
        model: &leaves.base,
        base_at: 0,
        sums: &margins,
        partial: &Buffer::none(client),
        partial_at: 0,
        copies: 0,
        scale,
    };
    launch_epilogue(client, what, &sums, then.inputs, out);
}

/// What follows margins, and what it reads.
#[derive(Clone, Copy, Debug)]
pub struct EpilogueArgs<'a> {
    /// The steps.
    pub epilogue: &'a EpiloguePlan,
    /// What they read.
    pub inputs: &'a EpilogueInputs,
}
