//! The three tree operators and `ZipMap` as custom operators of burn-onnx.

use burn_onnx::ext::{
    ArgType, AttrKind, CodegenContext, CustomNode, CustomOp, DType, Field, OpsetRange, PackTensor,
    ProcessError, TensorData, TensorType, arg_to_ident, bridge,
    proc_macro2::{Ident, Span, TokenStream},
    quote::quote,
};
use fangorn::{
    Forest,
    import::{
        LoadOptions,
        onnx::{Tensor, TreeOperator},
    },
};
use fangorn_graphs::forest::Record;

use crate::{cut::UNLABELLED, graph::ML};

/// A tree operator, and the versions of its domain that have it.
#[derive(Clone, Copy)]
pub(crate) struct Trees {
    op: &'static str,
    opsets: OpsetRange,
}

pub(crate) const ALL: [Trees; 3] = [
    Trees { op: "TreeEnsembleRegressor", opsets: OpsetRange { min: 1, max: Some(5) } },
    Trees { op: "TreeEnsembleClassifier", opsets: OpsetRange { min: 1, max: Some(5) } },
    Trees { op: "TreeEnsemble", opsets: OpsetRange { min: 5, max: Some(5) } },
];

impl CustomOp for Trees {
    fn op_type(&self) -> &str {
        self.op
    }

    fn domain(&self) -> &str {
        ML
    }

    fn opset_range(&self) -> OpsetRange {
        self.opsets
    }

    fn infer_output_types(&self, node: &CustomNode) -> Result<Vec<ArgType>, ProcessError> {
        let input = rows(node)?;
        let forest = forest(node, input)?;
        let rows = input.static_shape.as_ref().and_then(|shape| shape.first().copied().flatten());
        let width = forest.transform.width(forest.outputs as usize);
        let tensor = |dtype, shape: Vec<_>| ArgType::Tensor(TensorType::new(dtype, shape.len(), Some(shape)));
        let scores = tensor(DType::F32, vec![rows, Some(width)]);
        let types = match self.op {
            "TreeEnsembleClassifier" => vec![tensor(DType::I64, vec![rows]), scores],
            _ => vec![scores],
        };
        Ok(types.into_iter().take(node.outputs.len()).collect())
    }

    fn forward(
        &self,
        node: &CustomNode,
        context: &mut CodegenContext<'_, '_>,
    ) -> Result<TokenStream, ProcessError> {
        let input = rows(node)?;
        let forest = forest(node, input)?;
        let mut x = context.arg(&node.inputs[0]);
        if input.dtype != DType::F32 {
            x = quote! { #x.float().cast(burn::tensor::DType::F32) };
        }
        if columns(input).is_none() {
            let width = forest.features.len();
            x = quote! { #x.narrow(1, 0, #width) };
        }
        let field = Ident::new(&node.name, Span::call_site());
        let refused = format!("{}: {{error}}", location(node));
        let refused = quote! { .unwrap_or_else(|error| panic!(#refused)) };
        let scores = usize::from(self.op == "TreeEnsembleClassifier");
        let [label, scores] = [0, scores].map(|o| node.outputs.get(o).filter(|o| !o.name.is_empty()));
        let label = label.filter(|_| self::label(node));
        Ok(match (label.map(arg_to_ident), scores.map(arg_to_ident)) {
            (Some(label), Some(scores)) => {
                quote! { let (#scores, #label) = self.#field.values_and_labels(#x)#refused; }
            }
            (Some(label), None) => quote! { let (_, #label) = self.#field.values_and_labels(#x)#refused; },
            (None, Some(scores)) => quote! { let #scores = self.#field.values(#x)#refused; },
            (None, None) => quote! {},
        })
    }

    fn field(&self, node: &CustomNode) -> Result<Option<Field>, ProcessError> {
        let record = record(node)?;
        let ([slots, width], words) = (record.leaf_shape(), record.words());
        let field = Ident::new(&node.name, Span::call_site());
        let module = quote! { ::fangorn_graphs::forest::ForestModule };
        let new = quote! { let #field = #module::unloaded([#slots, #width], #words, device); };
        Ok(Some(Field::new(&node.name, module, new)))
    }

    fn collect_tensors(&self, node: &CustomNode, field: &str) -> Result<Vec<PackTensor>, ProcessError> {
        let tensors = record(node)?.into_tensors().into_iter();
        Ok(tensors.map(|(name, data)| bridge::from_data(data, format!("{field}.{name}"), None)).collect())
    }
}

/// The operator that makes maps of scores. It is refused with a remedy, because no tensor holds maps.
pub(crate) struct ZipMap;

impl CustomOp for ZipMap {
    fn op_type(&self) -> &str {
        "ZipMap"
    }

    fn domain(&self) -> &str {
        ML
    }

    fn infer_output_types(&self, node: &CustomNode) -> Result<Vec<ArgType>, ProcessError> {
        Err(refused(
            node,
            "it makes maps, which no tensor holds; hand the file to fangorn_onnx::cut first, or convert the model without \
             (skl2onnx: options={'zipmap': False})",
        ))
    }

    fn forward(
        &self,
        node: &CustomNode,
        _: &mut CodegenContext<'_, '_>,
    ) -> Result<TokenStream, ProcessError> {
        self.infer_output_types(node).map(|_| TokenStream::new())
    }
}

/// Tells whether somebody may take the operator's label. [`cut`](crate::cut) marks classifiers whose label
/// nobody takes.
fn label(node: &CustomNode) -> bool {
    node.op_type == "TreeEnsembleClassifier" && node.attrs.kind(UNLABELLED).is_none()
}

fn location(node: &CustomNode) -> String {
    format!("{} `{}`", node.op_type, node.name)
}

fn refused(node: &CustomNode, what: &str) -> ProcessError {
    ProcessError::Custom(format!("{}: {what}", location(node)))
}

/// Returns the type of the operator's rows.
fn rows(node: &CustomNode) -> Result<&TensorType, ProcessError> {
    let input = match node.inputs.first().map(|input| &input.ty) {
        Some(ArgType::Tensor(input)) if input.rank == 2 => input,
        _ => {
            let what = "its input is no matrix of rows; put a Reshape to [-1, columns] before it";
            return Err(refused(node, what));
        }
    };
    match input.dtype {
        DType::F32 | DType::I32 | DType::I64 => Ok(input),
        DType::F64 => Err(refused(
            node,
            "rows of double are not supported; convert the model with an input of float, or put a Cast to float before \
             the trees",
        )),
        other => Err(refused(
            node,
            &format!("rows of {other:?} are not supported; put a Cast to float before the trees"),
        )),
    }
}

/// Returns the number of columns of a row, if it is known.
fn columns(input: &TensorType) -> Option<usize> {
    input.static_shape.as_ref().and_then(|shape| shape.get(1).copied().flatten())
}

fn record(node: &CustomNode) -> Result<Record, ProcessError> {
    Ok(Record::new(&forest(node, rows(node)?)?))
}

/// Makes the forest from the operator's attributes.
fn forest(node: &CustomNode, input: &TensorType) -> Result<Forest, ProcessError> {
    let attributes = &node.attrs;
    if label(node) && attributes.get_strings("classlabels_strings").is_some_and(|labels| !labels.is_empty()) {
        return Err(refused(
            node,
            "its labels are strings, which no tensor holds; hand the file to fangorn_onnx::cut first, which takes them off \
             where only an output needs them, or convert the model with classes that are integers",
        ));
    }
    let mut operator = TreeOperator::new(&node.op_type, &location(node));
    if let Some(columns) = columns(input) {
        operator = operator.columns(columns);
    }
    if !label(node) {
        operator = operator.without_label();
    }
    let mut names: Vec<&str> = attributes.names().collect();
    names.sort_unstable();
    for name in names {
        operator = match attributes.kind(name) {
            Some(AttrKind::Int64) => operator.int(name, attributes.get_i64(name).unwrap_or_default()),
            Some(AttrKind::Int64s) => operator.ints(name, attributes.get_i64s(name).unwrap_or_default()),
            Some(AttrKind::Float32s) => operator.floats(name, attributes.get_f32s(name).unwrap_or_default()),
            Some(AttrKind::String) => operator.string(name, attributes.get_string(name).unwrap_or_default()),
            Some(AttrKind::Strings) => {
                operator.strings(name, attributes.get_strings(name).unwrap_or_default())
            }
            Some(AttrKind::Tensor) => match attributes.get_tensor(name) {
                Some(tensor) => put(operator, node, name, tensor)?,
                None => operator,
            },
            // No attribute of these operators has another kind.
            _ => operator,
        };
    }
    operator.forest(&LoadOptions::default()).map_err(|e| ProcessError::Custom(e.to_string()))
}

/// Adds a tensor attribute to the operator.
fn put(
    operator: TreeOperator,
    node: &CustomNode,
    name: &str,
    tensor: &TensorData,
) -> Result<TreeOperator, ProcessError> {
    let broken = |e| refused(node, &format!("{name} can't be read ({e:?}); convert the model again"));
    Ok(match tensor.dtype() {
        DType::F32 => operator.tensor(name, Tensor::Float(tensor.as_slice().map_err(broken)?)),
        DType::F64 => operator.tensor(name, Tensor::Double(tensor.as_slice().map_err(broken)?)),
        DType::U8 => operator.tensor(name, Tensor::Byte(tensor.as_slice().map_err(broken)?)),
        other => {
            let what = format!(
                "{name} is a tensor of {other:?}, which is not supported; convert the model with floats"
            );
            return Err(refused(node, &what));
        }
    })
}
