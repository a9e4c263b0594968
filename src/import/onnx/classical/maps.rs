//! Inputs that are maps, as a dictionary of Python is for a row. Each key becomes a column of a table.

use super::super::super::{ErrorKind, ImportError, Location, budget::Budget};
use super::super::{
    at,
    proto::{self, TypeProto, ValueInfoProto},
};
use super::{Reader, Source, Value, learning::texts_of, tensors};
use crate::forest::Feature;
use crate::graph::{Dtype, Elements, Operator, Unary};

impl Reader<'_> {
    /// Notes an input that is a map. Returns whether it is one.
    pub(super) fn map_input(&mut self, input: &ValueInfoProto, location: &str) -> Result<bool, ImportError> {
        let Some(map) = input.r#type.as_ref().and_then(|t| t.map_type.as_ref()) else { return Ok(false) };
        let value: TypeProto = proto::decode(map.value_type.clone(), location)?;
        let dtype = value.tensor_type.and_then(|tensor| tensors::widened(tensor.elem_type));
        let Some(dtype) = dtype.filter(|dtype| *dtype != Dtype::Text) else {
            let cause = format!("input `{}` is a map whose values are no numbers", input.name);
            return Err(at(ErrorKind::Unsupported, location, cause)
                .with_remedy("train with a number for each key, such as 1 for `city=Oslo`"));
        };
        self.maps.insert(input.name.clone(), dtype);
        Ok(true)
    }

    /// Adds the columns of a map's keys. A key that a row does not have is a missing value there, which becomes 0.
    pub(super) fn dictionary(&mut self, source: &mut Source<'_>) -> Result<Value, ImportError> {
        let strings = source.attributes.strings("string_vocabulary");
        let integers = source.attributes.ints("int64_vocabulary");
        let name = source.node.input.first().cloned().unwrap_or_default();
        let Some(dtype) = self.maps.remove(&name) else {
            return Err(source.unsupported(" of anything but an input that is a map, once"));
        };
        let keys: Vec<String> = match strings.is_empty() {
            false => texts_of(&strings),
            true => integers.iter().map(i64::to_string).collect(),
        };
        let of_input = || Location::Field(format!("graph.input.{name}"));
        Budget::new(&self.options.limits).features(keys.len(), of_input)?;
        let width = keys.len();
        let operand = self.graph.input(&name, Dtype::F64, [None, Some(width)]);
        let columns = keys.into_iter().map(|key| Feature { name: Some(key), ..Feature::default() });
        if let Some(input) = self.graph.inputs.last_mut() {
            input.columns = columns.collect();
        }
        let x = Value { operand, dtype: Dtype::F64 };
        let zero = self.weight(tensors::list(Elements::F64(vec![0.0])));
        let missing = self.add(source, Operator::Unary(Unary::IsNan), &[x], Dtype::Bool);
        let filled = self.add(source, Operator::Where, &[missing, zero, x], Dtype::F64);
        Ok(self.cast(source, filled, dtype))
    }
}
