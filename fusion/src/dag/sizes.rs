//! Shapes, formats, memory and shares of elements that are not 0, computed for each result from the inputs of a graph.

use super::operator::{Binary, Direction, Format, Number, Operator};

/// Number of rows and of columns.
pub type Shape = (usize, usize);

/// What plans know of a result before a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Number of rows and of columns.
    pub shape: Shape,
    /// How it is stored if its operator is not fused.
    pub format: Format,
    /// The expected share of elements that are not 0, from 0 to 1.
    pub filled: f64,
}

impl Size {
    /// Returns the number of elements, those that are 0 included.
    pub fn elements(&self) -> f64 {
        self.shape.0 as f64 * self.shape.1 as f64
    }

    /// Returns the memory that the result takes, in bytes.
    pub fn bytes(&self) -> f64 {
        bytes_of(self.shape, self.format, self.filled)
    }

    /// Returns the greatest share of the elements of a compressed matrix that its dictionaries hold, from 0 to 1: they
    /// take 8 bytes or more for an element. Returns 1 for other formats.
    pub fn distinct(&self) -> f64 {
        if self.format.is_compressed() { (self.bytes() / (8.0 * self.elements())).min(1.0) } else { 1.0 }
    }
}

/// Returns the memory of a matrix in bytes: 8 for each element if it is dense; in CSR, 12 for each element that is
/// stored and 8 for each row. A compressed matrix takes what its format says.
pub fn bytes_of(shape: Shape, format: Format, filled: f64) -> f64 {
    let elements = shape.0 as f64 * shape.1 as f64;
    match format {
        Format::Dense => 8.0 * elements,
        Format::Csr => 12.0 * elements * filled + 8.0 * (shape.0 as f64 + 1.0),
        Format::Compressed { bytes } => bytes as f64,
    }
}

/// Returns the length that two lengths are broadcast to, or `None` if they don't fit.
fn joint(a: usize, b: usize) -> Option<usize> {
    match (a, b) {
        (a, b) if a == b => Some(a),
        (1, b) => Some(b),
        (a, 1) => Some(a),
        _ => None,
    }
}

/// Returns the size of an operator's result, or what is wrong with its inputs.
pub(super) fn size_of(operator: &Operator, inputs: &[(&Operator, Size)]) -> Result<Size, String> {
    let dense = |shape: Shape, filled: f64| Size { shape, format: Format::Dense, filled };
    let size = |at: usize| inputs[at].1;
    let found = match operator {
        Operator::Input { shape, format, filled, name } => {
            if !(0.0..=1.0).contains(&filled.0) {
                return Err(format!("input {name:?} is filled by {}; give a share from 0 to 1", filled.0));
            }
            Size { shape: *shape, format: *format, filled: filled.0 }
        }
        Operator::Literal(Number(value)) => dense((1, 1), f64::from(u8::from(*value != 0.0))),
        Operator::Unary(unary) => {
            let from = size(0);
            let keeps_zero = unary.keeps_zero();
            let format = if keeps_zero && from.format == Format::Csr { Format::Csr } else { coded(from) };
            Size { format, filled: if keeps_zero { from.filled } else { 1.0 }, ..from }
        }
        Operator::Binary(binary) => binary_size(*binary, inputs)?,
        Operator::MatMul => {
            let (a, b) = (size(0), size(1));
            if a.shape.1 != b.shape.0 {
                return Err(format!(
                    "the product of {} x {} by {} x {}: columns of the first must be rows of the second",
                    a.shape.0, a.shape.1, b.shape.0, b.shape.1
                ));
            }
            let filled = 1.0 - (1.0 - a.filled * b.filled).powf(a.shape.1 as f64);
            dense((a.shape.0, b.shape.1), filled)
        }
        Operator::Transpose => {
            let shape = (size(0).shape.1, size(0).shape.0);
            Size { shape, format: without_codes(size(0).format), ..size(0) }
        }
        Operator::Aggregate(_, direction) => {
            let (rows, columns) = size(0).shape;
            match direction {
                Direction::Row => dense((rows, 1), 1.0),
                Direction::Column => dense((1, columns), 1.0),
                Direction::Full => dense((1, 1), 1.0),
            }
        }
        Operator::Columns { start, end } => {
            let (rows, columns) = size(0).shape;
            if start >= end || *end > columns {
                return Err(format!("columns {start} to {end} of {columns}; give a range within them"));
            }
            Size { shape: (rows, end - start), format: without_codes(size(0).format), ..size(0) }
        }
    };
    let (rows, columns) = found.shape;
    if rows == 0 || columns == 0 {
        return Err("the result has no rows or no columns; graphs take matrices with elements".to_owned());
    }
    // Columns of CSR are `u32`, and a dense result has to have an address.
    if u32::try_from(columns).is_err() || u32::try_from(rows).is_err() {
        return Err(format!("{rows} rows and {columns} columns; split a matrix of 2^32 and more"));
    }
    Ok(found)
}

/// Returns the format of an elementwise function of a matrix and of scalars. That of a compressed matrix has its codes
/// and as many tuples, so it takes the same memory.
fn coded(size: Size) -> Format {
    if size.format.is_compressed() && size.shape != (1, 1) { size.format } else { Format::Dense }
}

/// Returns the format of a result that a compressed input does not share its codes with.
fn without_codes(format: Format) -> Format {
    if format.is_compressed() { Format::Dense } else { format }
}

/// Returns the size of a binary operator's result. It assumes that zeros of one input are independent of zeros of the
/// other.
fn binary_size(binary: Binary, inputs: &[(&Operator, Size)]) -> Result<Size, String> {
    let (a, b) = (inputs[0].1, inputs[1].1);
    let (Some(rows), Some(columns)) = (joint(a.shape.0, b.shape.0), joint(a.shape.1, b.shape.1)) else {
        return Err(format!(
            "{} of {} x {} and {} x {}: lengths must be equal, or one of them 1",
            binary.name(),
            a.shape.0,
            a.shape.1,
            b.shape.0,
            b.shape.1
        ));
    };
    let shape = (rows, columns);
    let literal = |at: usize| match inputs[at].0 {
        Operator::Literal(number) => Some(number.0),
        _ => None,
    };
    let filled = if zero_if(binary, true, false, literal(0), literal(1))
        && zero_if(binary, false, true, literal(0), literal(1))
    {
        a.filled * b.filled
    } else if zero_if(binary, true, false, literal(0), literal(1)) {
        a.filled
    } else if zero_if(binary, false, true, literal(0), literal(1)) {
        b.filled
    } else if zero_if(binary, true, true, None, None) {
        1.0 - (1.0 - a.filled) * (1.0 - b.filled)
    } else {
        1.0
    };
    // The result is in CSR if an input in CSR has the shape of the result, and its zeros are zeros of the result.
    let drives = |at: usize| {
        inputs[at].1.format == Format::Csr
            && inputs[at].1.shape == shape
            && zero_if(binary, at == 0, at == 1, literal(0), literal(1))
    };
    let format = match (a.shape, b.shape) {
        _ if drives(0) || drives(1) => Format::Csr,
        (_, (1, 1)) => coded(a),
        ((1, 1), _) => coded(b),
        _ => Format::Dense,
    };
    Ok(Size { shape, format, filled })
}

/// Tells whether a binary operator gives 0 if the first input is 0 (`a`), the second is 0 (`b`), or both are. `x` and
/// `y` are the values of inputs that are literals.
pub(crate) fn zero_if(binary: Binary, a: bool, b: bool, x: Option<f64>, y: Option<f64>) -> bool {
    // The known value of an input: 0 if it is assumed to be 0, or a literal's value.
    let x = if a { Some(0.0) } else { x };
    let y = if b { Some(0.0) } else { y };
    if binary == Binary::Multiply {
        return x == Some(0.0) || y == Some(0.0);
    }
    match (x, y) {
        (Some(x), Some(y)) => binary.apply(x, y) == 0.0,
        _ => false,
    }
}
