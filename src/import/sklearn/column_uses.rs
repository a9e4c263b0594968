//! What the steps of a pipeline take each column of a table for: numbers, texts, or nothing.

use std::collections::HashMap;

use super::super::{ErrorKind, ImportError};
use super::error;
use super::head::class;
use super::pipeline::{PLACEHOLDERS, Step, indices, refusal};
use super::plain::{Numbers, PlainValue};
use crate::forest::{Coding, Feature, UnseenCategory};

/// What the steps take a column for.
#[derive(Clone, Debug, Default)]
pub(super) struct ColumnUse {
    /// The step that takes it for numbers.
    numbers: Option<String>,
    /// The texts that encoders and imputers know. A row holds a text's index in this list.
    texts: Vec<String>,
    codes: HashMap<String, usize>,
    /// Whether some step of texts goes on at a text that it does not know.
    takes_others: bool,
}

impl ColumnUse {
    /// Returns what a model takes each column of its rows for.
    pub(super) fn of(model: &Step, width: usize, names: &[String]) -> Result<Vec<Self>, ImportError> {
        let mut uses = ColumnUses { all: vec![Self::default(); width], noted: 0 };
        let left = uses.note(model, (0..width).collect(), "model")?;
        uses.numbers(left.as_deref().unwrap_or_default(), "model");
        for (column, found) in uses.all.iter().enumerate() {
            if let Some(step) = found.numbers.as_ref().filter(|_| !found.texts.is_empty()) {
                let name = names.get(column).cloned().unwrap_or_else(|| column.to_string());
                let cause = format!("column `{name}` holds texts in one step and numbers in this one");
                return Err(refusal(step, cause));
            }
        }
        Ok(uses.all)
    }

    /// Tells whether the reader of a table refuses texts that the steps do not know.
    pub(super) fn refuses_others(&self) -> bool {
        !self.texts.is_empty() && !self.takes_others
    }

    /// Tells whether any step reads the column.
    pub(super) fn is_read(&self) -> bool {
        self.numbers.is_some() || !self.texts.is_empty()
    }

    /// Returns the number that rows hold for a text.
    pub(super) fn code(&self, text: &str) -> Option<f64> {
        self.codes.get(text).map(|code| *code as f64)
    }

    /// Returns the column of rows.
    pub(super) fn feature(&self, name: Option<String>) -> Feature {
        if self.texts.is_empty() {
            return Feature { name, ..Feature::default() };
        }
        // If every step refuses a text that it does not know, the reader of the table refuses it, with its name.
        let unseen = if self.takes_others { UnseenCategory::Own } else { UnseenCategory::Refused };
        let coding = Coding::Indices { numbers: false, unseen, needed: true };
        Feature { name, categories: self.texts.clone(), coding }
    }
}

/// The maximum number of columns that all steps together take.
const MOST_NOTED: usize = 1 << 26;

struct ColumnUses {
    all: Vec<ColumnUse>,
    /// Number of columns that steps take, so far.
    noted: usize,
}

impl ColumnUses {
    fn numbers(&mut self, columns: &[usize], location: &str) {
        for column in columns {
            self.all[*column].numbers.get_or_insert_with(|| location.to_owned());
        }
    }

    fn texts<'t>(&mut self, column: usize, texts: impl Iterator<Item = &'t String>) {
        let ColumnUse { texts: known, codes, .. } = &mut self.all[column];
        for text in texts {
            if !codes.contains_key(text) {
                codes.insert(text.clone(), known.len());
                known.push(text.clone());
            }
        }
    }

    /// Notes what a step takes some columns for. Returns the columns that it hands on as they are in the table, or
    /// `None` if it computes others.
    fn note(
        &mut self,
        step: &Step,
        columns: Vec<usize>,
        location: &str,
    ) -> Result<Option<Vec<usize>>, ImportError> {
        self.noted = self.noted.saturating_add(columns.len());
        if self.noted > MOST_NOTED {
            return Err(refusal(
                location,
                format!("steps that take more than {MOST_NOTED} columns are not supported"),
            ));
        }
        if PLACEHOLDERS.contains(&&step.estimator[..]) {
            return Ok(if step.estimator == "drop" { None } else { Some(columns) });
        }
        let (_, name) = class(&step.estimator).unwrap_or(("", &step.estimator));
        let inside = |at: usize| format!("{location}.steps[{at}]");
        match name {
            "Pipeline" => {
                let mut left = Some(columns);
                for (at, inner) in step.steps.iter().enumerate() {
                    let Some(columns) = left else { break };
                    left = self.note(inner, columns, &inside(at))?;
                }
                Ok(left)
            }
            "FeatureUnion" | "ColumnTransformer" => {
                for (at, inner) in step.steps.iter().enumerate() {
                    let own = match step.columns.as_ref().and_then(|all| all.get(at)) {
                        Some(chosen) => select(&columns, chosen, location)?,
                        None => columns.clone(),
                    };
                    let left = self.note(inner, own, &inside(at))?;
                    self.numbers(left.as_deref().unwrap_or_default(), &inside(at));
                }
                Ok(None)
            }
            "SimpleImputer" => {
                let missing = match &step.missing_values {
                    Some(PlainValue::Text(text)) => Some(text),
                    _ => None,
                };
                let statistics = step.statistics.as_deref().unwrap_or_default();
                for (column, statistic) in columns.iter().zip(statistics) {
                    match statistic {
                        PlainValue::Text(text) => {
                            self.texts(*column, std::iter::once(text).chain(missing));
                        }
                        _ => self.numbers(&[*column], location),
                    }
                }
                // Indicators are columns that it computes.
                Ok((step.add_indicator != Some(true)).then_some(columns))
            }
            "OneHotEncoder" | "OrdinalEncoder" | "TargetEncoder" => {
                let categories = step.categories.as_deref().unwrap_or_default();
                if categories.len() != columns.len() {
                    let location = format!("fangorn.{location}.categories_");
                    return Err(error(ErrorKind::Structure, location, "other columns"));
                }
                for (column, categories) in columns.iter().zip(categories) {
                    let mut texts = categories.iter().filter_map(|category| match category {
                        PlainValue::Text(text) => Some(text),
                        _ => None,
                    });
                    let is_text = texts.clone().next().is_some();
                    if is_text
                        && categories.iter().all(|c| matches!(c, PlainValue::Text(_) | PlainValue::Null))
                    {
                        self.texts(*column, texts.by_ref());
                        let refuses = name != "TargetEncoder"
                            && matches!(step.handle_unknown.as_deref(), None | Some("error"));
                        self.all[*column].takes_others |= !refuses;
                    } else if is_text {
                        return Err(refusal(location, "categories of texts and numbers are not supported"));
                    } else {
                        self.numbers(&[*column], location);
                    }
                }
                Ok(None)
            }
            _ => match step.columns.as_deref() {
                Some([chosen]) if step.steps.is_empty() => select(&columns, chosen, location).map(Some),
                _ => {
                    self.numbers(&columns, location);
                    Ok(None)
                }
            },
        }
    }
}

fn select(columns: &[usize], chosen: &Numbers, location: &str) -> Result<Vec<usize>, ImportError> {
    let chosen = indices(chosen, columns.len(), location)?;
    Ok(chosen.into_iter().map(|at| columns[at as usize]).collect())
}
