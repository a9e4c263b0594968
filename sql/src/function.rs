//! A forest as a scalar function.

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

use arrow::{
    array::{
        Array, ArrayRef, AsArray, BooleanArray, FixedSizeListArray, Float32Array, Int64Array, RecordBatch,
        RecordBatchOptions, StringArray, new_empty_array,
    },
    datatypes::{DataType, Field, FieldRef, Schema},
};
use datafusion::{
    common::{DataFusionError, Result, ScalarValue, exec_datafusion_err, exec_err, plan_err},
    logical_expr::{
        ColumnarValue, Expr, ExprSchemable as _, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, Volatility,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
};
use fangorn::{
    forest::{ClassRule, reference},
    table::{BatchReader, ColumnMatch},
};

use crate::{
    ModelError,
    models::{Model, Models},
    sent::{PlannedModel, SentFunction, SentModel},
};

/// The result of a function for a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForestOutput {
    /// The producer's own prediction.
    Value,
    /// The sum before the objective's transform.
    Margin,
    /// The class.
    Class,
}

impl ForestOutput {
    /// All outputs.
    pub const ALL: [Self; 3] = [Self::Value, Self::Margin, Self::Class];

    fn function(self, by_position: bool) -> &'static str {
        match (self, by_position) {
            (Self::Value, false) => "forest_predict",
            (Self::Value, true) => "forest_predict_by_position",
            (Self::Margin, false) => "forest_margin",
            (Self::Margin, true) => "forest_margin_by_position",
            (Self::Class, false) => "forest_class",
            (Self::Class, true) => "forest_class_by_position",
        }
    }
}

/// An SQL function: `forest_predict`, `forest_margin`, `forest_class`, and each of them by position.
#[derive(Clone, Debug)]
pub struct ForestFunction {
    models: Arc<Models>,
    output: ForestOutput,
    by_position: bool,
    /// Whether column names may differ from the query's when the function runs. If so, it takes no columns by name.
    nameless: bool,
    /// The model that the plan was made for, once the columns are in the model's order.
    planned: Option<PlannedModel>,
    signature: Signature,
}

impl PartialEq for ForestFunction {
    fn eq(&self, other: &Self) -> bool {
        let planned = |function: &Self| function.planned.as_ref().map(PlannedModel::hash);
        Arc::ptr_eq(&self.models, &other.models)
            && (self.output, self.by_position, self.nameless, planned(self))
                == (other.output, other.by_position, other.nameless, planned(other))
    }
}

impl Eq for ForestFunction {}

impl Hash for ForestFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let planned = self.planned.as_ref().map(PlannedModel::hash);
        (Arc::as_ptr(&self.models), self.output, self.by_position, planned).hash(state);
    }
}

impl ForestFunction {
    /// Returns the function of an output, which takes columns in the model's order if `by_position` is set.
    pub fn new(models: Arc<Models>, output: ForestOutput, by_position: bool) -> Self {
        let signature = Signature::variadic_any(Volatility::Immutable);
        Self { models, output, by_position, nameless: false, planned: None, signature }
    }

    /// Returns the function for a session that does not call [`ScalarUDFImpl::simplify`], such as one of another
    /// library that loads the function by `datafusion-ffi`. There the optimizer may rename columns between the plan and
    /// the run. So the function takes the fields of a struct, or columns by position, and refuses columns by name.
    pub fn without_names(self) -> Self {
        Self { nameless: true, ..self }
    }

    /// Returns the form in which the function is sent to another process.
    ///
    /// # Errors
    /// The model is too large to be sent as bytes, and was not loaded from a file.
    pub fn sent(&self) -> Result<SentFunction> {
        let model = match &self.planned {
            None => None,
            Some(PlannedModel::Sent(sent, _)) => Some(sent.as_ref().clone()),
            Some(PlannedModel::Here(model)) => Some(SentModel::of(model, self.returned(model)?)?),
        };
        Ok(SentFunction { output: self.output, by_position: self.by_position, model })
    }

    /// Returns the function that another process sent. Its model joins `models` when the function first predicts.
    pub fn received(models: Arc<Models>, sent: SentFunction) -> Self {
        let planned = sent.model.map(|model| PlannedModel::Sent(Arc::new(model), Arc::default()));
        Self { planned, ..Self::new(models, sent.output, sent.by_position) }
    }

    fn by(&self) -> ColumnMatch {
        if self.by_position { ColumnMatch::ByPosition } else { ColumnMatch::ByName }
    }

    /// Returns an error of execution that begins with the function's name.
    fn refused(&self, error: &dyn std::fmt::Display) -> DataFusionError {
        exec_datafusion_err!("{}: {error}", self.name())
    }

    /// Returns the planned model, or the one that the first argument names.
    fn model(&self, name: Option<&ScalarValue>) -> Result<Arc<Model>> {
        if let Some(planned) = &self.planned {
            return planned.load(&self.models).map_err(|error| match error {
                // Ballista retries a task only after this error.
                ModelError::Unreachable { error: ref cause, .. } => {
                    DataFusionError::IoError(std::io::Error::new(cause.kind(), error.to_string()))
                }
                error => self.refused(&error),
            });
        }
        let name = name.and_then(|name| name.try_as_str().flatten());
        let Some(name) = name else {
            return plan_err!(
                "{}: the first argument is the model's name or its file's path, a text in quotes",
                self.name()
            );
        };
        self.models.get(name).or_else(|error| plan_err!("{}: {error}", self.name()))
    }

    /// Returns the type of the result.
    fn returned(&self, model: &Model) -> Result<DataType> {
        let forest = &model.forest;
        let width = match self.output {
            ForestOutput::Value => forest.transform.width(forest.outputs as usize),
            ForestOutput::Margin => forest.outputs as usize,
            ForestOutput::Class => {
                if forest.classes.rule == ClassRule::None {
                    return plan_err!(
                        "{}: the model is no classifier: its objective {} has no classes; use forest_predict",
                        self.name(),
                        forest.producer.objective
                    );
                }
                return Ok(match forest.classes.integers() {
                    Some(_) => DataType::Int64,
                    None => DataType::Utf8,
                });
            }
        };
        Ok(match i32::try_from(width) {
            Ok(1) => DataType::Float32,
            Ok(width) => list_of(width),
            Err(_) => {
                return plan_err!("{}: the model has {width} outputs, too many for a list", self.name());
            }
        })
    }

    /// Returns the results for a batch of the function's columns.
    fn evaluate(&self, model: &Model, reader: &BatchReader<'_>, batch: &RecordBatch) -> Result<ArrayRef> {
        let columns = reader.columns(batch).map_err(|e| self.refused(&e))?;
        let columns = columns.columns();
        let floats = match self.output {
            ForestOutput::Value => {
                model.predictor.values_of_columns(&columns).map_err(|e| self.refused(&e))?
            }
            ForestOutput::Margin => {
                model.predictor.margins_of_columns(&columns).map_err(|e| self.refused(&e))?
            }
            ForestOutput::Class => {
                let slots = model.predictor.leaf_slots_of_columns(&columns).map_err(|e| self.refused(&e))?;
                return self.classes(model, &slots, batch.num_rows());
            }
        };
        let floats = Arc::new(Float32Array::from(floats));
        match self.returned(model)? {
            DataType::FixedSizeList(item, width) => {
                Ok(Arc::new(FixedSizeListArray::try_new(item, width, floats, None)?))
            }
            _ => Ok(floats),
        }
    }

    /// Returns the labels of rows, given the leaf slots that they reach.
    fn classes(&self, model: &Model, slots: &[u32], rows: usize) -> Result<ArrayRef> {
        let forest = &model.forest;
        let trees = forest.trees.len();
        let mut classes = Vec::with_capacity(rows);
        for row in 0..rows {
            match reference::classes_of_slots(forest, &slots[row * trees..][..trees])[..] {
                [class] => classes.push(class),
                ref several => {
                    return exec_err!(
                        "{}: a row has {} classes, not one; use forest_predict",
                        self.name(),
                        several.len()
                    );
                }
            }
        }
        let label = |class: u32| forest.classes.labels.get(class as usize);
        Ok(match forest.classes.integers() {
            Some(labels) => {
                let label = |class: &u32| labels.get(*class as usize).copied().unwrap_or(i64::from(*class));
                Arc::new(Int64Array::from_iter_values(classes.iter().map(label)))
            }
            None => {
                let text = |class: &u32| label(*class).cloned().unwrap_or_else(|| class.to_string());
                Arc::new(StringArray::from_iter_values(classes.iter().map(text)))
            }
        })
    }
}

/// Returns the type of a list of `width` floats.
pub(crate) fn list_of(width: i32) -> DataType {
    DataType::FixedSizeList(Arc::new(Field::new("item", DataType::Float32, false)), width)
}

/// Returns the schema of a function's columns: its arguments after the model, or the fields of the struct that stands
/// for them.
fn schema_of(arguments: &[FieldRef]) -> Schema {
    match arguments {
        [one] if matches!(one.data_type(), DataType::Struct(_)) => match one.data_type() {
            DataType::Struct(fields) => Schema::new(fields.clone()),
            _ => Schema::empty(),
        },
        _ => Schema::new(arguments.to_vec()),
    }
}

impl ScalarUDFImpl for ForestFunction {
    fn name(&self) -> &str {
        self.output.function(self.by_position)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("{}: its type depends on the model", self.name())
    }

    /// Loads the model and matches its columns, so that a query whose columns don't fit is refused before it runs.
    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        if let Some(PlannedModel::Sent(sent, _)) = &self.planned {
            // The process that sent the plan has matched the columns. They are matched again when the function predicts.
            return Ok(Arc::new(Field::new(self.name(), sent.returned.clone(), false)));
        }
        let model = self.model(args.scalar_arguments.first().copied().flatten())?;
        let is_struct =
            matches!(&args.arg_fields[1..], [one] if matches!(one.data_type(), DataType::Struct(_)));
        if self.nameless && !self.by_position && !is_struct {
            return plan_err!(
                "{}: in this session columns lose their names before it runs; write named_struct('column', column, …) in \
                 place of the columns, or use {}",
                self.name(),
                self.output.function(true)
            );
        }
        let schema = schema_of(&args.arg_fields[1..]);
        if let Err(error) = BatchReader::new(&model.forest, &schema, self.by()) {
            return plan_err!("{}: {error}", self.name());
        }
        Ok(Arc::new(Field::new(self.name(), self.returned(&model)?, false)))
    }

    /// Puts columns into the model's order and keeps the model, because later passes of the optimizer may rename
    /// columns, and another model may get the model's name.
    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let Some((Expr::Literal(name, _), columns)) = args.split_first() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        if self.planned.is_some() {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let model = self.model(Some(name))?;
        let fields = columns.iter().map(|column| column.to_field(info.schema()).map(|(_, field)| field));
        let fields: Vec<FieldRef> = fields.collect::<Result<_>>()?;
        let reader = BatchReader::new(&model.forest, &schema_of(&fields), self.by());
        let reader = reader.or_else(|error| plan_err!("{}: {error}", self.name()))?;
        let is_struct = matches!(&fields[..], [one] if matches!(one.data_type(), DataType::Struct(_)));
        let planned = Self { planned: Some(PlannedModel::Here(model.clone())), ..self.clone() };
        let (function, columns) = match reader.indices() {
            // The names of a struct's fields are part of its type, so they stay as they are.
            _ if is_struct => (planned, columns.to_vec()),
            Some(indices) => {
                let columns = indices.into_iter().map(|at| columns[at].clone()).collect();
                (Self { by_position: true, ..planned }, columns)
            }
            None => return plan_err!("{}: take columns out of structs in a subquery", self.name()),
        };
        let all = args.iter().take(1).cloned().chain(columns).collect();
        Ok(ExprSimplifyResult::Simplified(ScalarUDF::from(function).call(all)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let name = match args.args.first() {
            Some(ColumnarValue::Scalar(name)) => Some(name.clone()),
            // A library passes a literal to another as an array. When the query was planned, it was checked to be a
            // literal.
            Some(ColumnarValue::Array(names)) if !names.is_empty() => {
                Some(ScalarValue::try_from_array(names, 0)?)
            }
            Some(ColumnarValue::Array(_)) => {
                return Ok(ColumnarValue::Array(new_empty_array(args.return_field.data_type())));
            }
            None => None,
        };
        let model = self.model(name.as_ref())?;
        let arrays: Vec<ArrayRef> =
            args.args[1..].iter().map(|value| value.to_array(args.number_rows)).collect::<Result<_>>()?;
        let schema = Arc::new(schema_of(&args.arg_fields[1..]));
        let columns = match &arrays[..] {
            [one] if matches!(one.data_type(), DataType::Struct(_)) => {
                let all = one.as_struct();
                // A row that is null as a whole has no value in any column.
                match all.nulls() {
                    None => all.columns().to_vec(),
                    Some(nulls) => all
                        .columns()
                        .iter()
                        .map(|column| {
                            arrow::compute::nullif(column, &BooleanArray::new(!nulls.inner(), None))
                        })
                        .collect::<Result<_, _>>()?,
                }
            }
            _ => arrays,
        };
        let fields = schema.fields().iter().zip(&columns);
        // Constants may be arrays of another type than was planned.
        let fields: Vec<Field> =
            fields.map(|(field, array)| Field::new(field.name(), array.data_type().clone(), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let options = RecordBatchOptions::new().with_row_count(Some(args.number_rows));
        let batch = RecordBatch::try_new_with_options(schema.clone(), columns, &options)?;
        let reader = BatchReader::new(&model.forest, &schema, self.by());
        let reader = reader.map_err(|error| self.refused(&error))?;
        Ok(ColumnarValue::Array(self.evaluate(&model, &reader, &batch)?))
    }
}
