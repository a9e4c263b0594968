//! Columns of a table that are kept beside the predictions.

use std::{borrow::Cow, collections::HashMap, io, sync::Arc};

#[cfg(feature = "tables")]
use arrow_array::{ArrayRef, StringArray, cast::AsArray};
#[cfg(feature = "tables")]
use arrow_cast::display::{ArrayFormatter, FormatOptions};
#[cfg(feature = "tables")]
use arrow_schema::{DataType, Field, FieldRef};

/// The name and the type of a kept column.
#[derive(Clone, Debug)]
pub struct KeptField {
    name: String,
    /// The type in Arrow, or `None` for the texts of a CSV.
    #[cfg(feature = "tables")]
    arrow: Option<FieldRef>,
}

impl KeptField {
    /// Returns a column of texts, as a CSV has them.
    pub fn text(name: String) -> Self {
        Self {
            name,
            #[cfg(feature = "tables")]
            arrow: None,
        }
    }

    /// Tells whether its entries are the texts of a CSV.
    pub fn is_text(&self) -> bool {
        #[cfg(feature = "tables")]
        return self.arrow.is_none();
        #[cfg(not(feature = "tables"))]
        true
    }

    /// Returns the column's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks that its entries can be written as texts.
    ///
    /// # Errors
    /// The column's type has no text. The message names the column and the remedy.
    pub fn check_text(&self) -> Result<(), String> {
        #[cfg(feature = "tables")]
        if let Some(field) = &self.arrow {
            let none = KeptColumn::Arrow(arrow_array::new_empty_array(field.data_type()));
            let remedy = "cast the column to text, or write .parquet or .arrow";
            return match none.texts() {
                Ok(_) => Ok(()),
                Err(e) => Err(format!("--keep: the column `{}`: {e}; {remedy}", self.name)),
            };
        }
        Ok(())
    }
}

#[cfg(feature = "tables")]
impl KeptField {
    /// Returns a column of a table of Arrow. `name` is its path, if it is inside a struct.
    pub fn of_arrow(name: &str, field: &FieldRef) -> Self {
        let field = field.as_ref().clone().with_name(name);
        // Each batch may have a dictionary of its own, which an Arrow file can't hold.
        let plain = match field.data_type() {
            DataType::Dictionary(_, values) => {
                let values = (**values).clone();
                field.with_data_type(values)
            }
            _ => field,
        };
        Self { name: name.to_owned(), arrow: Some(Arc::new(plain)) }
    }

    /// Returns the column's name and type in a file of Arrow or Parquet.
    pub fn arrow(&self) -> FieldRef {
        self.arrow.clone().unwrap_or_else(|| Arc::new(Field::new(&self.name, DataType::Utf8, false)))
    }
}

/// The entries of a kept column for the rows of a batch.
#[derive(Clone, Debug)]
pub enum KeptColumn {
    /// Fields of a CSV.
    Texts(Texts),
    /// A column of a table of Arrow or Parquet.
    #[cfg(feature = "tables")]
    Arrow(ArrayRef),
}

impl KeptColumn {
    /// Returns the entries of `count` rows from row `first` on.
    pub fn slice(&self, first: usize, count: usize) -> Self {
        match self {
            Self::Texts(texts) => Self::Texts(texts.slice(first, count)),
            #[cfg(feature = "tables")]
            Self::Arrow(array) => Self::Arrow(array.slice(first, count)),
        }
    }

    /// Returns the entries as texts, row by row.
    ///
    /// # Errors
    /// The column's type has no text.
    pub fn texts(&self) -> io::Result<RowTexts<'_>> {
        match self {
            Self::Texts(texts) => Ok(RowTexts::Texts(texts)),
            #[cfg(feature = "tables")]
            Self::Arrow(array) => {
                const OPTIONS: &FormatOptions<'static> = &FormatOptions::new();
                let formatter = ArrayFormatter::try_new(array.as_ref(), OPTIONS).map_err(io::Error::other)?;
                Ok(RowTexts::Arrow(Box::new(formatter)))
            }
        }
    }

    /// Returns the entries of a column of texts, row by row; a missing one is empty. Equal texts share their memory, if the
    /// column has few different ones.
    ///
    /// # Errors
    /// The column holds no texts.
    pub fn shared_texts(&self) -> io::Result<Vec<Arc<str>>> {
        match self {
            Self::Texts(texts) => Ok(shared(texts.iter())),
            #[cfg(feature = "tables")]
            Self::Arrow(array) => {
                let array = arrow_cast::cast(array, &DataType::Utf8).map_err(io::Error::other)?;
                Ok(shared(array.as_string::<i32>().iter().map(Option::unwrap_or_default)))
            }
        }
    }

    /// Returns the column as an array of the type of `field`.
    ///
    /// # Errors
    /// The values do not have this type.
    #[cfg(feature = "tables")]
    pub fn to_arrow(&self, field: &FieldRef) -> io::Result<ArrayRef> {
        match self {
            Self::Texts(texts) => Ok(Arc::new(StringArray::from_iter_values(texts.iter()))),
            Self::Arrow(array) => arrow_cast::cast(array, field.data_type()).map_err(io::Error::other),
        }
    }
}

/// The number of different texts of a batch from which on each entry has memory of its own.
const MOST_SHARED: usize = 4096;

fn shared<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<Arc<str>> {
    let mut known: HashMap<&str, Arc<str>> = HashMap::new();
    let share = |text: &'t str| match known.get(text) {
        Some(shared) => shared.clone(),
        None => {
            let shared: Arc<str> = text.into();
            if known.len() < MOST_SHARED {
                known.insert(text, shared.clone());
            }
            shared
        }
    };
    texts.map(share).collect()
}

/// Gives the entries of a kept column as texts.
pub enum RowTexts<'c> {
    /// Fields of a CSV.
    Texts(&'c Texts),
    /// Values of Arrow.
    #[cfg(feature = "tables")]
    Arrow(Box<ArrayFormatter<'c>>),
}

impl RowTexts<'_> {
    /// Returns the text of a row.
    ///
    /// # Errors
    /// The value has no text.
    pub fn get(&self, row: usize) -> io::Result<Cow<'_, str>> {
        match self {
            Self::Texts(texts) => Ok(texts.get(row).into()),
            #[cfg(feature = "tables")]
            Self::Arrow(formatter) => {
                formatter.value(row).try_to_string().map(Cow::Owned).map_err(io::Error::other)
            }
        }
    }
}

/// Texts in one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    all: String,
    /// Where each text ends.
    ends: Vec<usize>,
}

impl Texts {
    /// Adds a text.
    pub fn push(&mut self, text: &str) {
        self.all.push_str(text);
        self.ends.push(self.all.len());
    }

    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the text of a row.
    pub fn get(&self, row: usize) -> &str {
        let begin = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.all[begin..self.ends[row]]
    }

    /// Returns all texts, row after row.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|row| self.get(row))
    }

    fn slice(&self, first: usize, count: usize) -> Self {
        (first..first + count).map(|row| self.get(row)).collect()
    }
}

impl<'t> FromIterator<&'t str> for Texts {
    fn from_iter<I: IntoIterator<Item = &'t str>>(texts: I) -> Self {
        let mut all = Self::default();
        texts.into_iter().for_each(|text| all.push(text));
        all
    }
}
