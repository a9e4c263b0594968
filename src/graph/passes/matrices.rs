//! Small forests as products of matrices: the side to which each split sends a row, the leaf of each tree that these
//! sides lead to, and the sum of the leaf values.

use super::super::{
    error::GraphError,
    model::{Graph, Node as GraphNode, Operand},
    operator::{Binary, Compare, Operator, Unary},
    tensor::{Dtype, Elements, Tensor},
};
use super::rebuild::Rebuild;
use crate::{
    cost::{CHOICE_ROWS, ForestChoice, ForestFacts, GraphTarget},
    forest::{Aggregate, ClassRule, CompareType, Forest, Node, Predicate, Side, Targets, Transform},
    schedule::cpu_facts,
};

/// The maximum number of elements of the matrix from splits to leaves.
const MOST_ELEMENTS: usize = 1 << 22;

/// Rewrites forests to products of matrices (CMLCompiler, section 3.3). Unlike the paper, it gathers the columns of
/// splits: a product with zeros and ones turns all columns of a row with a missing value into NaN. If `every` is set,
/// it rewrites each forest that can become products, otherwise each one whose products take less time than its walks on
/// the target.
pub(super) fn of_forests(old: &Graph, target: GraphTarget, every: bool) -> Result<Graph, GraphError> {
    let wants_class = wants_class(old);
    let mut new = Rebuild::of(old);
    for (at, node) in old.nodes.iter().enumerate() {
        let Operator::Forest(forest) = &node.operator else {
            new.keep(node)?;
            continue;
        };
        let wanted = refusal(forest, wants_class[at]).is_none()
            && (every || ForestWays::choice(forest, target, CHOICE_ROWS).1.products_pay());
        match wanted.then(|| Matrices::of(forest)).flatten() {
            Some(matrices) => {
                let results = matrices.nodes(&mut new, node, forest)?;
                new.becomes(results);
            }
            None => new.keep(node)?,
        }
    }
    Ok(new.finish(old))
}

/// Returns for each node whether its second result is read. The second result of a forest is the class.
fn wants_class(old: &Graph) -> Vec<bool> {
    let mut wants_class = vec![false; old.nodes.len()];
    let of_outputs = old.outputs.iter().map(|output| output.operand);
    for operand in old.nodes.iter().flat_map(|node| node.operands.iter().copied()).chain(of_outputs) {
        if let Operand::Node(at, 1) = operand {
            wants_class[at as usize] = true;
        }
    }
    wants_class
}

/// A forest of a graph, the estimates of its walks and of products of matrices, and the choice between them.
#[derive(Clone, Debug, PartialEq)]
pub struct ForestWays {
    /// The name of the forest's node.
    pub name: String,
    /// The numbers from which the forest's times are estimated.
    pub facts: ForestFacts,
    /// Number of margins of a row.
    pub outputs: usize,
    /// The estimated times of walks and of products for a batch.
    pub choice: ForestChoice,
    /// Why the forest can't become products of matrices. `None` if it can.
    pub refused: Option<&'static str>,
    /// Whether the pass rewrites the forest to products of matrices.
    pub products: bool,
}

impl ForestWays {
    fn choice(forest: &Forest, target: GraphTarget, rows: usize) -> (ForestFacts, ForestChoice) {
        let facts = cpu_facts(forest, &forest.stats());
        (facts, target.forest_choice(&facts, forest.outputs as usize, rows))
    }

    /// Returns the estimates of a graph's forests for batches of `rows` rows. `on` says whether [`Pass::Matrices`]
    /// is on, and `every` whether it rewrites every forest that it can.
    ///
    /// [`Pass::Matrices`]: super::Pass::Matrices
    pub(super) fn of(graph: &Graph, target: GraphTarget, rows: usize, on: bool, every: bool) -> Vec<Self> {
        let wants_class = wants_class(graph);
        let forests = graph.nodes.iter().zip(wants_class).filter_map(|(node, class)| match &node.operator {
            Operator::Forest(forest) => Some((node, forest, class)),
            _ => None,
        });
        let ways = forests.map(|(node, forest, class)| {
            let refused = refusal(forest, class);
            let pay = || every || Self::choice(forest, target, CHOICE_ROWS).1.products_pay();
            let products = on && refused.is_none() && pay();
            let (facts, choice) = Self::choice(forest, target, rows);
            let (name, outputs) = (node.name.clone(), forest.outputs as usize);
            Self { name, facts, outputs, choice, refused, products }
        });
        ways.collect()
    }
}

/// Returns why a forest can't become products of matrices, or `None` if it can.
fn refusal(forest: &Forest, wants_class: bool) -> Option<&'static str> {
    let mut nodes = forest.trees.iter().flat_map(|tree| &tree.nodes);
    let splits = nodes.clone().filter(|node| node.slot().is_none()).count();
    let fits = splits.checked_mul(forest.leaf_count()).is_some_and(|all| all <= MOST_ELEMENTS);
    let less = |node: &Node| {
        matches!(node, Node::Leaf { .. } | Node::Split { predicate: Predicate::Less { .. }, .. })
    };
    let known = matches!(
        forest.transform,
        Transform::Identity
            | Transform::Sigmoid
            | Transform::Exp
            | Transform::Softmax
            | Transform::SigmoidPair
            | Transform::ComplementPair
    );
    match () {
        () if splits == 0 => Some("it has no splits"),
        () if !fits => Some("its matrix from splits to leaves is too large"),
        () if !known => Some("graphs have no operator for its transform"),
        () if forest.aggregate != Aggregate::Sum => Some("it is no sum of leaves"),
        () if !nodes.all(less) => Some("its splits ask for more than thresholds"),
        () if wants_class && !has_class(forest) => Some("graphs have no operator for its class"),
        () => None,
    }
}

/// Returns whether a graph has operators for the class of a row.
fn has_class(forest: &Forest) -> bool {
    match forest.classes.rule {
        ClassRule::None => false,
        ClassRule::Largest => forest.outputs > 1 || forest.transform.is_pair(),
        ClassRule::Over { .. } => forest.outputs == 1 && !forest.transform.is_pair(),
    }
}

struct Matrices {
    /// The column and the threshold of each split, and whether a missing value goes left.
    columns: Vec<i64>,
    thresholds: Vec<f64>,
    missing_left: Vec<bool>,
    /// `splits x leaves`: 1 if a leaf is on the left below a split, -1 if on the right, and 0 if it is not below the
    /// split.
    sides: Vec<f32>,
    /// For each leaf, the number of splits that have it on the left.
    lefts: Vec<f32>,
    /// `leaves x outputs`: what each leaf adds to each output.
    values: Vec<f64>,
}

impl Matrices {
    /// Returns the matrices of a forest, or `None` if it has predicates other than `Less`.
    fn of(forest: &Forest) -> Option<Self> {
        let leaves = forest.leaf_count();
        let all = forest.trees.iter().flat_map(|tree| &tree.nodes);
        let splits = all.filter(|node| node.slot().is_none()).count();
        let outputs = forest.outputs as usize;
        let mut found = Self {
            columns: Vec::with_capacity(splits),
            thresholds: Vec::with_capacity(splits),
            missing_left: Vec::with_capacity(splits),
            sides: vec![0.0; splits * leaves],
            lefts: vec![0.0; leaves],
            values: vec![0.0; leaves * outputs],
        };
        for (t, tree) in forest.trees.iter().enumerate() {
            // Nodes that are still to be visited, with the splits above them.
            let mut open: Vec<(u32, Vec<(usize, f32)>)> = vec![(0, Vec::new())];
            while let Some((at, above)) = open.pop() {
                match tree.nodes[at as usize] {
                    Node::Leaf { slot } => {
                        let slot = slot as usize;
                        for (split, side) in above {
                            found.sides[split * leaves + slot] = side;
                            found.lefts[slot] += side.max(0.0);
                        }
                        let values = forest.leaf(slot as u32).iter().map(|value| value.0);
                        match &forest.targets {
                            Targets::One(targets) => {
                                let output = targets[t] as usize;
                                values.for_each(|value| found.values[slot * outputs + output] = value);
                            }
                            Targets::All => {
                                let of_leaf = &mut found.values[slot * outputs..][..outputs];
                                of_leaf.iter_mut().zip(values).for_each(|(to, value)| *to = value);
                            }
                        }
                    }
                    Node::Split {
                        feature,
                        predicate: Predicate::Less { threshold },
                        missing,
                        left,
                        right,
                    } => {
                        let split = found.columns.len();
                        found.columns.push(i64::from(feature));
                        found.thresholds.push(threshold.0);
                        found.missing_left.push(missing == Side::Left);
                        for (child, side) in [(left, 1.0), (right, -1.0)] {
                            let mut above = above.clone();
                            above.push((split, side));
                            open.push((child, above));
                        }
                    }
                    Node::Split { .. } => return None,
                }
            }
        }
        Some(found)
    }

    /// Adds the products, and returns the values and the classes of rows.
    fn nodes(self, new: &mut Rebuild, node: &GraphNode, forest: &Forest) -> Result<Vec<Operand>, GraphError> {
        let name = &node.name;
        let (splits, leaves, outputs) = (self.columns.len(), self.lefts.len(), forest.outputs as usize);
        let tensor =
            |shape: &[usize], elements| Tensor::new(shape, elements).expect("as many as the shape has");
        let add = |new: &mut Rebuild, operator, operands: &[Operand]| {
            new.node(name, operator, operands.to_vec()).map(|results| results[0])
        };
        let (dtype, thresholds) = match forest.compare {
            CompareType::F32 => (
                Dtype::F32,
                Elements::F32(self.thresholds.iter().map(|threshold| *threshold as f32).collect()),
            ),
            CompareType::F64 => (Dtype::F64, Elements::F64(self.thresholds)),
        };
        let mut x = new.operand(node.operands[0]);
        if new.type_of(x).dtype != dtype {
            x = add(new, Operator::Cast(dtype), &[x])?;
        }
        let columns = new.weight(tensor(&[splits], Elements::I64(self.columns)));
        let asked = add(new, Operator::Gather { axis: 1 }, &[x, columns])?;
        let thresholds = new.weight(tensor(&[splits], thresholds));
        let mut left = add(new, Operator::Compare(Compare::Less), &[asked, thresholds])?;
        if self.missing_left.contains(&true) {
            let missing = add(new, Operator::Unary(Unary::IsNan), &[asked])?;
            let missing_left = new.weight(tensor(&[splits], Elements::Bool(self.missing_left)));
            left = add(new, Operator::Where, &[missing, missing_left, left])?;
        }
        let left = add(new, Operator::Cast(Dtype::F32), &[left])?;
        let sides = new.weight(tensor(&[splits, leaves], Elements::F32(self.sides)));
        let agreeing = add(new, Operator::MatMul, &[left, sides])?;
        let lefts = new.weight(tensor(&[leaves], Elements::F32(self.lefts)));
        let reached = add(new, Operator::Compare(Compare::Equal), &[agreeing, lefts])?;
        let reached = add(new, Operator::Cast(Dtype::F64), &[reached])?;
        let values = new.weight(tensor(&[leaves, outputs], Elements::F64(self.values)));
        let sums = add(new, Operator::MatMul, &[reached, values])?;
        let base =
            new.weight(tensor(&[outputs], Elements::F64(forest.base_score.iter().map(|v| v.0).collect())));
        let mut margins = add(new, Operator::Binary(Binary::Add), &[sums, base])?;
        let number = |new: &mut Rebuild, value: f64| new.weight(tensor(&[1], Elements::F64(vec![value])));
        if forest.scale.0 != 1.0 {
            let scale = number(new, forest.scale.0);
            margins = add(new, Operator::Binary(Binary::Multiply), &[margins, scale])?;
        }
        let values = match forest.transform {
            Transform::Sigmoid => add(new, Operator::Unary(Unary::Sigmoid), &[margins])?,
            Transform::Exp => add(new, Operator::Unary(Unary::Exp), &[margins])?,
            Transform::Softmax => add(new, Operator::Softmax { axis: 1 }, &[margins])?,
            Transform::SigmoidPair => {
                let other = add(new, Operator::Unary(Unary::Negate), &[margins])?;
                let both = add(new, Operator::Concat { axis: 1 }, &[other, margins])?;
                add(new, Operator::Unary(Unary::Sigmoid), &[both])?
            }
            Transform::ComplementPair => {
                let one = number(new, 1.0);
                let other = add(new, Operator::Binary(Binary::Subtract), &[one, margins])?;
                add(new, Operator::Concat { axis: 1 }, &[other, margins])?
            }
            _ => margins,
        };
        let values = add(new, Operator::Cast(Dtype::F32), &[values])?;
        let classes = match forest.classes.rule {
            ClassRule::Over { threshold } => {
                let threshold = new.weight(tensor(&[1], Elements::F32(vec![threshold.0 as f32])));
                let over = add(new, Operator::Compare(Compare::Greater), &[values, threshold])?;
                let over = add(new, Operator::Cast(Dtype::I64), &[over])?;
                add(new, Operator::Reshape(vec![-1]), &[over])?
            }
            _ => {
                let greatest = Operator::ArgExtreme { axis: 1, keep: false, greatest: true, last: false };
                add(new, greatest, &[values])?
            }
        };
        Ok(vec![values, classes])
    }
}
