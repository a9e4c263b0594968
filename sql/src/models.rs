//! The models that functions find by a name or a path.

use std::{
    collections::{HashMap, VecDeque},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use fangorn::{
    Error, Forest, Predictor,
    file::Contents,
    forest::ModelHash,
    import::{self, LoadOptions},
};

use crate::sent::{ModelSource, SentModel};

/// The number of models from other processes' plans that stay in memory for later plans. A function keeps its model as
/// long as it runs.
const KEPT: usize = 16;

/// Why a model can't be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ModelError {
    /// The text is no model's name and no file's path.
    #[error(
        "`{name}` is neither the name of a model nor the path of a file; the names are {names}; add the model, or give \
         the path of its file"
    )]
    Unknown {
        /// The text.
        name: String,
        /// The names that there are.
        names: String,
    },
    /// The file can't be read, or the forest can't be compiled.
    #[error("{0}")]
    Refused(String),
    /// The file of a model that another process sent can't be read.
    #[error("{}: {error}; every executor needs the model's file under this path", path.display())]
    Unreachable {
        /// The file.
        path: PathBuf,
        /// Why it can't be read.
        error: Arc<io::Error>,
    },
    /// The file of a model that another process sent holds another model now.
    #[error("{}: it holds another model than when the query was planned; load the model again, and then run the query again", path.display())]
    Changed {
        /// The file.
        path: PathBuf,
    },
}

/// A forest that is ready to predict.
#[derive(Debug)]
pub struct Model {
    /// The forest.
    pub forest: Forest,
    /// Predicts on the calling thread: a query's partitions already have a thread each.
    pub predictor: Predictor,
    /// The absolute path of the file that it was loaded from.
    pub path: Option<PathBuf>,
    hash: OnceLock<ModelHash>,
    /// The bytes of a `.fangorn` file, if they are few enough to be sent.
    bytes: OnceLock<Option<Arc<[u8]>>>,
}

impl Model {
    fn new(forest: Forest, path: Option<PathBuf>) -> Result<Self, ModelError> {
        let predictor = Predictor::builder(&forest).threads(1).build();
        let predictor = predictor.map_err(|e| ModelError::Refused(e.to_string()))?;
        Ok(Self { forest, predictor, path, hash: OnceLock::new(), bytes: OnceLock::new() })
    }

    /// Returns the hash of the whole forest.
    pub fn hash(&self) -> ModelHash {
        *self.hash.get_or_init(|| self.forest.model_hash())
    }

    /// Returns the bytes of a `.fangorn` file with the forest, if there are at most `most`. `most` has to be the same
    /// in each call, because the result is kept.
    pub(crate) fn bytes_up_to(&self, most: usize) -> Option<Arc<[u8]>> {
        let bytes = || {
            let bytes = Contents::new(self.forest.clone()).to_bytes();
            (bytes.len() <= most).then(|| bytes.into())
        };
        self.bytes.get_or_init(bytes).clone()
    }
}

fn load_options() -> LoadOptions {
    LoadOptions { raw_categories: true, ..LoadOptions::default() }
}

/// Models by their names. A file is loaded when its path is first asked for, and is not read again.
#[derive(Debug, Default)]
pub struct Models {
    known: Mutex<HashMap<String, Arc<Model>>>,
    /// Models from other processes' plans, the newest last.
    sent: Mutex<VecDeque<Arc<Model>>>,
    only_named: bool,
}

impl Models {
    /// Returns models that queries can use only by their names: no text in a query opens a file.
    pub fn only_named() -> Self {
        Self { only_named: true, ..Self::default() }
    }

    /// Gives a forest a name. If another model has the name, it loses it.
    ///
    /// # Errors
    /// The forest can't be compiled.
    pub fn add(&self, name: &str, forest: Forest) -> Result<Arc<Model>, ModelError> {
        Ok(self.insert(name, Model::new(forest, None)?))
    }

    fn insert(&self, name: &str, model: Model) -> Arc<Model> {
        let model = Arc::new(model);
        lock(&self.known).insert(name.to_owned(), model.clone());
        model
    }

    /// Gives the forest of a file a name.
    ///
    /// # Errors
    /// The file can't be read, or the forest can't be compiled.
    pub fn load(&self, name: &str, path: &Path) -> Result<Arc<Model>, ModelError> {
        let forest = import::load(path, &load_options()).map_err(|e| ModelError::Refused(e.to_string()))?;
        // Links are not resolved: on other machines they may lead to other files.
        let path = std::path::absolute(path).ok();
        Ok(self.insert(name, Model::new(forest, path)?))
    }

    /// Returns the model of a name, or of a file's path.
    ///
    /// # Errors
    /// There is no such model, its file can't be read, or its forest can't be compiled.
    pub fn get(&self, name: &str) -> Result<Arc<Model>, ModelError> {
        if let Some(model) = lock(&self.known).get(name) {
            return Ok(model.clone());
        }
        if !self.only_named && Path::new(name).is_file() {
            return self.load(name, Path::new(name));
        }
        let mut names: Vec<String> = lock(&self.known).keys().map(|name| format!("`{name}`")).collect();
        names.sort();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Err(ModelError::Unknown { name: name.to_owned(), names })
    }

    /// Returns a model that another process's plan names. Models are loaded one at a time, so that none is loaded
    /// twice.
    ///
    /// # Errors
    /// The bytes or the file hold another model, or the file can't be read.
    pub(crate) fn receive(&self, sent: &SentModel) -> Result<Arc<Model>, ModelError> {
        let mut all = lock(&self.sent);
        if let Some(model) = all.iter().find(|model| model.hash() == sent.hash) {
            return Ok(model.clone());
        }
        let refused = |e: &dyn std::fmt::Display| ModelError::Refused(e.to_string());
        let model = match &sent.source {
            ModelSource::Bytes(bytes) => {
                let forest = import::parse(bytes, &load_options()).map_err(|e| refused(&e))?;
                let model = Model::new(forest, None)?;
                if model.hash() != sent.hash {
                    return Err(refused(&"the model of a plan was damaged on its way; run the query again"));
                }
                model
            }
            ModelSource::File(path) => {
                let forest = import::load(path, &load_options()).map_err(|e| match e {
                    // The file may come back, or be read another time.
                    Error::Io { source, .. } => {
                        ModelError::Unreachable { path: path.clone(), error: Arc::new(source) }
                    }
                    e => refused(&e),
                })?;
                let model = Model::new(forest, Some(path.clone()))?;
                if model.hash() != sent.hash {
                    return Err(ModelError::Changed { path: path.clone() });
                }
                model
            }
        };
        let model = Arc::new(model);
        if all.len() == KEPT {
            all.pop_front();
        }
        all.push_back(model.clone());
        Ok(model)
    }
}

/// Locks a mutex, even after a panic: a thread that panics leaves nothing half done under one of these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
