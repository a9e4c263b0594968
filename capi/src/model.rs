//! A model, and what it predicts.

use std::{
    ffi::{CString, c_char},
    sync::OnceLock,
};

use fangorn::{
    Forest, Predictor,
    contributions::Explainer,
    forest::{ClassRule, reference},
};

use crate::{
    error::{Refusal, c_string},
    matrix::Values,
    options::Options,
    pools,
};

/// The values that the model's own library predicts: for example, the probabilities of a classifier. 32-bit floats.
pub const FANGORN_VALUES: i32 = 0;
/// The sums before the objective's transform: for example, log odds. 32-bit floats.
pub const FANGORN_MARGINS: i32 = 1;
/// How much each column adds to each margin (SHAP values). For each output, a row has one number for each column and
/// then the bias, and these add up to the margin. 32-bit floats.
pub const FANGORN_CONTRIBUTIONS: i32 = 2;
/// The number of the predicted class, counted from 0. `fangorn_label` returns its label. A model that decides for each
/// output separately has one class for each output. 32-bit integers.
pub const FANGORN_CLASSES: i32 = 3;
/// The leaf that a row reaches in each tree: the number that the model's own library gives the leaf. 32-bit integers.
pub const FANGORN_LEAF_IDS: i32 = 4;

/// A trained decision forest, compiled for this machine's CPU. It never changes, so several threads may use it at the
/// same time.
pub struct FangornModel {
    forest: Forest,
    predictor: Predictor,
    threads: usize,
    explainer: OnceLock<Explainer>,
    leaf_ids: OnceLock<Vec<u32>>,
    /// Texts as C strings.
    names: Vec<Option<CString>>,
    labels: Vec<CString>,
    warnings: CString,
}

const _: () = {
    const fn may_be_shared<T: Send + Sync>() {}
    may_be_shared::<FangornModel>();
};

/// A kind of result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Output {
    Values,
    Margins,
    Contributions,
    Classes,
    LeafIds,
}

impl Output {
    /// Reads an output's number.
    pub fn of(number: i32) -> Result<Self, Refusal> {
        Ok(match number {
            FANGORN_VALUES => Self::Values,
            FANGORN_MARGINS => Self::Margins,
            FANGORN_CONTRIBUTIONS => Self::Contributions,
            FANGORN_CLASSES => Self::Classes,
            FANGORN_LEAF_IDS => Self::LeafIds,
            _ => {
                return Err(Refusal::argument(format!(
                    "output: {number} is unknown; give FANGORN_VALUES (0), FANGORN_MARGINS (1), FANGORN_CONTRIBUTIONS \
                     (2), FANGORN_CLASSES (3) or FANGORN_LEAF_IDS (4)"
                )));
            }
        })
    }
}

impl FangornModel {
    /// Compiles the forest that `read` returns, on the threads of the options.
    pub fn new(
        options: &Options,
        read: impl FnOnce(&Options) -> fangorn::Result<Forest> + Send,
    ) -> Result<Self, Refusal> {
        let pool = pools::pool(options.threads)?;
        let (forest, predictor) = pool.install(|| {
            let forest = read(options)?;
            takes_numbers(&forest)?;
            let predictor = options.predictor(&forest)?;
            Ok::<_, Refusal>((forest, predictor))
        })?;
        let warnings: Vec<_> = predictor.warnings().iter().map(ToString::to_string).collect();
        Ok(Self {
            names: forest.features.iter().map(|feature| feature.name.as_deref().map(c_string)).collect(),
            labels: forest.classes.labels.iter().map(|label| c_string(label)).collect(),
            warnings: c_string(&warnings.join("\n")),
            threads: options.threads,
            explainer: OnceLock::new(),
            leaf_ids: OnceLock::new(),
            forest,
            predictor,
        })
    }

    /// The number of columns of a row.
    pub fn columns(&self) -> usize {
        self.forest.features.len()
    }

    /// The number of trees.
    pub fn trees(&self) -> usize {
        self.forest.trees.len()
    }

    /// A column's name, if it has one.
    pub fn name(&self, column: usize) -> Option<*const c_char> {
        Some(self.names.get(column)?.as_ref()?.as_ptr())
    }

    /// The number of labels of classes.
    pub fn labels(&self) -> usize {
        self.labels.len()
    }

    /// A class's label, if the model file has one.
    pub fn label(&self, class: usize) -> Option<*const c_char> {
        Some(self.labels.get(class)?.as_ptr())
    }

    /// The warnings of the compilation, one a line.
    pub fn warnings(&self) -> *const c_char {
        self.warnings.as_ptr()
    }

    /// Refuses rows of another number of columns.
    pub fn check(&self, rows: &Values<'_>) -> Result<(), Refusal> {
        let found = match rows {
            Values::Singles(rows) => rows.columns(),
            Values::Doubles(rows) => rows.columns(),
        };
        match self.columns() {
            expected if found == expected => Ok(()),
            expected => Err(fangorn::Error::Columns { found, expected }.into()),
        }
    }

    /// Returns how many results a row has.
    pub fn width(&self, output: Output) -> Result<usize, Refusal> {
        let outputs = self.forest.outputs as usize;
        let count = || self.columns().checked_add(1)?.checked_mul(outputs);
        Ok(match output {
            Output::Values => self.predictor.width(),
            Output::Margins => outputs,
            Output::Contributions => {
                count().ok_or_else(|| Refusal::unsupported("contributions: more than memory holds"))?
            }
            Output::Classes => match self.forest.classes.rule {
                ClassRule::None => {
                    return Err(Refusal::unsupported(format!(
                        "the model has no classes: its objective {} is that of a regressor, a ranker or a detector; \
                         ask for FANGORN_VALUES",
                        self.forest.producer.objective
                    )));
                }
                // Every row has the same number of classes.
                _ => reference::classes_of_sums(&self.forest, &vec![0.0; outputs]).len(),
            },
            Output::LeafIds => self.trees(),
        })
    }

    fn explainer(&self) -> fangorn::Result<&Explainer> {
        if let Some(explainer) = self.explainer.get() {
            return Ok(explainer);
        }
        let made = Explainer::new(&self.forest)?;
        Ok(self.explainer.get_or_init(|| made))
    }

    /// Writes results that are floats.
    pub fn floats(&self, output: Output, rows: &Values<'_>, out: &mut [f32]) -> Result<(), Refusal> {
        match (output, rows) {
            (Output::Values, Values::Singles(rows)) => self.predictor.values_into(rows, out)?,
            (Output::Values, Values::Doubles(rows)) => self.predictor.values_into(rows, out)?,
            (Output::Margins, Values::Singles(rows)) => self.predictor.margins_into(rows, out)?,
            (Output::Margins, Values::Doubles(rows)) => self.predictor.margins_into(rows, out)?,
            (Output::Contributions, _) => {
                pools::pool(self.threads)?.install(|| match rows {
                    Values::Singles(rows) => self.explainer()?.contributions_into(rows, out),
                    Values::Doubles(rows) => self.explainer()?.contributions_into(rows, out),
                })?;
            }
            (Output::Classes | Output::LeafIds, _) => {
                return Err(Refusal::argument(
                    "output: classes and leaf ids are integers; call fangorn_predict_integers",
                ));
            }
        }
        Ok(())
    }

    /// Writes results that are integers.
    pub fn integers(&self, output: Output, rows: &Values<'_>, out: &mut [i32]) -> Result<(), Refusal> {
        let width = self.width(output)?;
        let slots = match rows {
            Values::Singles(rows) => self.predictor.leaf_slots(rows),
            Values::Doubles(rows) => self.predictor.leaf_slots(rows),
        }?;
        let ids = (output == Output::LeafIds).then(|| self.leaf_ids.get_or_init(|| self.forest.leaf_ids()));
        match (output, ids) {
            (_, Some(ids)) => {
                out.iter_mut().zip(slots).for_each(|(id, slot)| *id = ids[slot as usize] as i32);
            }
            (Output::Classes, _) => {
                let trees = self.trees();
                for (row, out) in out.chunks_mut(width.max(1)).enumerate() {
                    let found = reference::classes_of_slots(&self.forest, &slots[row * trees..][..trees]);
                    out.iter_mut().zip(found).for_each(|(out, class)| *out = class as i32);
                }
            }
            _ => {
                return Err(Refusal::argument(
                    "output: values, margins and contributions are floats; call fangorn_predict",
                ));
            }
        }
        Ok(())
    }
}

/// Refuses a model whose categories have names: numbers can't stand for them.
fn takes_numbers(forest: &Forest) -> Result<(), Refusal> {
    match forest.features.iter().position(|feature| feature.coding.is_needed()) {
        None => Ok(()),
        Some(column) => {
            let name = forest.features[column].name.clone().unwrap_or_else(|| column.to_string());
            Err(Refusal::unsupported(format!(
                "column `{name}` has categories with names, which a matrix of numbers can't hold; predict a table with \
                 the command fangorn predict, or train with categories that are numbers"
            )))
        }
    }
}
