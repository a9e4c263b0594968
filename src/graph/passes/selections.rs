//! Merges chains of column selections, and moves selections before elementwise operators.

use std::{collections::HashMap, sync::Arc};

use super::super::{
    error::GraphError,
    model::{Graph, Operand},
    operator::Operator,
    reduce::axis_of,
    tensor::{Elements, Tensor},
};
use super::rebuild::Rebuild;
use crate::forest::{Forest, Node};

/// The maximum number of columns of a tensor from which columns are selected. A file may claim any number.
const MOST_COLUMNS: usize = 1 << 24;
/// The maximum number of operators that one selection moves before.
const MOST_MOVES: usize = 64;

/// If an operand selects columns of a tensor of rows, returns that tensor and the columns.
pub(super) fn selection(new: &Rebuild, operand: Operand) -> Option<(Operand, Vec<usize>)> {
    let node = new.node_of(operand)?;
    let source = node.operands[0];
    let read = new.type_of(source);
    if read.dimensions() != Some(2) {
        return None;
    }
    let width = read.width().filter(|width| *width <= MOST_COLUMNS)?;
    match &node.operator {
        Operator::Gather { axis: -1 | 1 } => {
            let indices = new.graph.weight_of(node.operands[1]).filter(|weight| weight.shape().len() == 1)?;
            let indices = super::super::arrange::integers(indices.view()).ok()?;
            let columns: Option<Vec<usize>> =
                indices.into_iter().map(|index| axis_of(index, width).ok()).collect();
            Some((source, columns?))
        }
        Operator::Slice { axis: -1 | 1, start, end, step } => {
            let (first, count) = super::super::arrange::sliced(*start, *end, *step, width).ok()?;
            let column = |at: usize| usize::try_from(first + at as i64 * step).ok();
            Some((source, (0..count).map(column).collect::<Option<_>>()?))
        }
        _ => None,
    }
}

/// Moves column selections before the operators that compute the columns.
pub(super) fn columns(old: &Graph) -> Result<Graph, GraphError> {
    let mut uses: HashMap<Operand, usize> = HashMap::new();
    let of_outputs = old.outputs.iter().map(|output| output.operand);
    for operand in old.nodes.iter().flat_map(|node| node.operands.iter().copied()).chain(of_outputs) {
        *uses.entry(operand).or_default() += 1;
    }
    let mut selections = Selections { new: Rebuild::of(old), uses: HashMap::new() };
    for (at, node) in old.nodes.iter().enumerate() {
        if !selections.forest(node)? && !selections.chosen(node)? {
            selections.new.keep(node)?;
        }
        for result in 0..node.operator.results() as u32 {
            let (old, found) =
                (Operand::Node(at as u32, result), selections.new.operand(Operand::Node(at as u32, result)));
            *selections.uses.entry(found).or_default() += uses.get(&old).copied().unwrap_or(0);
        }
    }
    Ok(selections.new.finish(old))
}

struct Selections {
    new: Rebuild,
    /// For each operand of the new graph, the number of old nodes and outputs that read it.
    uses: HashMap<Operand, usize>,
}

impl Selections {
    /// Moves a node that selects columns as far forward as possible. Returns `false` if the node selects
    /// nothing.
    fn chosen(&mut self, node: &super::super::model::Node) -> Result<bool, GraphError> {
        if !matches!(node.operator, Operator::Gather { .. } | Operator::Slice { .. }) {
            return Ok(false);
        }
        // If the selection moves, this node of the new graph is unused, and dropped later.
        let operands = self.new.operands(node);
        let as_it_is = self.new.node(&node.name, node.operator.clone(), operands)?;
        let found = match selection(&self.new, as_it_is[0]) {
            Some((source, columns)) => self.select(source, &columns, MOST_MOVES)?,
            None => None,
        };
        self.new.becomes(found.map_or(as_it_is, |operand| vec![operand]));
        Ok(true)
    }

    /// If a forest reads only some of the columns that a node computes, gives it only those. Returns whether it
    /// did.
    fn forest(&mut self, node: &super::super::model::Node) -> Result<bool, GraphError> {
        let Operator::Forest(forest) = &node.operator else { return Ok(false) };
        let mut used = vec![false; forest.features.len()];
        for split in forest.trees.iter().flat_map(|tree| &tree.nodes) {
            if let Node::Split { feature, .. } = split {
                used[*feature as usize] = true;
            }
        }
        let columns: Vec<usize> = (0..used.len()).filter(|column| used[*column]).collect();
        let x = self.new.operand(node.operands[0]);
        if columns.len() == used.len() || columns.is_empty() || selection(&self.new, x).is_some() {
            return Ok(false);
        }
        let Some(chosen) = self.select(x, &columns, MOST_MOVES)? else { return Ok(false) };
        let mut narrow = Forest::clone(forest);
        narrow.features = columns.iter().map(|column| forest.features[*column].clone()).collect();
        let renumbered: HashMap<u32, u32> = columns.iter().map(|column| *column as u32).zip(0..).collect();
        for split in narrow.trees.iter_mut().flat_map(|tree| &mut tree.nodes) {
            if let Node::Split { feature, .. } = split {
                *feature = renumbered[&*feature];
            }
        }
        self.new.replace(&node.name, Operator::Forest(Arc::new(narrow)), vec![chosen])?;
        Ok(true)
    }

    /// Returns columns of a tensor of rows, selected before they are computed; or `None` if that saves nothing.
    fn select(
        &mut self,
        source: Operand,
        columns: &[usize],
        moves: usize,
    ) -> Result<Option<Operand>, GraphError> {
        let Some(width) = self.new.type_of(source).width() else { return Ok(None) };
        if columns.iter().copied().eq(0..width) {
            return Ok(Some(source));
        }
        if moves == 0 {
            return Ok(None);
        }
        if let Some((earlier, chosen)) = selection(&self.new, source) {
            let columns: Vec<usize> = columns.iter().map(|column| chosen[*column]).collect();
            return match self.select(earlier, &columns, moves - 1)? {
                Some(found) => Ok(Some(found)),
                None => self.gather(earlier, &columns).map(Some),
            };
        }
        // If others read the tensor too, it is computed anyway. If columns are repeated, computing them earlier
        // costs more.
        if self.uses.get(&source).copied().unwrap_or(0) > 1 || columns.len() > width {
            return Ok(None);
        }
        let Some(node) = self.new.node_of(source).cloned() else { return Ok(None) };
        match &node.operator {
            Operator::Unary(_)
            | Operator::Binary(_)
            | Operator::Compare(_)
            | Operator::Cast(_)
            | Operator::Where => {
                let wide = |operand: &Operand| {
                    let found = self.new.type_of(*operand);
                    // A computed list may be a list of rows, so only a weight counts as a list of columns.
                    let is_weight = self.new.graph.weight_of(*operand).is_some();
                    match (found.dimensions()?, found.width()) {
                        (1, Some(length)) if length == width && is_weight => Some(true),
                        (2, Some(length)) if length == width => Some(true),
                        (0, _) | (1..=2, Some(1)) => Some(false),
                        _ => None,
                    }
                };
                let Some(wide) = node.operands.iter().map(wide).collect::<Option<Vec<bool>>>() else {
                    return Ok(None);
                };
                let mut operands = Vec::with_capacity(wide.len());
                for (operand, wide) in node.operands.iter().zip(wide) {
                    operands.push(if wide {
                        self.columns_of(*operand, columns, moves - 1)?
                    } else {
                        *operand
                    });
                }
                Ok(self.new.node(&node.name, node.operator.clone(), operands)?.first().copied())
            }
            // Columns of a product are the product with columns of the weight.
            Operator::MatMul => {
                let [x, weight] = node.operands[..] else { return Ok(None) };
                if self.new.graph.weight_of(weight).is_none_or(|weight| weight.shape().len() != 2) {
                    return Ok(None);
                }
                let weight = self.columns_of(weight, columns, moves - 1)?;
                Ok(self.new.node(&node.name, Operator::MatMul, vec![x, weight])?.first().copied())
            }
            Operator::Concat { axis: -1 | 1 } => {
                let mut selected: Vec<(Operand, Vec<usize>)> = Vec::new();
                let mut first = 0;
                let mut rest = columns;
                for operand in &node.operands {
                    let Some(width) = self.new.type_of(*operand).width() else { return Ok(None) };
                    let here =
                        rest.iter().take_while(|column| (first..first + width).contains(*column)).count();
                    let (own, others) = rest.split_at(here);
                    if here > 0 {
                        selected.push((*operand, own.iter().map(|column| column - first).collect()));
                    }
                    (rest, first) = (others, first + width);
                }
                // Columns in another order than the operands stay together.
                if !rest.is_empty() || selected.is_empty() {
                    return Ok(None);
                }
                let mut operands = Vec::with_capacity(selected.len());
                for (operand, columns) in selected {
                    operands.push(self.columns_of(operand, &columns, moves - 1)?);
                }
                match operands[..] {
                    [only] => Ok(Some(only)),
                    _ => Ok(self.new.node(&node.name, node.operator.clone(), operands)?.first().copied()),
                }
            }
            _ => Ok(None),
        }
    }

    /// Returns columns of a tensor or of a weight. If the selection can't move, a `Gather` selects them.
    fn columns_of(
        &mut self,
        source: Operand,
        columns: &[usize],
        moves: usize,
    ) -> Result<Operand, GraphError> {
        if let Some(weight) = self.new.graph.weight_of(source) {
            let width = weight.shape().last().copied().unwrap_or(1);
            let rows = weight.elements().len().checked_div(width).unwrap_or(0);
            let indices = (0..rows).flat_map(|row| columns.iter().map(move |column| row * width + column));
            let elements = weight.elements().view().at(indices);
            let mut shape = weight.shape().to_vec();
            shape.pop();
            shape.push(columns.len());
            if let Some(tensor) = Tensor::new(shape, elements) {
                return Ok(self.new.weight(tensor));
            }
        }
        match self.select(source, columns, moves)? {
            Some(found) => Ok(found),
            None => self.gather(source, columns),
        }
    }

    fn gather(&mut self, source: Operand, columns: &[usize]) -> Result<Operand, GraphError> {
        let indices = Elements::I64(columns.iter().map(|column| *column as i64).collect());
        let indices = Tensor::new([columns.len()], indices).expect("a list");
        let indices = self.new.weight(indices);
        Ok(self.new.node("columns", Operator::Gather { axis: 1 }, vec![source, indices])?[0])
    }
}
