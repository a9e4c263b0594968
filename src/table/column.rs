//! Columns of numbers in the caller's memory. Each has a type and a stride of its own, and nothing is copied.

use half::{bf16, f16};

use super::Number;
use crate::{
    error::{Error, Result},
    prefetch::prefetch,
};

/// The values of a [`Column`]. A double represents every value of these types exactly.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each variant is named after its type")]
pub enum ColumnValues<'a> {
    F64(&'a [f64]),
    F32(&'a [f32]),
    F16(&'a [f16]),
    Bf16(&'a [bf16]),
    I32(&'a [i32]),
    I16(&'a [i16]),
    I8(&'a [i8]),
    U32(&'a [u32]),
    U16(&'a [u16]),
    U8(&'a [u8]),
    Bool(&'a [bool]),
}

macro_rules! values {
    ($($variant:ident $t:ty)*) => {
        $(impl<'a> From<&'a [$t]> for ColumnValues<'a> {
            fn from(values: &'a [$t]) -> Self {
                Self::$variant(values)
            }
        })*

        impl ColumnValues<'_> {
            /// Returns the number of values.
            pub fn len(&self) -> usize {
                match self {
                    $(Self::$variant(values) => values.len(),)*
                }
            }

            /// Returns whether there is no value.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Fetches adjacent values into the second-level cache, as many as there are.
            fn prefetch(&self, from: usize, count: usize) {
                match self {
                    $(Self::$variant(values) => prefetch(values, from, count),)*
                }
            }

            /// Reads every `stride`th value from `from` on.
            fn read<T: Number>(&self, [from, stride]: [usize; 2], into: &mut [T]) {
                match self {
                    $(Self::$variant(values) => read(values, [from, stride], into, |v| T::cast(v.into())),)*
                }
            }
        }
    };
}
values!(F64 f64 F32 f32 F16 f16 Bf16 bf16 I32 i32 I16 i16 I8 i8 U32 u32 U16 u16 U8 u8 Bool bool);

#[inline(always)]
fn read<V: Copy, T>(values: &[V], [from, stride]: [usize; 2], into: &mut [T], cast: impl Fn(V) -> T) {
    if stride == 1 {
        values[from..][..into.len()].iter().zip(into).for_each(|(value, into)| *into = cast(*value));
        return;
    }
    for (row, into) in into.iter_mut().enumerate() {
        *into = cast(values[from + row * stride]);
    }
}

/// The maximum number of columns of a matrix. A matrix without rows may claim any number.
const MOST_COLUMNS: usize = 1 << 24;

/// A bitmap of the rows that have a value, a bit for each row, as in Arrow.
#[derive(Clone, Copy, Debug)]
struct Validity<'a> {
    bits: &'a [u8],
    /// The bit of the first row.
    offset: usize,
}

impl Validity<'_> {
    /// Returns the bits of eight rows, the first row's lowest. Bits past the end are 0.
    fn eight(&self, row: usize) -> u8 {
        let (byte_at, shift) = ((self.offset + row) / 8, (self.offset + row) % 8);
        let byte = |at: usize| self.bits.get(at).map_or(0, |byte| u16::from(*byte));
        ((byte(byte_at) | byte(byte_at + 1) << 8) >> shift) as u8
    }
}

/// A column of numbers in the caller's memory. Columns of one table may have different types.
///
/// ```
/// use fangorn::{Predictor, import, table::Column};
///
/// let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/churn");
/// let forest = import::load(format!("{folder}/model.ubj").as_ref(), &Default::default())?;
/// let predictor = Predictor::new(&forest)?;
/// // Three rows: the first column has whole numbers, the others floats, of which the second row has none.
/// let (whole, floats) = ([30i32, 40, 50], [0.5f32; 3]);
/// let mut columns = vec![Column::new(&whole[..])];
/// for _ in 1..forest.features.len() {
///     columns.push(Column::new(&floats[..]).with_validity(&[0b101], 0)?);
/// }
/// assert_eq!(predictor.values_of_columns(&columns)?.len(), 3 * predictor.width());
/// # Ok::<(), fangorn::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Column<'a> {
    values: ColumnValues<'a>,
    rows: usize,
    from: usize,
    stride: usize,
    validity: Option<Validity<'a>>,
}

impl<'a> Column<'a> {
    /// Returns a column with a value for each row.
    pub fn new(values: impl Into<ColumnValues<'a>>) -> Self {
        let values = values.into();
        Self { values, rows: values.len(), from: 0, stride: 1, validity: None }
    }

    /// Returns a column of `rows` rows, whose values are every `stride`th value from index `from` on.
    ///
    /// # Errors
    /// The last row lies past the end of the values.
    pub fn strided(
        values: impl Into<ColumnValues<'a>>,
        rows: usize,
        from: usize,
        stride: usize,
    ) -> Result<Self> {
        let values = values.into();
        let last = |rows: usize| rows.checked_mul(stride)?.checked_add(from);
        let fits = rows.checked_sub(1).is_none_or(|rows| last(rows).is_some_and(|last| last < values.len()));
        match fits {
            true => Ok(Self { values, rows, from, stride, validity: None }),
            false => Err(Error::Rows(format!(
                "a column of {rows} rows from value {from} on, {stride} apart, reaches past the {} values given",
                values.len()
            ))),
        }
    }

    /// Returns the columns of a matrix. Value `(r, c)` is at `r * strides[0] + c * strides[1]`.
    ///
    /// # Errors
    /// The shape and the strides reach past the end of the values, or there are too many columns.
    pub fn of_matrix(
        values: impl Into<ColumnValues<'a>>,
        [rows, columns]: [usize; 2],
        strides: [usize; 2],
    ) -> Result<Vec<Self>> {
        let values = values.into();
        let column = |c: usize| Self::strided(values, rows, c.saturating_mul(strides[1]), strides[0]);
        // The last column is checked first, so that no list is made for a number of columns that does not fit.
        columns.checked_sub(1).map(column).transpose()?;
        if columns > MOST_COLUMNS {
            return Err(Error::Rows(format!("{columns} columns, at most {MOST_COLUMNS} are taken")));
        }
        (0..columns).map(column).collect()
    }

    /// Sets which rows have a value: those whose bit is 1, from bit `offset` on, the least significant bit of a byte
    /// first. The others are missing.
    ///
    /// # Errors
    /// There are fewer bits than rows.
    pub fn with_validity(self, bits: &'a [u8], offset: usize) -> Result<Self> {
        match offset.checked_add(self.rows).is_some_and(|end| end <= bits.len().saturating_mul(8)) {
            true => Ok(Self { validity: Some(Validity { bits, offset }), ..self }),
            false => Err(Error::Rows(format!(
                "{} bytes of validity from bit {offset} on, the column has {} rows",
                bits.len(),
                self.rows
            ))),
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns whether an `f32` represents every value of the column's type exactly.
    pub fn holds_singles(&self) -> bool {
        !matches!(self.values, ColumnValues::F64(_) | ColumnValues::I32(_) | ColumnValues::U32(_))
    }

    /// Fetches the values of `count` rows from `first` on, if they are adjacent.
    pub(crate) fn prefetch(&self, first: usize, count: usize) {
        if self.stride == 1 {
            self.values.prefetch(self.from + first, count);
        }
    }

    /// Returns `count` adjacent values of `f32` from row `first` on, if none of them can be missing.
    pub(crate) fn lend_singles(&self, first: usize, count: usize) -> Option<&'a [f32]> {
        let ColumnValues::F32(values) = self.values else { return None };
        self.lend(values, first, count)
    }

    /// Returns `count` adjacent values of `f64` from row `first` on, if none of them can be missing.
    pub(crate) fn lend_doubles(&self, first: usize, count: usize) -> Option<&'a [f64]> {
        let ColumnValues::F64(values) = self.values else { return None };
        self.lend(values, first, count)
    }

    fn lend<V>(&self, values: &'a [V], first: usize, count: usize) -> Option<&'a [V]> {
        let values = values.get(self.from + first..)?.get(..count)?;
        Some(values).filter(|_| self.stride == 1 && self.validity.is_none())
    }

    /// Reads as many rows from `first` on as `into` has room for. A missing value is NaN. If the column ends before
    /// `into` does, the rest of `into` stays as it is.
    pub fn read<T: Number>(&self, first: usize, into: &mut [T]) {
        let count = self.rows.saturating_sub(first).min(into.len());
        if count == 0 {
            return;
        }
        let into = &mut into[..count];
        self.values.read([self.from + first * self.stride, self.stride], into);
        if let Some(validity) = &self.validity {
            for (eighth, into) in into.chunks_mut(8).enumerate() {
                let bits = validity.eight(first + 8 * eighth);
                if bits == u8::MAX {
                    continue;
                }
                let missing = into.iter_mut().enumerate().filter(|(row, _)| bits >> row & 1 == 0);
                missing.for_each(|(_, into)| *into = T::cast(f64::NAN));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Column, bf16, f16};

    #[track_caller]
    fn is_read(column: Column<'_>, wanted: &[f64]) {
        for first in 0..=wanted.len() {
            let (mut singles, mut doubles) = (vec![9f32; wanted.len()], vec![9f64; wanted.len()]);
            column.read(first, &mut singles);
            column.read(first, &mut doubles);
            let count = wanted.len() - first;
            let same = |a: f64, b: f64| a == b || a.is_nan() && b.is_nan();
            assert!(doubles[..count].iter().zip(&wanted[first..]).all(|(a, b)| same(*a, *b)), "{doubles:?}");
            assert!(
                singles[..count]
                    .iter()
                    .zip(&wanted[first..])
                    .all(|(a, b)| same((*a).into(), *b as f32 as f64)),
                "{singles:?}"
            );
            assert!(doubles[count..].iter().all(|v| *v == 9.0));
        }
    }

    #[test]
    fn every_type_is_read_exactly() {
        is_read(Column::new(&[1e300, f64::NAN, 0.1][..]), &[1e300, f64::NAN, 0.1]);
        is_read(Column::new(&[f32::MAX, -0.5][..]), &[f64::from(f32::MAX), -0.5]);
        is_read(Column::new(&[f16::MAX, f16::from_f32(0.1)][..]), &[65504.0, f16::from_f32(0.1).into()]);
        is_read(Column::new(&[bf16::MAX, bf16::from_f32(0.1)][..]), &[bf16::MAX.into(), 0.10009765625]);
        is_read(Column::new(&[i32::MIN, i32::MAX][..]), &[-2147483648.0, 2147483647.0]);
        is_read(Column::new(&[i16::MIN, i16::MAX][..]), &[-32768.0, 32767.0]);
        is_read(Column::new(&[i8::MIN, i8::MAX][..]), &[-128.0, 127.0]);
        is_read(Column::new(&[u32::MAX, 0][..]), &[4294967295.0, 0.0]);
        is_read(Column::new(&[u16::MAX, 0][..]), &[65535.0, 0.0]);
        is_read(Column::new(&[u8::MAX, 0][..]), &[255.0, 0.0]);
        is_read(Column::new(&[true, false][..]), &[1.0, 0.0]);
    }

    #[test]
    fn strides_and_missing_values() {
        let values: Vec<i16> = (0..12).collect();
        let columns = Column::of_matrix(&values[..], [4, 3], [3, 1]).expect("a matrix");
        is_read(columns[2], &[2.0, 5.0, 8.0, 11.0]);
        let columns = Column::of_matrix(&values[..], [4, 3], [1, 4]).expect("a matrix by columns");
        is_read(columns[1], &[4.0, 5.0, 6.0, 7.0]);
        // Rows 1 and 3 are missing; the bits begin at bit 6 of the first byte.
        let missing = columns[0].with_validity(&[0b0100_0000, 0b01], 6).expect("bits for all rows");
        is_read(missing, &[0.0, f64::NAN, 2.0, f64::NAN]);
    }

    /// Any bits, at any offset, the last of them at the end of the bitmap.
    #[test]
    fn every_row_has_its_own_validity() {
        let values: Vec<f32> = (0..41).map(|i| i as f32).collect();
        let bits: Vec<u8> =
            (0..7u8).map(|i| [0xff, 0x00, 0xb7, 0x01][usize::from(i % 4)] ^ (i / 4)).collect();
        for offset in 0..8usize {
            for rows in [1, 2, 7, 8, 9, 15, 16, 17, 24, 33, 40, 41] {
                let bits = &bits[..(offset + rows).div_ceil(8)];
                let has = |row: usize| bits[(offset + row) / 8] >> ((offset + row) % 8) & 1 == 1;
                let wanted: Vec<f64> = (0..rows).map(|r| if has(r) { r as f64 } else { f64::NAN }).collect();
                let column =
                    Column::new(&values[..rows]).with_validity(bits, offset).expect("bits for all rows");
                is_read(column, &wanted);
                assert!(column.lend_singles(0, rows).is_none());
            }
        }
        let column = Column::new(&values[..]);
        assert_eq!(column.lend_singles(3, 4), Some(&values[3..7]));
        assert!(column.lend_singles(38, 4).is_none() && column.lend_doubles(0, 1).is_none());
        assert!(Column::strided(&values[..], 5, 0, 2).expect("five rows").lend_singles(0, 2).is_none());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let values = [0f32; 12];
        assert!(Column::strided(&values[..], 4, 0, 4).is_err());
        assert!(Column::strided(&values[..], 4, 2, 3).is_ok());
        assert!(Column::strided(&values[..], 4, 3, 3).is_err());
        assert!(Column::strided(&values[..], usize::MAX, 1, usize::MAX).is_err());
        assert!(Column::strided(&values[..], 0, 99, 3).is_ok());
        assert!(Column::of_matrix(&values[..], [4, usize::MAX], [3, 1]).is_err());
        assert!(Column::of_matrix(&values[..], [0, usize::MAX], [3, 1]).is_err());
        assert!(Column::new(&values[..]).with_validity(&[0xff], 0).is_err());
        assert!(Column::new(&values[..]).with_validity(&[0xff, 0xff], 5).is_err());
        assert!(Column::new(&values[..]).with_validity(&[0xff, 0xff], usize::MAX).is_err());
        assert!(Column::new(&values[..]).with_validity(&[0xff, 0xff], 4).is_ok());
    }
}
