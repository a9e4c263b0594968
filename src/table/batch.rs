//! Reads batches of Arrow as the rows of a forest.

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, RecordBatch, cast::AsArray,
    downcast_dictionary_array, types,
};
use arrow_schema::{DataType, Field, Schema};
use half::f16;

use super::{
    CategoryValue, CellReader, Column, ColumnNames, ColumnValues, Number, TableError, ValueKind,
    lost::{LOST_CATEGORIES, SAVE_CATEGORIES, lost_categories},
    names::{NameMismatch, first_names},
};
use crate::forest::Forest;

/// How the columns of a table are matched to a model's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ColumnMatch {
    /// By their names. If the model's columns have no names of their own, the table must have as many columns,
    /// in the model's order.
    #[default]
    ByName,
    /// By their order, whatever their names.
    ByPosition,
}

/// Reads batches of one schema as rows of a forest.
///
/// | column | becomes |
/// |---|---|
/// | integers, floats, truth values | the same number; an integer that no double represents exactly is refused |
/// | decimals | the nearest double; refused if the digits are a number above 2^53 or the scale is above 22 |
/// | texts | a category's number, if the model's file has the categories; compared as they are |
/// | null, and a column of nulls | a missing value |
/// | dictionaries | what their values become |
///
/// A column of a struct has the name `struct.column`.
///
/// ```
/// use std::sync::Arc;
///
/// use arrow_array::{ArrayRef, Float64Array, Int32Array, RecordBatch};
/// use fangorn::{
///     Forest,
///     forest::Feature,
///     table::{BatchReader, ColumnMatch},
/// };
///
/// let mut forest = Forest::builder(2, 1).build()?;
/// forest.features[0].name = Some("age".into());
/// forest.features[1].name = Some("pay".into());
/// let pay: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.5), None]));
/// let age: ArrayRef = Arc::new(Int32Array::from(vec![30, 40]));
/// let batch = RecordBatch::try_from_iter([("pay", pay), ("age", age)])?;
/// let reader = BatchReader::new(&forest, &batch.schema(), ColumnMatch::ByName)?;
/// let rows: Vec<f32> = reader.rows(&batch)?;
/// assert_eq!(rows[..3], [30.0, 1.5, 40.0]);
/// assert!(rows[3].is_nan());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct BatchReader<'f> {
    columns: Vec<Source<'f>>,
    left_out: Vec<String>,
}

/// Where a batch has a column of the model, and how its values are read.
#[derive(Clone, Debug)]
struct Source<'f> {
    name: String,
    /// The index of the column, followed by the index of each child in the struct before it.
    path: Vec<usize>,
    dtype: DataType,
    reader: CellReader<'f>,
}

impl<'f> BatchReader<'f> {
    /// Finds the model's columns in a schema.
    ///
    /// # Errors
    /// The schema lacks columns of the model, has one twice, or has one of a type that is not read.
    pub fn new(forest: &'f Forest, schema: &Schema, by: ColumnMatch) -> Result<Self, TableError> {
        let leaves = leaf_columns(schema);
        let indices = indices(forest, &leaves, by)?;
        let mut taken = vec![false; leaves.len()];
        let mut columns = Vec::with_capacity(indices.len());
        for (at, (index, feature)) in indices.into_iter().zip(&forest.features).enumerate() {
            taken[index] = true;
            let LeafColumn { name, path, dtype } = leaves[index].clone();
            let reader = CellReader::of(feature);
            check_type(&name, &dtype, &reader, &|| lost_categories(forest, at))?;
            columns.push(Source { name, path, dtype, reader });
        }
        let left_out =
            leaves.into_iter().zip(&taken).filter(|(_, taken)| !**taken).map(|(leaf, _)| leaf.name);
        Ok(Self { columns, left_out: left_out.collect() })
    }

    /// Returns the names of the table's columns that the model does not read.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Returns the indices of the table's columns that the model reads, in ascending order. A file's reader
    /// need not decode the others.
    pub fn roots(&self) -> Vec<usize> {
        let mut roots: Vec<usize> = self.columns.iter().map(|source| source.path[0]).collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// Returns, for each of the model's columns in order, the index of the table's column that it is. Returns
    /// `None` if one is inside a struct.
    pub fn indices(&self) -> Option<Vec<usize>> {
        let index = |source: &Source<'_>| match source.path[..] {
            [index] => Some(index),
            _ => None,
        };
        self.columns.iter().map(index).collect()
    }

    /// Returns the number of values in a row.
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// Returns a reader of batches that hold the table's columns at other indices. `index` returns the new
    /// index of a column for the old one.
    pub fn moved(mut self, index: impl Fn(usize) -> usize) -> Self {
        self.columns.iter_mut().for_each(|source| source.path[0] = index(source.path[0]));
        self
    }

    /// Returns a reader of batches that hold the table's columns elsewhere. `path` returns where a column is, for its old
    /// index: an index, followed by the index of each child in the struct before it.
    pub fn located(mut self, path: impl Fn(usize) -> Vec<usize>) -> Self {
        self.columns.iter_mut().for_each(|source| source.path = path(source.path[0]));
        self
    }

    /// Returns whether the types of the model's columns make sure that an `f32` represents every value exactly.
    pub fn holds_singles(&self) -> bool {
        self.columns.iter().all(Source::holds_singles)
    }

    /// Returns the model's columns of a batch, in the model's order. Most arrays of numbers are not copied.
    ///
    /// # Errors
    /// The batch has another schema, a value is a number that a double can't represent exactly, or a category
    /// that the model's producer refuses. The error names the column and the row.
    pub fn columns(&self, batch: &RecordBatch) -> Result<BatchColumns, TableError> {
        let column = |source: &Source<'_>| {
            let array = source.array(batch)?;
            if !source.reader.has_codes() && is_number(array.data_type()) {
                return Ok(BatchColumn::Array(array));
            }
            Ok(match source.holds_singles() {
                true => BatchColumn::Singles(source.values(&array)?),
                false => BatchColumn::Doubles(source.values(&array)?),
            })
        };
        self.columns.iter().map(column).collect::<Result<_, _>>().map(BatchColumns)
    }

    /// Returns the rows of a batch, row after row.
    ///
    /// # Errors
    /// Those of [`columns`](Self::columns).
    pub fn rows<T: Number>(&self, batch: &RecordBatch) -> Result<Vec<T>, TableError> {
        let width = self.columns.len();
        let mut rows = vec![T::cast(0.0); batch.num_rows() * width];
        let mut values = vec![T::cast(0.0); batch.num_rows()];
        for (at, column) in self.columns(batch)?.columns().iter().enumerate() {
            column.read(0, &mut values);
            let elements = rows.iter_mut().skip(at).step_by(width);
            elements.zip(&values).for_each(|(element, value)| *element = *value);
        }
        Ok(rows)
    }
}

/// The model's columns of a batch, in the model's order.
#[derive(Clone, Debug)]
pub struct BatchColumns(Vec<BatchColumn>);

#[derive(Clone, Debug)]
enum BatchColumn {
    /// Numbers of a type of [`ColumnValues`].
    Array(ArrayRef),
    Singles(Vec<f32>),
    Doubles(Vec<f64>),
}

impl BatchColumns {
    /// Returns the columns, for [`Predictor::values_of_columns`](crate::Predictor::values_of_columns).
    pub fn columns(&self) -> Vec<Column<'_>> {
        self.0.iter().map(BatchColumn::column).collect()
    }
}

impl BatchColumn {
    fn column(&self) -> Column<'_> {
        match self {
            Self::Array(array) => of_numbers(array),
            Self::Singles(values) => Column::new(&values[..]),
            Self::Doubles(values) => Column::new(&values[..]),
        }
    }
}

/// Returns whether [`of_numbers`] takes arrays of a type.
fn is_number(dtype: &DataType) -> bool {
    matches!(
        dtype,
        DataType::Float64
            | DataType::Float32
            | DataType::Float16
            | DataType::Int32
            | DataType::Int16
            | DataType::Int8
            | DataType::UInt32
            | DataType::UInt16
            | DataType::UInt8
    )
}

/// Returns an array of numbers as a column.
fn of_numbers(array: &ArrayRef) -> Column<'_> {
    fn column<'a, A: ArrowPrimitiveType>(array: &'a ArrayRef) -> Column<'a>
    where
        &'a [A::Native]: Into<ColumnValues<'a>>,
    {
        Column::new(&array.as_primitive::<A>().values()[..])
    }
    let column = match array.data_type() {
        DataType::Float64 => column::<types::Float64Type>(array),
        DataType::Float32 => column::<types::Float32Type>(array),
        DataType::Float16 => column::<types::Float16Type>(array),
        DataType::Int32 => column::<types::Int32Type>(array),
        DataType::Int16 => column::<types::Int16Type>(array),
        DataType::Int8 => column::<types::Int8Type>(array),
        DataType::UInt32 => column::<types::UInt32Type>(array),
        DataType::UInt16 => column::<types::UInt16Type>(array),
        DataType::UInt8 => column::<types::UInt8Type>(array),
        other => unreachable!("{other} is none of `is_number`"),
    };
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        // Arrow has a bit for each row.
        Some(nulls) => column.with_validity(nulls.validity(), nulls.offset()).unwrap_or(column),
        None => column,
    }
}

/// Returns a column of a batch, which may be inside a struct. `path` has the index of the column, followed by the index
/// of each child in the struct before it. A field of a null struct is null. Returns `None` if the batch has no such
/// column.
///
/// ```
/// use std::sync::Arc;
///
/// use arrow_array::{ArrayRef, Int32Array, RecordBatch, StructArray};
/// use arrow_schema::{DataType, Field};
/// use fangorn::table::nested_column;
///
/// let zip: ArrayRef = Arc::new(Int32Array::from(vec![10, 20]));
/// let address = StructArray::from(vec![(Arc::new(Field::new("zip", DataType::Int32, true)), zip.clone())]);
/// let batch = RecordBatch::try_from_iter([("address", Arc::new(address) as ArrayRef)])?;
/// assert_eq!(nested_column(&batch, &[0, 0]), Some(zip));
/// assert_eq!(nested_column(&batch, &[0, 1]), None);
/// # Ok::<(), arrow_schema::ArrowError>(())
/// ```
pub fn nested_column(batch: &RecordBatch, path: &[usize]) -> Option<ArrayRef> {
    let (root, children) = path.split_first()?;
    let mut array = batch.columns().get(*root)?.clone();
    for child in children {
        let parent = array.as_struct_opt()?;
        let column = parent.columns().get(*child)?.clone();
        array = match parent.nulls() {
            Some(nulls) => {
                let missing = BooleanArray::new(!nulls.inner(), None);
                arrow_select::nullif::nullif(&column, &missing).ok()?
            }
            None => column,
        };
    }
    Some(array)
}

/// A column of a schema that is no struct.
#[derive(Clone, Debug, PartialEq)]
pub struct LeafColumn {
    /// Its name, after the names of the structs around it, each with a point.
    pub name: String,
    /// The index of the schema's column that has it, followed by the index of each child in the struct before it.
    pub path: Vec<usize>,
    /// Its type.
    pub dtype: DataType,
}

/// Returns the columns of a schema, and in place of each struct its fields.
///
/// ```
/// use arrow_schema::{DataType, Field, Schema};
/// use fangorn::table::leaf_columns;
///
/// let zip = Field::new("zip", DataType::Int32, true);
/// let address = Field::new("address", DataType::Struct(vec![zip].into()), true);
/// let leaves = leaf_columns(&Schema::new(vec![Field::new("age", DataType::Float32, true), address]));
/// assert_eq!((leaves[1].name.as_str(), &leaves[1].path[..]), ("address.zip", &[1, 0][..]));
/// ```
pub fn leaf_columns(schema: &Schema) -> Vec<LeafColumn> {
    let mut leaves = Vec::new();
    for (at, field) in schema.fields().iter().enumerate() {
        flatten(field, String::new(), vec![at], &mut leaves);
    }
    leaves
}

/// The maximum depth of nested structs whose fields are read.
const MOST_NESTED: usize = 64;

fn flatten(field: &Field, before: String, path: Vec<usize>, leaves: &mut Vec<LeafColumn>) {
    let name = before + field.name();
    match field.data_type() {
        DataType::Struct(fields) if path.len() < MOST_NESTED => {
            for (at, field) in fields.iter().enumerate() {
                let path = path.iter().copied().chain([at]).collect();
                flatten(field, format!("{name}."), path, leaves);
            }
        }
        dtype => leaves.push(LeafColumn { name, path, dtype: dtype.clone() }),
    }
}

/// Returns the index of each of the model's columns among a schema's.
fn indices(forest: &Forest, leaves: &[LeafColumn], by: ColumnMatch) -> Result<Vec<usize>, TableError> {
    let columns = forest.features.len();
    let table = || leaves.iter().map(|leaf| leaf.name.as_str());
    let in_order = || match leaves.len() == columns {
        true => Ok((0..columns).collect()),
        false => Err(TableError::of_table(
            format!("the table has {} columns, the model was trained on {columns}", leaves.len()),
            "give all its columns in order",
        )),
    };
    if by == ColumnMatch::ByPosition {
        return in_order();
    }
    let names = ColumnNames::of(forest);
    if !names.names().is_empty() {
        match names.indices(table()) {
            Ok(indices) => return Ok(indices),
            Err(mismatch) if names.are_chosen() || names.any_of(table()) => {
                let remedy = match &mismatch {
                    NameMismatch::Missing(_) => {
                        let has: Vec<&str> = table().collect();
                        format!(
                            "rename columns of the table ({}), or take them by position if they are in the model's order",
                            first_names(&has)
                        )
                    }
                    NameMismatch::Doubled(_) => "keep one of each".into(),
                };
                return Err(TableError::of_table(mismatch.to_string(), remedy));
            }
            Err(_) => {}
        }
    }
    let made_up = ColumnNames::made_up(columns).find_map(|names| names.indices(table()).ok());
    made_up.map_or_else(in_order, Ok)
}

/// Returns whether an `f32` represents every value of a type exactly.
fn is_single(dtype: &DataType) -> bool {
    match dtype {
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::UInt8
        | DataType::UInt16
        | DataType::Float16
        | DataType::Float32 => true,
        DataType::Dictionary(_, values) => is_single(values),
        _ => false,
    }
}

fn is_text(dtype: &DataType) -> bool {
    matches!(dtype, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Checks that a column's type is read. `lost` says whether XGBoost lost the names of its categories.
fn check_type(
    column: &str,
    dtype: &DataType,
    reader: &CellReader<'_>,
    lost: &dyn Fn() -> bool,
) -> Result<(), TableError> {
    const NUMBERS: &str = "cast the column to the numbers that the model was trained on";
    let refused = |what: &str, remedy: &str| {
        Err(TableError::of_column(column, None, format!("it holds {what}"), remedy))
    };
    match dtype {
        DataType::Dictionary(_, values) if !matches!(**values, DataType::Dictionary(..)) => {
            check_type(column, values, reader, lost)
        }
        DataType::Null => Ok(()),
        text if is_text(text) => match reader.has_codes() {
            true => match reader.refusal(ValueKind::Texts) {
                Some([what, remedy]) => refused(what, remedy),
                None => Ok(()),
            },
            false if lost() => {
                let remedy = format!("write the numbers of the categories, or {SAVE_CATEGORIES}");
                refused(&format!("texts, and {LOST_CATEGORIES}"), &remedy)
            }
            false => refused("texts, and the model's file names no categories for them", NUMBERS),
        },
        // Where they are no categories, a value is refused, and a column of nulls is not: pandas writes one as floats.
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..) => Ok(()),
        DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_)
        | DataType::Interval(_) => {
            refused(&format!("values of type {dtype}, for which no model has a number of its own"), NUMBERS)
        }
        other => refused(
            &format!("values of type {other}, which are not read"),
            "cast the column to float, or to a column for each number",
        ),
    }
}

impl Source<'_> {
    /// Returns whether the column's type makes sure that an `f32` represents every value exactly.
    fn holds_singles(&self) -> bool {
        self.reader.has_codes() || is_single(&self.dtype)
    }

    /// Returns the value of each row.
    fn values<T: Number>(&self, array: &ArrayRef) -> Result<Vec<T>, TableError> {
        let mut values = vec![f64::NAN; array.len()];
        self.read(array, &mut values)?;
        Ok(values.into_iter().map(T::cast).collect())
    }

    fn array(&self, batch: &RecordBatch) -> Result<ArrayRef, TableError> {
        let array = nested_column(batch, &self.path).filter(|array| *array.data_type() == self.dtype);
        array.ok_or_else(|| {
            let cause = "the batch has another schema than the table";
            TableError::of_column(&self.name, None, cause, "make a reader for each schema")
        })
    }

    /// Writes the value of each row into `out`, which has NaN for each row.
    fn read(&self, array: &ArrayRef, out: &mut [f64]) -> Result<(), TableError> {
        match array.data_type() {
            DataType::Dictionary(..) => self.read_dictionary(array, out),
            _ => self.read_plain(array, out),
        }
    }

    /// Reads an array that is no dictionary.
    fn read_plain(&self, array: &ArrayRef, out: &mut [f64]) -> Result<(), TableError> {
        match array.data_type() {
            DataType::Null => Ok(()),
            DataType::Utf8 => self.read_texts(array.as_string::<i32>(), out),
            DataType::LargeUtf8 => self.read_texts(array.as_string::<i64>(), out),
            DataType::Utf8View => self.read_texts(array.as_string_view(), out),
            DataType::Boolean => {
                for ((row, value), out) in array.as_boolean().iter().enumerate().zip(out) {
                    if let Some(value) = value {
                        *out = match self.reader.has_codes() {
                            true => self.category(row, CategoryValue::Truth(value))?,
                            false => f64::from(u8::from(value)),
                        };
                    }
                }
                Ok(())
            }
            DataType::Int8 => self.read_numbers::<types::Int8Type>(array, out),
            DataType::Int16 => self.read_numbers::<types::Int16Type>(array, out),
            DataType::Int32 => self.read_numbers::<types::Int32Type>(array, out),
            DataType::Int64 => self.read_numbers::<types::Int64Type>(array, out),
            DataType::UInt8 => self.read_numbers::<types::UInt8Type>(array, out),
            DataType::UInt16 => self.read_numbers::<types::UInt16Type>(array, out),
            DataType::UInt32 => self.read_numbers::<types::UInt32Type>(array, out),
            DataType::UInt64 => self.read_numbers::<types::UInt64Type>(array, out),
            DataType::Float16 => self.read_numbers::<types::Float16Type>(array, out),
            DataType::Float32 => self.read_numbers::<types::Float32Type>(array, out),
            DataType::Float64 => self.read_numbers::<types::Float64Type>(array, out),
            DataType::Decimal32(_, scale) => self.read_decimals::<types::Decimal32Type>(array, out, *scale),
            DataType::Decimal64(_, scale) => self.read_decimals::<types::Decimal64Type>(array, out, *scale),
            DataType::Decimal128(_, scale) => self.read_decimals::<types::Decimal128Type>(array, out, *scale),
            other => {
                let cause = format!("it holds values of type {other}, which are not read");
                Err(TableError::of_column(&self.name, None, cause, "cast the column to float"))
            }
        }
    }

    /// Reads each value of a dictionary once, if a row has it.
    fn read_dictionary(&self, array: &ArrayRef, out: &mut [f64]) -> Result<(), TableError> {
        downcast_dictionary_array!(
            array => {
                let values = array.values();
                // The first row that has each value, for the message if the value is refused.
                let mut firsts: Vec<Option<usize>> = vec![None; values.len()];
                let keys = || array.keys().iter().enumerate();
                for (row, key) in keys() {
                    if let Some(first) = key.and_then(|key| firsts.get_mut(key as usize)) {
                        first.get_or_insert(row);
                    }
                }
                let mut numbers = vec![f64::NAN; values.len()];
                for (at, first) in firsts.iter().enumerate() {
                    if let Some(row) = first {
                        let read = self.read_plain(&values.slice(at, 1), &mut numbers[at..=at]);
                        read.map_err(|error| error.in_row(*row))?;
                    }
                }
                for ((_, key), out) in keys().zip(out) {
                    *out = key.and_then(|key| numbers.get(key as usize).copied()).unwrap_or(f64::NAN);
                }
                Ok(())
            },
            _ => Ok(())
        )
    }

    fn read_texts<'t>(
        &self,
        texts: impl IntoIterator<Item = Option<&'t str>>,
        out: &mut [f64],
    ) -> Result<(), TableError> {
        for ((row, text), out) in texts.into_iter().enumerate().zip(out) {
            if let Some(text) = text {
                *out = self.category(row, CategoryValue::Text(text))?;
            }
        }
        Ok(())
    }

    fn read_numbers<A: ArrowPrimitiveType>(&self, array: &ArrayRef, out: &mut [f64]) -> Result<(), TableError>
    where
        A::Native: TableNumber,
    {
        let array = array.as_primitive::<A>();
        self.read_values(array, out, |value| (value.number(), Some(value.category())))
    }

    fn read_decimals<A: ArrowPrimitiveType>(
        &self,
        array: &ArrayRef,
        out: &mut [f64],
        scale: i8,
    ) -> Result<(), TableError>
    where
        A::Native: Into<i128>,
    {
        let array = array.as_primitive::<A>();
        self.read_values(array, out, |value| {
            let number = decimal(value.into(), scale);
            (number, number.map(CategoryValue::Float))
        })
    }

    /// Reads the values of an array. `read` returns a value as a double and as a category, if it is one.
    fn read_values<A: ArrowPrimitiveType>(
        &self,
        array: &PrimitiveArray<A>,
        out: &mut [f64],
        read: impl Fn(A::Native) -> (Option<f64>, Option<CategoryValue<'static>>),
    ) -> Result<(), TableError> {
        let inexact = |row: usize, value: A::Native| {
            let cause = format!("{value:?} has more digits than a double holds");
            TableError::of_column(&self.name, Some(row), cause, "round it as the training data was rounded")
        };
        if array.null_count() == 0 && !self.reader.has_codes() {
            for ((row, value), out) in array.values().iter().enumerate().zip(out) {
                *out = read(*value).0.ok_or_else(|| inexact(row, *value))?;
            }
            return Ok(());
        }
        for ((row, value), out) in array.iter().enumerate().zip(out) {
            let Some(value) = value else { continue };
            let (number, category) = read(value);
            *out = match self.reader.has_codes() {
                true => self.category(row, category.ok_or_else(|| inexact(row, value))?)?,
                false => number.ok_or_else(|| inexact(row, value))?,
            };
        }
        Ok(())
    }

    /// Returns the number of a category.
    fn category(&self, row: usize, value: CategoryValue<'_>) -> Result<f64, TableError> {
        if let Some([what, remedy]) = self.reader.refusal(value.kind())
            && !matches!(value, CategoryValue::Float(value) if value.is_nan())
        {
            return Err(TableError::of_column(&self.name, None, format!("it holds {what}"), remedy));
        }
        self.reader.category(value).ok_or_else(|| {
            let text: String = value.text().chars().take(40).collect();
            let cause = format!("`{text}` is no category of the model, and its producer refuses such rows");
            TableError::of_column(
                &self.name,
                Some(row),
                cause,
                "write null, or a category of the training data",
            )
        })
    }
}

/// A number of Arrow.
trait TableNumber: Copy {
    /// Returns the double that represents the number exactly, if there is one.
    fn number(self) -> Option<f64>;

    /// Returns the number as a category.
    fn category(self) -> CategoryValue<'static>;
}

macro_rules! table_numbers {
    ($category:ident, $number:expr, $($t:ty)*) => {
        $(impl TableNumber for $t {
            fn number(self) -> Option<f64> {
                $number(self)
            }

            fn category(self) -> CategoryValue<'static> {
                CategoryValue::$category(self.into())
            }
        })*
    };
}
table_numbers!(Whole, |value| Some(f64::from(value)), i8 i16 i32 u8 u16 u32);
table_numbers!(Whole, |value| exact(i128::from(value), value as f64), i64 u64);
table_numbers!(Float, |value| Some(f64::from(value)), f16 f32);
table_numbers!(Float, Some, f64);

/// Returns the double if it equals the integer.
fn exact(integer: i128, double: f64) -> Option<f64> {
    (double as i128 == integer).then_some(double)
}

/// Returns the double nearest to a decimal, or `None` if the decimal has too many digits or too large a scale.
fn decimal(unscaled: i128, scale: i8) -> Option<f64> {
    // Both numbers are exact, so that the quotient or product is the nearest double.
    let unscaled = (unscaled.unsigned_abs() <= 1 << 53).then_some(unscaled as f64)?;
    let power = 10f64.powi(i32::from(scale).abs());
    (scale.unsigned_abs() <= 22).then_some(if scale < 0 { unscaled * power } else { unscaled / power })
}
