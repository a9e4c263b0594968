//! The rows of a table as the inputs of a graph. The inputs are side by side in a row.

use super::{
    error::GraphError,
    linear_leaves::LinearLeaves,
    model::{Graph, GraphInput, Operand},
    operator::Operator,
    tensor::{Dtype, Elements, Tensor},
};
use crate::forest::Forest;

/// The maximum number of columns of rows.
const MOST_COLUMNS: usize = 1 << 24;

impl GraphInput {
    /// Returns the number of columns.
    ///
    /// # Errors
    /// The number is not fixed, or the input has more than two dimensions.
    pub fn width(&self) -> Result<usize, GraphError> {
        match self.shape[..] {
            [_] => Ok(1),
            [_, Some(columns)] => Ok(columns),
            _ => {
                let cause = "it has no fixed number of columns; export the model with its number of features";
                Err(GraphError::at(&self.name, cause))
            }
        }
    }
}

impl Graph {
    /// Returns the first node that is a forest with linear models in its leaves, or `None` if there is none.
    pub fn linear_leaves(&self) -> Option<(u32, &LinearLeaves)> {
        (0..).zip(&self.nodes).find_map(|(at, node)| match &node.operator {
            Operator::LinearLeaves(leaves) => Some((at, &**leaves)),
            _ => None,
        })
    }

    /// Returns a forest without trees whose features are the columns of the graph's rows, with all that is known of
    /// their names and categories. If each of several inputs is one column, an input's name is its column's.
    ///
    /// ```
    /// use fangorn::graph::Graph;
    ///
    /// let graph = Graph::parse(
    ///     "input %in0 \"X\": f64[rows, 2], columns=[\"age\", \"city\" of [\"Oslo\", \"Rome\"] unseen=own needed]
    /// %0 \"missing\" = isNan(%in0)
    /// output \"missing\": %0",
    /// )?;
    /// let rows = graph.rows()?;
    /// assert_eq!(rows.features[1].codes().and_then(|codes| codes.of("Rome")), Some(1.0));
    /// # Ok::<(), fangorn::graph::GraphError>(())
    /// ```
    ///
    /// # Errors
    /// An input has no fixed number of columns, or there are too many.
    pub fn rows(&self) -> Result<Forest, GraphError> {
        let mut widths = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            widths.push(input.width()?);
        }
        let all = widths.iter().try_fold(0usize, |sum, width| sum.checked_add(*width));
        let all = all.filter(|all| *all <= MOST_COLUMNS);
        let all = all.ok_or_else(|| GraphError::at("the inputs", "they have too many columns"))?;
        let rows = Forest::builder(all, 1).build();
        let mut rows = rows.map_err(|e| GraphError::at("the inputs", e.to_string()))?;
        if let Some((at, leaves)) = self.linear_leaves()
            && self.inputs.len() == 1
            && self.nodes[at as usize].operands == [Operand::Input(0)]
        {
            rows.features.clone_from(&leaves.forest().features);
            rows.producer.clone_from(&leaves.forest().producer);
            return Ok(rows);
        }
        let single = self.inputs.len() > 1 && widths.iter().all(|width| *width == 1);
        let mut features = rows.features.iter_mut();
        for (input, width) in self.inputs.iter().zip(&widths) {
            for (at, feature) in features.by_ref().take(*width).enumerate() {
                match input.columns.get(at) {
                    Some(column) => feature.clone_from(column),
                    None if single => feature.name = Some(input.name.clone()),
                    None => {}
                }
            }
        }
        Ok(rows)
    }

    /// Returns a tensor for each input, given rows of numbers, row after row: those that the features of
    /// [`rows`](Self::rows) stand for.
    ///
    /// # Errors
    /// An input takes texts or has no fixed number of columns, the last row is not whole, or an input of integers gets
    /// a missing value or a number that is none.
    pub fn inputs_of_rows(&self, values: &[f64]) -> Result<Vec<Tensor>, GraphError> {
        let mut widths = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            if input.dtype == Dtype::Text {
                return Err(GraphError::at(&input.name, "it takes texts, not numbers"));
            }
            widths.push(input.width()?);
        }
        let all: usize = widths.iter().sum();
        let rows = values.len().checked_div(all).unwrap_or(0);
        if rows * all != values.len() {
            let cause = format!("{} values are no rows of {all} columns", values.len());
            return Err(GraphError::at("the rows", cause));
        }
        let mut first = 0;
        let mut inputs = Vec::with_capacity(widths.len());
        for (input, width) in self.inputs.iter().zip(widths) {
            let of_row = |row: usize| &values[row * all + first..][..width];
            if !matches!(input.dtype, Dtype::F32 | Dtype::F64) {
                let wrong =
                    |row: usize| of_row(row).iter().position(|value| value.fract() != 0.0).map(|c| (row, c));
                if let Some((row, column)) = (0..rows).find_map(wrong) {
                    let value = of_row(row)[column];
                    let value = if value.is_nan() { "a missing value".into() } else { value.to_string() };
                    let cause = format!(
                        "row {row}, column {column}: it takes whole numbers, not {value}; mend the row, or export the model \
                         with inputs of floats"
                    );
                    return Err(GraphError::at(&input.name, cause));
                }
            }
            let own = match width == all {
                true => values.to_vec(),
                false => (0..rows).flat_map(of_row).copied().collect(),
            };
            let shape = if input.shape.len() == 1 { vec![rows] } else { vec![rows, width] };
            let tensor = Elements::of_doubles(input.dtype, own).and_then(|own| Tensor::new(shape, own));
            inputs.push(tensor.ok_or_else(|| GraphError::at(&input.name, "the rows don't fit"))?);
            first += width;
        }
        Ok(inputs)
    }
}
