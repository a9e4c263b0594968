//! Operators over row blocks, and parts of their results, as bytes for another process.
//!
//! Matrices travel dense or in CSR: a compressed one is written out, and single precision is widened. What arrives is
//! checked as a plan and its bindings are.

use std::{collections::BTreeMap, sync::Arc};

use fangorn::sparse::SparseMatrix;
use prost::{Enumeration, Message};

use super::{
    Values,
    block_operator::{BlockOperator, BlockParts, Joining, SeenRows},
};
use crate::{
    FusionError, Matrix,
    dag::{Dag, Format, NodeId, Shape, Size},
    explore::Template,
    select::PlannedOperator,
};

#[derive(Clone, PartialEq, Message)]
struct OperatorMessage {
    /// The text of the plan's graph.
    #[prost(string, tag = "1")]
    graph: String,
    #[prost(enumeration = "TemplateMessage", tag = "2")]
    template: i32,
    #[prost(uint64, repeated, tag = "3")]
    roots: Vec<u64>,
    #[prost(uint64, repeated, tag = "4")]
    covered: Vec<u64>,
    #[prost(uint64, tag = "5")]
    blocked: u64,
    /// The other inputs, each with the number of its node.
    #[prost(message, repeated, tag = "6")]
    values: Vec<NumberedMatrix>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
enum TemplateMessage {
    /// A template that another version may have.
    Unknown = 0,
    Basic = 1,
    Cell = 2,
    Row = 3,
    MAgg = 4,
    Outer = 5,
}

#[derive(Clone, PartialEq, Message)]
struct PartsMessage {
    /// The first row and the end of each stretch of rows, in turns.
    #[prost(uint64, repeated, tag = "1")]
    stretches: Vec<u64>,
    #[prost(uint64, tag = "2")]
    unnumbered: u64,
    #[prost(message, repeated, tag = "3")]
    results: Vec<ResultMessage>,
}

/// The results of a root, by number.
#[derive(Clone, PartialEq, Message)]
struct ResultMessage {
    #[prost(message, repeated, tag = "1")]
    parts: Vec<NumberedMatrix>,
}

#[derive(Clone, PartialEq, Message)]
struct NumberedMatrix {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(uint64, tag = "2")]
    rows: u64,
    #[prost(uint64, tag = "3")]
    columns: u64,
    /// All elements, row-major, or those that CSR stores.
    #[prost(double, repeated, tag = "4")]
    values: Vec<f64>,
    /// In CSR, where each row begins, and the end. Otherwise empty.
    #[prost(uint64, repeated, tag = "5")]
    offsets: Vec<u64>,
    #[prost(uint32, repeated, tag = "6")]
    indices: Vec<u32>,
}

fn damaged(what: &str) -> FusionError {
    FusionError::Sent(what.to_owned())
}

fn index(number: u64) -> Result<usize, FusionError> {
    usize::try_from(number).map_err(|_| damaged("a number is too large for this machine"))
}

fn indices(numbers: &[u64]) -> Result<Vec<usize>, FusionError> {
    numbers.iter().map(|number| index(*number)).collect()
}

impl NumberedMatrix {
    fn new(number: usize, matrix: &Matrix) -> Self {
        let (rows, columns) = matrix.shape();
        let (mut values, mut offsets, mut indices) = (Vec::new(), Vec::new(), Vec::new());
        if let Matrix::Csr(sparse) = matrix {
            offsets.push(0);
            for row in 0..rows {
                for (column, value) in sparse.row(row) {
                    indices.push(column as u32);
                    values.push(value);
                }
                offsets.push(values.len() as u64);
            }
        } else {
            values = matrix.to_dense();
        }
        Self { number: number as u64, rows: rows as u64, columns: columns as u64, values, offsets, indices }
    }

    fn matrix(self) -> Result<(usize, Matrix), FusionError> {
        let shape = (index(self.rows)?, index(self.columns)?);
        let matrix = if self.offsets.is_empty() {
            Matrix::dense(shape, self.values)
        } else {
            let offsets = indices(&self.offsets)?;
            let sparse = SparseMatrix::new([shape.0, shape.1], offsets, self.indices, self.values);
            sparse.map(|sparse| Matrix::Csr(Arc::new(sparse)))
        };
        Ok((index(self.number)?, matrix.ok_or_else(|| damaged("elements do not fit their matrix"))?))
    }
}

impl BlockOperator {
    /// Returns the operator and its other inputs as bytes for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { dag, operator, blocked, values, .. } = self;
        let numbers = |nodes: &[NodeId]| nodes.iter().map(|node| *node as u64).collect();
        let template = match operator.template {
            None => TemplateMessage::Basic,
            Some(Template::Cell) => TemplateMessage::Cell,
            Some(Template::Row) => TemplateMessage::Row,
            Some(Template::MAgg) => TemplateMessage::MAgg,
            Some(Template::Outer) => TemplateMessage::Outer,
        };
        let mut values: Vec<NumberedMatrix> =
            values.iter().map(|(node, matrix)| NumberedMatrix::new(*node, matrix)).collect();
        // The same operator has the same bytes.
        values.sort_by_key(|value| value.number);
        let message = OperatorMessage {
            graph: dag.to_string(),
            template: template.into(),
            roots: numbers(&operator.roots),
            covered: numbers(&operator.covered),
            blocked: *blocked as u64,
            values,
        };
        message.encode_to_vec()
    }

    /// Returns the operator of which another process sent the bytes.
    ///
    /// # Errors
    /// The bytes are damaged, or of another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FusionError> {
        let message = OperatorMessage::decode(bytes).map_err(|e| damaged(&e.to_string()))?;
        let dag = Dag::parse(&message.graph)?;
        let template = match message.template() {
            TemplateMessage::Unknown => return Err(damaged("the operator's template is unknown")),
            TemplateMessage::Basic => None,
            TemplateMessage::Cell => Some(Template::Cell),
            TemplateMessage::Row => Some(Template::Row),
            TemplateMessage::MAgg => Some(Template::MAgg),
            TemplateMessage::Outer => Some(Template::Outer),
        };
        let (roots, covered) = (indices(&message.roots)?, indices(&message.covered)?);
        let operator = PlannedOperator::checked(&dag, template, roots, covered)
            .ok_or_else(|| damaged("no plan has such an operator"))?;
        let blocked = index(message.blocked)?;
        let is_input = blocked < dag.nodes().len() && dag.is_source(blocked);
        if !is_input || dag.shape(blocked).0 == 1 {
            return Err(damaged("blocks of no input"));
        }
        let values: Values =
            message.values.into_iter().map(NumberedMatrix::matrix).collect::<Result<_, _>>()?;
        for (node, matrix) in &values {
            let size = (*node < dag.nodes().len()).then(|| dag.size(*node));
            // A compressed matrix is written out on its way, and a sparse result may be held dense.
            let fits = |size: Size| {
                matrix.shape() == size.shape
                    && (matrix.format() == Format::Dense || size.format == Format::Csr)
            };
            if !size.is_some_and(fits) {
                return Err(damaged("an input has another shape or format"));
            }
        }
        let found = Self::new(&dag, &operator, blocked, &values)?;
        if !found.has_all_inputs() {
            return Err(damaged("an input is missing"));
        }
        Ok(found)
    }

    /// Returns the results of which another process sent the bytes.
    ///
    /// # Errors
    /// The bytes are damaged, or results of another operator.
    pub fn parts_from_bytes(&self, bytes: &[u8]) -> Result<BlockParts, FusionError> {
        let message = PartsMessage::decode(bytes).map_err(|e| damaged(&e.to_string()))?;
        let all = self.shape().0;
        let mut seen = SeenRows { unnumbered: index(message.unnumbered)?, ..SeenRows::default() };
        let stretches = indices(&message.stretches)?;
        for stretch in stretches.chunks(2) {
            match *stretch {
                [first, end] if first < end && end <= all && seen.add(first, end) => {}
                _ => return Err(damaged("rows that do not exist, or come twice")),
            }
        }
        let has_none = message.results.is_empty() && seen == SeenRows::default();
        if !has_none && message.results.len() != self.operator.roots.len() || seen.unnumbered > all {
            return Err(damaged("another number of results"));
        }
        let mut results = Vec::with_capacity(message.results.len());
        for ((result, root), joining) in
            message.results.into_iter().zip(&self.operator.roots).zip(&self.joinings)
        {
            let fits = |number: usize, (rows, columns): Shape| match joining {
                Joining::Aggregates(_) => number == 0 && (rows, columns) == self.dag.shape(*root),
                Joining::Rows => {
                    let is_seen = seen.ends.range(..=number).next_back();
                    columns == self.dag.shape(*root).1
                        && rows > 0
                        && is_seen
                            .is_some_and(|(_, end)| number.checked_add(rows).is_some_and(|last| last <= *end))
                }
            };
            let parts = result.parts.into_iter().map(|part| {
                let (number, matrix) = part.matrix()?;
                let format = matrix.format();
                let is_known = format == Format::Dense || *joining == Joining::Rows;
                let fits = fits(number, matrix.shape()) && is_known;
                if fits { Ok((number, matrix)) } else { Err(damaged("a result has another shape")) }
            });
            results.push(parts.collect::<Result<_, _>>()?);
        }
        Ok(BlockParts { seen, results })
    }
}

impl BlockParts {
    /// Returns the results as bytes for another process.
    pub fn to_bytes(&self) -> Vec<u8> {
        let stretches = self.seen.ends.iter().flat_map(|(first, end)| [*first as u64, *end as u64]);
        let result = |parts: &BTreeMap<usize, Matrix>| ResultMessage {
            parts: parts.iter().map(|(number, matrix)| NumberedMatrix::new(*number, matrix)).collect(),
        };
        let message = PartsMessage {
            stretches: stretches.collect(),
            unnumbered: self.seen.unnumbered as u64,
            results: self.results.iter().map(result).collect(),
        };
        message.encode_to_vec()
    }
}
