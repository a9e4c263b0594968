//! Folds the operators before a forest into the predicates of its splits.

use std::{collections::HashMap, sync::Arc};

use super::super::{
    error::GraphError,
    model::{Graph, Operand},
    operator::{Binary, Compare, Operator, Unary},
    tensor::{Dtype, Elements, Tensor},
};
use super::{rebuild::Rebuild, selections::selection};
use crate::forest::{
    CategoryRule, CategorySet, CompareType, Feature, Forest, MOST_CATEGORIES, Node, Operation, Predicate,
    Prologue, Side, reference,
};

/// The maximum number of columns of a folded forest.
const MOST_COLUMNS: usize = 1 << 16;
/// The maximum number of steps that are folded into one forest.
const MOST_STEPS: usize = 256;

/// Folds the operators before each forest.
pub(super) fn fold(old: &Graph) -> Result<Graph, GraphError> {
    let mut new = Rebuild::of(old);
    for node in &old.nodes {
        let Operator::Forest(forest) = &node.operator else {
            new.keep(node)?;
            continue;
        };
        let x = new.operand(node.operands[0]);
        let width = forest.features.len();
        let mut input =
            ForestInput { forest: Arc::clone(forest), spans: vec![ColumnSpan { operand: x, width }] };
        let mut folded = false;
        for _ in 0..MOST_STEPS {
            if !input.fold(&mut new)? {
                break;
            }
            folded = true;
        }
        if !folded {
            new.keep(node)?;
            continue;
        }
        let mut operands: Vec<Operand> = Vec::with_capacity(input.spans.len());
        for ColumnSpan { operand, width } in &input.spans {
            // `[rows, 1, k]` that stayed apart becomes `[rows, k]`.
            operands.push(match new.type_of(*operand).dimensions() {
                Some(3) => {
                    let reshape = Operator::Reshape(vec![-1, *width as i64]);
                    new.node(&node.name, reshape, vec![*operand])?[0]
                }
                _ => *operand,
            });
        }
        let operand = match &operands[..] {
            [only] => *only,
            _ => new.node(&node.name, Operator::Concat { axis: 1 }, operands)?[0],
        };
        new.replace(&node.name, Operator::Forest(input.forest), vec![operand])?;
    }
    Ok(new.finish(old))
}

/// Adjacent columns that come from one tensor.
#[derive(Clone, Copy, Debug)]
struct ColumnSpan {
    operand: Operand,
    width: usize,
}

/// A forest, and the tensors whose columns, side by side, are its rows.
struct ForestInput {
    forest: Arc<Forest>,
    spans: Vec<ColumnSpan>,
}

impl ForestInput {
    /// Folds one step into the forest. Returns whether there was a step to fold.
    fn fold(&mut self, new: &mut Rebuild) -> Result<bool, GraphError> {
        if self.join(new) {
            return Ok(true);
        }
        for at in 0..self.spans.len() {
            if self.separate(new, at) || self.fold_span(new, at) || self.one_hot(new, at)? {
                return Ok(true);
            }
        }
        Ok(self.joint_cast(new))
    }

    fn columns_before(&self, span: usize) -> usize {
        self.spans[..span].iter().map(|span| span.width).sum()
    }

    fn width(&self) -> usize {
        self.columns_before(self.spans.len())
    }

    /// Returns the type in which rows of a tensor are compared, or `None` for texts. Integers and truth
    /// values are compared as doubles.
    fn compare(dtype: Dtype) -> Option<CompareType> {
        match dtype {
            Dtype::F32 => Some(CompareType::F32),
            Dtype::Text => None,
            _ => Some(CompareType::F64),
        }
    }

    /// Folds a prologue into the forest. Returns whether that is possible.
    fn after(&mut self, step: Prologue, dtype: Dtype) -> bool {
        let Some(rows) = Self::compare(dtype) else { return false };
        match self.forest.with_prologue(&[step], rows) {
            Ok(forest) => {
                self.forest = Arc::new(forest);
                true
            }
            Err(_) => false,
        }
    }

    /// Replaces spans that are selections of one tensor with that tensor, if this helps. Returns whether it
    /// did.
    fn join(&mut self, new: &Rebuild) -> bool {
        let mut columns: Vec<u32> = Vec::with_capacity(self.width());
        let mut source = None;
        for span in &self.spans {
            let (from, chosen) = selection(new, span.operand)
                .unwrap_or_else(|| (span.operand, (0..span.width).collect::<Vec<_>>()));
            if *source.get_or_insert(from) != from {
                return false;
            }
            columns.extend(chosen.into_iter().map(|column| column as u32));
        }
        let Some(source) = source else { return false };
        let Some(width) = new.type_of(source).width().filter(|width| *width <= MOST_COLUMNS) else {
            return false;
        };
        let is_itself = self.spans.len() == 1 && self.spans[0].operand == source;
        // If a node computes the columns, another pass moves the selection before that node.
        let pays = self.spans.len() > 1 || matches!(source, Operand::Input(_)) || self.can_fold(new, source);
        if is_itself || !pays {
            return false;
        }
        let dtype = new.type_of(source).dtype;
        if Self::compare(dtype).is_none() || !self.after(Prologue::Columns { columns, width }, dtype) {
            return false;
        }
        self.spans = vec![ColumnSpan { operand: source, width }];
        true
    }

    /// Returns whether a node is of a kind that can be folded.
    fn can_fold(&self, new: &Rebuild, operand: Operand) -> bool {
        new.node_of(operand).is_some_and(|node| match &node.operator {
            Operator::Cast(_) | Operator::Where | Operator::Unary(Unary::Relu) => true,
            Operator::Binary(_) => {
                node.operands.iter().any(|operand| new.graph.weight_of(*operand).is_some())
            }
            _ => selection(new, operand).is_some(),
        })
    }

    /// Replaces a span that joins tensors side by side with a span for each tensor. Returns whether it did.
    fn separate(&mut self, new: &Rebuild, at: usize) -> bool {
        let span = self.spans[at];
        let Some(mut node) = new.node_of(span.operand) else { return false };
        // `[rows, 1, k]` becomes `[rows, k]`.
        let mut middle = false;
        if let Operator::Reshape(lengths) = &node.operator {
            let before = new.type_of(node.operands[0]).shape.as_deref();
            let is_flat = drops_the_middle(before, lengths);
            let Some(concat) = new.node_of(node.operands[0]).filter(|_| is_flat) else { return false };
            (node, middle) = (concat, true);
        }
        let last = if middle { 2 } else { 1 };
        let Operator::Concat { axis } = &node.operator else { return false };
        if *axis != -1 && *axis != last {
            return false;
        }
        let wide = |operand: &Operand| {
            let found = new.type_of(*operand);
            let fits = found.dimensions() == Some(last as usize + 1)
                && (!middle || one_hot(new, *operand).is_some());
            Some(ColumnSpan { operand: *operand, width: found.width().filter(|_| fits)? })
        };
        let Some(spans) = node.operands.iter().map(wide).collect::<Option<Vec<_>>>() else { return false };
        // The widths must add up, because inputs may claim any width.
        let widths = spans.iter().try_fold(0usize, |sum, span| sum.checked_add(span.width));
        if widths != Some(span.width) {
            return false;
        }
        self.spans.splice(at..=at, spans);
        true
    }

    /// Folds arithmetic, a ReLU, an imputer or a selection before a span, or a cast if there is only one
    /// span. Returns whether it did.
    fn fold_span(&mut self, new: &Rebuild, at: usize) -> bool {
        let span = self.spans[at];
        let Some(node) = new.node_of(span.operand) else { return false };
        let dtype = new.type_of(span.operand).dtype;
        let first = self.columns_before(at);
        match (&node.operator, &node.operands[..]) {
            (Operator::Cast(to), [x]) if self.spans.len() == 1 => {
                let compare = match to {
                    Dtype::F32 => CompareType::F32,
                    Dtype::F64 => CompareType::F64,
                    _ => return false,
                };
                let from = new.type_of(*x).dtype;
                let done = self.after(Prologue::Cast(compare), from);
                if done {
                    self.spans[at].operand = *x;
                }
                done
            }
            (Operator::Binary(how), [a, b]) => {
                let Some((x, steps)) = arithmetic(new, *how, *a, *b, span.width) else { return false };
                let precision = match dtype {
                    Dtype::F32 => CompareType::F32,
                    Dtype::F64 => CompareType::F64,
                    _ => return false,
                };
                if new.type_of(x).width() != Some(span.width) || new.type_of(x).dimensions() != Some(2) {
                    return false;
                }
                let before = Arc::clone(&self.forest);
                // The last step is the nearest to the forest.
                for (operation, numbers) in steps.into_iter().rev() {
                    let neutral = match operation {
                        Operation::Add | Operation::Subtract => 0.0,
                        Operation::Multiply | Operation::Divide => 1.0,
                    };
                    let mut all = vec![neutral; self.width()];
                    all[first..first + span.width].copy_from_slice(&numbers);
                    let step = Prologue::Arithmetic { operation, numbers: all, precision };
                    if !self.after(step, dtype) {
                        self.forest = before;
                        return false;
                    }
                }
                self.spans[at].operand = x;
                true
            }
            (Operator::Unary(Unary::Relu), [x]) => {
                let done = self.rectify(first, span.width);
                if done {
                    self.spans[at].operand = *x;
                }
                done
            }
            (Operator::Where, [condition, yes, no]) => {
                let Some(values) = imputed(new, *condition, *yes, *no, span.width) else { return false };
                self.impute(first, &values);
                self.spans[at].operand = *no;
                true
            }
            _ => {
                // Without a step to fold before it, another pass would add the folded selection again.
                let Some((source, chosen)) = selection(new, span.operand) else { return false };
                let Some(width) = new.type_of(source).width() else { return false };
                let total = self.width() - span.width + width;
                if !self.can_fold(new, source) || total > MOST_COLUMNS {
                    return false;
                }
                let columns = (0..first)
                    .chain(chosen.into_iter().map(|column| first + column))
                    .chain(first + width..total)
                    .map(|column| column as u32)
                    .collect();
                let done = self.after(Prologue::Columns { columns, width: total }, dtype);
                if done {
                    self.spans[at] = ColumnSpan { operand: source, width };
                }
                done
            }
        }
    }

    /// Folds a cast of every span from one type to another. Returns whether it did.
    fn joint_cast(&mut self, new: &Rebuild) -> bool {
        let cast = |span: &ColumnSpan| match new.node_of(span.operand) {
            Some(node) => match node.operator {
                Operator::Cast(to @ (Dtype::F32 | Dtype::F64)) => {
                    Some((node.operands[0], to, new.type_of(node.operands[0]).dtype))
                }
                _ => None,
            },
            None => None,
        };
        let Some(casts) = self.spans.iter().map(cast).collect::<Option<Vec<_>>>() else { return false };
        let (_, to, from) = casts[0];
        let compare = if to == Dtype::F32 { CompareType::F32 } else { CompareType::F64 };
        let alike = casts.iter().all(|(_, other, before)| (*other, *before) == (to, from));
        if self.spans.len() == 1 || !alike || !self.after(Prologue::Cast(compare), from) {
            return false;
        }
        self.spans.iter_mut().zip(casts).for_each(|(span, (operand, ..))| span.operand = operand);
        true
    }

    /// Folds an imputer: missing values of the columns from `first` on take the side of the value that
    /// replaces them. A value that is itself missing replaces nothing.
    fn impute(&mut self, first: usize, values: &[f64]) {
        let Forest { trees, sets, compare, .. } = Arc::make_mut(&mut self.forest);
        for node in trees.iter_mut().flat_map(|tree| &mut tree.nodes) {
            if let Node::Split { feature, predicate, missing, .. } = node
                && let Some(value) =
                    (*feature as usize).checked_sub(first).and_then(|column| values.get(column))
            {
                *missing = reference::side_of_cast(sets, *predicate, *missing, compare.cast(*value));
            }
        }
    }

    /// Folds a ReLU of `width` columns from `first` on, which turns values below 0 into 0. So no value is
    /// less than a threshold of at most 0, or equal to a number below 0; and a value is equal to 0 if it was
    /// at most 0. Other predicates stay. Returns `false`, and changes nothing, if a split of these columns
    /// has a predicate other than `Less`, `Equal` and `Always`.
    fn rectify(&mut self, first: usize, width: usize) -> bool {
        let inside = |feature: u32| (first..first + width).contains(&(feature as usize));
        let asks_else = |node: &Node| match node {
            Node::Split { feature, predicate, .. } => {
                let folds =
                    matches!(predicate, Predicate::Less { .. } | Predicate::Equal { .. } | Predicate::Always);
                inside(*feature) && !folds
            }
            Node::Leaf { .. } => false,
        };
        if self.forest.trees.iter().flat_map(|tree| &tree.nodes).any(asks_else) {
            return false;
        }
        let never = Predicate::Less { threshold: f64::NEG_INFINITY.into() };
        let zero = self.forest.compare.at_most(0.0);
        for node in Arc::make_mut(&mut self.forest).trees.iter_mut().flat_map(|tree| &mut tree.nodes) {
            let Node::Split { feature, predicate, .. } = node else { continue };
            if !inside(*feature) {
                continue;
            }
            match predicate {
                Predicate::Less { threshold } if threshold.0 <= 0.0 => *predicate = never,
                Predicate::Equal { value } if value.0 < 0.0 => *predicate = never,
                Predicate::Equal { value } if value.0 == 0.0 => *predicate = zero,
                _ => {}
            }
        }
        true
    }

    /// Folds a one-hot encoder: a split on a column of 0 and 1 becomes one that asks for the column's category.
    fn one_hot(&mut self, new: &mut Rebuild, at: usize) -> Result<bool, GraphError> {
        let span = self.spans[at];
        let Some(encoder) = one_hot(new, span.operand) else { return Ok(false) };
        let others = self.spans.iter().enumerate().filter(|(other, _)| *other != at);
        let dtype = new.type_of(span.operand).dtype;
        // Other spans keep their type, so this span must be of the same type.
        let column_dtype = new.type_of(encoder.column).dtype;
        let is_alone = self.spans.len() == 1;
        let others_fit = others.into_iter().all(|(_, other)| new.type_of(other.operand).dtype == dtype);
        if !others_fit || encoder.categories.len() != span.width {
            return Ok(false);
        }
        // A forest that rounds doubles to `f32` would round the column, too, which the encoder does not.
        let rounds = self.forest.compare == CompareType::F32 && column_dtype == Dtype::F64 && !is_alone;
        let operand = match column_dtype {
            _ if rounds => return Ok(false),
            Dtype::F32 | Dtype::F64 if column_dtype == dtype || is_alone => encoder.column,
            // Every category is below 2^24, so a cast to `f32` turns no other integer into a category.
            Dtype::I32 | Dtype::I64 => new.node("encode", Operator::Cast(dtype), vec![encoder.column])?[0],
            _ => return Ok(false),
        };
        let first = self.columns_before(at);
        let forest = Arc::make_mut(&mut self.forest);
        let mut sets: HashMap<u32, u32> = HashMap::new();
        let compare = forest.compare;
        for node in forest.trees.iter_mut().flat_map(|tree| &mut tree.nodes) {
            let Node::Split { feature, predicate, missing, left, right } = node else { continue };
            let Some(at) = (*feature as usize).checked_sub(first) else { continue };
            let Some(category) = encoder.categories.get(at) else {
                // Columns after the encoder's have lower numbers now.
                *feature -= span.width as u32 - 1;
                continue;
            };
            let side =
                |value: f64| reference::side_of_cast(&forest.sets, *predicate, *missing, compare.cast(value));
            let (without, with) = (side(0.0), side(1.0));
            let of_missing = if encoder.truncates && *category == 0.0 { with } else { without };
            *feature = first as u32;
            *predicate = match (without == with, encoder.truncates) {
                (true, _) => Predicate::Always,
                (false, false) => Predicate::Equal { value: (*category).into() },
                (false, true) => {
                    let next = (forest.sets.len() + sets.len()) as u32;
                    let set = *sets.entry(*category as u32).or_insert(next);
                    Predicate::InSet { set, inside: Side::Left }
                }
            };
            // Rows with the category go left, or all rows do.
            if with == Side::Right {
                std::mem::swap(left, right);
            }
            *missing = if of_missing == with { Side::Left } else { Side::Right };
        }
        let mut added: Vec<(u32, u32)> = sets.into_iter().map(|(category, set)| (set, category)).collect();
        added.sort_unstable();
        let set = |(_, category): (u32, u32)| CategorySet::new([category], CategoryRule::Truncated);
        forest.sets.extend(added.into_iter().map(set));
        forest.features.splice(first..first + span.width, [Feature::default()]);
        // Categories of doubles are compared as doubles. No other column has a threshold here.
        if is_alone && column_dtype == Dtype::F64 {
            forest.compare = CompareType::F64;
        }
        self.spans[at] = ColumnSpan { operand, width: 1 };
        Ok(true)
    }
}

/// Returns the numbers of a weight for `width` columns: one for all, or one for each.
fn numbers(weight: &Tensor, width: usize) -> Option<Vec<f64>> {
    let values = weight.elements().doubles()?;
    let outer: usize = weight.shape().iter().rev().skip(1).product();
    match values.len() {
        1 if weight.shape().len() <= 2 => Some(vec![values[0]; width]),
        count if count == width && outer == 1 && weight.shape().len() <= 2 => Some(values),
        _ => None,
    }
}

/// Returns the tensor that arithmetic with a weight starts from, and the steps in their order.
#[allow(clippy::type_complexity, reason = "a tensor, and operations with their numbers")]
fn arithmetic(
    new: &Rebuild,
    how: Binary,
    a: Operand,
    b: Operand,
    width: usize,
) -> Option<(Operand, Vec<(Operation, Vec<f64>)>)> {
    let weight = |operand| new.graph.weight_of(operand).and_then(|weight| numbers(weight, width));
    if let Some(numbers) = weight(b) {
        let operation = match how {
            Binary::Add => Operation::Add,
            Binary::Subtract => Operation::Subtract,
            Binary::Multiply => Operation::Multiply,
            Binary::Divide => Operation::Divide,
            _ => return None,
        };
        return Some((a, vec![(operation, numbers)]));
    }
    let numbers = weight(a)?;
    match how {
        Binary::Add => Some((b, vec![(Operation::Add, numbers)])),
        Binary::Multiply => Some((b, vec![(Operation::Multiply, numbers)])),
        // `w - x` is `-(x - w)` to the bit, except for the sign of zero, which no split asks for.
        Binary::Subtract => {
            let negated = (Operation::Multiply, vec![-1.0; width]);
            Some((b, vec![(Operation::Subtract, numbers), negated]))
        }
        _ => None,
    }
}

/// Returns the values that replace missing ones, if a `Where` with these operands replaces missing values.
fn imputed(new: &Rebuild, condition: Operand, yes: Operand, no: Operand, width: usize) -> Option<Vec<f64>> {
    let is_nan = new.node_of(condition)?;
    let asks = is_nan.operator == Operator::Unary(Unary::IsNan) && is_nan.operands[0] == no;
    let fits = new.type_of(no).width() == Some(width) && new.type_of(no).dimensions() == Some(2);
    numbers(new.graph.weight_of(yes)?, width).filter(|_| asks && fits)
}

/// A one-hot encoder of one column.
struct OneHot {
    /// The column, `rows x 1`.
    column: Operand,
    categories: Vec<f64>,
    /// Whether the column is truncated to integers first.
    truncates: bool,
}

/// Returns whether a reshape to these lengths turns `rows x 1 x k` into `rows x k`.
fn drops_the_middle(shape: Option<&[Option<usize>]>, lengths: &[i64]) -> bool {
    match (shape, lengths) {
        (Some([_, Some(1), Some(k)]), [-1 | 0, to]) => usize::try_from(*to) == Ok(*k),
        _ => false,
    }
}

/// Returns the encoder whose result is a tensor of `rows x categories` or `rows x 1 x categories`.
fn one_hot(new: &Rebuild, operand: Operand) -> Option<OneHot> {
    let mut node = new.node_of(operand)?;
    if let Operator::Reshape(lengths) = &node.operator {
        let is_flat = drops_the_middle(new.type_of(node.operands[0]).shape.as_deref(), lengths);
        node = new.node_of(node.operands[0]).filter(|_| is_flat)?;
    }
    let Operator::Cast(Dtype::F32 | Dtype::F64) = node.operator else { return None };
    let equal =
        new.node_of(node.operands[0]).filter(|node| node.operator == Operator::Compare(Compare::Equal))?;
    let [a, b] = equal.operands[..] else { return None };
    let (x, categories) = match (new.graph.weight_of(a), new.graph.weight_of(b)) {
        (None, Some(categories)) => (a, categories),
        (Some(categories), None) => (b, categories),
        _ => return None,
    };
    if categories.shape().len() != 1 || matches!(categories.elements(), Elements::Bool(_)) {
        return None;
    }
    let mut column = x;
    if let Some(node) = new.node_of(x)
        && let Operator::Unsqueeze(axes) = &node.operator
        && matches!(axes[..], [-1 | 2])
    {
        column = node.operands[0];
    }
    let is_column =
        |operand| new.type_of(operand).dimensions() == Some(2) && new.type_of(operand).width() == Some(1);
    if !is_column(column) {
        return None;
    }
    let categories = categories.elements().doubles()?;
    let whole = |v: &f64| v.trunc() == *v && *v >= 0.0 && *v < f64::from(MOST_CATEGORIES);
    let mut encoder = OneHot { column, categories, truncates: false };
    let integers = matches!(new.type_of(column).dtype, Dtype::I32 | Dtype::I64);
    if integers && !encoder.categories.iter().all(whole) {
        return None;
    }
    if let Some(cast) = new.node_of(column)
        && cast.operator == Operator::Cast(Dtype::I64)
        && matches!(new.type_of(cast.operands[0]).dtype, Dtype::F32 | Dtype::F64)
    {
        encoder.column = cast.operands[0];
        encoder.truncates = true;
    }
    // A category that is NaN equals nothing, and no split asks for it.
    encoder.categories.iter().all(|v| !v.is_nan()).then_some(encoder)
}
