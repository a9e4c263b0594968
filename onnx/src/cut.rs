//! Removes from the end of a graph what no tensor can hold: string outputs and `ZipMap`s.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::error::{Error, Result};
use crate::graph::{Node, OutputKind, value_name};
use crate::wire::{Field, fields, put, put_integer, text};

/// An attribute that marks a classifier whose label nobody takes. It is not part of the ONNX standard.
pub(crate) const UNLABELLED: &str = "fangorn_unlabelled";

/// Removes from a model what burn-onnx has no type for. Returns the path that burn-onnx is to read: a file of
/// the same name in `folder`, or the model's own path if there is nothing to remove.
///
/// - A `ZipMap` is removed. The scores that it would turn into maps become an output of the graph, under
///   their own name.
/// - String outputs, usually labels, are removed. The scores remain: the largest score of a row is its class.
/// - Operators and initializers that only removed outputs need are removed, too. A label that nobody takes
///   any more is not computed.
///
/// # Errors
/// [`Error::Io`] if a file can't be read or written. [`Error::Graph`] if the file is no ONNX model, an
/// operator uses the maps of a `ZipMap`, an output is another sequence or map, nothing would be left of the
/// graph, or a graph that has to be cut keeps tensors in another file.
pub fn cut(model: &Path, folder: &Path) -> Result<String> {
    let io = |path: &Path| {
        let path = path.to_path_buf();
        move |source| Error::Io { path, source }
    };
    let refused = |what: String| Error::Graph { path: model.to_path_buf(), what };
    let utf8 = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| {
            refused("burn-onnx takes paths of UTF-8 only; rename the file or its folder".into())
        })
    };
    let bytes = std::fs::read(model).map_err(io(model))?;
    let Some(bytes) = cut_model(&bytes).map_err(refused)? else { return utf8(model) };
    let name = model.file_name().ok_or_else(|| refused("the path names no file; name the model".into()))?;
    std::fs::create_dir_all(folder).map_err(io(folder))?;
    let path = folder.join(name);
    std::fs::write(&path, bytes).map_err(io(&path))?;
    utf8(&path)
}

/// Returns the model after the cut, or `None` if there is nothing to remove.
fn cut_model(model: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let fields = fields(model)?;
    let Some(at) = fields.iter().position(|f| f.of(7).is_some()) else {
        return Err("graph: missing field; convert the model to ONNX again".into());
    };
    let graph = fields[at].body.unwrap_or_default();
    let cut = Graph::read(graph)?.cut()?;
    if cut == graph {
        return Ok(None);
    }
    let mut model = Vec::with_capacity(model.len());
    for (i, field) in fields.iter().enumerate() {
        if i == at {
            put(&mut model, 7, &cut);
        } else {
            model.extend_from_slice(field.whole);
        }
    }
    Ok(Some(model))
}

struct Graph<'b> {
    fields: Vec<Field<'b>>,
    nodes: Vec<Node<'b>>,
}

impl<'b> Graph<'b> {
    fn read(graph: &'b [u8]) -> Result<Self, String> {
        let fields = fields(graph)?;
        let nodes = fields.iter().filter_map(|f| f.of(1)).map(Node::read).collect::<Result<_, _>>()?;
        Ok(Self { fields, nodes })
    }

    /// Returns the graph's bytes after the cut.
    fn cut(&self) -> Result<Vec<u8>, String> {
        let maps = self.maps()?;
        let outputs = self.outputs(&maps)?;
        let is_cut = outputs.len() < self.fields.iter().filter(|f| f.of(12).is_some()).count()
            || outputs.iter().any(|o| o.scores_name.is_some());
        let (kept, wanted) = self.select_operators(&outputs, !is_cut);
        let changed =
            is_cut || self.nodes.iter().zip(&kept).any(|(n, kept)| *kept && is_unlabelled(n, &wanted));
        let mut graph = Vec::new();
        let mut next = kept.iter();
        let mut outputs = outputs.into_iter().peekable();
        let mut at = 0;
        for field in &self.fields {
            if field.of(1).is_some() {
                let node = &self.nodes[at];
                at += 1;
                if next.next() == Some(&true) {
                    put(&mut graph, 1, &operator_bytes(node, &wanted));
                }
            } else if let Some(tensor) = field.of(5) {
                let name = initializer(tensor, changed)?;
                if !is_cut || wanted.contains(&name) {
                    graph.extend_from_slice(field.whole);
                }
            } else if let Some(value) = field.of(12) {
                // `outputs` yields the outputs that stay, in their order. A field that is not the next of them is
                // removed.
                if let Some(output) = outputs.next_if(|o| std::ptr::eq(o.value, value)) {
                    put(
                        &mut graph,
                        12,
                        &output.scores_name.map_or_else(|| value.to_vec(), |name| scores(&name)),
                    );
                }
            } else {
                graph.extend_from_slice(field.whole);
            }
        }
        Ok(graph)
    }

    /// Returns the name of each map that a `ZipMap` gives, with the name of the scores that it takes.
    fn maps(&self) -> Result<HashMap<&str, &str>, String> {
        let zipped = self.nodes.iter().filter(|n| n.is_ml("ZipMap"));
        let maps: HashMap<&str, &str> =
            zipped.filter_map(|n| Some((n.outputs.first()?.as_str(), n.inputs.first()?.as_str()))).collect();
        let takes = |n: &&Node<'_>| n.inputs.iter().any(|i| maps.contains_key(i.as_str()));
        match self.nodes.iter().find(takes) {
            Some(node) => Err(format!(
                "operator {} takes the maps of a ZipMap, so that it can't be cut off; convert the model without \
                 (skl2onnx: options={{'zipmap': False}})",
                node.title()
            )),
            None => Ok(maps),
        }
    }

    /// Returns the outputs that stay after the cut.
    fn outputs(&self, maps: &HashMap<&str, &str>) -> Result<Vec<Output<'b>>, String> {
        let values: Vec<&[u8]> = self.fields.iter().filter_map(|f| f.of(12)).collect();
        let mut names = values.iter().map(|v| value_name(v)).collect::<Result<HashSet<_>, _>>()?;
        let mut kept = Vec::new();
        for value in values {
            let name = value_name(value)?;
            if let Some(scores) = maps.get(name.as_str()) {
                // The scores may be an output already.
                if names.insert((*scores).into()) {
                    kept.push(Output { value, name: (*scores).into(), scores_name: Some((*scores).into()) });
                }
                continue;
            }
            match OutputKind::of(value)? {
                OutputKind::Numbers => kept.push(Output { value, name, scores_name: None }),
                OutputKind::Strings => {}
                OutputKind::Other => {
                    return Err(format!(
                        "output `{name}` is a sequence or a map that no ZipMap makes, so that it can't be cut off; \
                         remove it from the graph"
                    ));
                }
            }
        }
        match kept.is_empty() {
            true => Err(
                "every output of the graph is a string, so that nothing would be left; convert the model \
                         with its scores as an output"
                    .into(),
            ),
            false => Ok(kept),
        }
    }

    /// Returns which operators stay, and the names of all values that the outputs and these operators take.
    /// All operators stay if `all` is set, otherwise those that the outputs need.
    fn select_operators(&self, outputs: &[Output<'_>], all: bool) -> (Vec<bool>, HashSet<String>) {
        let mut wanted: HashSet<String> = outputs.iter().map(|o| o.name.clone()).collect();
        let mut kept = vec![false; self.nodes.len()];
        // ONNX sorts operators: none takes a value that a later one gives.
        for (node, kept) in self.nodes.iter().zip(&mut kept).rev() {
            *kept = all || node.outputs.iter().any(|o| !o.is_empty() && wanted.contains(o));
            if *kept {
                wanted.extend(node.inputs.iter().cloned());
            }
        }
        (kept, wanted)
    }
}

/// An output that stays after the cut.
struct Output<'b> {
    value: &'b [u8],
    name: String,
    /// The name of the scores, if the output was their maps.
    scores_name: Option<String>,
}

/// Returns an operator's bytes, with the attribute [`UNLABELLED`] if it is a classifier whose label nobody takes.
fn operator_bytes(node: &Node<'_>, wanted: &HashSet<String>) -> Vec<u8> {
    let mut message = node.message.to_vec();
    if is_unlabelled(node, wanted) {
        let mut attribute = Vec::new();
        put(&mut attribute, 1, UNLABELLED.as_bytes());
        put_integer(&mut attribute, 3, 1);
        put_integer(&mut attribute, 20, 2);
        put(&mut message, 5, &attribute);
    }
    message
}

/// Tells whether an operator is a classifier whose label nobody takes. A name is empty if the input or output
/// is left out.
fn is_unlabelled(node: &Node<'_>, wanted: &HashSet<String>) -> bool {
    let unused = |label: &String| label.is_empty() || !wanted.contains(label);
    node.is_ml("TreeEnsembleClassifier") && node.outputs.first().is_some_and(unused)
}

/// Returns an initializer's name. Refuses an initializer in another file if the graph is `changed`.
fn initializer(tensor: &[u8], changed: bool) -> Result<String, String> {
    let fields = fields(tensor)?;
    let name = fields.iter().find_map(|f| f.of(8)).map(text).unwrap_or_default();
    if changed && fields.iter().any(|f| f.number == 14 && f.integer == 1) {
        return Err(format!(
            "initializer `{name}` is in another file, which a graph that is cut would no longer find; save the model \
             into one file, with onnx.save_model(..., save_as_external_data=False)"
        ));
    }
    Ok(name)
}

/// Returns the description of an output of floats with two dimensions: one row of scores for each row.
fn scores(name: &str) -> Vec<u8> {
    let (mut shape, mut tensor, mut kind, mut value) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    put(&mut shape, 1, b"");
    put(&mut shape, 1, b"");
    put_integer(&mut tensor, 1, 1);
    put(&mut tensor, 2, &shape);
    put(&mut kind, 1, &tensor);
    put(&mut value, 1, name.as_bytes());
    put(&mut value, 2, &kind);
    value
}

#[cfg(test)]
mod tests;
