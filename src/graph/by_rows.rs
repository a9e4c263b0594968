//! Tells whether a batch can be evaluated in pieces: each output has a slice for each row, which depends on that row
//! alone.

use super::{
    model::{Graph, Node, Operand},
    operator::Operator,
    reduce::axis_of,
    texts::{Case, TextOperator},
    types::GraphTypes,
};

/// Returns whether a graph gives the same results for some rows alone as for these rows within a batch. Returns `false`
/// if that is not known.
pub(super) fn goes_by_rows(graph: &Graph, types: &GraphTypes) -> bool {
    if graph.inputs.iter().any(|input| input.shape.first() != Some(&None)) {
        return false;
    }
    let mut nodes: Vec<RowAxis> = Vec::with_capacity(graph.nodes.len());
    for (at, node) in (0u32..).zip(&graph.nodes) {
        let axes = RowAxes { graph, types, nodes: &nodes };
        let found = match node.operands.iter().any(|operand| axes.operand(*operand) != RowAxis::Absent) {
            true => axes.result(node, Operand::Node(at, 0)),
            false => Some(RowAxis::Absent),
        };
        let Some(found) = found else { return false };
        nodes.push(found);
    }
    let axes = RowAxes { graph, types, nodes: &nodes };
    graph.outputs.iter().all(|output| axes.operand(output.operand) == Dimension(0))
}

/// Where the rows of a batch are in a tensor, or in the results of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowAxis {
    /// The tensor is the same for any rows.
    Absent,
    /// This dimension has a slice for each row, which depends on that row alone.
    Dimension(usize),
    /// The first dimension are the rows, the last one their tokens and then the padding of the tokenizer at this node, up
    /// to the longest row of the batch.
    Padded(u32),
    /// The tensor is a shape. The number of rows stands at this index, and all other lengths are the same for any rows.
    Length(usize),
}

use RowAxis::Dimension;

/// The row axes of a graph's operands, up to the node that is examined.
struct RowAxes<'g> {
    graph: &'g Graph,
    types: &'g GraphTypes,
    nodes: &'g [RowAxis],
}

impl RowAxes<'_> {
    fn operand(&self, operand: Operand) -> RowAxis {
        match operand {
            Operand::Input(_) => Dimension(0),
            Operand::Weight(_) => RowAxis::Absent,
            Operand::Node(at, _) => self.nodes[at as usize],
        }
    }

    fn shape(&self, operand: Operand) -> Option<&[Option<usize>]> {
        self.types.of(operand).shape.as_deref()
    }

    fn dimensions(&self, operand: Operand) -> Option<usize> {
        Some(self.shape(operand)?.len())
    }

    fn is_weight(&self, operand: Option<&Operand>) -> bool {
        operand.is_some_and(|operand| self.operand(*operand) == RowAxis::Absent)
    }

    /// Returns where the rows are in the results of a node, some of whose operands have rows. Returns `None` if the
    /// results of a row may depend on other rows, or if too little is known.
    fn result(&self, node: &Node, result: Operand) -> Option<RowAxis> {
        let x = node.operands[0];
        let second = node.operands.get(1);
        let (row_axis, x_rows) = match self.operand(x) {
            Dimension(at) => (Some(at), self.operand(x)),
            other => (None, other),
        };
        // An axis that is not that of the rows, counted from 0.
        let other =
            |axis: i64| axis_of(axis, self.dimensions(x)?).ok().filter(|axis| Some(*axis) != row_axis);
        let others = |axes: &[i64]| axes.iter().map(|axis| other(*axis)).collect::<Option<Vec<usize>>>();
        let before = |axes: &[usize]| axes.iter().filter(|axis| Some(**axis) < row_axis).count();
        // The rows are the first dimension, and stay so if a condition holds.
        let first = |holds: bool| (x_rows == Dimension(0) && holds).then_some(Dimension(0));
        match &node.operator {
            Operator::Unary(_) | Operator::Cast(_) | Operator::Lookup { .. } => row_axis.map(Dimension),
            Operator::CouplePairs { .. }
            | Operator::Pool(_)
            | Operator::Forest(_)
            | Operator::LeafSlots(_)
            | Operator::LinearLeaves(_) => first(true),
            Operator::Binary(_) | Operator::Compare(_) | Operator::Where => {
                self.broadcast(&node.operands, self.dimensions(result)?)
            }
            Operator::MatMul if self.is_weight(second) => {
                first(self.dimensions(x)? >= 2 && self.dimensions(*second?)? <= 2)
            }
            Operator::MatMul => {
                let dimensions = self.dimensions(x)?;
                first(
                    self.operand(*second?) == Dimension(0)
                        && dimensions >= 3
                        && self.dimensions(*second?)? == dimensions,
                )
            }
            Operator::Convolve { .. } => first(node.operands[1..].iter().all(|w| self.is_weight(Some(w)))),
            Operator::LayerNorm { .. } => {
                let weights = node.operands[1..].iter().all(|weight| self.is_weight(Some(weight)));
                first(self.dimensions(x)? >= 2 && weights)
            }
            Operator::SparseMatMul(_) => first(self.dimensions(x)? >= 2),
            Operator::Distances(_) | Operator::ImputeNeighbors { .. } => first(self.is_weight(second)),
            Operator::Reduce { axes, keep, .. } if !axes.is_empty() => {
                let axes = others(axes)?;
                Some(Dimension(row_axis? - if *keep { 0 } else { before(&axes) }))
            }
            Operator::Softmax { axis }
            | Operator::CumulativeSum { axis }
            | Operator::TopK { axis, .. }
            | Operator::Slice { axis, .. } => other(*axis).and(row_axis).map(Dimension),
            Operator::ArgExtreme { axis, keep, .. } => {
                let axis = other(*axis)?;
                Some(Dimension(row_axis? - if *keep { 0 } else { before(&[axis]) }))
            }
            Operator::Gather { axis } => self.of_gather(*axis, x, *second?),
            Operator::GatherElements { axis } => {
                (self.operand(*second?) == x_rows).then_some(())?;
                other(*axis).and(row_axis).map(Dimension)
            }
            Operator::Concat { axis } => {
                node.operands.iter().all(|operand| self.operand(*operand) == x_rows).then_some(())?;
                other(*axis).and(row_axis).map(Dimension)
            }
            Operator::Texts(operator) => self.of_texts(operator, x, result),
            // Each row stays a list of its tokens.
            Operator::Reshape(lengths) if matches!(x_rows, RowAxis::Padded(_)) => {
                let shape = self.shape(x)?;
                let middle = shape.get(1..shape.len().checked_sub(1)?)?;
                (lengths == &[0, -1] && middle.iter().all(|length| *length == Some(1))).then_some(x_rows)
            }
            Operator::Reshape(lengths) => {
                axis_after_reshape(self.shape(x)?, row_axis?, lengths).map(Dimension)
            }
            Operator::Transpose(order) => {
                order.iter().position(|from| Some(*from) == row_axis).map(Dimension)
            }
            Operator::Unsqueeze(axes) => {
                let all = self.dimensions(x)? + axes.len();
                let new: Vec<usize> =
                    axes.iter().map(|axis| axis_of(*axis, all).ok()).collect::<Option<_>>()?;
                (0..all).filter(|axis| !new.contains(axis)).nth(row_axis?).map(Dimension)
            }
            Operator::Squeeze(axes) if !axes.is_empty() => {
                Some(Dimension(row_axis? - before(&others(axes)?)))
            }
            Operator::Shape => row_axis.map(RowAxis::Length),
            Operator::Fill(_) => match x_rows {
                RowAxis::Length(at) => Some(Dimension(at)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns where the rows are in slices of `x` with these indices, or `None` as [`result`](Self::result) does. The
    /// axis becomes the dimensions of the indices.
    fn of_gather(&self, axis: i64, x: Operand, indices: Operand) -> Option<RowAxis> {
        let axis = axis_of(axis, self.dimensions(x)?).ok()?;
        match (self.operand(x), self.operand(indices)) {
            (Dimension(at), RowAxis::Absent) if axis != at => {
                let indices = self.dimensions(indices)?;
                Some(Dimension(if axis < at { at - 1 + indices } else { at }))
            }
            (RowAxis::Absent, Dimension(at)) => Some(Dimension(axis + at)),
            _ => None,
        }
    }

    /// Returns where the rows are in the result of an operator on texts, or `None` as [`result`](Self::result) does.
    fn of_texts(&self, operator: &TextOperator, x: Operand, result: Operand) -> Option<RowAxis> {
        let rows = self.operand(x);
        match operator {
            // Another case would change the padding, and a hash would replace it.
            TextOperator::Normalize(normalizer) if normalizer.stopwords.is_empty() => {
                (matches!(rows, Dimension(_)) || normalizer.case == Case::Keep).then_some(rows)
            }
            TextOperator::Hash { .. } => matches!(rows, Dimension(_)).then_some(rows),
            // Delimiters are left out if no row has a token.
            TextOperator::Tokenize(tokenizer) if rows == Dimension(0) && !tokenizer.has_delimiters => {
                let Operand::Node(at, _) = result else { return None };
                Some(RowAxis::Padded(at))
            }
            TextOperator::CountNgrams(ngrams) if self.dimensions(x)? == 2 => match rows {
                RowAxis::Padded(at) => match &self.graph.nodes[at as usize].operator {
                    Operator::Texts(TextOperator::Tokenize(tokenizer)) => {
                        (!ngrams.has_token(&tokenizer.padding)).then_some(Dimension(0))
                    }
                    _ => None,
                },
                rows => (rows == Dimension(0)).then_some(rows),
            },
            _ => None,
        }
    }

    /// Returns where the rows are in a result of so many dimensions, for which operands are broadcast. Dimensions of
    /// operands match from the last one on.
    fn broadcast(&self, operands: &[Operand], dimensions: usize) -> Option<RowAxis> {
        let from_last = |operand: Operand| match self.operand(operand) {
            Dimension(axis) => Some(self.dimensions(operand)? - axis),
            _ => None,
        };
        let from_last = operands.iter().find_map(|operand| from_last(*operand))?;
        for operand in operands {
            let own = self.shape(*operand)?;
            let at = own.len().checked_sub(from_last);
            let fits = match self.operand(*operand) {
                Dimension(axis) => at == Some(axis),
                // An operand without rows must be the same for every row.
                RowAxis::Absent => at.is_none_or(|at| own[at] == Some(1)),
                RowAxis::Length(_) | RowAxis::Padded(_) => false,
            };
            fits.then_some(())?;
        }
        Some(Dimension(dimensions - from_last))
    }
}

/// Returns the dimension of the rows after a reshape. `row_axis` is their dimension in `shape`, the shape before. A row
/// keeps its elements if the products of the lengths before and after the dimension of the rows do not change.
fn axis_after_reshape(shape: &[Option<usize>], row_axis: usize, lengths: &[i64]) -> Option<usize> {
    let product = |lengths: &[Option<usize>]| {
        lengths.iter().try_fold(1usize, |all, length| all.checked_mul((*length)?))
    };
    let (outer, inner) = (product(&shape[..row_axis])?, product(&shape[row_axis + 1..]));
    // A length of 0 stands for the length of the same dimension in `shape`.
    let length = |(at, length): (usize, &i64)| match length {
        0 => *shape.get(at)?,
        length => usize::try_from(*length).ok(),
    };
    let known: Vec<Option<usize>> = lengths.iter().enumerate().map(length).collect();
    let copied = (lengths.get(row_axis) == Some(&0)).then_some(row_axis);
    let at = match copied {
        Some(at) => at,
        None => {
            let at = lengths.iter().position(|length| *length == -1)?;
            let inner = inner.filter(|elements| *elements > 0)?;
            (product(&known[at + 1..]) == Some(inner)).then_some(at)?
        }
    };
    (product(&known[..at]) == Some(outer)).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::goes_by_rows;
    use crate::{
        check::Random,
        graph::{Binary, Dtype, Elements, Graph, GraphError, Operand, Operator, Reduction, Tensor, Unary},
    };

    #[track_caller]
    fn is_by_rows(lines: &str) -> bool {
        let text = format!(
            "input %in0 \"x\": f32[rows, 4]\ninput %in1 \"y\": f32[rows, 4]\nweight %w0: f32[4] = [1.0, 2.0, 3.0, 4.0]
weight %w1: f32[4, 2] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]\nweight %w2: i64[3] = [5, 6, 7]\n{lines}"
        );
        let graph = Graph::parse(&text).expect("a graph");
        goes_by_rows(&graph, &graph.types().expect("types"))
    }

    #[test]
    fn rows_that_depend_on_themselves_alone() {
        for lines in [
            "%0 \"a\" = add(%in0, %w0)\noutput \"o\": %0\n",
            "%0 \"a\" = matmul(%in0, %w1)\n%1 \"b\" = argMax(%0, axis=-1, keep=false, last=false)
%2 \"c\" = gather(%w2, %1, axis=0)\noutput \"o\": %2\noutput \"p\": %0\n",
            "%0 \"a\" = reduceSum(%in0, axes=[-1], keep=true)\n%1 \"b\" = divide(%in0, %0)\noutput \"o\": %1\n",
            "%0 \"a\" = reshape(%in0, to=[-1, 2, 2])\n%1 \"b\" = transpose(%0, order=[0, 2, 1])\noutput \"o\": %1\n",
            "%0 \"a\" = concat(%in0, %in1, axis=1)\noutput \"o\": %0\n",
            "%0 \"a\" = reshape(%in0, to=[0, 2, -1, 2])\noutput \"o\": %0\n",
            "%0 \"a\" = reshape(%in0, to=[-1, 2, 2])\n%1 \"b\" = matmul(%0, %0)\noutput \"o\": %1\n",
            "%0 \"a\" = layerNorm(%in0, %w0, %w0, epsilon=0.1)\noutput \"o\": %0\n",
            // Votes side by side, as a bagging classifier has them.
            "%0 \"a\" = reshape(%in0, to=[1, -1, 4])\n%1 \"b\" = reshape(%in1, to=[1, -1, 4])
%2 \"c\" = concat(%0, %1, axis=0)\n%3 \"d\" = reduceMean(%2, axes=[0], keep=false)\noutput \"o\": %3\n",
            // Ones for each row, as AdaBoost and polynomial features have them.
            "%0 \"a\" = reduceSum(%in0, axes=[1], keep=true)\n%1 \"b\" = shape(%0)
%2 \"c\" = fill(%1, with=f32[1.0])\n%3 \"d\" = concat(%2, %in0, axis=1)\noutput \"o\": %3\n",
            "%0 \"a\" = transpose(%in0, order=[1, 0])\n%1 \"b\" = transpose(%0, order=[1, 0])\noutput \"o\": %1\n",
            "%0 \"a\" = transpose(%in0, order=[1, 0])\n%1 \"b\" = reduceSum(%0, axes=[0], keep=false)\noutput \"o\": %1\n",
            "%0 \"a\" = transpose(%in0, order=[1, 0])\n%1 \"b\" = unsqueeze(%0, axes=[0])
%2 \"c\" = squeeze(%1, axes=[0])\n%3 \"d\" = transpose(%2, order=[1, 0])\noutput \"o\": %3\n",
        ] {
            assert!(is_by_rows(lines), "{lines}");
        }
    }

    #[test]
    fn rows_that_depend_on_others() {
        for lines in [
            "%0 \"a\" = reduceMean(%in0, axes=[0], keep=true)\n%1 \"b\" = subtract(%in0, %0)\noutput \"o\": %1\n",
            "%0 \"a\" = transpose(%in0, order=[1, 0])\noutput \"o\": %0\n",
            "%0 \"a\" = transpose(%w1, order=[1, 0])\n%1 \"b\" = layerNorm(%0, %w0, %in0, epsilon=0.1)\noutput \"o\": %1\n",
            "%0 \"a\" = euclideanDistances(%in0, %in1)\noutput \"o\": %0\n",
            "%0 \"a\" = softmax(%in0, axis=0)\noutput \"o\": %0\n",
            "%0 \"a\" = reduceSum(%in0, axes=[], keep=false)\noutput \"o\": %0\n",
            "%0 \"a\" = reshape(%in0, to=[-1, 2])\noutput \"o\": %0\n",
            "%0 \"a\" = add(%in0, %w0)\noutput \"o\": %w0\noutput \"p\": %0\n",
            "%0 \"a\" = slice(%in0, axis=0, start=0, end=3, step=1)\noutput \"o\": %0\n",
            "%0 \"a\" = argMax(%in0, axis=-1, keep=false, last=false)\n%1 \"b\" = gather(%in1, %0, axis=0)\noutput \"o\": %1\n",
            "%0 \"a\" = reshape(%in0, to=[1, -1, 4])\noutput \"o\": %0\n",
            "%0 \"a\" = reshape(%in0, to=[1, -1, 4])\n%1 \"b\" = reduceMean(%0, axes=[1], keep=false)\noutput \"o\": %1\n",
            "%0 \"a\" = reshape(%in0, to=[2, -1, 4])\n%1 \"b\" = reduceMean(%0, axes=[0], keep=false)\noutput \"o\": %1\n",
            "%0 \"a\" = transpose(%in0, order=[1, 0])\n%1 \"b\" = add(%0, %in1)\noutput \"o\": %1\n",
            "%0 \"a\" = transpose(%in0, order=[1, 0])\n%1 \"b\" = reshape(%0, to=[-1, 4])\noutput \"o\": %1\n",
            "%0 \"a\" = shape(%in0)\noutput \"o\": %0\n",
            "%0 \"a\" = shape(%in0)\n%1 \"b\" = cast(%0, to=f32)\n%2 \"c\" = reduceSum(%1, axes=[0], keep=true)
%3 \"d\" = add(%in0, %2)\noutput \"o\": %3\n",
        ] {
            assert!(!is_by_rows(lines), "{lines}");
        }
    }

    /// Tokens of a row end in padding, as many as the longest row of the batch needs. A count does not see it.
    #[test]
    fn tokens_depend_on_other_rows_by_padding_alone() {
        let tokenize = |mark: bool, padding: &str| {
            format!(
                "tokenize(%0, tokens=matches, patterns=[\"[a-z]+\"], least=1, mark={mark}, padding={padding:?})"
            )
        };
        let count = "countNgrams(%2, weighing=count, lengths=[1, 1], skips=0, pool=text[\"a\", \"#\"], starts=[0], \
                     columns=[0, 1], weights=[])";
        let graph = |stopwords: &str, tokenize: &str, reshape: &str, output: &str| {
            let text = format!(
                "input %in0 \"x\": text[rows, 1]\n%0 \"a\" = normalizeTexts(%in0, case=lower, exact=false, stopwords={stopwords})
%1 \"b\" = {tokenize}\n%2 \"c\" = reshape(%1, to={reshape})\n%3 \"d\" = {count}\noutput \"o\": {output}\n"
            );
            let graph = Graph::parse(&text).expect("a graph");
            goes_by_rows(&graph, &graph.types().expect("types"))
        };
        assert!(graph("[]", &tokenize(false, "-"), "[0, -1]", "%3"));
        // The padding is counted, or is an output.
        assert!(!graph("[]", &tokenize(false, "#"), "[0, -1]", "%3"));
        assert!(!graph("[]", &tokenize(false, "-"), "[0, -1]", "%2"));
        // Delimiters are left out if no row has a token, a stop word leaves its row out, and all rows are one list.
        assert!(!graph("[]", &tokenize(true, "-"), "[0, -1]", "%3"));
        assert!(!graph("[\"b\"]", &tokenize(false, "-"), "[0, -1]", "%3"));
        assert!(!graph("[]", &tokenize(false, "-"), "[1, -1]", "%3"));
        // The padding gets another case, or becomes a number.
        let after = |operator: &str, pool: &str| {
            let text = format!(
                "input %in0 \"x\": text[rows]\n%0 \"a\" = tokenize(%in0, tokens=matches, patterns=[\"[a-z]+\"], least=1, mark=false, padding=\"PAD\")
%1 \"b\" = {operator}\n%2 \"c\" = countNgrams(%1, weighing=count, lengths=[1, 1], skips=0, pool={pool}, starts=[0], columns=[0], weights=[])
output \"o\": %2\n"
            );
            let graph = Graph::parse(&text).expect("a graph");
            goes_by_rows(&graph, &graph.types().expect("types"))
        };
        let normalize = |case| format!("normalizeTexts(%0, case={case}, exact=false, stopwords=[])");
        assert!(after(&normalize("keep"), "text[\"pad\"]"));
        assert!(!after(&normalize("lower"), "text[\"pad\"]"));
        assert!(!after("murmurHash(%0, seed=0, positive=true)", "i64[5]"));
    }

    /// Returns an operator of a random kind that takes floats, and its operands.
    fn draw_operator(graph: &mut Graph, pool: &[Operand], draws: &mut Random) -> (Operator, Vec<Operand>) {
        let any = |draws: &mut Random| pool[draws.below(pool.len())];
        let axis = |draws: &mut Random| draws.below(4) as i64 - 2;
        let (x, y) = (any(draws), any(draws));
        let one = |operator| (operator, vec![x]);
        match draws.below(16) {
            0 => one(Operator::Unary(Unary::Negate)),
            1..4 => {
                let how = [Binary::Add, Binary::Subtract, Binary::Multiply];
                (Operator::Binary(how[draws.below(3)]), vec![x, y])
            }
            4 => (Operator::MatMul, vec![x, y]),
            5 | 6 => one(Operator::Reduce {
                how: [Reduction::Sum, Reduction::Maximum][draws.below(2)],
                axes: vec![axis(draws)],
                keep: draws.below(2) == 0,
            }),
            7 => one(Operator::CumulativeSum { axis: axis(draws) }),
            8 => (Operator::Concat { axis: axis(draws) }, vec![x, y]),
            9 | 10 => {
                let shapes: [&[i64]; 8] =
                    [&[-1, 3], &[1, -1, 3], &[0, 3, 1], &[3, -1], &[-1], &[0, 0, 1], &[-1, 1, 3], &[0, -1]];
                one(Operator::Reshape(shapes[draws.below(shapes.len())].to_vec()))
            }
            11 => {
                let orders: [&[usize]; 5] = [&[1, 0], &[0, 1], &[1, 0, 2], &[0, 2, 1], &[2, 1, 0]];
                one(Operator::Transpose(orders[draws.below(orders.len())].to_vec()))
            }
            12 => {
                let indices = Tensor::new([2], Elements::I64(vec![1, 0])).expect("two indices");
                (Operator::Gather { axis: axis(draws) }, vec![x, graph.weight(indices)])
            }
            13 => one(Operator::Unsqueeze(vec![axis(draws)])),
            14 => one(Operator::Squeeze(vec![axis(draws)])),
            _ => {
                let shape = graph.node("shape", Operator::Shape, [x]);
                (Operator::Fill(Elements::F32(vec![2.0])), vec![shape])
            }
        }
    }

    fn random_graph(draws: &mut Random) -> Graph {
        let mut graph = Graph::default();
        let mut pool: Vec<Operand> =
            ["x", "y"].map(|name| graph.input(name, Dtype::F32, [None, Some(3)])).to_vec();
        for (shape, count) in [(vec![3], 3), (vec![1, 3], 3), (vec![3, 3], 9), (vec![2, 1], 2)] {
            let values = (0..count).map(|_| draws.below(7) as f32 - 3.0).collect();
            pool.push(graph.weight(Tensor::new(shape, Elements::F32(values)).expect("a weight")));
        }
        graph.output("o", pool[0]);
        for _ in 0..1 + draws.below(6) {
            let before = graph.clone();
            let (operator, operands) = draw_operator(&mut graph, &pool, draws);
            let result = graph.node("node", operator, operands);
            graph.outputs[0].operand = result;
            if graph.types().is_ok() {
                // The newest result is drawn more often, so that graphs are deep.
                pool.extend([result; 2]);
            } else {
                graph = before;
            }
        }
        graph
    }

    fn rows_of(draws: &mut Random, rows: usize) -> Vec<f32> {
        (0..rows * 3).map(|_| draws.below(9) as f32 - 4.0).collect()
    }

    /// If `goes_by_rows` returns `true`, the outputs of two pieces of a batch are the outputs of the batch.
    #[test]
    fn pieces_of_a_batch_give_pieces_of_its_outputs() {
        let draws = &mut Random(0x5eed);
        let (mut divided, mut whole) = (0, 0);
        for case in 0..20_000 {
            let graph = random_graph(draws);
            if !goes_by_rows(&graph, &graph.types().expect("types")) {
                whole += 1;
                continue;
            }
            let rows = 2 + draws.below(5);
            let inputs = [rows_of(draws, rows), rows_of(draws, rows)];
            let run = |from: usize, to: usize| {
                let piece = |values: &Vec<f32>| {
                    Tensor::new([to - from, 3], Elements::F32(values[from * 3..to * 3].to_vec()))
                        .expect("rows")
                };
                let mut found = graph.run(&[piece(&inputs[0]), piece(&inputs[1])])?;
                let found = found.remove(0);
                Ok::<_, GraphError>((
                    found.shape().to_vec(),
                    found.into_elements().doubles().expect("numbers"),
                ))
            };
            // Only a run shows whether shapes that depend on the number of rows fit one another.
            let Ok((shape, values)) = run(0, rows) else { continue };
            divided += usize::from(!graph.nodes.is_empty());
            let at = 1 + draws.below(rows - 1);
            let [(first, mut joined), (second, rest)] = [run(0, at), run(at, rows)].map(|piece| {
                piece.unwrap_or_else(|e| panic!("case {case}: a piece is refused: {e}\n{graph}"))
            });
            joined.extend(rest);
            assert_eq!((first[0], second[0], shape[0]), (at, rows - at, rows), "case {case}\n{graph}");
            assert_eq!((&first[1..], &second[1..]), (&shape[1..], &shape[1..]), "case {case}\n{graph}");
            assert!(joined == values, "case {case}: pieces at {at} of {rows} rows\n{graph}");
        }
        assert!(divided > 1000 && whole > 1000, "{divided} by rows, {whole} not");
    }
}
