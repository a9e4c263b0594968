//! The names of a model's columns, and where a table has them.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use crate::forest::Forest;

/// The names of a model's columns; empty unless each column has a name of its own.
#[derive(Clone, Debug, Default)]
pub struct ColumnNames {
    names: Vec<String>,
    /// Whether a person chose the names. Names that a library made up are no reason to refuse a table.
    chosen: bool,
    /// Whether spaces in a name count as underscores, as LightGBM stores them.
    underscores: bool,
}

/// The texts that libraries put before the number of a column that has no name.
const STEMS: [&str; 3] = ["", "f", "Column_"];

/// The names that a table lacks, or has more than once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameMismatch {
    /// The table has no column of these names.
    Missing(Vec<String>),
    /// The table has several columns of each of these names.
    Doubled(Vec<String>),
}

impl ColumnNames {
    /// Returns the names of a model's columns.
    pub fn of(forest: &Forest) -> Self {
        let mut of = Self { underscores: forest.producer.library == "lightgbm", ..Self::default() };
        let named = forest.features.iter().filter_map(|f| f.name.as_deref());
        let names: Vec<String> = named.map(|name| of.key(name)).filter(|name| !name.is_empty()).collect();
        let distinct: HashSet<&String> = names.iter().collect();
        if distinct.len() == forest.features.len() {
            of.chosen = !Self::made_up(names.len()).any(|other| other.names == names);
            of.names = names;
        }
        of
    }

    /// Returns the lists of names that libraries make up for this number of columns.
    pub fn made_up(columns: usize) -> impl Iterator<Item = Self> {
        STEMS.into_iter().map(move |stem| Self {
            names: (0..columns).map(|i| format!("{stem}{i}")).collect(),
            ..Self::default()
        })
    }

    /// Returns the names, in the order of the model's columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns whether a person chose the names, so that a table has to have them.
    pub fn are_chosen(&self) -> bool {
        self.chosen
    }

    /// Returns whether any name of a table's columns is one of the model's.
    pub fn any_of<'t>(&self, table: impl IntoIterator<Item = &'t str>) -> bool {
        let known: HashSet<&str> = self.names.iter().map(String::as_str).collect();
        table.into_iter().any(|name| known.contains(self.key(name).as_str()))
    }

    /// Returns, for each of the model's columns, its index among a table's columns, which are given by their
    /// names. White space and quotes around a name are ignored.
    ///
    /// ```
    /// use fangorn::{
    ///     Forest,
    ///     forest::Feature,
    ///     table::{ColumnNames, NameMismatch},
    /// };
    ///
    /// let mut forest = Forest::builder(2, 1).build()?;
    /// forest.features[0].name = Some("age".into());
    /// forest.features[1].name = Some("sex".into());
    /// let names = ColumnNames::of(&forest);
    /// assert_eq!(names.indices(["id", "sex", "age"]), Ok(vec![2, 1]));
    /// assert_eq!(names.indices(["age"]), Err(NameMismatch::Missing(vec!["sex".into()])));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The table lacks names, or else has some more than once.
    pub fn indices<'t>(&self, table: impl IntoIterator<Item = &'t str>) -> Result<Vec<usize>, NameMismatch> {
        let mut found: HashMap<String, (usize, usize)> = HashMap::new();
        for (at, name) in table.into_iter().enumerate() {
            found.entry(self.key(name)).or_insert((at, 0)).1 += 1;
        }
        let times = |name: &String| found.get(name).map_or(0, |(_, times)| *times);
        let with = |wrong: fn(usize) -> bool| -> Vec<String> {
            self.names.iter().filter(|name| wrong(times(name))).cloned().collect()
        };
        let (missing, doubled) = (with(|times| times == 0), with(|times| times > 1));
        if !missing.is_empty() {
            return Err(NameMismatch::Missing(missing));
        }
        if !doubled.is_empty() {
            return Err(NameMismatch::Doubled(doubled));
        }
        Ok(self.names.iter().filter_map(|name| found.get(name)).map(|(at, _)| *at).collect())
    }

    /// Returns the text by which names are compared: without white space and quotes around the name.
    fn key(&self, name: &str) -> String {
        let name = name.trim();
        let bare = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
        if self.underscores { bare.replace(' ', "_") } else { bare.to_owned() }
    }
}

impl fmt::Display for NameMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(names) => {
                write!(f, "{} of the model's columns are missing: {}", names.len(), first_names(names))
            }
            Self::Doubled(names) => {
                write!(
                    f,
                    "{} of the model's columns occur more than once: {}",
                    names.len(),
                    first_names(names)
                )
            }
        }
    }
}

/// Returns the first few names of a list, joined by commas, for messages.
///
/// ```
/// assert_eq!(fangorn::table::first_names(&["a", "b", "c", "d", "e", "f"]), "a, b, c, d, e, …");
/// ```
pub fn first_names<T: AsRef<str>>(names: &[T]) -> String {
    const MOST: usize = 5;
    let more = if names.len() > MOST { ", …" } else { "" };
    let first: Vec<&str> = names.iter().take(MOST).map(AsRef::as_ref).collect();
    first.join(", ") + more
}
