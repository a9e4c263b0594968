//! Functions that travel to another process, as part of a plan.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use fangorn::forest::ModelHash;

use crate::{
    function::ForestOutput,
    models::{Model, Models},
};

/// The most bytes of a model that travel in a plan, of which each task gets a copy.
const MOST_IN_PLAN: usize = 1 << 20;

/// The most bytes of a model that has no file. Messages may have 256 MiB, and hold a model for each call and each task.
const MOST_WITHOUT_FILE: usize = 8 << 20;

/// A [`ForestFunction`](crate::ForestFunction) as it travels.
#[derive(Clone, Debug, PartialEq)]
pub struct SentFunction {
    /// What it returns for a row.
    pub output: ForestOutput,
    /// Whether it takes columns in the model's order.
    pub by_position: bool,
    /// The model that its plan was made for. Without one, the other process looks for the model that the first argument
    /// names.
    pub model: Option<SentModel>,
}

/// A model as it travels.
#[derive(Clone, Debug, PartialEq)]
pub struct SentModel {
    /// The hash of everything that its forest says. Each process loads the model of a hash once.
    pub hash: ModelHash,
    /// The type of the function's results, so that a process that only plans needs no model.
    pub returned: DataType,
    /// Where it is.
    pub place: ModelPlace,
}

/// Where a process finds a model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelPlace {
    /// The bytes of a `.fangorn` file.
    Bytes(Arc<[u8]>),
    /// A file, in any format that Fangorn reads, which every process finds under this path.
    File(PathBuf),
}

impl SentModel {
    /// Returns how a model travels: up to 1 MiB as bytes, and beyond as its file's path, if it was loaded from one.
    pub(crate) fn of(model: &Model, returned: DataType) -> Result<Self> {
        let most = if model.path.is_some() { MOST_IN_PLAN } else { MOST_WITHOUT_FILE };
        let place = match (model.bytes_up_to(most), &model.path) {
            (Some(bytes), _) => ModelPlace::Bytes(bytes),
            (None, Some(path)) => ModelPlace::File(path.clone()),
            (None, None) => {
                return plan_err!(
                    "a model of more than {most} bytes that has no file is too large for a plan; save it where every \
                     executor finds it, and load it from there"
                );
            }
        };
        Ok(Self { hash: model.hash(), returned, place })
    }
}

/// A model that a plan was made for.
#[derive(Clone, Debug)]
pub(crate) enum PlannedModel {
    /// One of this process.
    Here(Arc<Model>),
    /// One of another process's plan, and the model itself once the function has predicted.
    Sent(Arc<SentModel>, Arc<OnceLock<Arc<Model>>>),
}

impl PlannedModel {
    /// Returns the model's hash.
    pub fn hash(&self) -> ModelHash {
        match self {
            Self::Here(model) => model.hash(),
            Self::Sent(sent, _) => sent.hash,
        }
    }

    /// Returns the model.
    ///
    /// # Errors
    /// It can't be loaded. Ballista tries a task again only where the error is one of input or output, so a file that can't
    /// be opened is such an error, and nothing else.
    pub fn load(&self, models: &Models) -> Result<Arc<Model>, crate::ModelError> {
        match self {
            Self::Here(model) => Ok(model.clone()),
            Self::Sent(sent, loaded) => match loaded.get() {
                Some(model) => Ok(model.clone()),
                None => {
                    let model = models.receive(sent)?;
                    Ok(loaded.get_or_init(|| model).clone())
                }
            },
        }
    }
}
