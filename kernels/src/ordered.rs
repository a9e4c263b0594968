//! Sums in the producer's tree order, from the leaf slots that a plan's kernel has found.

use cubecl::{client::Client, prelude::*};
use fangorn_ir::{Combine, EpiloguePlan, Transform};

use super::{
    device::{Buffer, flat},
    double::{self, Pair},
    epilogue_kernel::EpilogueStage,
    epilogue_launch::{Sums, launch_epilogue},
    epilogue_steps::EpilogueInputs,
};

/// How to add leaf values in the producer's tree order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    /// Number of sums of a row.
    pub outputs: u32,
    /// Whether a leaf holds a value for each output. Otherwise each tree has one output.
    pub vector_leaves: bool,
    /// Whether each addition is rounded to `f32`. Otherwise additions are rounded to a double, and the margin
    /// once to `f32`.
    pub single: bool,
}

/// The numbers that the kernel adds up. Leaf values and base scores are doubles, the lower word first.
#[derive(CubeType, CubeLaunch)]
pub struct Addends {
    /// Leaf values by leaf slot.
    pub leaves: Box<[u32]>,
    /// Base scores by output.
    pub base: Box<[u32]>,
    /// The output of each tree.
    pub targets: Box<[u32]>,
}

/// Adds up one sum in each unit: the base score, then a leaf value of each tree.
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

/// The numbers that are added in the producer's tree order. They are doubles as two words, the lower word
/// first.
#[derive(Clone, Debug)]
pub struct Leaves {
    /// Leaf values by leaf slot.
    pub values: Buffer,
    /// Base scores by output.
    pub base: Buffer,
    /// The output of each tree. It is not read if a leaf holds a value for each output.
    pub targets: Buffer,
    /// How to add the leaf values.
    pub order: Order,
    /// Number of trees.
    pub trees: u32,
    /// Factor of margins before the transform.
    pub scale: f32,
}

/// Writes the epilogue's results for the margins of `rows` rows into `out`, or for their values if there is a
/// `transform`. `slots` holds the leaf slots that these rows reached, in the producer's tree order.
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
    // SAFETY: each unit checks that its row exists. The caller upholds that `slots` has a slot of each of
    // `rows` rows and each tree, that `leaves` has a leaf value for each slot, and that `out` has room for
    // the results.
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

/// An epilogue and its inputs.
#[derive(Clone, Copy, Debug)]
pub struct EpilogueArgs<'a> {
    /// The steps and the result's type.
    pub epilogue: &'a EpiloguePlan,
    /// What the steps read.
    pub inputs: &'a EpilogueInputs,
}
