//! Reads an operator's attributes by name.

use super::super::{ErrorKind, ImportError};
use super::error::at;
use super::proto::{self, AttributeProto, Bytes, TensorProto};

/// The attributes of an operator; `location` is its path in the file.
pub(super) struct Attributes {
    location: String,
    all: Vec<AttributeProto>,
}

/// A list of numbers from an attribute, and whether they were doubles in the file.
#[derive(Default)]
pub(super) struct Numbers {
    pub(super) values: Vec<f64>,
    pub(super) double: bool,
    /// The name of the attribute that holds the numbers.
    pub(super) name: String,
}

impl Attributes {
    /// Decodes the attributes whose names are in `wanted` and skips all others.
    pub(super) fn read(raw: &[Bytes], location: String, wanted: &[&str]) -> Result<Self, ImportError> {
        let mut all: Vec<AttributeProto> = Vec::new();
        for (i, bytes) in raw.iter().enumerate() {
            let attribute: AttributeProto =
                proto::decode(bytes.clone(), &format!("{location}.attribute[{i}]"))?;
            if !wanted.contains(&attribute.name.as_str()) {
                continue;
            }
            if all.iter().any(|a| a.name == attribute.name) {
                let cause = format!("attribute `{}` is there twice", attribute.name);
                return Err(at(ErrorKind::Structure, location, cause));
            }
            all.push(attribute);
        }
        Ok(Self { location, all })
    }

    /// Decodes all attributes.
    pub(super) fn all(raw: &[Bytes], location: String) -> Result<Self, ImportError> {
        let decode =
            |(i, bytes): (usize, &Bytes)| proto::decode(bytes.clone(), &format!("{location}.attribute[{i}]"));
        let all = raw.iter().enumerate().map(decode).collect::<Result<_, _>>()?;
        Ok(Self { location, all })
    }

    /// Returns the path of an attribute.
    pub(super) fn path(&self, name: &str) -> String {
        format!("{}.{name}", self.location)
    }

    fn take(&mut self, name: &str) -> Option<AttributeProto> {
        let i = self.all.iter().position(|a| a.name == name)?;
        Some(self.all.swap_remove(i))
    }

    /// Returns a list of integers; empty if the attribute is absent.
    pub(super) fn ints(&mut self, name: &str) -> Vec<i64> {
        self.take(name).map(|a| a.ints).unwrap_or_default()
    }

    /// Returns an integer, or `None` if the attribute is absent.
    pub(super) fn int(&mut self, name: &str) -> Option<i64> {
        self.take(name).map(|a| a.i)
    }

    /// Returns a float, or `None` if the attribute is absent.
    pub(super) fn float(&mut self, name: &str) -> Option<f32> {
        self.take(name).map(|a| a.f)
    }

    /// Returns the message of a tensor, or `None` if the attribute is absent.
    pub(super) fn message(&mut self, name: &str) -> Option<Bytes> {
        self.take(name).map(|a| a.t)
    }

    /// Returns the message of a graph, or `None` if the attribute is absent.
    pub(super) fn graph(&mut self, name: &str) -> Option<Bytes> {
        self.take(name).map(|a| a.g)
    }

    /// Returns the number of floats of an attribute.
    pub(super) fn count(&self, name: &str) -> usize {
        self.all.iter().find(|a| a.name == name).map_or(0, |a| a.floats.len())
    }

    /// Returns a list of strings; empty if the attribute is absent.
    pub(super) fn strings(&mut self, name: &str) -> Vec<Bytes> {
        self.take(name).map(|a| a.strings).unwrap_or_default()
    }

    /// Returns a list of floats; empty if the attribute is absent.
    pub(super) fn floats(&mut self, name: &str) -> Vec<f64> {
        self.take(name).map(|a| a.floats.into_iter().map(f64::from).collect()).unwrap_or_default()
    }

    /// Returns a string, or `None` if the attribute is absent.
    pub(super) fn string(&mut self, name: &str) -> Option<String> {
        self.take(name).map(|a| String::from_utf8_lossy(&a.s).into_owned())
    }

    /// Returns the numbers of a tensor; empty if the attribute is absent.
    pub(super) fn tensor(&mut self, name: &str) -> Result<Numbers, ImportError> {
        let Some(attribute) = self.take(name) else { return Ok(Numbers::default()) };
        let location = self.path(name);
        let tensor: TensorProto = proto::decode(attribute.t, &location)?;
        let double = tensor.data_type == 11;
        Ok(Numbers { values: proto::numbers(&tensor, &location)?, double, name: name.into() })
    }

    /// Returns the list of floats called `name`, or the tensor called `name_as_tensor` that may replace it.
    /// Refuses an operator that has both.
    pub(super) fn floats_or_tensor(&mut self, name: &str) -> Result<Numbers, ImportError> {
        let floats: Vec<f32> = self.take(name).map(|a| a.floats).unwrap_or_default();
        let tensor = self.tensor(&format!("{name}_as_tensor"))?;
        if floats.is_empty() {
            let name = if tensor.name.is_empty() { name.into() } else { tensor.name };
            return Ok(Numbers { name, ..tensor });
        }
        if !tensor.values.is_empty() {
            let cause = format!("`{name}` and `{}` are both there", tensor.name);
            return Err(at(ErrorKind::Structure, self.path(name), cause));
        }
        Ok(Numbers { values: floats.into_iter().map(f64::from).collect(), double: false, name: name.into() })
    }
}
