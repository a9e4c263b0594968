//! Imputers and encoders of a pipeline: steps that look at missing values and at categories.

use std::collections::HashSet;

use super::super::{ErrorKind, ImportError};
use super::error;
use super::pipeline::{Columns, Reader, Step, indices, list, refusal};
use super::plain::{Numbers, PlainValue};
use crate::graph::{Binary, Compare, Dtype, Elements, Operand, Operator, Unary};

/// The number of each category of a column, NaN for a missing value, and what the encoder makes of it.
struct CategoryTable {
    keys: Vec<f64>,
    values: Vec<f64>,
    /// What becomes of other values. `None` refuses them.
    other: Option<f64>,
}

impl<F: Fn(usize) -> Result<crate::Forest, ImportError>> Reader<'_, F> {
    /// Returns the number that rows hold for a value of column `at`, NaN for a missing value.
    fn key(&self, x: &Columns, at: usize, value: &PlainValue, location: &str) -> Result<f64, ImportError> {
        match value {
            PlainValue::Null => Ok(f64::NAN),
            PlainValue::Integer(value) => Ok(*value as f64),
            PlainValue::Real(value) => Ok(*value),
            PlainValue::Bool(value) => Ok(f64::from(u8::from(*value))),
            PlainValue::Text(text) => {
                let code = x.raw.as_ref().and_then(|raw| self.uses[raw[at]].code(text));
                code.ok_or_else(|| {
                    refusal(location, "texts after a step that computes columns are not supported")
                })
            }
            PlainValue::List => Err(refusal(location, "lists as categories are not supported")),
        }
    }

    /// Returns whether each value is one that an imputer replaces. `rows` are those of `x`, which may have been rounded.
    fn missing(
        &mut self,
        step: &Step,
        x: &Columns,
        rows: Operand,
        location: &str,
    ) -> Result<Operand, ImportError> {
        let replaced = step.missing_values.as_ref().unwrap_or(&PlainValue::Null);
        let is_empty = matches!(replaced, PlainValue::Text(text) if text.is_empty());
        let nan = self.node(location, Operator::Unary(Unary::IsNan), &[rows]);
        if *replaced == PlainValue::Null {
            return Ok(nan);
        }
        let keys = (0..x.width).map(|at| self.key(x, at, replaced, location));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let value = self.weight(&[x.width], Elements::F64(keys), location)?;
        let equal = self.node(location, Operator::Compare(Compare::Equal), &[rows, value]);
        // A table's reader takes an empty text for a missing value if no step knows it.
        Ok(match is_empty {
            true => self.node(location, Operator::Binary(Binary::Or), &[equal, nan]),
            false => equal,
        })
    }

    /// Adds the columns of an imputer's indicator to what it gives, `filled`. The imputer takes `width` columns.
    fn with_indicator(
        &mut self,
        step: &Step,
        missing: Operand,
        width: usize,
        filled: Columns,
        location: &str,
    ) -> Result<Columns, ImportError> {
        if step.add_indicator != Some(true) {
            return Ok(filled);
        }
        let Some(columns) = &step.indicator else {
            let location = format!("fangorn.{location}");
            return Err(error(ErrorKind::Schema, location, "missing field `indicator`"));
        };
        let columns = indices(columns, width, location)?;
        if columns.is_empty() {
            return Ok(filled);
        }
        let width = columns.len();
        let columns = self.weight(&[width], Elements::I64(columns), location)?;
        let told = self.node(location, Operator::Gather { axis: 1 }, &[missing, columns]);
        let rows = self.node(location, Operator::Cast(Dtype::F64), &[told]);
        self.concat(&[filled, Columns { rows, width, raw: None, filled: false }], location)
    }

    pub(super) fn impute(&mut self, step: &Step, x: Columns, location: &str) -> Result<Columns, ImportError> {
        let statistics = step.statistics.as_deref().unwrap_or_default();
        if statistics.len() != x.width {
            let cause = format!("statistics_ has {} values, not {}", statistics.len(), x.width);
            return Err(error(ErrorKind::Structure, format!("fangorn.{location}.statistics_"), cause));
        }
        let keys = statistics.iter().enumerate().map(|(at, value)| self.key(&x, at, value, location));
        let mut values = keys.collect::<Result<Vec<_>, _>>()?;
        // A column without any value in training is dropped, or becomes 0.
        let without = |value: &f64| value.is_nan();
        let kept = match step.keep_empty_features {
            Some(true) => {
                values.iter_mut().filter(|value| without(value)).for_each(|value| *value = 0.0);
                None
            }
            _ if values.iter().any(without) => {
                let kept = values.iter().enumerate().filter(|(_, value)| !without(value));
                Some(Numbers(kept.map(|(at, _)| at as f64).collect()))
            }
            _ => None,
        };
        // An imputer that was fitted on floats gives floats.
        let singles = matches!(&step.fitted_in, Some(PlainValue::Text(dtype)) if dtype.contains("float32"));
        let is_text = |value: &PlainValue| matches!(value, PlainValue::Text(_));
        let mut given = x.rows;
        if singles && !statistics.iter().any(is_text) {
            values.iter_mut().for_each(|value| *value = f64::from(*value as f32));
            let floats = self.node(location, Operator::Cast(Dtype::F32), &[x.rows]);
            given = self.node(location, Operator::Cast(Dtype::F64), &[floats]);
        }
        let missing = self.missing(step, &x, given, location)?;
        let values = self.weight(&[x.width], Elements::F64(values), location)?;
        let rows = self.node(location, Operator::Where, &[missing, values, given]);
        let fills = matches!(step.missing_values, None | Some(PlainValue::Null));
        let mut filled = Columns { rows, filled: fills, ..x.clone() };
        if let Some(kept) = kept {
            filled = self.select(&filled, &kept, location)?;
        }
        self.with_indicator(step, missing, x.width, filled, location)
    }

    /// Adds an imputer of the mean of the nearest rows of the training data.
    pub(super) fn impute_neighbors(
        &mut self,
        step: &Step,
        x: Columns,
        location: &str,
    ) -> Result<Columns, ImportError> {
        let is_missing = matches!(step.missing_values, None | Some(PlainValue::Null));
        if !is_missing || step.metric.as_deref().is_some_and(|metric| metric != "nan_euclidean") {
            return Err(refusal(
                location,
                "other missing values than NaN, and other metrics, are not supported",
            ));
        }
        let by_distance = match &step.weights {
            None | Some(PlainValue::Null) => false,
            Some(PlainValue::Text(weights)) if weights == "uniform" => false,
            Some(PlainValue::Text(weights)) if weights == "distance" => true,
            Some(other) => return Err(refusal(location, format!("weights {other} are not supported"))),
        };
        let Numbers(donors) = step.donors.clone().unwrap_or_default();
        let count = donors.len() / x.width.max(1);
        if count == 0 || count * x.width != donors.len() {
            let cause = format!("{} numbers for rows of {} columns", donors.len(), x.width);
            return Err(error(ErrorKind::Structure, format!("fangorn.{location}._fit_X"), cause));
        }
        let empty = |column: &usize| (0..count).all(|row| donors[row * x.width + column].is_nan());
        let (gone, kept): (Vec<usize>, Vec<usize>) = (0..x.width).partition(empty);
        let keeps = step.keep_empty_features == Some(true);
        let neighbors = usize::try_from(step.n_neighbors.unwrap_or(5)).unwrap_or(usize::MAX);
        let missing = self.missing(step, &x, x.rows, location)?;
        let donors = self.weight(&[count, x.width], Elements::F64(donors), location)?;
        let operator = Operator::ImputeNeighbors { neighbors, by_distance };
        let mut rows = self.node(location, operator, &[x.rows, donors]);
        if keeps && !gone.is_empty() {
            // scikit-learn replaces a column without any value in training by zeros.
            let mut mask = vec![false; x.width];
            gone.iter().for_each(|column| mask[*column] = true);
            let mask = self.weight(&[x.width], Elements::Bool(mask), location)?;
            let zeros = self.weight(&[x.width], Elements::F64(vec![0.0; x.width]), location)?;
            rows = self.node(location, Operator::Where, &[mask, zeros, rows]);
        }
        let mut filled = Columns { rows, width: x.width, raw: None, filled: false };
        if !keeps && !gone.is_empty() {
            let kept = Numbers(kept.into_iter().map(|column| column as f64).collect());
            filled = self.select(&filled, &kept, location)?;
        }
        self.with_indicator(step, missing, x.width, filled, location)
    }

    /// Returns a column, and what an encoder makes of its categories.
    fn looked_up(&mut self, column: &Columns, table: CategoryTable, location: &str) -> Operand {
        let CategoryTable { keys, values, other } = table;
        let (keys, values) = (Elements::F64(keys), Elements::F64(values));
        let other = Elements::F64(other.into_iter().collect());
        self.node(location, Operator::Lookup { keys, values, other }, &[column.rows])
    }

    /// Returns the numbers of the categories of each column.
    fn keys(&self, step: &Step, x: &Columns, location: &str) -> Result<Vec<Vec<f64>>, ImportError> {
        let categories = step.categories.as_deref().filter(|all| all.len() == x.width).ok_or_else(|| {
            error(ErrorKind::Structure, format!("fangorn.{location}.categories_"), "other columns")
        })?;
        let of_column = |(at, categories): (usize, &Vec<PlainValue>)| {
            let keys = categories.iter().map(|category| self.key(x, at, category, location));
            let keys = keys.collect::<Result<Vec<_>, _>>()?;
            match keys.iter().filter(|key| key.is_nan()).count() {
                0 | 1 => Ok(keys),
                _ => Err(refusal(location, "None and NaN as two categories are not supported")),
            }
        };
        categories.iter().enumerate().map(of_column).collect()
    }

    /// Adds a column for each category of each column.
    pub(super) fn one_hot(
        &mut self,
        step: &Step,
        x: Columns,
        location: &str,
    ) -> Result<Columns, ImportError> {
        let keys = self.keys(step, &x, location)?;
        let unknown = step.handle_unknown.as_deref();
        if !matches!(unknown, None | Some("error" | "ignore" | "infrequent_if_exist" | "warn")) {
            let unknown = unknown.unwrap_or_default();
            return Err(refusal(location, format!("handle_unknown={unknown:?} is not supported")));
        }
        let mut encoded = Vec::with_capacity(x.width);
        for (at, keys) in keys.into_iter().enumerate() {
            let rare = step.infrequent.as_ref().and_then(|all| all.get(at)?.as_ref());
            let rare = rare.into_iter().flatten().map(|category| self.key(&x, at, category, location));
            let rare = rare.collect::<Result<Vec<f64>, _>>()?;
            let dropped = step.drop_indices.as_ref().and_then(|Numbers(dropped)| dropped.get(at)).copied();
            let dropped = match dropped.filter(|dropped| !dropped.is_nan()) {
                Some(_) if !rare.is_empty() => {
                    return Err(refusal(location, "drop with rare categories is not supported"));
                }
                Some(dropped) => indices(&Numbers(vec![dropped]), keys.len(), location)?.first().copied(),
                None => None,
            };
            let column = self.select(&x, &Numbers(vec![at as f64]), location)?;
            // Rare categories share the last column.
            let rare: HashSet<u64> = rare.into_iter().map(f64::to_bits).collect();
            let is_rare = |key: &f64| rare.contains(&key.to_bits());
            let (mut values, mut width) = (Vec::with_capacity(keys.len()), 0);
            for (index, key) in keys.iter().enumerate() {
                let gone = is_rare(key) || dropped == Some(index as i64);
                values.push(if gone { -1.0 } else { width as f64 });
                width += usize::from(!gone);
            }
            if !rare.is_empty() {
                let last = width as f64;
                values
                    .iter_mut()
                    .zip(&keys)
                    .filter(|(_, key)| is_rare(key))
                    .for_each(|(value, _)| *value = last);
                width += 1;
            }
            let other = match unknown {
                None | Some("error") => None,
                Some("infrequent_if_exist" | "warn") if !rare.is_empty() => Some(width as f64 - 1.0),
                Some(_) => Some(-1.0),
            };
            // No other value gets here if the reader of the table refuses unknown texts, and missing values are filled.
            let refused = x.raw.as_ref().is_some_and(|raw| self.uses[raw[at]].refuses_others());
            let none_is_refused = other.is_some() || refused && x.filled;
            // Without rare categories, an unknown value equals none of those that have a column.
            let plain = rare.is_empty() && none_is_refused && !keys.iter().any(|key| key.is_nan());
            let (value, wanted) = match plain {
                true => {
                    let has_column = |(_, value): &(&f64, &f64)| **value >= 0.0;
                    (column.rows, keys.iter().zip(&values).filter(has_column).map(|(key, _)| *key).collect())
                }
                false => {
                    let table = CategoryTable { keys, values, other };
                    (self.looked_up(&column, table, location), (0..width).map(|at| at as f64).collect())
                }
            };
            if width == 0 && plain {
                continue;
            }
            let wanted = self.weight(&[width], Elements::F64(wanted), location)?;
            let is = self.node(location, Operator::Compare(Compare::Equal), &[value, wanted]);
            let rows = self.node(location, Operator::Cast(Dtype::F64), &[is]);
            encoded.push(Columns { rows, width, raw: None, filled: false });
        }
        self.concat(&encoded, location)
    }

    /// Replaces each category by its index.
    pub(super) fn ordinals(
        &mut self,
        step: &Step,
        x: Columns,
        location: &str,
    ) -> Result<Columns, ImportError> {
        if step.infrequent.as_ref().is_some_and(|all| all.iter().flatten().any(|rare| !rare.is_empty())) {
            return Err(refusal(location, "ordinals of rare categories are not supported"));
        }
        let other = match step.handle_unknown.as_deref() {
            None | Some("error") => None,
            Some("use_encoded_value") => Some(step.unknown_value.unwrap_or(f64::NAN)),
            Some(other) => {
                return Err(refusal(location, format!("handle_unknown={other:?} is not supported")));
            }
        };
        let missing = step.encoded_missing_value.unwrap_or(f64::NAN);
        let index = |(at, key): (usize, &f64)| if key.is_nan() { missing } else { at as f64 };
        let tables = self.keys(step, &x, location)?.into_iter().map(|keys| {
            let values = keys.iter().enumerate().map(index).collect();
            CategoryTable { keys, values, other }
        });
        let tables: Vec<_> = tables.collect();
        self.encode(&x, tables, location)
    }

    /// Replaces each category by the mean of the target in training.
    pub(super) fn encode_targets(
        &mut self,
        step: &Step,
        x: Columns,
        location: &str,
    ) -> Result<Columns, ImportError> {
        let keys = self.keys(step, &x, location)?;
        let encodings = step.encodings.as_deref().unwrap_or_default();
        if encodings.len() != x.width {
            return Err(refusal(location, "targets of more than two classes are not supported"));
        }
        let mean = list(&step.target_mean, 1, location, "target_mean_")?[0];
        let mut tables = Vec::with_capacity(x.width);
        for (keys, Numbers(values)) in keys.into_iter().zip(encodings) {
            if keys.len() != values.len() {
                let cause = format!("{} encodings of {} categories", values.len(), keys.len());
                return Err(error(ErrorKind::Structure, format!("fangorn.{location}.encodings_"), cause));
            }
            tables.push(CategoryTable { keys, values: values.clone(), other: Some(mean) });
        }
        self.encode(&x, tables, location)
    }

    /// Replaces the values of each column by those of its table.
    fn encode(
        &mut self,
        x: &Columns,
        tables: Vec<CategoryTable>,
        location: &str,
    ) -> Result<Columns, ImportError> {
        let mut encoded = Vec::with_capacity(tables.len());
        for (at, table) in tables.into_iter().enumerate() {
            let column = self.select(x, &Numbers(vec![at as f64]), location)?;
            let rows = self.looked_up(&column, table, location);
            encoded.push(Columns { rows, width: 1, raw: None, filled: false });
        }
        self.concat(&encoded, location)
    }
}
