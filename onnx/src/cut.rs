//! What no tensor holds is taken off the end of a graph.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::error::{Error, Result};
use crate::graph::{OutputKind, Node, named};
use crate::wire::{Field, fields, put, put_integer, text};

/// An attribute, which no standard has, of a classifier whose label nobody takes.
pub(crate) const UNLABELLED: &str = "fangorn_unlabelled";

/// Takes off a model what burn-onnx has no type for, and gives the path of what it is to read: a file of the same name in
/// `folder`, or the model's own path where there is nothing to take off.
///
/// - A `ZipMap` goes, and the scores that it would make maps of are the graph's output, under their own name.
/// - Outputs that are strings go, labels above all. What is left are the scores: the largest of a row is its class.
/// - Operators and initializers that only these need go with them, and labels that nobody takes any more are not computed.
///
/// # Errors
/// [`Error::Io`], and [`Error::Graph`] for a file that is no ONNX model, an operator that works on with the maps of a `ZipMap`,
/// an output that is another sequence or map, a graph of which nothing would be left, and one to be cut whose tensors are
/// in another file.
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
    let Some(bytes) = without(&bytes).map_err(refused)? else { return utf8(model) };
    let name = model.file_name().ok_or_else(|| refused("the path names no file; name the model".into()))?;
    std::fs::create_dir_all(folder).map_err(io(folder))?;
    let path = folder.join(name);
    std::fs::write(&path, bytes).map_err(io(&path))?;
    utf8(&path)
}

/// The model without what is taken off; `None` where nothing is.
fn without(model: &[u8]) -> Result<Option<Vec<u8>>, String> {
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

    /// The graph's bytes after the cut.
    fn cut(&self) -> Result<Vec<u8>, String> {
        let maps = self.maps()?;
        let outputs = self.outputs(&maps)?;
        let taken_off = outputs.len() < self.fields.iter().filter(|f| f.of(12).is_some()).count()
            || outputs.iter().any(|o| o.renamed.is_some());
        let (kept, wanted) = self.wanted(&outputs, !taken_off);
        let changed =
            taken_off || self.nodes.iter().zip(&kept).any(|(n, kept)| *kept && is_unlabelled(n, &wanted));
        let mut graph = Vec::new();
        let mut next = kept.iter();
        let mut outputs = outputs.into_iter().peekable();
        let mut at = 0;
        for field in &self.fields {
            if field.of(1).is_some() {
                let node = &self.nodes[at];
                at += 1;
                if next.next() == Some(&true) {
                    put(&mut graph, 1, &unlabelled(node, &wanted));
                }
            } else if let Some(tensor) = field.of(5) {
                let name = initializer(tensor, changed)?;
                if !taken_off || wanted.contains(&name) {
                    graph.extend_from_slice(field.whole);
                }
            } else if let Some(value) = field.of(12) {
                // Those that go are between those that stay.
                if let Some(output) = outputs.next_if(|o| std::ptr::eq(o.value, value)) {
                    put(&mut graph, 12, &output.renamed.map_or_else(|| value.to_vec(), |name| scores(&name)));
                }
            } else {
                graph.extend_from_slice(field.whole);
            }
        }
        Ok(graph)
    }

    /// The maps that a `ZipMap` gives, by name, and the scores that it takes.
    fn maps(&self) -> Result<HashMap<&str, &str>, String> {
        let zipped = self.nodes.iter().filter(|n| n.is_ml("ZipMap"));
        let maps: HashMap<&str, &str> =
            zipped.filter_map(|n| Some((n.outputs.first()?.as_str(), n.inputs.first()?.as_str()))).collect();
        let takes = |n: &&Node<'_>| n.inputs.iter().any(|i| maps.contains_key(i.as_str()));
        match self.nodes.iter().find(takes) {
            Some(node) => Err(format!(
                "operator {} takes the maps of a ZipMap, so that it can't be cut off; convert the model without \
                 (skl2onnx: options={{'zipmap': False}})",
                node.named()
            )),
            None => Ok(maps),
        }
    }

    /// The outputs that stay.
    fn outputs(&self, maps: &HashMap<&str, &str>) -> Result<Vec<Output<'b>>, String> {
        let values: Vec<&[u8]> = self.fields.iter().filter_map(|f| f.of(12)).collect();
        let mut names = values.iter().map(|v| named(v)).collect::<Result<HashSet<_>, _>>()?;
        let mut kept = Vec::new();
        for value in values {
            let name = named(value)?;
            if let Some(scores) = maps.get(name.as_str()) {
                // The scores may be an output already.
                if names.insert((*scores).into()) {
                    kept.push(Output { value, name: (*scores).into(), renamed: Some((*scores).into()) });
                }
                continue;
            }
            match OutputKind::of(value)? {
                OutputKind::Numbers => kept.push(Output { value, name, renamed: None }),
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

    /// Which operators stay, those that the outputs need or all of them, and all the names that these take.
    fn wanted(&self, outputs: &[Output<'_>], all: bool) -> (Vec<bool>, HashSet<String>) {
        let mut wanted: HashSet<String> = outputs.iter().map(|o| o.name.clone()).collect();
        let mut kept = vec![false; self.nodes.len()];
        // Operators stand in their order: none takes what a later one gives.
        for (node, kept) in self.nodes.iter().zip(&mut kept).rev() {
            *kept = all || node.outputs.iter().any(|o| !o.is_empty() && wanted.contains(o));
            if *kept {
                wanted.extend(node.inputs.iter().cloned());
            }
        }
        (kept, wanted)
    }
}

/// An output that stays.
struct Output<'b> {
    value: &'b [u8],
    name: String,
    /// The scores in place of the maps that it was.
    renamed: Option<String>,
}

/// An operator; a classifier whose label nobody takes says so.
fn unlabelled(node: &Node<'_>, wanted: &HashSet<String>) -> Vec<u8> {
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

/// Whether an operator is a classifier whose label nobody takes. An input or output that is left out has an empty name.
fn is_unlabelled(node: &Node<'_>, wanted: &HashSet<String>) -> bool {
    let unused = |label: &String| label.is_empty() || !wanted.contains(label);
    node.is_ml("TreeEnsembleClassifier") && node.outputs.first().is_some_and(unused)
}

/// An initializer's name.
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

/// An output of floats, a row of them for each row.
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
