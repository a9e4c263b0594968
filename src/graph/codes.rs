//! Inputs of texts that become inputs of numbers: an operator that looks texts up among those it knows needs only their
//! numbers in a list.

use std::{collections::HashMap, sync::Arc};

use super::{
    model::{Graph, GraphInput, Operand},
    operator::{Compare, Operator},
    tensor::{Dtype, Elements, Tensor},
};
use crate::forest::{Coding, Feature, UnseenCategory};

/// The maximum number of texts of all columns together. An `f32` represents every code.
const MOST_TEXTS: usize = 1 << 24;
/// The maximum number of columns of texts of a graph's inputs.
const MOST_COLUMNS: usize = 1 << 12;
/// The maximum number of columns that all nodes together handle.
const MOST_HANDLED: usize = 1 << 20;

impl Graph {
    /// Returns the same graph with numbers in place of its inputs of texts, or `None` if there are none, or if an
    /// operator needs the texts themselves. A number is the index of the text among the categories of the input's
    /// [columns](GraphInput::columns), so a table's columns of texts are read part by part, as those of a forest are.
    /// Encoders of categories and dictionaries look texts up; tokenizers need the texts.
    ///
    /// ```
    /// use fangorn::graph::Graph;
    ///
    /// let graph = Graph::parse(
    ///     "input %in0 \"city\": text[rows, 1]
    /// %0 \"index\" = lookup(%in0, keys=text[\"Oslo\", \"Rome\"], values=f32[4.0, 7.0], other=f32[0.0])
    /// output \"index\": %0",
    /// )?;
    /// let coded = graph.with_coded_texts().expect("every text is looked up");
    /// assert_eq!(coded.inputs[0].columns[0].categories, ["Oslo", "Rome"]);
    /// let rows = coded.inputs_of_rows(&[1.0, 2.0])?;
    /// assert_eq!(coded.run(&rows)?[0].elements().doubles(), Some(vec![7.0, 0.0]));
    /// # Ok::<(), fangorn::graph::GraphError>(())
    /// ```
    pub fn with_coded_texts(&self) -> Option<Self> {
        if !self.inputs.iter().any(|input| input.dtype == Dtype::Text) {
            return None;
        }
        let texts = TextColumns::of(self)?;
        // Each column of an input has its own list of categories.
        let lengths = texts.columns.iter().flatten().map(|list| texts.list(*list).texts.len());
        if lengths.fold(0usize, usize::saturating_add) >= MOST_TEXTS {
            return None;
        }
        let mut coded = Self { inputs: Vec::new(), nodes: Vec::new(), ..self.clone() };
        for (at, input) in self.inputs.iter().enumerate() {
            coded.inputs.push(match input.dtype {
                Dtype::Text => texts.input(at, input),
                _ => input.clone(),
            });
        }
        // A missing value is an empty text, which may be one that an operator knows.
        let mut starts: Vec<Operand> = (0..self.inputs.len() as u32).map(Operand::Input).collect();
        for (at, input) in self.inputs.iter().enumerate().filter(|(_, input)| input.dtype == Dtype::Text) {
            let empty = texts.columns[at].iter().map(|list| texts.list(*list).code("").unwrap_or(f32::NAN));
            let empty: Vec<f32> = empty.collect();
            if empty.iter().any(|code| !code.is_nan()) {
                let empty = coded.weight(Tensor::new([empty.len()], Elements::F32(empty))?);
                let missing = Operator::Unary(super::Unary::IsNan);
                let missing = coded.node(&input.name, missing, [Operand::Input(at as u32)]);
                starts[at] =
                    coded.node(&input.name, Operator::Where, [missing, empty, Operand::Input(at as u32)]);
            }
        }
        // Nodes that fill missing values come before all nodes of the file.
        let before = coded.nodes.len() as u32;
        let moved = |operand: Operand| match operand {
            Operand::Input(at) => starts[at as usize],
            Operand::Node(at, result) => Operand::Node(before + at, result),
            weight => weight,
        };
        for node in &self.nodes {
            let columns = node.operands.iter().find_map(|operand| texts.columns_of(*operand));
            let list = columns.and_then(|columns| columns.first()).map(|list| texts.list(*list));
            let mut operands = Vec::with_capacity(node.operands.len());
            for operand in &node.operands {
                let weight = self.weight_of(*operand);
                operands.push(match (weight.map(|weight| (weight.shape(), weight.elements())), list) {
                    (Some((shape, Elements::Text(known))), Some(list)) => {
                        let codes = known.iter().map(|text| list.code(text)).collect::<Option<_>>()?;
                        coded.weight(Tensor::new(shape, Elements::F32(codes))?)
                    }
                    _ => moved(*operand),
                });
            }
            let operator = match (&node.operator, list) {
                (Operator::Lookup { keys: Elements::Text(keys), values, other }, Some(list)) => {
                    let keys = keys.iter().map(|key| list.code(key)).collect::<Option<_>>()?;
                    Operator::Lookup {
                        keys: Elements::F32(keys),
                        values: values.clone(),
                        other: other.clone(),
                    }
                }
                (Operator::Cast(Dtype::Text), Some(_)) => Operator::Cast(Dtype::F32),
                (other, _) => other.clone(),
            };
            coded.node(&node.name, operator, operands);
        }
        coded.outputs.iter_mut().for_each(|output| output.operand = moved(output.operand));
        coded.verify().ok()?;
        Some(coded)
    }
}

/// The texts that operators know of some columns, in the order in which they come up.
#[derive(Clone, Debug, Default)]
struct TextList {
    texts: Vec<String>,
    codes: HashMap<Arc<str>, usize>,
    /// Whether an operator goes on at a text that it does not know, and whether one refuses it.
    takes_others: bool,
    refuses_others: bool,
}

impl TextList {
    fn add(&mut self, texts: &[Arc<str>]) {
        for text in texts {
            if !self.codes.contains_key(text) {
                self.codes.insert(Arc::clone(text), self.texts.len());
                self.texts.push(text.to_string());
            }
        }
    }

    fn code(&self, text: &str) -> Option<f32> {
        self.codes.get(text).map(|code| *code as f32)
    }
}

/// The columns of texts of a graph's inputs, and which of them each node handles. Columns that an operator handles
/// together share a list.
struct TextColumns {
    /// For each input, the index of the list of each of its columns.
    columns: Vec<Vec<usize>>,
    /// For each node, the index of the list of each column of its first result, if the columns are texts of inputs.
    nodes: Vec<Option<Vec<usize>>>,
    lists: Vec<TextList>,
    /// For each list, the list that it was joined with.
    joined: Vec<usize>,
}

impl TextColumns {
    /// Follows the texts of inputs through a graph. Returns `None` if an operator needs the texts themselves.
    fn of(graph: &Graph) -> Option<Self> {
        let mut found = Self {
            columns: Vec::new(),
            nodes: Vec::with_capacity(graph.nodes.len()),
            lists: Vec::new(),
            joined: Vec::new(),
        };
        for input in &graph.inputs {
            let width = if input.dtype == Dtype::Text { input.width().ok()? } else { 0 };
            let first = found.lists.len();
            let end = first.checked_add(width).filter(|end| *end <= MOST_COLUMNS)?;
            found.columns.push((first..end).collect());
            found.lists.resize(first + width, TextList::default());
            found.joined.extend(first..first + width);
        }
        let types = graph.types().ok()?;
        let mut handled = 0usize;
        for node in &graph.nodes {
            // Joins can double the columns of each node.
            let widths =
                node.operands.iter().filter_map(|operand| found.columns_of(*operand)).map(<[_]>::len);
            handled = widths.fold(handled, usize::saturating_add);
            if handled > MOST_HANDLED {
                return None;
            }
            let columns = |operand: &Operand| found.columns_of(*operand).map(<[_]>::to_vec);
            let of_input: Vec<_> = node.operands.iter().map(columns).collect();
            let columns = match of_input.iter().any(Option::is_some) {
                true => found.follow(graph, node, &of_input, &types)?,
                false => None,
            };
            found.nodes.push(columns);
        }
        let is_text = |operand: Operand| found.columns_of(operand).is_some();
        (!graph.outputs.iter().any(|output| is_text(output.operand))).then_some(found)
    }

    /// Returns the lists of the columns of a result that holds texts of inputs.
    fn columns_of(&self, operand: Operand) -> Option<&[usize]> {
        match operand {
            Operand::Input(at) => Some(&self.columns[at as usize][..]).filter(|columns| !columns.is_empty()),
            Operand::Node(at, 0) => self.nodes.get(at as usize)?.as_deref(),
            _ => None,
        }
    }

    /// Returns the lists of the columns of a node's result, the outer `None` if the node needs texts, and the inner one
    /// if it gives something else than texts of inputs.
    #[expect(clippy::option_option, reason = "the two say different things, and both end early")]
    fn follow(
        &mut self,
        graph: &Graph,
        node: &super::Node,
        of_input: &[Option<Vec<usize>>],
        types: &super::GraphTypes,
    ) -> Option<Option<Vec<usize>>> {
        let first = of_input[0].clone();
        let x = node.operands[0];
        match &node.operator {
            Operator::Lookup { keys: Elements::Text(keys), other, .. } => {
                let list = self.join(&first?)?;
                self.lists[list].add(keys);
                self.lists[list].takes_others |= !other.is_empty();
                self.lists[list].refuses_others |= other.is_empty();
                Some(None)
            }
            Operator::Compare(Compare::Equal) => {
                let (columns, other) = match &of_input {
                    [Some(columns), None] => (columns, node.operands[1]),
                    [None, Some(columns)] => (columns, x),
                    _ => return None,
                };
                let Elements::Text(known) = graph.weight_of(other)?.elements() else { return None };
                let list = self.join(columns)?;
                self.lists[list].add(known);
                self.lists[list].takes_others = true;
                Some(None)
            }
            // An imputer.
            Operator::Where if of_input[0].is_none() => {
                let (columns, other) = match &of_input[1..] {
                    [Some(columns), None] => (columns, node.operands[2]),
                    [None, Some(columns)] => (columns, node.operands[1]),
                    _ => return None,
                };
                let Elements::Text(known) = graph.weight_of(other)?.elements() else { return None };
                let list = self.join(columns)?;
                self.lists[list].add(known);
                Some(Some(vec![list; columns.len()]))
            }
            Operator::Concat { axis } if [1, -1].contains(axis) && types.of(x).dimensions() == Some(2) => {
                let all = of_input.iter().cloned().collect::<Option<Vec<_>>>()?;
                Some(Some(all.concat()))
            }
            Operator::Gather { axis: 1 | -1 } if types.of(x).dimensions() == Some(2) => {
                let columns = first?;
                let indices = graph.weight_of(node.operands[1])?;
                let column = |at: f64| columns.get((at >= 0.0).then_some(at as usize)?).copied();
                let chosen = indices.elements().doubles()?.into_iter().map(column);
                Some(Some(chosen.collect::<Option<_>>()?))
            }
            Operator::Cast(Dtype::Text) => Some(Some(first?)),
            // The same column in another shape.
            Operator::Reshape(_) | Operator::Squeeze(_) | Operator::Unsqueeze(_)
                if first.as_ref().is_some_and(|columns| columns.len() == 1) =>
            {
                Some(first)
            }
            _ => None,
        }
    }

    /// Gives columns one list, and returns its index.
    fn join(&mut self, columns: &[usize]) -> Option<usize> {
        let (first, others) = columns.split_first()?;
        let mut to = self.root(*first);
        for other in others {
            let mut from = self.root(*other);
            if from != to {
                // The shorter list moves.
                if self.lists[from].texts.len() > self.lists[to].texts.len() {
                    std::mem::swap(&mut from, &mut to);
                }
                let list = std::mem::take(&mut self.lists[from]);
                let texts: Vec<Arc<str>> = list.texts.iter().map(|text| text.as_str().into()).collect();
                self.lists[to].add(&texts);
                self.lists[to].takes_others |= list.takes_others;
                self.lists[to].refuses_others |= list.refuses_others;
                self.joined[from] = to;
            }
        }
        columns.iter().for_each(|column| self.joined[*column] = to);
        Some(to)
    }

    fn root(&self, mut list: usize) -> usize {
        while self.joined[list] != list {
            list = self.joined[list];
        }
        list
    }

    fn list(&self, list: usize) -> &TextList {
        &self.lists[self.root(list)]
    }

    /// Returns an input of numbers in place of one of texts.
    fn input(&self, at: usize, input: &GraphInput) -> GraphInput {
        let columns = self.columns[at].iter().map(|list| {
            let list = self.list(*list);
            let is_refused = list.refuses_others && !list.takes_others;
            let unseen = if is_refused { UnseenCategory::Refused } else { UnseenCategory::Own };
            Feature {
                name: (self.columns[at].len() == 1).then(|| input.name.clone()),
                categories: list.texts.clone(),
                coding: Coding::Indices { numbers: false, unseen, needed: true },
            }
        });
        GraphInput { dtype: Dtype::F32, columns: columns.collect(), ..input.clone() }
    }
}
