//! The gradient of the rows through soft splits.
//!
//! A soft split sends a row left with probability `p = sigmoid((t - x) / temperature)`. The soft margin of a tree is then
//! the expected leaf value at its root, and its derivative by one split is
//! `P(split) * p * (1 - p) * (E[left child] - E[right child]) / -temperature`, where `P` is the probability that the row
//! comes to the split. [`SoftSplits::zero_with_gradient`] computes `P` from the roots down and `E` from the leaves up,
//! one level of all trees of a chunk at a time.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Bool, DType, Device, IndexingUpdateOp, Int, Tensor, TensorData, activation};
use fangorn::{
    Forest,
    forest::{Aggregate, Node, Predicate, Side, Targets, ZERO_ZONE},
};

use crate::error::{Error, Result};

/// The maximum number of nodes of the trees that are evaluated together. A tree with more is evaluated alone.
const CHUNK_NODES: usize = 1 << 15;
/// The number of elements of the largest tensor of a chunk: 16 MiB of f32, which every device binds.
const MOST_ELEMENTS: usize = 1 << 22;
/// Rows and thresholds are clamped to this size, so that no difference of two of them is NaN.
const LARGEST: f32 = 1e30;

/// A forest's splits, and the temperature that softens them.
#[derive(Clone, Debug)]
pub(super) struct SoftSplits {
    temperature: f64,
    chunks: Arc<Vec<Chunk>>,
    columns: usize,
    outputs: usize,
    leaf_width: usize,
    /// The maximum number of elements of a tensor of a chunk's nodes.
    most_elements: usize,
    /// The tables on the device that used them last.
    on_device: Arc<Mutex<Option<DeviceTables>>>,
}

/// A device, and the tables of all chunks there.
type DeviceTables = (Device, Arc<Vec<Tables>>);

/// Some trees that add to the same outputs. Their nodes are numbered level by level.
#[derive(Debug, Default)]
struct Chunk {
    /// The output that the trees add to. `None` if each leaf has a value for every output.
    output: Option<u32>,
    levels: Vec<Level>,
    /// The splits of all levels, level by level.
    splits: Vec<Split>,
    nodes: usize,
}

/// The nodes of one depth: first the splits, then the leaves.
#[derive(Debug, Default)]
struct Level {
    splits: usize,
    leaf_slots: Vec<i32>,
    /// For each node of the next level, its index in the list of all left children followed by all right children.
    children: Vec<i32>,
    /// For each entry of that list, the number of the node in the next level.
    numbers: Vec<i32>,
}

/// One split of a chunk.
#[derive(Debug)]
struct Split {
    column: u32,
    threshold: f32,
    missing: Side,
    /// Whether the split asks for equality with its threshold.
    equal: bool,
    /// The side of every value that is not missing, if it is one side.
    fixed: Option<Side>,
    /// The side of values that count as zero, if the split treats zeros apart.
    zeros: Option<Side>,
}

/// A [`Chunk`] on a device. Tensors of splits are `[splits, 1]`.
#[derive(Debug)]
struct Tables {
    columns: Tensor<1, Int>,
    thresholds: Tensor<2>,
    missing_left: Tensor<2, Bool>,
    hard_sides: Option<HardSides>,
    levels: Vec<LevelTables>,
}

/// A [`Level`] on a device.
#[derive(Debug)]
struct LevelTables {
    leaf_slots: Option<Tensor<1, Int>>,
    children: Tensor<1, Int>,
    numbers: Tensor<1, Int>,
}

/// Splits that stay hard for some values: the row's side is certain.
#[derive(Debug)]
struct HardSides {
    equal: Tensor<2, Bool>,
    fixed: Tensor<2, Bool>,
    fixed_left: Tensor<2, Bool>,
    zeros: Tensor<2, Bool>,
    zeros_left: Tensor<2, Bool>,
}

impl SoftSplits {
    /// # Errors
    /// The temperature is no positive number, the margins are no sums, or a split asks for categories.
    pub(super) fn new(temperature: f64, forest: &Forest) -> Result<Self> {
        Self::in_chunks(temperature, forest, CHUNK_NODES, MOST_ELEMENTS)
    }

    fn in_chunks(
        temperature: f64,
        forest: &Forest,
        chunk_nodes: usize,
        most_elements: usize,
    ) -> Result<Self> {
        let single = temperature as f32;
        if !(single.is_normal() && single > 0.0) {
            return Err(Error::SoftSplits(format!(
                "the temperature is {temperature}, a positive number is needed"
            )));
        }
        if forest.aggregate != Aggregate::Sum {
            let name = forest.aggregate.name();
            return Err(Error::SoftSplits(format!(
                "trees are combined by `{name}`, only sums have soft splits"
            )));
        }
        Ok(Self {
            temperature,
            chunks: Arc::new(chunks(forest, chunk_nodes)?),
            columns: forest.features.len(),
            outputs: forest.outputs as usize,
            leaf_width: forest.leaf_width(),
            most_elements,
            on_device: Arc::default(),
        })
    }

    pub(super) fn temperature(&self) -> f64 {
        self.temperature
    }

    /// Returns zeros, `[rows, outputs]`, whose gradient is that of the soft margins by the rows. `x` is `[rows,
    /// columns]` on an autodiff device; `leaves` are the leaf values by slot.
    ///
    /// The derivatives are computed here, on the inner device, so that autodiff keeps `rows x columns x outputs` numbers
    /// and nothing of the size of the trees.
    pub(super) fn zero_with_gradient(&self, x: Tensor<2>, leaves: Tensor<1>) -> Tensor<2> {
        let (rows, device) = (x.dims()[0], x.device());
        if self.chunks.iter().all(|chunk| chunk.splits.is_empty()) || rows == 0 {
            return Tensor::zeros([rows, self.outputs], (&device, DType::F32));
        }
        let leaves = if leaves.is_autodiff() { leaves.inner() } else { leaves };
        let leaves = leaves.reshape([-1, self.leaf_width as i32]);
        let tables = self.tables(&leaves.device());
        let x = if x.dtype() == DType::F32 { x } else { x.cast(DType::F32) };
        let largest = self.chunks.iter().map(|chunk| chunk.nodes).max().unwrap_or(0).max(self.columns);
        let piece_rows = (self.most_elements / largest.max(1)).clamp(1, rows);
        let values = x.clone().inner();
        let mut derivatives: Vec<Vec<Tensor<2>>> = vec![Vec::new(); self.outputs];
        for first in (0..rows).step_by(piece_rows) {
            let values = values.clone().narrow(0, first, piece_rows.min(rows - first)).transpose();
            let of_piece = self.derivatives(&tables, &values, &leaves);
            for (all, derivative) in derivatives.iter_mut().zip(of_piece) {
                all.extend(derivative);
            }
        }
        let missing = x.clone().is_nan();
        let x = x.mask_fill(missing, 0.0).clamp(-LARGEST, LARGEST);
        let change = x.clone() - x.detach();
        let zeros = derivatives.into_iter().map(|of_output| {
            if of_output.is_empty() {
                return change.clone().narrow(1, 0, 1).mul_scalar(0.0);
            }
            let by_column = Tensor::cat(of_output, 1).transpose();
            // Zero times an infinite derivative would be NaN.
            let overflown = by_column.clone().is_nan();
            let by_column = by_column.mask_fill(overflown, 0.0).clamp(f32::MIN, f32::MAX);
            (change.clone() * by_column).sum_dim(1)
        });
        Tensor::cat(zeros.collect(), 1)
    }

    /// Returns the derivative of each output's soft margin by each column, `[columns, rows]`. It is `None` for an
    /// output that no tree with splits adds to. `x` is `[columns, rows]`, `leaves` `[slots, leaf width]`.
    fn derivatives(&self, tables: &[Tables], x: &Tensor<2>, leaves: &Tensor<2>) -> Vec<Option<Tensor<2>>> {
        let mut derivatives: Vec<Option<Tensor<2>>> = vec![None; self.outputs];
        for (chunk, tables) in self.chunks.iter().zip(tables).filter(|(chunk, _)| !chunk.splits.is_empty()) {
            let (left, right, hard) = tables.sides(x, self.temperature);
            let reached = chunk.reached(tables, &left, &right);
            let slope = (left.clone() * right).mask_fill(hard, 0.0);
            let slope = slope.mul_scalar(-1.0 / self.temperature);
            let outputs = match chunk.output {
                Some(output) => output as usize..output as usize + 1,
                None => 0..self.outputs,
            };
            for output in outputs {
                let column = if chunk.output.is_some() { 0 } else { output };
                let values = leaves.clone().narrow(1, column, 1);
                let by_split = chunk.by_split(tables, &left, &reached, &values) * slope.clone();
                let sum = derivatives[output].take().unwrap_or_else(|| x.zeros_like());
                let added = sum.select_assign(0, tables.columns.clone(), by_split, IndexingUpdateOp::Add);
                derivatives[output] = Some(added);
            }
        }
        derivatives
    }

    fn tables(&self, device: &Device) -> Arc<Vec<Tables>> {
        let mut kept = self.on_device.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((on, tables)) if on == device => tables.clone(),
            _ => {
                let tables = Arc::new(self.chunks.iter().map(|chunk| chunk.tables(device)).collect());
                *kept = Some((device.clone(), Arc::clone(&tables)));
                tables
            }
        }
    }
}

impl Tables {
    /// Returns the probabilities that a row goes left and right at each split, and whether the side is certain:
    /// `[splits, rows]`.
    fn sides(&self, x: &Tensor<2>, temperature: f64) -> (Tensor<2>, Tensor<2>, Tensor<2, Bool>) {
        let x = x.clone().select(0, self.columns.clone());
        let missing = x.clone().is_nan();
        let given = x.mask_fill(missing.clone(), 0.0);
        let x = given.clone().clamp(-LARGEST, LARGEST);
        let all = x.dims();
        let thresholds = self.thresholds.clone().expand(all);
        let past = (thresholds.clone() - x).div_scalar(temperature);
        // One minus the left probability would lose the digits of a small right one.
        let sides = [past.clone(), past.neg()].map(activation::sigmoid);
        let certain = |[left, right]: [Tensor<2>; 2], hard: &Tensor<2, Bool>, goes_left: Tensor<2, Bool>| {
            let left = left.mask_where(hard.clone(), goes_left.clone().float());
            [left, right.mask_where(hard.clone(), goes_left.bool_not().float())]
        };
        let (sides, hard) = match &self.hard_sides {
            None => (sides, missing.clone()),
            Some(own) => {
                let [equal, fixed, fixed_left, zeros, zeros_left] =
                    [&own.equal, &own.fixed, &own.fixed_left, &own.zeros, &own.zeros_left]
                        .map(|flags| flags.clone().expand(all));
                let alike = given.clone().equal(thresholds).bool_and(equal.clone());
                let fixed = fixed.bool_or(equal);
                let sides = certain(sides, &fixed, fixed_left.bool_or(alike));
                let zeros = given.abs().lower_equal_elem(ZERO_ZONE).bool_and(zeros);
                let sides = certain(sides, &zeros, zeros_left);
                (sides, fixed.bool_or(zeros).bool_or(missing.clone()))
            }
        };
        let [left, right] = certain(sides, &missing, self.missing_left.clone().expand(all));
        (left, right, hard)
    }
}

impl Chunk {
    /// Returns the probability that a row reaches each split, level by level: `[splits of the level, rows]`.
    fn reached(&self, tables: &Tables, left: &Tensor<2>, right: &Tensor<2>) -> Vec<Tensor<2>> {
        let [_, rows] = left.dims();
        let roots = self.levels[0].splits + self.levels[0].leaf_slots.len();
        let mut nodes = Tensor::ones([roots, rows], (&left.device(), DType::F32));
        let (mut first, mut reached) = (0, Vec::with_capacity(self.levels.len()));
        for (level, on_device) in self.levels.iter().zip(&tables.levels).filter(|(level, _)| level.splits > 0)
        {
            let splits = nodes.narrow(0, 0, level.splits);
            let to_left = splits.clone() * left.clone().narrow(0, first, level.splits);
            let to_right = splits.clone() * right.clone().narrow(0, first, level.splits);
            nodes = Tensor::cat(vec![to_left, to_right], 0).select(0, on_device.children.clone());
            reached.push(splits);
            first += level.splits;
        }
        reached
    }

    /// Returns the derivative of the sum of the trees' expected leaf values by the probability of each split, `[splits,
    /// rows]`. `leaves` are `[slots, 1]`.
    fn by_split(
        &self,
        tables: &Tables,
        left: &Tensor<2>,
        reached: &[Tensor<2>],
        leaves: &Tensor<2>,
    ) -> Tensor<2> {
        let [mut end, rows] = left.dims();
        let mut expected: Option<Tensor<2>> = None;
        let mut by_level = Vec::with_capacity(reached.len());
        for (d, (level, on_device)) in self.levels.iter().zip(&tables.levels).enumerate().rev() {
            let own = on_device.leaf_slots.clone().map(|slots| {
                let count = slots.dims()[0];
                leaves.clone().select(0, slots).expand([count, rows])
            });
            let splits = expected.take().filter(|_| level.splits > 0).map(|below| {
                let children = below.select(0, on_device.numbers.clone());
                let right = children.clone().narrow(0, level.splits, level.splits);
                let apart = children.narrow(0, 0, level.splits) - right.clone();
                by_level.push(reached[d].clone() * apart.clone());
                end -= level.splits;
                right + apart * left.clone().narrow(0, end, level.splits)
            });
            expected = match (splits, own) {
                (Some(splits), Some(own)) => Some(Tensor::cat(vec![splits, own], 0)),
                (one, other) => one.or(other),
            };
        }
        by_level.reverse();
        Tensor::cat(by_level, 0)
    }

    fn tables(&self, device: &Device) -> Tables {
        let integers = |values: Vec<i32>| {
            let count = values.len();
            Tensor::<1, Int>::from_data(TensorData::new(values, [count]), (device, DType::I32))
        };
        let count = self.splits.len();
        let flags = |flag: &dyn Fn(&Split) -> bool| {
            let flags: Vec<bool> = self.splits.iter().map(flag).collect();
            Tensor::<2, Bool>::from_data(TensorData::new(flags, [count, 1]), device)
        };
        let is_hard = |split: &Split| split.equal || split.fixed.is_some() || split.zeros.is_some();
        let hard_sides = self.splits.iter().any(is_hard).then(|| HardSides {
            equal: flags(&|split| split.equal),
            fixed: flags(&|split| split.fixed.is_some()),
            fixed_left: flags(&|split| split.fixed == Some(Side::Left)),
            zeros: flags(&|split| split.zeros.is_some()),
            zeros_left: flags(&|split| split.zeros == Some(Side::Left)),
        });
        let thresholds: Vec<f32> = self.splits.iter().map(|split| split.threshold).collect();
        let level = |level: &Level| LevelTables {
            leaf_slots: (!level.leaf_slots.is_empty()).then(|| integers(level.leaf_slots.clone())),
            children: integers(level.children.clone()),
            numbers: integers(level.numbers.clone()),
        };
        Tables {
            columns: integers(self.splits.iter().map(|split| split.column as i32).collect()),
            thresholds: Tensor::from_data(TensorData::new(thresholds, [count, 1]), (device, DType::F32)),
            missing_left: flags(&|split| split.missing == Side::Left),
            hard_sides,
            levels: self.levels.iter().map(level).collect(),
        }
    }
}

/// Returns the trees in chunks of about `most` nodes. The trees of a chunk add to the same outputs.
fn chunks(forest: &Forest, most: usize) -> Result<Vec<Chunk>> {
    let output = |tree: usize| match &forest.targets {
        Targets::One(outputs) => Some(outputs[tree]),
        Targets::All => None,
    };
    let mut trees: Vec<usize> = (0..forest.trees.len()).collect();
    trees.sort_by_key(|tree| output(*tree));
    let mut chunks = Vec::new();
    let mut rest = &trees[..];
    while let [first, ..] = rest {
        let mut nodes = 0;
        let together = rest.iter().take_while(|tree| {
            nodes += forest.trees[**tree].nodes.len();
            output(**tree) == output(*first) && (nodes <= most || *tree == first)
        });
        let (own, others) = rest.split_at(together.count());
        chunks.push(Chunk::new(forest, own, output(*first))?);
        rest = others;
    }
    Ok(chunks)
}

impl Chunk {
    fn new(forest: &Forest, trees: &[usize], output: Option<u32>) -> Result<Self> {
        let mut chunk = Self { output, ..Self::default() };
        let node = |(tree, node): (usize, u32)| forest.trees[tree].nodes[node as usize];
        let is_split = |at: &(usize, u32)| matches!(node(*at), Node::Split { .. });
        let roots = trees.iter().map(|tree| (*tree, 0));
        let (mut splits, mut leaves): (Vec<_>, Vec<_>) = roots.partition(is_split);
        loop {
            chunk.nodes += splits.len() + leaves.len();
            let slot = |at: &(usize, u32)| node(*at).slot().map(|slot| slot as i32);
            let mut level = Level { splits: splits.len(), ..Level::default() };
            level.leaf_slots.extend(leaves.iter().filter_map(slot));
            let (mut below_left, mut below_right) = (Vec::new(), Vec::new());
            for (tree, number) in &splits {
                if let Node::Split { feature, predicate, missing, left, right } = node((*tree, *number)) {
                    let split = Split::new(feature, predicate, missing);
                    let at = |what| Error::SoftSplits(format!("tree {tree}, node {number}: {what}"));
                    chunk.splits.push(split.map_err(at)?);
                    below_left.push((*tree, left));
                    below_right.push((*tree, right));
                }
            }
            let below = [below_left, below_right].concat();
            let (of_splits, of_leaves): (Vec<usize>, Vec<usize>) =
                (0..below.len()).partition(|index| is_split(&below[*index]));
            splits = of_splits.iter().map(|index| below[*index]).collect();
            leaves = of_leaves.iter().map(|index| below[*index]).collect();
            let order = [of_splits, of_leaves].concat();
            level.numbers = vec![0; order.len()];
            for (number, index) in order.iter().enumerate() {
                level.numbers[*index] = number as i32;
            }
            level.children = order.into_iter().map(|index| index as i32).collect();
            chunk.levels.push(level);
            if below.is_empty() {
                return Ok(chunk);
            }
        }
    }
}

impl Split {
    fn new(column: u32, predicate: Predicate, missing: Side) -> Result<Self, &'static str> {
        let mut split = Self { column, threshold: 0.0, missing, equal: false, fixed: None, zeros: None };
        match predicate {
            Predicate::Less { threshold: t } | Predicate::LessZeroAside { threshold: t } => {
                split.threshold = (t.0 as f32).clamp(-LARGEST, LARGEST);
                let below = |positive: bool| if positive { Side::Left } else { Side::Right };
                if t.0.is_infinite() {
                    split.fixed = Some(below(t.0 > 0.0));
                }
                if let Predicate::LessZeroAside { .. } = predicate {
                    // Zeros go to the side that the comparison would not send them to.
                    split.zeros = Some(below(t.0 < 0.0));
                }
            }
            Predicate::Equal { value } => (split.threshold, split.equal) = (value.0 as f32, true),
            Predicate::Always => split.fixed = Some(Side::Left),
            Predicate::InSet { .. } => {
                return Err("a split on categories has no threshold to soften; leave the soft splits out");
            }
        }
        Ok(split)
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use fangorn::forest::CompareType;

    use super::*;

    /// 30 trees of 0 to 4 levels of splits for three outputs, on two columns.
    fn forest() -> Forest {
        let mut forest = Forest::builder(2, 3);
        for t in 0..30u32 {
            let splits = (1u32 << (t % 5)) - 1;
            let mut tree = forest.tree(t % 3);
            for n in 0..splits {
                let threshold = f64::from((n * 7 + t) % 11) / 11.0;
                tree.split(n % 2, CompareType::F32.less(threshold), Side::Left, 2 * n + 1, 2 * n + 2);
            }
            for n in splits..2 * splits + 1 {
                tree.leaf(n, &[f64::from((n * 13 + t) % 17) / 17.0 - 0.5]);
            }
        }
        forest.build().expect("a forest")
    }

    #[test]
    fn chunks_and_pieces_change_no_gradient() {
        let (forest, device) = (forest(), Device::flex().autodiff());
        let rows: Vec<f32> =
            (0..14).map(|i| if i == 5 { f32::NAN } else { (i as f32 * 0.37).fract() }).collect();
        let leaves: Vec<f32> = forest.leaf_values.iter().map(|v| v.0 as f32).collect();
        let gradient = |chunk_nodes, most_elements| {
            let soft = SoftSplits::in_chunks(0.2, &forest, chunk_nodes, most_elements).expect("soft splits");
            let x = Tensor::<2>::from_data(TensorData::new(rows.clone(), [7, 2]), &device).require_grad();
            let leaves = Tensor::from_data(TensorData::new(leaves.clone(), [leaves.len()]), &device);
            let zero = soft.zero_with_gradient(x.clone(), leaves);
            assert_eq!(zero.clone().into_data().try_to_vec::<f32>().expect("f32"), [0.0; 21]);
            let weights = Tensor::<2>::from_data([[1.0, -2.0, 0.5]], &device);
            let gradient = x.grad(&(zero * weights).sum().backward()).expect("a gradient");
            (soft.chunks.len(), gradient.into_data().try_to_vec::<f32>().expect("f32"))
        };
        let (chunks, expected) = gradient(CHUNK_NODES, MOST_ELEMENTS);
        assert_eq!(chunks, 3, "one for each output");
        assert!(expected.iter().enumerate().all(|(i, g)| (*g == 0.0) == (i == 5)), "{expected:?}");
        for (chunk_nodes, most_elements, least) in [(40, 1 << 22, 9), (1, 1, 30), (100, 150, 4)] {
            let (chunks, found) = gradient(chunk_nodes, most_elements);
            assert!(chunks >= least, "{chunks} chunks of {chunk_nodes} nodes");
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.0), "{found}, {expected}");
            }
        }
    }
}
