//! `fangorn-benches matrices MODEL ROWS.npy`: times small trees as matrix products beside walking them. This is
//! Hummingbird's first strategy (Nakandala et al., OSDI '20, section 4.1), on trees padded to one depth. One
//! pair of matrices then holds the paths of all trees.
//!
//! Columns are gathered, never multiplied, because zero times an infinite feature would be NaN. The matrix
//! products multiply ones and zeros, and at last the leaf values with the ones that mark each row's leaves.

use std::{hint::black_box, path::Path};

use burn::tensor::{Device, Int, Tensor, TensorData};
use fangorn::{
    Forest, Predictor,
    cpu::Rows,
    forest::{Aggregate, CompareType, Node, Predicate, Side, Targets},
    import,
    schedule::Preset,
};

use crate::read;

/// The deepest trees that are taken. Deeper trees have more paths than matrix products can be good for.
const DEEPEST: u32 = 4;

/// A forest of small trees as tensors.
struct Matrices {
    depth: u32,
    outputs: usize,
    trees: usize,
    columns: Tensor<1, Int>,
    thresholds: Tensor<2>,
    missing_right: Tensor<2>,
    /// One if the path to the leaf turns right at the node, otherwise zero: `nodes x leaves`.
    right: Tensor<2>,
    /// One if the path to the leaf turns left at the node, otherwise zero: `nodes x leaves`.
    left: Tensor<2>,
    /// Leaf values: `trees * leaves x outputs`.
    values: Tensor<2>,
    base: Tensor<2>,
}

/// The predicate of a split of a full tree. A leaf above the last level is pushed down: a split stands for it, and
/// both children are that leaf again.
#[derive(Clone, Copy)]
struct Ask {
    column: i32,
    threshold: f32,
    missing_right: f32,
}

impl Matrices {
    fn new(forest: &Forest, device: &Device) -> Result<Self, String> {
        let depth = forest.trees.iter().map(|t| t.depth()).max().unwrap_or(0).max(1);
        let plain = forest.aggregate == Aggregate::Sum && forest.compare == CompareType::F32;
        if depth > DEEPEST || !plain {
            return Err(format!(
                "trees of depth {depth}; matrices take sums of f32 trees of depth {DEEPEST} at most"
            ));
        }
        let (nodes, leaves) = ((1usize << depth) - 1, 1usize << depth);
        let outputs = forest.outputs as usize;
        let (mut asks, mut values) = (Vec::new(), vec![0.0f32; forest.trees.len() * leaves * outputs]);
        for (t, tree) in forest.trees.iter().enumerate() {
            let mut level = vec![0u32];
            for _ in 0..depth {
                let mut next = Vec::new();
                for at in level {
                    let still = Ask { column: 0, threshold: f32::INFINITY, missing_right: 0.0 };
                    let (ask, children) = match tree.nodes[at as usize] {
                        Node::Leaf { .. } => (still, [at; 2]),
                        Node::Split {
                            feature,
                            predicate: Predicate::Less { threshold },
                            missing,
                            left,
                            right,
                        } => {
                            let missing_right = if missing == Side::Right { 1.0 } else { 0.0 };
                            let ask =
                                Ask { column: feature as i32, threshold: threshold.0 as f32, missing_right };
                            (ask, [left, right])
                        }
                        Node::Split { predicate, .. } => {
                            return Err(format!("{predicate:?}: matrices take thresholds"));
                        }
                    };
                    asks.push(ask);
                    next.extend(children);
                }
                level = next;
            }
            for (l, at) in level.into_iter().enumerate() {
                let slot = tree.nodes[at as usize].slot().ok_or("a path that ends in no leaf")?;
                for (lane, value) in forest.leaf(slot).iter().enumerate() {
                    let output = match &forest.targets {
                        Targets::One(outputs) => outputs[t] as usize,
                        Targets::All => lane,
                    };
                    values[(t * leaves + l) * outputs + output] = value.0 as f32;
                }
            }
        }
        let turn = |node: usize, leaf: usize| {
            let level = (node + 1).ilog2();
            let first = leaf >> (depth - level);
            let here = (1 << level) - 1 + first == node;
            here.then_some(leaf >> (depth - level - 1) & 1)
        };
        let paths = |side: usize| -> Vec<f32> {
            let each = (0..nodes).flat_map(|n| (0..leaves).map(move |l| (n, l)));
            each.map(|(n, l)| if turn(n, l) == Some(side) { 1.0 } else { 0.0 }).collect()
        };
        let matrix = |values: Vec<f32>, shape: [usize; 2]| {
            Tensor::<2>::from_data(TensorData::new(values, shape), device)
        };
        let count = asks.len();
        let columns: Vec<i32> = asks.iter().map(|a| a.column).collect();
        Ok(Self {
            depth,
            outputs,
            trees: forest.trees.len(),
            columns: Tensor::from_data(TensorData::new(columns, [count]), device),
            thresholds: matrix(asks.iter().map(|a| a.threshold).collect(), [1, count]),
            missing_right: matrix(asks.iter().map(|a| a.missing_right).collect(), [1, count]),
            right: matrix(paths(1), [nodes, leaves]),
            left: matrix(paths(0), [nodes, leaves]),
            values: matrix(values, [forest.trees.len() * leaves, outputs]),
            base: matrix(forest.base_score.iter().map(|b| b.0 as f32).collect(), [1, outputs]),
        })
    }

    fn margins(&self, x: Tensor<2>) -> Tensor<2> {
        let rows = x.shape()[0];
        let asked = x.select(1, self.columns.clone());
        let missing = asked.clone().is_nan().float() * self.missing_right.clone();
        let right = asked.greater_equal(self.thresholds.clone()).float() + missing;
        let nodes = (1 << self.depth) - 1;
        let right = right.reshape([rows * self.trees, nodes]);
        let left = -right.clone() + 1.0;
        let turns = right.matmul(self.right.clone()) + left.matmul(self.left.clone());
        let leaf = turns.equal_elem(self.depth as f32).float().reshape([rows, self.trees << self.depth]);
        leaf.matmul(self.values.clone()) + self.base.clone()
    }
}

/// Times walks and matrix products in turns, on one thread. Prints medians of wall time, in microseconds a
/// row.
pub fn matrices(model: &Path, rows: &Path, batches: &str) -> Result<(), Box<dyn std::error::Error>> {
    let forest = import::load(model, &Default::default())?;
    let device = Device::flex();
    let matrices = Matrices::new(&forest, &device)?;
    let predictor =
        Predictor::builder(&forest).schedule(Preset::Default.schedule(&forest, false)).threads(1).build()?;
    let columns = forest.features.len();
    let (data, _) = read(rows)?;
    println!("batch\twalk\tmatrices\tmatrices / walk");
    for batch in batches.split(',') {
        let batch: usize = batch.trim().parse()?;
        let values: Vec<f32> = data.iter().copied().cycle().take(batch * columns).collect();
        let x = Tensor::<2>::from_data(TensorData::new(values.clone(), [batch, columns]), &device);
        let view = Rows::new(&values, columns)?;
        let expected = predictor.margins(&view)?;
        let found =
            matrices.margins(x.clone()).into_data().try_to_vec::<f32>().map_err(|e| format!("{e:?}"))?;
        let bounds = forest.sum_bound();
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            if f64::from((found - expected).abs()) > 2.0 * bounds[i % matrices.outputs] {
                return Err(format!("value {i}: {found} by matrices, {expected} by walks").into());
            }
        }
        let mut out = vec![0.0; expected.len()];
        let (mut walked, mut multiplied) = (Vec::new(), Vec::new());
        for _ in 0..15 {
            let begin = std::time::Instant::now();
            predictor.margins_into(&view, &mut out)?;
            black_box(&out);
            walked.push(begin.elapsed().as_secs_f64());
            let begin = std::time::Instant::now();
            black_box(matrices.margins(x.clone()).into_data());
            multiplied.push(begin.elapsed().as_secs_f64());
        }
        let each = |times: &mut Vec<f64>| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2] * 1e6 / batch as f64
        };
        let (walk, product) = (each(&mut walked), each(&mut multiplied));
        println!("{batch}\t{walk:.3}\t{product:.3}\t{:.1}", product / walk);
    }
    Ok(())
}
