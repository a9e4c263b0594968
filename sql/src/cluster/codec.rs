//! Encodes Fangorn's functions in Ballista's plans.

use std::sync::Arc;

use ballista_core::serde::{BallistaLogicalExtensionCodec, BallistaPhysicalExtensionCodec};
use datafusion::{
    arrow::datatypes::{DataType, SchemaRef},
    catalog::TableProvider,
    common::{Result, TableReference, exec_datafusion_err, exec_err, not_impl_err},
    datasource::file_format::FileFormatFactory,
    execution::TaskContext,
    logical_expr::{AggregateUDF, Extension, LogicalPlan, ScalarUDF},
    physical_plan::ExecutionPlan,
};
use datafusion_proto::{
    logical_plan::LogicalExtensionCodec,
    physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension},
};
use fangorn::forest::ModelHash;
use prost::Message;

use crate::{
    ForestFunction, ForestOutput, ModelSource, Models, SentFunction, SentModel,
    function::list_of,
    fusion::{FusedAggregate, SentAggregate},
};

/// Encodes and decodes forest functions and operators of fusion plans, and leaves everything else to Ballista's codecs.
#[derive(Debug)]
pub struct FunctionCodec {
    models: Arc<Models>,
    logical: BallistaLogicalExtensionCodec,
    physical: BallistaPhysicalExtensionCodec,
}

impl FunctionCodec {
    /// Returns a codec whose functions look for their models among `models`.
    pub fn new(models: Arc<Models>) -> Self {
        Self { models, logical: Default::default(), physical: Default::default() }
    }

    /// Appends the bytes of a function. It appends none if the function is not a forest's.
    fn encode(function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        if let Some(function) = function.inner().downcast_ref::<ForestFunction>() {
            let sent = function.sent()?;
            if let Some(SentModel { source: ModelSource::File(path), .. }) = &sent.model
                && path.to_str().is_none()
            {
                let path = path.display();
                return exec_err!("{path}: a path that is no UTF-8 can't travel; rename the model's file");
            }
            let message = FunctionMessage::of(sent);
            message.encode(bytes).map_err(|e| exec_datafusion_err!("{e}"))?;
        }
        Ok(())
    }

    /// Returns the function of a name and its bytes.
    fn decode(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        let wrong = || {
            exec_datafusion_err!("{name}: its part of the plan is damaged, or of another version of Fangorn")
        };
        if let Some(function) = crate::functions(&self.models).into_iter().find(|found| found.name() == name)
        {
            if bytes.is_empty() {
                return Ok(Arc::new(function));
            }
            let message = FunctionMessage::decode(bytes).map_err(|_| wrong())?;
            let sent = message.function().ok_or_else(wrong)?;
            return Ok(Arc::new(ForestFunction::received(self.models.clone(), sent).into()));
        }
        not_impl_err!("the cluster has no function {name}")
    }
}

fn encode_aggregate(function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
    if let Some(function) = function.inner().downcast_ref::<FusedAggregate>() {
        let SentAggregate { operator, columns, numbered } = function.sent()?;
        let message = AggregateMessage { operator, columns, numbered };
        message.encode(bytes).map_err(|e| exec_datafusion_err!("{e}"))?;
    }
    Ok(())
}

fn decode_aggregate(name: &str, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
    if name != FusedAggregate::NAME {
        return not_impl_err!("the cluster has no aggregate function {name}");
    }
    let AggregateMessage { operator, columns, numbered } = AggregateMessage::decode(bytes).map_err(|_| {
        exec_datafusion_err!("{name}: its part of the plan is damaged, or of another version of Fangorn")
    })?;
    Ok(Arc::new(FusedAggregate::received(SentAggregate { operator, columns, numbered })?.into()))
}

/// The bytes of an operator of a fusion plan.
#[derive(Clone, PartialEq, Message)]
struct AggregateMessage {
    #[prost(bytes = "vec", tag = "1")]
    operator: Vec<u8>,
    #[prost(string, repeated, tag = "2")]
    columns: Vec<String>,
    #[prost(bool, tag = "3")]
    numbered: bool,
}

/// The bytes of a function.
#[derive(Clone, PartialEq, Message)]
struct FunctionMessage {
    #[prost(enumeration = "OutputMessage", tag = "1")]
    output: i32,
    #[prost(bool, tag = "2")]
    by_position: bool,
    #[prost(message, optional, tag = "3")]
    model: Option<ModelMessage>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
enum OutputMessage {
    /// An output that another version may have.
    Unknown = 0,
    Value = 1,
    Margin = 2,
    Class = 3,
}

/// The bytes of a model.
#[derive(Clone, PartialEq, Message)]
struct ModelMessage {
    /// 16 bytes, the least significant first.
    #[prost(bytes = "vec", tag = "1")]
    hash: Vec<u8>,
    #[prost(oneof = "ReturnedMessage", tags = "2, 3, 4")]
    returned: Option<ReturnedMessage>,
    #[prost(oneof = "SourceMessage", tags = "5, 6")]
    source: Option<SourceMessage>,
}

/// The type of a function's results.
#[derive(Clone, PartialEq, prost::Oneof)]
enum ReturnedMessage {
    /// The number of floats of a list, or 1 for a single float.
    #[prost(int32, tag = "2")]
    Floats(i32),
    #[prost(bool, tag = "3")]
    Integer(bool),
    #[prost(bool, tag = "4")]
    Text(bool),
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum SourceMessage {
    #[prost(bytes = "vec", tag = "5")]
    Bytes(Vec<u8>),
    #[prost(string, tag = "6")]
    File(String),
}

impl FunctionMessage {
    fn of(function: SentFunction) -> Self {
        let output = match function.output {
            ForestOutput::Value => OutputMessage::Value,
            ForestOutput::Margin => OutputMessage::Margin,
            ForestOutput::Class => OutputMessage::Class,
        };
        let model = function.model.map(|model| ModelMessage {
            hash: model.hash.0.to_le_bytes().to_vec(),
            returned: match model.returned {
                DataType::Float32 => Some(ReturnedMessage::Floats(1)),
                DataType::FixedSizeList(_, width) => Some(ReturnedMessage::Floats(width)),
                DataType::Int64 => Some(ReturnedMessage::Integer(true)),
                DataType::Utf8 => Some(ReturnedMessage::Text(true)),
                _ => None,
            },
            source: Some(match model.source {
                ModelSource::Bytes(bytes) => SourceMessage::Bytes(bytes.to_vec()),
                ModelSource::File(path) => SourceMessage::File(path.to_string_lossy().into_owned()),
            }),
        });
        Self { output: output.into(), by_position: function.by_position, model }
    }

    /// Returns the function, or `None` if the message is incomplete.
    fn function(self) -> Option<SentFunction> {
        let output = match self.output() {
            OutputMessage::Value => ForestOutput::Value,
            OutputMessage::Margin => ForestOutput::Margin,
            OutputMessage::Class => ForestOutput::Class,
            OutputMessage::Unknown => return None,
        };
        let model = |model: ModelMessage| {
            Some(SentModel {
                hash: ModelHash(u128::from_le_bytes(model.hash.try_into().ok()?)),
                returned: match model.returned? {
                    ReturnedMessage::Floats(1) => DataType::Float32,
                    ReturnedMessage::Floats(width) if width >= 0 => list_of(width),
                    ReturnedMessage::Floats(_) => return None,
                    ReturnedMessage::Integer(_) => DataType::Int64,
                    ReturnedMessage::Text(_) => DataType::Utf8,
                },
                source: match model.source? {
                    SourceMessage::Bytes(bytes) => ModelSource::Bytes(bytes.into()),
                    SourceMessage::File(path) => ModelSource::File(path.into()),
                },
            })
        };
        let model = match self.model {
            Some(message) => Some(model(message)?),
            None => None,
        };
        Some(SentFunction { output, by_position: self.by_position, model })
    }
}

impl LogicalExtensionCodec for FunctionCodec {
    fn try_decode_udaf(&self, name: &str, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
        decode_aggregate(name, bytes)
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
        encode_aggregate(function, bytes)
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        self.decode(name, bytes)
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        Self::encode(function, bytes)
    }

    fn try_decode(&self, bytes: &[u8], inputs: &[LogicalPlan], context: &TaskContext) -> Result<Extension> {
        self.logical.try_decode(bytes, inputs, context)
    }

    fn try_encode(&self, node: &Extension, bytes: &mut Vec<u8>) -> Result<()> {
        self.logical.try_encode(node, bytes)
    }

    fn try_decode_table_provider(
        &self,
        bytes: &[u8],
        table: &TableReference,
        schema: SchemaRef,
        context: &TaskContext,
    ) -> Result<Arc<dyn TableProvider>> {
        self.logical.try_decode_table_provider(bytes, table, schema, context)
    }

    fn try_encode_table_provider(
        &self,
        table: &TableReference,
        provider: Arc<dyn TableProvider>,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        self.logical.try_encode_table_provider(table, provider, bytes)
    }

    fn try_decode_file_format(
        &self,
        bytes: &[u8],
        context: &TaskContext,
    ) -> Result<Arc<dyn FileFormatFactory>> {
        self.logical.try_decode_file_format(bytes, context)
    }

    fn try_encode_file_format(&self, bytes: &mut Vec<u8>, format: Arc<dyn FileFormatFactory>) -> Result<()> {
        self.logical.try_encode_file_format(bytes, format)
    }
}

impl PhysicalExtensionCodec for FunctionCodec {
    fn try_decode_udaf(&self, name: &str, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
        decode_aggregate(name, bytes)
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
        encode_aggregate(function, bytes)
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        self.decode(name, bytes)
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        Self::encode(function, bytes)
    }

    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.physical.try_decode(bytes, inputs, context, converter)
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        self.physical.try_encode(node, bytes, converter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_comes_back_and_damage_is_refused() {
        let codec = FunctionCodec::new(Arc::default());
        let hash = ModelHash(0x0123_4567_89ab_cdef_fedc_ba98_7654_3210);
        let sources =
            [ModelSource::Bytes(Arc::from(&[0u8, 255, 7][..])), ModelSource::File("/models/m.ubj".into())];
        let types = [DataType::Float32, list_of(0), list_of(5), DataType::Int64, DataType::Utf8];
        let models = sources.iter().flat_map(|source| {
            types.iter().map(move |returned| SentModel {
                hash,
                returned: returned.clone(),
                source: source.clone(),
            })
        });
        let models: Vec<Option<SentModel>> = models.map(Some).chain([None]).collect();
        for function in crate::functions(&codec.models) {
            let own = function
                .inner()
                .downcast_ref::<ForestFunction>()
                .expect("a forest's")
                .sent()
                .expect("no model");
            for model in &models {
                let sent = SentFunction { model: model.clone(), ..own.clone() };
                let function: ScalarUDF = ForestFunction::received(codec.models.clone(), sent.clone()).into();
                let mut bytes = Vec::new();
                FunctionCodec::encode(&function, &mut bytes).expect("bytes");
                let found = codec.decode(function.name(), &bytes).expect("the function");
                assert_eq!(found.name(), function.name());
                let found = found.inner().downcast_ref::<ForestFunction>().expect("a forest's");
                assert_eq!(found.sent().expect("as it came"), sent);
                // Whatever damaged bytes are, they are a function or an error.
                for at in 0..bytes.len() {
                    drop(codec.decode(function.name(), &bytes[..at]));
                    let mut damaged = bytes.clone();
                    damaged[at] ^= 0x55;
                    drop(codec.decode(function.name(), &damaged));
                }
            }
        }
        assert!(codec.decode("another", &[]).is_err());
    }
}
