//! Functions that are sent to another process as part of a plan.

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

/// The maximum size of a model that a plan contains, in bytes. Each task gets a copy of it.
const MOST_IN_PLAN: usize = 1 << 20;

/// The maximum size of what a plan holds that has no file, in bytes: a model, or an operator with its inputs. Messages may
/// have 256 MiB, and hold it for each call and task.
pub(crate) const MOST_WITHOUT_FILE: usize = 8 << 20;

/// The form in which a [`ForestFunction`](crate::ForestFunction) is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct SentFunction {
    /// The result of the function for a row.
    pub output: ForestOutput,
    /// Whether the function takes columns in the model's order.
    pub by_position: bool,
    /// The model that the function's plan was made for. If it is `None`, the other process looks for the model that the
    /// first argument names.
    pub model: Option<SentModel>,
}

/// The form in which a model is sent.
#[derive(Clone, Debug, PartialEq)]
pub struct SentModel {
    /// The hash of the whole forest. Each process loads the model of a hash once.
    pub hash: ModelHash,
    /// The type of the function's results. With it, a process that only plans needs no model.
    pub returned: DataType,
    /// Where the model is.
    pub source: ModelSource,
}

/// Where a process finds a model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelSource {
    /// In the plan: the bytes of a `.fangorn` file.
    Bytes(Arc<[u8]>),
    /// In a file of any format that Fangorn reads, which every process finds under this path.
    File(PathBuf),
}

impl SentModel {
    /// Returns the form in which a model is sent: as bytes up to 1 MiB, and above that as its file's path. A model
    /// without a file is sent as bytes up to 8 MiB.
    pub(crate) fn of(model: &Model, returned: DataType) -> Result<Self> {
        let most = if model.path.is_some() { MOST_IN_PLAN } else { MOST_WITHOUT_FILE };
        let source = match (model.bytes_up_to(most), &model.path) {
            (Some(bytes), _) => ModelSource::Bytes(bytes),
            (None, Some(path)) => ModelSource::File(path.clone()),
            (None, None) => {
                return plan_err!(
                    "a model of more than {most} bytes that has no file is too large for a plan; save it where every \
                     executor finds it, and load it from there"
                );
            }
        };
        Ok(Self { hash: model.hash(), returned, source })
    }
}

/// A model that a plan was made for.
#[derive(Clone, Debug)]
pub(crate) enum PlannedModel {
    /// A model of this process.
    Here(Arc<Model>),
    /// A model of another process's plan, and the loaded model once the function has predicted.
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
    /// The model can't be loaded. Ballista retries a task only after an error of input or output, so only a file that
    /// can't be opened gives such an error.
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
