//! Folds the preparation of rows that precedes a forest into the forest's thresholds.
//!
//! A split that asks `(x - mean) / scale < t` asks whether `x` is below the smallest raw value whose rounded
//! result reaches `t`. Arithmetic of IEEE 754 is monotonic, so there is one such value, and a search over the
//! raw values in their order finds it. [`Forest::with_prologue`] returns a forest that walks every raw row to the
//! leaves that the original forest reaches on the prepared row.

use std::collections::HashMap;

use super::fold::{Chain, Fold};
use super::{CompareType, Feature, Forest, Node, Predicate, Side};

/// One step of preparation, from raw rows towards the rows that a forest was trained on. A step computes each
/// column by itself.
///
/// Rows of f16 and bf16 become f32 without rounding, so they need no step.
#[derive(Clone, Debug, PartialEq)]
pub enum Prologue {
    /// Column `j` after the step is column `columns[j]` of the `width` columns before it.
    Columns {
        /// Indices of the columns that stay, in their new order. One index may occur more than once.
        columns: Vec<u32>,
        /// Number of columns before the step.
        width: usize,
    },
    /// Computes `operation` of each column and a number: one number for each column, or one number for all
    /// columns.
    Arithmetic {
        /// The operation. The column is the first operand.
        operation: Operation,
        /// The second operands: one for all columns, or one for each column.
        numbers: Vec<f64>,
        /// The type of the result, to which both operands are rounded first.
        precision: CompareType,
    },
    /// Rounds all values to a type.
    Cast(CompareType),
}

/// An arithmetic operation on a column's value `x` and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `x + number`.
    Add,
    /// `x - number`.
    Subtract,
    /// `x * number`.
    Multiply,
    /// `x / number`.
    Divide,
}

impl Prologue {
    /// Returns scikit-learn's `StandardScaler`: `(x - mean) / scale`. `precision` is the type of the rows
    /// that the scaler is given, because it computes in that type (observed in version 1.9).
    ///
    /// ```
    /// use fangorn::{forest::{CompareType, Prologue, Side, reference}, Forest};
    ///
    /// let mut forest = Forest::builder(2, 1);
    /// let mut tree = forest.tree(0);
    /// tree.split(0, CompareType::F32.at_most(0.1), Side::Left, 1, 2);
    /// tree.leaf(1, &[-1.0]);
    /// tree.leaf(2, &[1.0]);
    /// let scaled = forest.build()?;
    ///
    /// let scaler = Prologue::standard_scaler(&[10.0, 0.0], &[3.0, 1.0], CompareType::F32);
    /// let raw = scaled.with_prologue(&scaler, CompareType::F32)?;
    /// for x in [10.3f32.next_down(), 10.3, 10.3f32.next_up(), f32::NAN] {
    ///     let prepared = [(x - 10.0) / 3.0, 0.0];
    ///     assert_eq!(reference::leaf_ids(&raw, &[x, 0.0]), reference::leaf_ids(&scaled, &prepared));
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn standard_scaler(mean: &[f64], scale: &[f64], precision: CompareType) -> [Self; 2] {
        [(Operation::Subtract, mean), (Operation::Divide, scale)]
            .map(|(operation, numbers)| Self::arithmetic(operation, numbers, precision))
    }

    /// Returns scikit-learn's `MinMaxScaler`: `x * scale + min`, with the scaler's attributes `scale_` and
    /// `min_`.
    pub fn min_max_scaler(scale: &[f64], min: &[f64], precision: CompareType) -> [Self; 2] {
        [(Operation::Multiply, scale), (Operation::Add, min)]
            .map(|(operation, numbers)| Self::arithmetic(operation, numbers, precision))
    }

    /// Returns ONNX's `Scaler` on rows of floats: `(x - offset) * scale` in f32.
    pub fn onnx_scaler(offset: &[f32], scale: &[f32]) -> [Self; 2] {
        let [offset, scale] = [offset, scale].map(|v| v.iter().copied().map(f64::from).collect::<Vec<_>>());
        let steps = [(Operation::Subtract, &offset[..]), (Operation::Multiply, &scale[..])];
        steps.map(|(operation, numbers)| Self::arithmetic(operation, numbers, CompareType::F32))
    }

    fn arithmetic(operation: Operation, numbers: &[f64], precision: CompareType) -> Self {
        Self::Arithmetic { operation, numbers: numbers.to_vec(), precision }
    }
}

/// Why a prologue can't be folded into a forest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {cause}; {remedy}")]
pub struct PrologueError {
    /// The location of the error: `step 1`, or `tree 3, node 17`.
    pub location: String,
    /// What is wrong at that location.
    pub cause: String,
    /// What to do about it.
    pub remedy: String,
}

impl PrologueError {
    fn new(location: impl Into<String>, cause: impl Into<String>, remedy: &str) -> Self {
        Self { location: location.into(), cause: cause.into(), remedy: remedy.into() }
    }
}

/// The remedy if a node of the forest can't be folded.
const PREPARE: &str = "prepare the rows before the forest instead";

impl Forest {
    /// Returns a forest for raw rows of type `rows`. On every raw row, NaN and infinities included, it
    /// reaches the leaves that this forest reaches on the prepared row, which `steps` compute one after the
    /// other in IEEE arithmetic.
    ///
    /// Leaf values, outputs and the epilogue stay as they are. The new forest compares in `rows`. With steps
    /// of [`Prologue::Columns`] alone it compares in this forest's type: if that is f64, f32 rows are
    /// widened, which changes no value. If the numbers of a column reverse its order, the children of its
    /// splits swap.
    ///
    /// A result that is NaN (`0 * inf`, `0 / 0`) takes the missing side, as any NaN does.
    ///
    /// # Errors
    /// [`PrologueError`] names the step whose numbers don't fit its columns or are not finite in its type, or
    /// the node that no split on the raw column can replace: a node that reads a computed category, a node that
    /// asks for equality with a value that several raw values give, or a node whose column is NaN for a range of
    /// raw values between other raw values.
    pub fn with_prologue(&self, steps: &[Prologue], rows: CompareType) -> Result<Self, PrologueError> {
        let mut forest = self.clone();
        forest.features = self.raw_columns(steps)?;
        // Steps that only choose columns leave values and the type of comparison as they are.
        let only_columns = steps.iter().all(|step| matches!(step, Prologue::Columns { .. }));
        if !only_columns {
            forest.compare = rows;
        }
        let mut folded: HashMap<(u32, Predicate, Side), Result<Fold, &'static str>> = HashMap::new();
        for (t, tree) in forest.trees.iter_mut().enumerate() {
            for (n, node) in tree.nodes.iter_mut().enumerate() {
                let Node::Split { feature, predicate, missing, left, right } = node else { continue };
                // Each split builds its own chain, so memory holds one chain at a time, however many columns
                // there are.
                let chain = self.chain(*feature, steps, rows);
                let key = (*feature, *predicate, *missing);
                *feature = chain.column;
                if only_columns {
                    continue;
                }
                let fold = folded.entry(key).or_insert_with(|| chain.fold(*predicate, *missing));
                let Fold { predicate: folded, swapped } = fold.map_err(|cause| {
                    let location = format!("tree {t}, node {n}, column {}", chain.column);
                    PrologueError::new(location, cause, PREPARE)
                })?;
                *predicate = folded;
                if swapped {
                    std::mem::swap(left, right);
                    *missing = match missing {
                        Side::Left => Side::Right,
                        Side::Right => Side::Left,
                    };
                }
            }
        }
        Ok(forest)
    }

    /// Returns the steps that compute a feature, for steps that [fit](Forest::raw_columns).
    fn chain(&self, feature: u32, steps: &[Prologue], rows: CompareType) -> Chain {
        let mut chain = Chain::new(feature, self.compare, rows);
        // The steps run backwards from the forest, because each step of `Columns` tells which earlier column
        // the feature comes from.
        for step in steps.iter().rev() {
            match step {
                Prologue::Columns { columns, .. } => chain.column = columns[chain.column as usize],
                Prologue::Arithmetic { operation, numbers, precision } => {
                    let i = if numbers.len() == 1 { 0 } else { chain.column as usize };
                    chain.arithmetic(*operation, numbers[i], *precision);
                }
                Prologue::Cast(precision) => chain.cast(*precision),
            }
        }
        chain.finish();
        chain
    }

    /// Returns the columns of raw rows, or an error if the steps don't fit one another or the forest.
    fn raw_columns(&self, steps: &[Prologue]) -> Result<Vec<Feature>, PrologueError> {
        let mut columns: Vec<Feature> = self.features.clone();
        for (s, step) in steps.iter().enumerate().rev() {
            let refused = |cause, remedy| Err(PrologueError::new(format!("step {s}"), cause, remedy));
            match step {
                Prologue::Columns { columns: taken, width } => {
                    if taken.len() != columns.len() {
                        let cause =
                            format!("it gives {} columns, {} are asked of it", taken.len(), columns.len());
                        return refused(cause, "name a column for each that follows");
                    }
                    if let Some(past) = taken.iter().find(|c| **c as usize >= *width) {
                        return refused(format!("column {past} of {width}"), "count columns from 0");
                    }
                    let mut before = vec![Feature::default(); *width];
                    for (feature, column) in columns.into_iter().zip(taken).rev() {
                        before[*column as usize] = feature;
                    }
                    columns = before;
                }
                Prologue::Arithmetic { numbers, precision, .. } => {
                    if numbers.len() != 1 && numbers.len() != columns.len() {
                        let cause = format!("{} numbers for {} columns", numbers.len(), columns.len());
                        return refused(cause, "give it one number, or one a column");
                    }
                    if let Some(i) = numbers.iter().position(|v| !precision.cast(*v).is_finite()) {
                        let (v, name) = (numbers[i], precision.name());
                        let cause = format!("number {i}, {v:e}, is not finite in {name}");
                        return refused(cause, "use finite numbers");
                    }
                }
                Prologue::Cast(_) => {}
            }
        }
        Ok(columns)
    }
}

#[cfg(test)]
mod tests;
