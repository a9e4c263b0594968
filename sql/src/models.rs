//! The models that functions find by a name or a path.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use fangorn::{
    Forest, Predictor,
    import::{self, LoadOptions},
};

/// Why there is no such model.
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
}

/// A forest that is ready to predict.
#[derive(Debug)]
pub struct Model {
    /// The forest.
    pub forest: Forest,
    /// Predicts on the thread that calls it: a query's partitions already have a thread each.
    pub predictor: Predictor,
}

impl Model {
    fn new(forest: Forest) -> Result<Self, ModelError> {
        let predictor = Predictor::builder(&forest).threads(1).build();
        let predictor = predictor.map_err(|e| ModelError::Refused(e.to_string()))?;
        Ok(Self { forest, predictor })
    }
}

/// Models by their names. A file is loaded when its path is first asked for, and then stays as it is.
#[derive(Debug, Default)]
pub struct Models {
    known: Mutex<HashMap<String, Arc<Model>>>,
    only_named: bool,
}

impl Models {
    /// Returns models of which queries can only use those that have a name: no text in a query opens a file.
    pub fn only_named() -> Self {
        Self { only_named: true, ..Self::default() }
    }

    /// Gives a forest a name, in the place of what had it before.
    ///
    /// # Errors
    /// The forest can't be compiled.
    pub fn add(&self, name: &str, forest: Forest) -> Result<Arc<Model>, ModelError> {
        let model = Arc::new(Model::new(forest)?);
        self.known().insert(name.to_owned(), model.clone());
        Ok(model)
    }

    /// Gives the forest of a file a name.
    ///
    /// # Errors
    /// The file can't be read, or the forest can't be compiled.
    pub fn load(&self, name: &str, path: &Path) -> Result<Arc<Model>, ModelError> {
        let options = LoadOptions { raw_categories: true, ..LoadOptions::default() };
        let forest = import::load(path, &options).map_err(|e| ModelError::Refused(e.to_string()))?;
        self.add(name, forest)
    }

    /// Returns the model of a name, or of a file's path.
    ///
    /// # Errors
    /// There is no such model, its file can't be read, or its forest can't be compiled.
    pub fn get(&self, name: &str) -> Result<Arc<Model>, ModelError> {
        if let Some(model) = self.known().get(name) {
            return Ok(model.clone());
        }
        if !self.only_named && Path::new(name).is_file() {
            return self.load(name, Path::new(name));
        }
        let mut names: Vec<String> = self.known().keys().map(|name| format!("`{name}`")).collect();
        names.sort();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Err(ModelError::Unknown { name: name.to_owned(), names })
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Model>>> {
        // Nothing is left half done by a thread that panics here.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
