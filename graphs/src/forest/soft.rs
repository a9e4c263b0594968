//! The forest with soft splits, of tensor operations: what a gradient of the rows is taken of.

use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{Bool, DType, Device, Int, Tensor, TensorData, activation};
use fangorn::{
    Forest,
    forest::{Aggregate, Node, Predicate, Side, Targets, ZERO_ZONE},
    op::ForestOp,
};

use crate::error::{Error, Result};

/// The logarithm of what never happens: its exponential is 0 in f32.
const NEVER: f32 = -1e4;
/// Splits on the paths of all leaves that a row may take.
const MOST_STEPS: usize = 1 << 22;

/// Soft splits of a temperature.
#[derive(Clone, Debug)]
pub(super) struct SoftSplits {
    temperature: f64,
    splits: Arc<Splits>,
    /// The tables where they were used last.
    on_device: Arc<Mutex<Option<(Device, Tables)>>>,
}

/// The splits of all trees, and the paths between them.
#[derive(Debug, Default)]
struct Splits {
    columns: Vec<i32>,
    thresholds: Vec<f32>,
    missing_left: Vec<bool>,
    /// Splits that ask for equality.
    equal: Vec<bool>,
    /// Splits that any value goes one way at, and which.
    fixed: Vec<Option<Side>>,
    /// Splits at which values in the zone of zeros go one way, and which.
    zeros: Vec<Option<Side>>,
    /// `slots x deepest` steps: split `n` taken to the left is `n`, to the right `splits + n`, none `2 x splits`.
    paths: Vec<i32>,
    deepest: usize,
}

/// The same as tensors, a column for each split.
#[derive(Clone, Debug)]
struct Tables {
    columns: Tensor<1, Int>,
    thresholds: Tensor<2>,
    missing_left: Tensor<2, Bool>,
    asides: Option<HardValues>,
    paths: Tensor<1, Int>,
    /// `[slots, outputs]`: 1 where a leaf's tree adds to the output; none where leaves are vectors or there is one output.
    targets: Option<Tensor<2>>,
}

/// Splits that are hard for some values.
#[derive(Clone, Debug)]
struct HardValues {
    equal: Tensor<2, Bool>,
    fixed: Tensor<2, Bool>,
    zeros: Tensor<2, Bool>,
    goes_left: Tensor<2, Bool>,
}

impl SoftSplits {
    /// # Errors
    /// A temperature that is no positive number, margins that are no sums, splits that ask for categories, and paths of
    /// more than 2^22 steps.
    pub(super) fn new(temperature: f64, forest: &Forest) -> Result<Self> {
        let single = temperature as f32;
        if !(single.is_normal() && single > 0.0) {
            return Err(Error::SoftSplits(format!(
                "the temperature is {temperature}, a positive number is needed"
            )));
        }
        if forest.aggregate != Aggregate::Sum {
            let name = forest.aggregate.name();
            return Err(Error::SoftSplits(format!(
                "trees are taken together by `{name}`, only sums have soft splits"
            )));
        }
        let splits = Arc::new(Splits::new(forest)?);
        Ok(Self { temperature, splits, on_device: Arc::default() })
    }

    pub(super) fn temperature(&self) -> f64 {
        self.temperature
    }

    /// Margins but for the base score: the sum of all leaves, each times the probability of its path.
    pub(super) fn margins(&self, x: Tensor<2>, leaves: Tensor<1>, op: &ForestOp) -> Tensor<2> {
        let (rows, slots) = (x.dims()[0], op.forest().leaf_count());
        let (splits, deepest) = (self.splits.columns.len(), self.splits.deepest);
        if splits == 0 || rows == 0 {
            return Tensor::zeros([rows, op.outputs()], (&x.device(), DType::F32));
        }
        let tables = self.tables(&x.device(), op.forest());
        let x = if x.dtype() == DType::F32 { x } else { x.cast(DType::F32) };
        let all = [rows, splits];
        let columns = x.select(1, tables.columns);
        let missing = columns.clone().is_nan();
        let columns = columns.mask_fill(missing.clone(), 0.0).clamp(-1e30, 1e30);
        let thresholds = tables.thresholds.expand(all);
        let past = (thresholds.clone() - columns.clone()).div_scalar(self.temperature).clamp(-80.0, 80.0);
        let [left, right] = [past.clone(), past.neg()].map(activation::log_sigmoid);
        // Where a split is hard, one side is certain and the other never happens.
        let decide =
            |left: Tensor<2>, right: Tensor<2>, hard: Tensor<2, Bool>, goes_left: Tensor<2, Bool>| {
                let certain = |side: Tensor<2, Bool>| side.float().sub_scalar(1.0).mul_scalar(-NEVER);
                let left = left.mask_where(hard.clone(), certain(goes_left.clone()));
                (left, right.mask_where(hard, certain(goes_left.bool_not())))
            };
        let (left, right) = match tables.asides {
            None => (left, right),
            Some(asides) => {
                let values = columns.detach();
                let equal = asides.equal.expand(all);
                let in_zone = values.clone().abs().lower_equal_elem(ZERO_ZONE);
                let hard = in_zone.bool_and(asides.zeros.expand(all)).bool_or(asides.fixed.expand(all));
                let alike = values.equal(thresholds).bool_and(equal.clone());
                decide(left, right, hard.bool_or(equal), asides.goes_left.expand(all).bool_or(alike))
            }
        };
        let (left, right) = decide(left, right, missing, tables.missing_left.expand(all));
        let none = Tensor::zeros([rows, 1], &left.device());
        let steps = Tensor::cat(vec![left, right, none], 1).select(1, tables.paths);
        let reached = steps.reshape([rows, slots, deepest]).sum_dim(2).reshape([rows, slots]).exp();
        let leaves = leaves.reshape([slots, op.forest().leaf_width()]);
        reached.matmul(match tables.targets {
            None => leaves,
            Some(targets) => leaves.expand([slots, op.outputs()]) * targets,
        })
    }

    fn tables(&self, device: &Device, forest: &Forest) -> Tables {
        let mut kept = self.on_device.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some((on, tables)) if on == device => tables.clone(),
            _ => {
                let tables = self.splits.tables(device, forest);
                *kept = Some((device.clone(), tables.clone()));
                tables
            }
        }
    }
}

impl Splits {
    fn new(forest: &Forest) -> Result<Self> {
        let deepest = forest.trees.iter().map(|tree| tree.depth()).max().unwrap_or(0) as usize;
        let steps = forest.leaf_count().checked_mul(deepest).filter(|steps| *steps <= MOST_STEPS);
        let Some(steps) = steps else {
            return Err(Error::SoftSplits(format!(
                "{} leaves of up to {deepest} splits are more than {MOST_STEPS} steps a row; train through fewer or \
                 shallower trees",
                forest.leaf_count()
            )));
        };
        let mut made = Self { deepest, ..Self::default() };
        // Paths as signed steps first: how many splits there are is known at the end.
        let mut paths = vec![0i32; steps];
        let mut open: Vec<(u32, Vec<i32>)> = Vec::new();
        for (t, tree) in forest.trees.iter().enumerate() {
            open.push((0, Vec::new()));
            while let Some((n, path)) = open.pop() {
                match tree.nodes[n as usize] {
                    Node::Leaf { slot } => {
                        paths[slot as usize * deepest..][..path.len()].copy_from_slice(&path)
                    }
                    Node::Split { feature, predicate, missing, left, right } => {
                        made.push(feature, predicate, missing)
                            .map_err(|what| Error::SoftSplits(format!("tree {t}, node {n}: {what}")))?;
                        let number = made.columns.len() as i32;
                        let with = |step: i32| path.iter().copied().chain([step]).collect();
                        open.extend([(right, with(-number)), (left, with(number))]);
                    }
                }
            }
        }
        let splits = made.columns.len() as i32;
        let step = |step: i32| match step {
            0 => 2 * splits,
            left if left > 0 => left - 1,
            right => splits - right - 1,
        };
        made.paths = paths.into_iter().map(step).collect();
        Ok(made)
    }

    fn push(&mut self, feature: u32, predicate: Predicate, missing: Side) -> Result<(), &'static str> {
        let (mut threshold, mut equal, mut fixed, mut zeros) = (0.0, false, None, None);
        match predicate {
            Predicate::Less { threshold: t } | Predicate::LessZeroAside { threshold: t } => {
                threshold = (t.0 as f32).clamp(-1e30, 1e30);
                let below = |positive: bool| if positive { Side::Left } else { Side::Right };
                if t.0.is_infinite() {
                    fixed = Some(below(t.0 > 0.0));
                }
                if let Predicate::LessZeroAside { .. } = predicate {
                    // The other side than the comparison's.
                    zeros = Some(below(t.0 < 0.0));
                }
            }
            Predicate::Equal { value } => {
                (threshold, equal) = (value.0 as f32, true);
            }
            Predicate::Always => fixed = Some(Side::Left),
            Predicate::InSet { .. } => {
                return Err("a split on categories has no threshold to soften; leave the soft splits out");
            }
        }
        self.columns.push(feature as i32);
        self.thresholds.push(threshold);
        self.missing_left.push(missing == Side::Left);
        self.equal.push(equal);
        self.fixed.push(fixed);
        self.zeros.push(zeros);
        Ok(())
    }

    fn tables(&self, device: &Device, forest: &Forest) -> Tables {
        let splits = self.columns.len();
        let integers = |values: &[i32]| {
            let data = TensorData::new(values.to_vec(), [values.len()]);
            Tensor::<1, Int>::from_data(data, (device, DType::I32))
        };
        let floats = |values: Vec<f32>, shape: [usize; 2]| {
            Tensor::<2>::from_data(TensorData::new(values, shape), (device, DType::F32))
        };
        let flags = |flag: &dyn Fn(usize) -> bool| {
            let flags: Vec<bool> = (0..splits).map(flag).collect();
            Tensor::<2, Bool>::from_data(TensorData::new(flags, [1, splits]), device)
        };
        let hard = |n: usize| self.equal[n] || self.fixed[n].is_some() || self.zeros[n].is_some();
        let asides = (0..splits).any(hard).then(|| HardValues {
            equal: flags(&|n| self.equal[n]),
            fixed: flags(&|n| self.fixed[n].is_some()),
            zeros: flags(&|n| self.zeros[n].is_some()),
            goes_left: flags(&|n| self.fixed[n].or(self.zeros[n]) == Some(Side::Left)),
        });
        let targets = match &forest.targets {
            Targets::One(targets) if forest.outputs > 1 => {
                let outputs = forest.outputs as usize;
                let mut ones = vec![0.0; forest.leaf_count() * outputs];
                for (tree, target) in forest.trees.iter().zip(targets) {
                    for slot in tree.nodes.iter().filter_map(|n| n.slot()) {
                        ones[slot as usize * outputs + *target as usize] = 1.0;
                    }
                }
                Some(floats(ones, [forest.leaf_count(), outputs]))
            }
            _ => None,
        };
        Tables {
            columns: integers(&self.columns),
            thresholds: floats(self.thresholds.clone(), [1, splits]),
            missing_left: flags(&|n| self.missing_left[n]),
            asides,
            paths: integers(&self.paths),
            targets,
        }
    }
}
