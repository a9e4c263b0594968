//! Small hand-made graphs, checked against what ONNX Runtime gives for the same graphs.

use prost::Message;

use super::super::{ErrorKind, LoadOptions, parse};
use super::proto::{AttributeProto, Bytes, ModelProto, NodeProto, TensorProto, ValueInfoProto};
use crate::Forest;
use crate::forest::{ClassRule, CompareType, Node, Predicate, Transform, reference};

/// An attribute that is a list of integers.
fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    AttributeProto { name: name.into(), ints: ints.to_vec(), ..Default::default() }
}

fn floats(name: &str, floats: &[f32]) -> AttributeProto {
    AttributeProto { name: name.into(), floats: floats.to_vec(), ..Default::default() }
}

fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), i, ..Default::default() }
}

fn text(name: &str, s: &str) -> AttributeProto {
    AttributeProto { name: name.into(), s: Bytes::copy_from_slice(s.as_bytes()), ..Default::default() }
}

fn texts(name: &str, texts: &[&str]) -> AttributeProto {
    let strings = texts.iter().map(|s| Bytes::copy_from_slice(s.as_bytes())).collect();
    AttributeProto { name: name.into(), strings, ..Default::default() }
}

fn doubles(name: &str, values: &[f64]) -> AttributeProto {
    let tensor = TensorProto {
        dims: vec![values.len() as i64],
        data_type: 11,
        double_data: values.to_vec(),
        ..Default::default()
    };
    AttributeProto { name: name.into(), t: tensor.encode_to_vec().into(), ..Default::default() }
}

fn single(name: &str, values: &[f32]) -> AttributeProto {
    let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    let tensor = TensorProto {
        dims: vec![values.len() as i64],
        data_type: 1,
        raw_data: raw.into(),
        ..Default::default()
    };
    AttributeProto { name: name.into(), t: tensor.encode_to_vec().into(), ..Default::default() }
}

fn modes(values: &[u8]) -> AttributeProto {
    let tensor = TensorProto {
        dims: vec![values.len() as i64],
        data_type: 2,
        raw_data: values.to_vec().into(),
        ..Default::default()
    };
    AttributeProto { name: "nodes_modes".into(), t: tensor.encode_to_vec().into(), ..Default::default() }
}

fn node(op: &str, domain: &str, from: &[&str], to: &[&str], attributes: Vec<AttributeProto>) -> NodeProto {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    NodeProto {
        input: names(from),
        output: names(to),
        name: String::new(),
        op_type: op.into(),
        attribute: attributes.iter().map(|a| a.encode_to_vec().into()).collect(),
        domain: domain.into(),
    }
}

/// A graph with one input `X` of element type `element`, and these operators and outputs.
fn graph(element: i32, nodes: Vec<NodeProto>, outputs: &[&str]) -> Vec<u8> {
    use super::messages::{GraphProto, TypeProto, type_proto};
    let value = |name: &str, r#type| ValueInfoProto { name: name.into(), r#type }.encode_to_vec().into();
    let tensor = type_proto::Tensor { elem_type: element, shape: None };
    let graph = GraphProto {
        node: nodes.iter().map(|n| n.encode_to_vec().into()).collect(),
        initializer: Vec::new(),
        input: vec![value("X", Some(TypeProto { tensor_type: Some(tensor), map_type: None }))],
        output: outputs.iter().map(|name| value(name, None)).collect(),
    };
    let model = ModelProto { graph: Some(graph), ..Default::default() };
    // The field for the format's version, which every writer puts first.
    [&[0x08, 8][..], &model.encode_to_vec()].concat()
}

fn load(bytes: &[u8]) -> Forest {
    parse(bytes, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// A regressor's stump: node 0 asks, node 1 is on the true branch, node 2 on the false branch.
fn stump(mode: &str, threshold: f32, missing_is_true: bool) -> Vec<AttributeProto> {
    vec![
        int("n_targets", 1),
        ints("nodes_treeids", &[0, 0, 0]),
        ints("nodes_nodeids", &[0, 1, 2]),
        ints("nodes_featureids", &[0, 0, 0]),
        texts("nodes_modes", &[mode, "LEAF", "LEAF"]),
        ints("nodes_truenodeids", &[1, 0, 0]),
        ints("nodes_falsenodeids", &[2, 0, 0]),
        ints("nodes_missing_value_tracks_true", &[missing_is_true.into(), 0, 0]),
        floats("nodes_values", &[threshold, 0.0, 0.0]),
        ints("target_treeids", &[0, 0]),
        ints("target_nodeids", &[1, 2]),
        ints("target_ids", &[0, 0]),
        floats("target_weights", &[1.0, 2.0]),
    ]
}

fn regressor(element: i32, attributes: Vec<AttributeProto>) -> Vec<u8> {
    graph(element, vec![node("TreeEnsembleRegressor", "ai.onnx.ml", &["X"], &["Y"], attributes)], &["Y"])
}

/// Replaces attributes by name.
fn with(mut all: Vec<AttributeProto>, changes: Vec<AttributeProto>) -> Vec<AttributeProto> {
    for change in changes {
        all.retain(|a| a.name != change.name);
        all.push(change);
    }
    all
}

#[test]
fn every_mode_at_its_threshold_and_beside_it() {
    let thresholds = [0.0f32, -0.0, 1e-45, -1.5, 0.1, f32::MAX, f32::INFINITY, f32::NEG_INFINITY];
    for t in thresholds {
        for missing_is_true in [false, true] {
            type Holds = fn(f32, f32) -> bool;
            let modes: [(&str, Holds); 6] = [
                ("BRANCH_LEQ", |x, t| x <= t),
                ("BRANCH_LT", |x, t| x < t),
                ("BRANCH_GTE", |x, t| x >= t),
                ("BRANCH_GT", |x, t| x > t),
                ("BRANCH_EQ", |x, t| x == t),
                ("BRANCH_NEQ", |x, t| x != t),
            ];
            for (mode, holds) in modes {
                let forest = load(&regressor(1, stump(mode, t, missing_is_true)));
                let near = [t.next_down(), t, t.next_up(), 0.0, -0.0, 1e-45, -1e-45, f32::NAN];
                for x in near.into_iter().chain([f32::INFINITY, f32::NEG_INFINITY, 1.0]) {
                    let takes_true = holds(x, t) || missing_is_true && x.is_nan();
                    let expected = if takes_true { 1 } else { 2 };
                    assert_eq!(
                        reference::leaf_ids(&forest, &[x]),
                        [expected],
                        "{x:e} {mode} {t:e}, {missing_is_true}"
                    );
                }
            }
        }
    }
}

/// A graph with these operators before a stump that asks `x <= t` of column `feature`.
fn before(element: i32, nodes: Vec<NodeProto>, feature: i64, t: f32) -> Vec<u8> {
    let trees = with(stump("BRANCH_LEQ", t, false), vec![ints("nodes_featureids", &[feature, 0, 0])]);
    let trees = node("TreeEnsembleRegressor", "ai.onnx.ml", &["Z"], &["Y"], trees);
    graph(element, [nodes, vec![trees]].concat(), &["Y"])
}

fn constant(name: &str, value: AttributeProto) -> NodeProto {
    node("Constant", "", &[], &[name], vec![AttributeProto { name: "value".into(), ..value }])
}

#[test]
fn what_precedes_the_trees_is_folded_into_them() {
    let (offset, scale) = ([0.3f32, -1.0], [0.7f32, -3.0]);
    let scaler = || {
        let numbers = vec![floats("offset", &offset), floats("scale", &scale)];
        node("Scaler", "ai.onnx.ml", &["X"], &["Z"], numbers)
    };
    for feature in [0usize, 1] {
        let forest = load(&before(1, vec![scaler()], feature as i64, 0.1));
        assert_eq!((forest.features.len(), forest.compare), (2, CompareType::F32));
        let scaled = |x: f32| (x - offset[feature]) * scale[feature];
        let edge = 0.1 / scale[feature] + offset[feature];
        for x in (0..200).map(|i| f32::from_bits(edge.to_bits() - 100 + i)).chain([f32::NAN, f32::INFINITY]) {
            let expected = if scaled(x) <= 0.1 { 1 } else { 2 };
            assert_eq!(reference::leaf_ids(&forest, &[x, x]), [expected], "{x:e}, column {feature}");
        }
    }
    // Doubles are scaled as doubles and then become floats.
    let forest = load(&before(11, vec![scaler()], 0, 0.1));
    assert_eq!(forest.compare, CompareType::F64);
    let scaled = |x: f64| ((x - f64::from(offset[0])) * f64::from(scale[0])) as f32;
    for i in -1000..1000 {
        let x = 0.442_857_156 + f64::from(i) * 1e-10;
        let expected = if scaled(x) <= 0.1 { 1 } else { 2 };
        assert_eq!(reference::leaf_ids(&forest, &[x, 0.0]), [expected], "{x:e}");
    }
}

#[test]
fn constants_and_columns_before_the_trees() {
    let choice = |op: &str, domain: &str, more| {
        let columns =
            TensorProto { dims: vec![2], data_type: 7, int64_data: vec![3, 1], ..Default::default() };
        let columns = AttributeProto { t: columns.encode_to_vec().into(), ..Default::default() };
        vec![
            constant("c", columns),
            node(op, domain, &["X", "c"], &["V"], more),
            constant("four", single("", &[4.0])),
            constant("halves", single("", &[0.5, 1.5])),
            node("Mul", "", &["four", "V"], &["W"], vec![]),
            node("Sub", "", &["W", "halves"], &["Z"], vec![]),
        ]
    };
    for nodes in
        [choice("ArrayFeatureExtractor", "ai.onnx.ml", vec![]), choice("Gather", "", vec![int("axis", 1)])]
    {
        let forest = load(&before(1, nodes, 1, 0.5));
        assert_eq!(forest.features.len(), 4);
        let leaf = |x: f32| reference::leaf_ids(&forest, &[9.0, x, 9.0, 9.0]);
        assert_eq!([leaf(0.5), leaf(0.5f32.next_up()), leaf(f32::NAN)], [[1], [2], [2]]);
    }
    // An operator that can't be folded is named in the error.
    let refused = |nodes| parse(&before(1, nodes, 0, 0.5), &LoadOptions::default()).expect_err("refused");
    let error = refused(choice("Gather", "", vec![]));
    assert!(error.cause().contains("operator Gather is not supported before the trees"), "{error}");
    let from = vec![constant("c", single("", &[1.0])), node("Sub", "", &["c", "X"], &["Z"], vec![])];
    let error = refused(from);
    assert!(error.cause().contains("operator Sub is not supported before the trees"), "{error}");
    let three = vec![constant("c", single("", &[1.0; 3])), node("Sub", "", &["X", "c"], &["V"], vec![])];
    let two = vec![constant("d", single("", &[1.0; 2])), node("Sub", "", &["V", "d"], &["Z"], vec![])];
    assert!(refused([three, two].concat()).cause().contains("2 numbers for 3 columns"));
    let infinite =
        vec![constant("c", single("", &[f32::INFINITY])), node("Mul", "", &["X", "c"], &["Z"], vec![])];
    assert!(refused(infinite).cause().contains("is not finite"));
}

#[test]
fn an_operator_by_itself_is_the_forest_of_a_graph_of_it() {
    use super::{Tensor, TreeOperator};
    let whole = load(&regressor(1, stump("BRANCH_LEQ", 0.5, true)));
    let operator = |name: &str| {
        TreeOperator::new(name, "trees")
            .int("n_targets", 1)
            .ints("nodes_treeids", &[0, 0, 0])
            .ints("nodes_nodeids", &[0, 1, 2])
            .ints("nodes_featureids", &[0, 0, 0])
            .strings("nodes_modes", ["BRANCH_LEQ", "LEAF", "LEAF"])
            .ints("nodes_truenodeids", &[1, 0, 0])
            .ints("nodes_falsenodeids", &[2, 0, 0])
            .ints("nodes_missing_value_tracks_true", &[1, 0, 0])
            .ints("target_treeids", &[0, 0])
            .ints("target_nodeids", &[1, 2])
            .ints("target_ids", &[0, 0])
            .tensor("nodes_values_as_tensor", Tensor::Float(&[0.5, 0.0, 0.0]))
            .tensor("target_weights_as_tensor", Tensor::Double(&[1.0, 2.0]))
    };
    let options = LoadOptions::default();
    let alone = operator("TreeEnsembleRegressor").string("post_transform", "NONE").forest(&options);
    assert_eq!(alone.expect("a forest"), whole);
    let wide = operator("TreeEnsembleRegressor").columns(3).forest(&options).expect("a forest");
    assert_eq!(wide.features.len(), 3);
    let error = operator("SVMRegressor").forest(&options).expect_err("no trees");
    assert!(error.cause().contains("SVMRegressor is no tree ensemble"), "{error}");
    let error = operator("TreeEnsembleRegressor").floats("nodes_values", &[0.5]).forest(&options);
    assert!(error.expect_err("twice").cause().contains("are both there"));
}

#[test]
fn doubles_are_compared_as_doubles_and_narrowed_where_the_rows_are_floats() {
    let attributes = || {
        let all = stump("BRANCH_LEQ", 0.0, false).into_iter().filter(|a| a.name != "nodes_values");
        with(all.collect(), vec![doubles("nodes_values_as_tensor", &[0.1, 0.0, 0.0])])
    };
    let double = load(&regressor(11, attributes()));
    assert_eq!(double.compare, CompareType::F64);
    let leaf = |x: f64| reference::leaf_ids(&double, &[x]);
    assert_eq!([leaf(0.1f64.next_down()), leaf(0.1), leaf(0.1f64.next_up())], [[1], [1], [2]]);

    // A row of floats that is cast to double: the float nearest to 0.1 is above the double 0.1.
    let cast = node("Cast", "", &["X"], &["D"], vec![int("to", 11)]);
    let trees = node("TreeEnsembleRegressor", "ai.onnx.ml", &["D"], &["Y"], attributes());
    let single = load(&graph(1, vec![cast, trees], &["Y"]));
    assert_eq!(single.compare, CompareType::F32);
    let leaf = |x: f32| reference::leaf_ids(&single, &[x]);
    assert_eq!([leaf(0.1f32.next_down()), leaf(0.1), leaf(0.1f32.next_up())], [[1], [2], [2]]);

    // Doubles that are cast to float first: a value that rounds to the threshold is equal to it.
    let cast = node("Cast", "", &["X"], &["F"], vec![int("to", 1)]);
    let trees = node("TreeEnsembleRegressor", "ai.onnx.ml", &["F"], &["Y"], stump("BRANCH_LEQ", 0.1, false));
    let narrowed = load(&graph(11, vec![cast, trees], &["Y"]));
    let leaf = |x: f64| reference::leaf_ids(&narrowed, &[x]);
    assert_eq!([leaf(0.1), leaf(f64::from(0.1f32).next_up()), leaf(0.100_000_02)], [[1], [1], [2]]);
}

/// A `TreeEnsemble` of one membership node, with leaf 0 on its true branch and leaf 1 on its false branch.
fn member(members: &[f32], missing_is_true: bool) -> Vec<AttributeProto> {
    vec![
        int("n_targets", 1),
        modes(&[6]),
        single("nodes_splits", &[f32::NAN]),
        ints("nodes_featureids", &[0]),
        ints("nodes_trueleafs", &[1]),
        ints("nodes_truenodeids", &[0]),
        ints("nodes_falseleafs", &[1]),
        ints("nodes_falsenodeids", &[1]),
        ints("nodes_missing_value_tracks_true", &[missing_is_true.into()]),
        single("membership_values", &[members, &[f32::NAN]].concat()),
        ints("tree_roots", &[0]),
        ints("leaf_targetids", &[0, 0]),
        single("leaf_weights", &[1.0, 2.0]),
    ]
}

fn unified(attributes: Vec<AttributeProto>) -> Vec<u8> {
    graph(1, vec![node("TreeEnsemble", "ai.onnx.ml", &["X"], &["Y"], attributes)], &["Y"])
}

/// In a graph, `TreeEnsemble` on doubles gives doubles: 0.1 + 0.7 to the last bit, not the f32 next to it.
#[test]
fn a_graph_sums_doubles_where_the_operator_does() {
    use crate::graph::{Elements, Tensor};

    let stump = |aggregate, targets: &[i64]| {
        vec![
            int("n_targets", 2),
            int("aggregate_function", aggregate),
            modes(&[0, 0]),
            doubles("nodes_splits", &[0.5, 1.5]),
            ints("nodes_featureids", &[0, 0]),
            ints("nodes_trueleafs", &[1, 1]),
            ints("nodes_truenodeids", &[0, 2]),
            ints("nodes_falseleafs", &[1, 1]),
            ints("nodes_falsenodeids", &[1, 3]),
            ints("tree_roots", &[0, 1]),
            ints("leaf_targetids", targets),
            doubles("leaf_weights", &[0.1, 0.2, 0.7, 5.23]),
        ]
    };
    let rows = || Tensor::new([3, 1], Elements::F64(vec![0.5, 1.5, 2.0])).expect("three rows");
    let run = |aggregate, targets: &[i64]| {
        let trees = node("TreeEnsemble", "ai.onnx.ml", &["X"], &["Y"], stump(aggregate, targets));
        let file = graph(11, vec![trees], &["Y"]);
        let graph = crate::import::onnx::classical::graph(&file, &LoadOptions::default()).expect("a graph");
        graph.run(&[rows()]).expect("scores").remove(0).into_elements()
    };
    let sums = vec![0.1 + 0.7, 0.0, 0.2 + 0.7, 0.0, 0.2 + 5.23, 0.0];
    assert_eq!(run(1, &[0; 4]), Elements::F64(sums));
    // Leaves of one tree that add to different outputs are vectors.
    let vectors = vec![0.1 + 0.7, 0.0, 0.7, 0.2, 0.0, 0.2 + 5.23];
    assert_eq!(run(1, &[0, 1, 0, 1]), Elements::F64(vectors));
    // The greatest leaf is an f32, in a tensor of doubles.
    let Elements::F64(greatest) = run(3, &[0; 4]) else { panic!("no doubles") };
    assert_eq!(greatest.iter().map(|v| *v as f32).collect::<Vec<_>>(), [0.7f32, 0.0, 0.7, 0.0, 5.23, 0.0]);
}

#[test]
fn members_are_equal_values_whether_they_are_a_set_or_a_chain() {
    for members in [&[1.0f32, 3.0, 40.0][..], &[16_777_215.0, 0.0], &[2.7, -0.5], &[1e30, 0.5, 16_777_216.0]]
    {
        for missing_is_true in [false, true] {
            let forest = load(&unified(member(members, missing_is_true)));
            let set = members.iter().all(|m| *m >= 0.0 && *m == m.trunc() && *m < 16_777_216.0);
            assert_eq!(forest.sets.len(), usize::from(set), "{members:?}");
            let near = members.iter().flat_map(|m| [m.next_down(), *m, m.next_up(), m + 1.0]);
            let odd = [-0.5, -1.0, 2.7, 1e30, -0.0, 0.0, 0.5, 16_777_216.0, 16_777_214.0, 1e-45];
            for x in near.chain(odd).chain([f32::NAN, f32::INFINITY, f32::NEG_INFINITY]) {
                let takes_true = members.contains(&x) || missing_is_true && x.is_nan();
                let expected = u32::from(!takes_true);
                assert_eq!(reference::leaf_ids(&forest, &[x]), [expected], "{x:e} in {members:?}");
            }
        }
    }
}

/// `(id, mode, feature, threshold, true, false)`.
type TreeNode = (i64, &'static str, i64, f32, i64, i64);

/// A classic tree. Each leaf's weight is its id.
fn tree(nodes: &[TreeNode]) -> Vec<AttributeProto> {
    let list = |f: fn(&TreeNode) -> i64| nodes.iter().map(f).collect::<Vec<_>>();
    let leaves: Vec<i64> = nodes.iter().filter(|n| n.1 == "LEAF").map(|n| n.0).collect();
    let weights: Vec<f32> = leaves.iter().map(|id| *id as f32).collect();
    vec![
        int("n_targets", 1),
        ints("nodes_treeids", &vec![0; nodes.len()]),
        ints("nodes_nodeids", &list(|n| n.0)),
        texts("nodes_modes", &nodes.iter().map(|n| n.1).collect::<Vec<_>>()),
        ints("nodes_featureids", &list(|n| n.2)),
        floats("nodes_values", &nodes.iter().map(|n| n.3).collect::<Vec<_>>()),
        ints("nodes_truenodeids", &list(|n| n.4)),
        ints("nodes_falsenodeids", &list(|n| n.5)),
        ints("target_treeids", &vec![0; leaves.len()]),
        ints("target_nodeids", &leaves),
        ints("target_ids", &vec![0; leaves.len()]),
        floats("target_weights", &weights),
    ]
}

#[test]
fn a_chain_of_equals_that_share_their_true_branch_is_a_set() {
    let leaf = |id| (id, "LEAF", 0, 0.0, 0, 0);
    let chain = [
        (0, "BRANCH_EQ", 0, 1.0, 7, 1),
        (1, "BRANCH_EQ", 0, 33.0, 7, 2),
        (2, "BRANCH_EQ", 0, 0.0, 7, 3),
        leaf(3),
        (7, "BRANCH_LEQ", 1, 0.0, 8, 9),
        leaf(8),
        leaf(9),
    ];
    let forest = load(&regressor(1, tree(&chain)));
    assert!(matches!(forest.trees[0].nodes[0], Node::Split { predicate: Predicate::InSet { .. }, .. }));
    let leaf = |x: f32| reference::leaf_ids(&forest, &[x, 0.0])[0];
    assert_eq!([1.0, 33.0, 0.0, -0.0].map(leaf), [8; 4]);
    assert_eq!([2.0, 2.7, 1.5, 32.0, 34.0, -1.0, -0.5, 1e30, f32::NAN].map(leaf), [3; 9]);

    // A predicate of another feature, or with a number that is not whole, ends the chain. The shared node
    // then has two parents.
    for change in [(1, "BRANCH_EQ", 1, 33.0, 7, 2), (1, "BRANCH_EQ", 0, 0.5, 7, 2)] {
        let mut broken = chain;
        broken[1] = change;
        let error = parse(&regressor(1, tree(&broken)), &LoadOptions::default()).expect_err("two parents");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.cause().contains("two parents"), "{error}");
    }
}

#[test]
fn a_leaf_may_be_shared_and_ids_may_have_gaps() {
    let nodes = [
        (500, "BRANCH_LT", 0, 1.0, 70_000, 3),
        (3, "BRANCH_GTE", 0, 2.0, 70_000, 9),
        (9, "LEAF", 0, 0.0, 0, 0),
        (70_000, "LEAF", 0, 0.0, 0, 0),
    ];
    let forest = load(&regressor(1, tree(&nodes)));
    let leaf = |x: f32| reference::leaf_ids(&forest, &[x])[0];
    assert_eq!([0.0, 1.0, 1.5, 2.0, 3.0].map(leaf), [70_000, 9, 9, 70_000, 70_000]);
    assert_eq!(forest.features.len(), 1);
}

/// A stump of a classifier of two classes with these votes: node, class, weight.
fn classifier(votes: &[(i64, i64, f32)], changes: Vec<AttributeProto>) -> Vec<AttributeProto> {
    let all = stump("BRANCH_LEQ", 0.5, false).into_iter().filter(|a| !a.name.starts_with("target_"));
    let votes = vec![
        ints("class_treeids", &vec![0; votes.len()]),
        ints("class_nodeids", &votes.iter().map(|v| v.0).collect::<Vec<_>>()),
        ints("class_ids", &votes.iter().map(|v| v.1).collect::<Vec<_>>()),
        floats("class_weights", &votes.iter().map(|v| v.2).collect::<Vec<_>>()),
        ints("classlabels_int64s", &[3, 7]),
    ];
    with(all.chain(votes).collect(), changes)
}

fn classifier_graph(attributes: Vec<AttributeProto>) -> Vec<u8> {
    let trees = node("TreeEnsembleClassifier", "ai.onnx.ml", &["X"], &["L", "P"], attributes);
    graph(1, vec![trees], &["L", "P"])
}

/// The transform, the threshold of the second class, the values of the rows 0 and 1, and the labels.
fn pair(
    votes: &[(i64, i64, f32)],
    changes: Vec<AttributeProto>,
) -> (Transform, f64, Vec<Vec<f64>>, Vec<String>) {
    let forest = load(&classifier_graph(classifier(votes, changes)));
    let ClassRule::Over { threshold } = forest.classes.rule else { panic!("{:?}", forest.classes) };
    let values = [0.0f32, 1.0].map(|x| reference::values(&forest, &[x])).to_vec();
    (forest.transform, threshold.0, values, forest.classes.labels)
}

#[test]
fn one_score_for_two_classes_is_a_probability_or_a_distance() {
    let positive = [(1, 0, 0.25), (2, 0, 0.75)];
    let mixed = [(1, 0, -0.25), (2, 0, 0.75)];
    let logistic = || vec![text("post_transform", "LOGISTIC")];
    let labels = ["3", "7"].map(String::from).to_vec();
    assert_eq!(
        pair(&positive, vec![]),
        (Transform::ComplementPair, 0.5, vec![vec![0.75, 0.25], vec![0.25, 0.75]], labels.clone())
    );
    assert_eq!(
        pair(&mixed, vec![text("post_transform", "SOFTMAX")]),
        (Transform::OppositePair, 0.0, vec![vec![0.25, -0.25], vec![-0.75, 0.75]], labels.clone())
    );
    let (transform, threshold, values, _) = pair(&mixed, logistic());
    assert_eq!((transform, threshold), (Transform::SigmoidPair, 0.5));
    assert!((values[0][1] - 0.437_823_499).abs() < 1e-9, "{values:?}");
    // If no weight is negative, the label asks whether the score, not the probability, is over one half.
    let (_, threshold, ..) = pair(&positive, logistic());
    assert!((threshold - 0.622_459_331).abs() < 1e-7, "{threshold}");
    let base = vec![floats("base_values", &[0.5])];
    assert_eq!(pair(&mixed, base).2, [[-0.25, 0.25], [-1.25, 1.25]]);
    assert_eq!(load(&classifier_graph(classifier(&mixed, vec![]))).classes.integers(), Some(vec![3, 7]));
}

#[test]
fn opposite_scores_of_two_classes_are_one() {
    let votes_are_opposite = [(1, 0, 0.25), (1, 1, -0.25), (2, 1, 0.75), (2, 0, -0.75)];
    let (transform, threshold, values, labels) = pair(&votes_are_opposite, vec![]);
    assert_eq!((transform, threshold), (Transform::OppositePair, 0.0));
    assert_eq!(values, [[0.25, -0.25], [-0.75, 0.75]]);
    // ONNX Runtime gives these labels here, whatever the file's labels are.
    assert_eq!(labels, ["0", "1"]);
    let (transform, _, values, _) = pair(&votes_are_opposite, vec![text("post_transform", "SOFTMAX")]);
    assert_eq!(transform, Transform::SigmoidPair);
    assert!((values[1][1] - 1.0 / (1.0 + (-1.5f64).exp())).abs() < 1e-12, "{values:?}");
}

#[test]
fn what_follows_the_trees_is_taken_where_it_can_be_said() {
    let constant = |name: &str, values: &[f32]| {
        let AttributeProto { t, .. } = single("value", values);
        node(
            "Constant",
            "",
            &[],
            &[name],
            vec![AttributeProto { name: "value".into(), t, ..Default::default() }],
        )
    };
    let trees =
        || node("TreeEnsembleRegressor", "ai.onnx.ml", &["X"], &["T"], stump("BRANCH_LEQ", 0.5, false));
    let step = |op: &str, from: &[&str], to: &str| node(op, "", from, &[to], vec![]);
    let value = |nodes: Vec<NodeProto>| {
        let forest = load(&graph(1, [vec![trees(), constant("c", &[4.0])], nodes].concat(), &["Y"]));
        reference::values(&forest, &[0.0f32])[0]
    };
    assert_eq!(value(vec![step("Mul", &["T", "c"], "Y")]), 4.0);
    assert_eq!(value(vec![step("Div", &["T", "c"], "A"), step("Add", &["c", "A"], "Y")]), 4.25);
    assert_eq!(value(vec![step("Sub", &["T", "c"], "A"), step("Mul", &["A", "c"], "Y")]), -12.0);
    let exp = value(vec![step("Exp", &["T"], "A"), step("Mul", &["A", "c"], "Y")]);
    assert!((exp - 4.0 * 1f64.exp()).abs() < 1e-12, "{exp}");
    let sigmoid = value(vec![step("Sigmoid", &["T"], "A"), step("Identity", &["A"], "Y")]);
    assert!((sigmoid - 1.0 / (1.0 + (-1f64).exp())).abs() < 1e-15, "{sigmoid}");
    // An operator that can't be expressed is named in the error.
    for (nodes, named) in [
        (vec![step("Sigmoid", &["T"], "A"), step("Mul", &["A", "c"], "Y")], "Mul"),
        (vec![step("Sub", &["c", "T"], "Y")], "Sub"),
        (vec![step("Tanh", &["T"], "Y")], "Tanh"),
        (vec![step("Softmax", &["T"], "Y")], "Softmax"),
        (vec![step("Relu", &["T"], "A"), step("Exp", &["A"], "Y")], "Relu"),
    ] {
        let bytes = graph(1, [vec![trees(), constant("c", &[4.0])], nodes].concat(), &["Y"]);
        let error = parse(&bytes, &LoadOptions::default()).expect_err(named);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.cause().contains(&format!("operator {named} ")), "{error}");
    }
}

#[test]
fn a_chain_of_a_hundred_thousand_nodes_loads() {
    let depth = 100_000;
    let mut nodes = Vec::with_capacity(2 * depth + 1);
    for i in 0..depth as i64 {
        nodes.push((2 * i, "BRANCH_LEQ", 0, -(i as f32), 2 * i + 2, 2 * i + 1));
        nodes.push((2 * i + 1, "LEAF", 0, 0.0, 0, 0));
    }
    nodes.push((2 * depth as i64, "LEAF", 0, 0.0, 0, 0));
    let forest = load(&regressor(1, tree(&nodes)));
    assert_eq!(forest.trees[0].depth(), depth as u32);
    assert_eq!(reference::leaf_ids(&forest, &[-10.5f32]), [23]);
}

/// Reads a `.npy` file of doubles from the zoo.
fn array(path: &std::path::Path) -> Vec<f64> {
    let bytes = std::fs::read(path).expect("the array");
    npyz::NpyFile::new(&bytes[..]).expect("npy").into_vec().expect("doubles")
}

#[test]
fn rows_of_doubles_at_thresholds_of_doubles() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo/onnx-doubles");
    let forest = load(&std::fs::read(folder.join("model.onnx")).expect("the model"));
    assert_eq!(forest.compare, CompareType::F64);
    let (rows, margins) = (array(&folder.join("rows64.npy")), array(&folder.join("margin64.npy")));
    for (r, (row, expected)) in rows.chunks(forest.features.len()).zip(margins).enumerate() {
        let margin = reference::margins(&forest, row)[0];
        assert!((margin - expected).abs() < 1e-5, "row {r}: {margin}, not {expected}");
    }
}

/// Reads a graph of one operator of `ai.onnx.ml` on floats, and runs it.
fn runs(
    operator: &str,
    attributes: Vec<AttributeProto>,
    rows: &[&[f32]],
    outputs: &[&str],
) -> Vec<crate::graph::Tensor> {
    use crate::graph::{Elements, Tensor};
    let inputs: &[&str] = if operator == "FeatureVectorizer" { &["X", "X"] } else { &["X"] };
    let bytes = graph(1, vec![node(operator, "ai.onnx.ml", inputs, outputs, attributes)], outputs);
    let graph = super::super::parse_graph(&bytes, &LoadOptions::default()).expect("a graph");
    let rows = Tensor::new([rows.len(), rows[0].len()], Elements::F32(rows.concat())).expect("rows");
    graph.run(&[rows]).expect("values")
}

fn numbers(tensor: &crate::graph::Tensor) -> Vec<f64> {
    let values = tensor.elements().doubles().expect("numbers");
    values.into_iter().map(|v| (v * 1e6).round() / 1e6).collect()
}

#[test]
fn one_score_of_two_classes_has_its_opposite() {
    let linear = |transform: &str| {
        let attributes = vec![
            floats("coefficients", &[1.0, 2.0]),
            floats("intercepts", &[0.5]),
            ints("classlabels_ints", &[7, 9]),
            text("post_transform", transform),
        ];
        runs("LinearClassifier", attributes, &[&[1.0, -1.0], &[1.0, 1.0]], &["L", "S"])
    };
    let found = linear("NONE");
    assert_eq!((numbers(&found[0]), numbers(&found[1])), (vec![7.0, 9.0], vec![0.5, -0.5, -3.5, 3.5]));
    let found = linear("LOGISTIC");
    assert_eq!(numbers(&found[1]), [0.622459, 0.377541, 0.029312, 0.970688]);
    // e^-0.5 / (e^0.5 + e^-0.5), and so on.
    for transform in ["SOFTMAX", "SOFTMAX_ZERO"] {
        assert_eq!(numbers(&linear(transform)[1]), [0.731059, 0.268941, 0.000911, 0.999089], "{transform}");
    }
    let found = runs(
        "SVMClassifier",
        vec![
            floats("coefficients", &[1.0, -1.0, -1.0, 1.0]),
            floats("rho", &[0.25]),
            ints("classlabels_ints", &[7, 9]),
            text("kernel_type", "LINEAR"),
        ],
        &[&[2.0, 1.0], &[0.0, 3.0]],
        &["L", "S"],
    );
    assert_eq!((numbers(&found[0]), numbers(&found[1])), (vec![7.0, 9.0], vec![1.25, -0.75, -2.75, 3.25]));
}

#[test]
fn columns_are_joined_by_their_widths() {
    let joined = |widths: &[i64]| {
        let attributes = vec![ints("inputdimensions", widths)];
        numbers(&runs("FeatureVectorizer", attributes, &[&[1.0, 2.0], &[3.0, 4.0]], &["Y"])[0])
    };
    assert_eq!(joined(&[1, 2]), [1.0, 1.0, 2.0, 3.0, 3.0, 4.0]);
    assert_eq!(joined(&[2, 1]), [1.0, 2.0, 1.0, 3.0, 4.0, 3.0]);
    let graph = graph(
        1,
        vec![node(
            "FeatureVectorizer",
            "ai.onnx.ml",
            &["X", "X"],
            &["Y"],
            vec![ints("inputdimensions", &[2, 3])],
        )],
        &["Y"],
    );
    let graph = super::super::parse_graph(&graph, &LoadOptions::default()).expect("a graph");
    let rows = crate::graph::Tensor::parse("f32[1, 2] = [1.0, 2.0]").expect("a row");
    // As in ONNX Runtime, columns that are not there are 0.
    assert_eq!(numbers(&graph.run(&[rows]).expect("joined")[0]), [1.0, 2.0, 1.0, 2.0, 0.0]);
}

/// What ONNX Runtime 1.32 gives.
#[test]
fn a_probit_is_a_quantile_of_the_normal_distribution() {
    let linear = |rows: &[&[f32]]| {
        let attributes = vec![
            floats("coefficients", &[1.0, 2.0]),
            int("targets", 2),
            floats("intercepts", &[0.0, -1.0]),
            text("post_transform", "PROBIT"),
        ];
        numbers(&runs("LinearRegressor", attributes, rows, &["Y"])[0])
    };
    assert_eq!(linear(&[&[0.75], &[0.9]]), [0.674574, 0.0, 1.281713, 0.841756]);
    let ends = linear(&[&[0.5], &[1.0]]);
    assert_eq!((ends[0], ends[1], ends[2], ends[3]), (0.0, f64::NEG_INFINITY, f64::INFINITY, f64::INFINITY));
    assert!(linear(&[&[1.5]])[0].is_nan());
}

/// What ONNX's reference evaluator gives.
#[test]
fn a_classifier_of_one_class_has_its_label_or_none() {
    for (transform, labels, scores) in [
        ("NONE", [7.0, 0.0], [0.25, -0.75]),
        ("LOGISTIC", [7.0, 0.0], [0.562177, 0.320821]),
        ("SOFTMAX", [7.0, 7.0], [1.0, 1.0]),
    ] {
        let attributes = vec![
            floats("coefficients", &[1.0]),
            floats("intercepts", &[0.25]),
            ints("classlabels_ints", &[7]),
            text("post_transform", transform),
        ];
        let found = runs("LinearClassifier", attributes, &[&[0.0], &[-1.0]], &["L", "S"]);
        assert_eq!(
            (numbers(&found[0]), numbers(&found[1])),
            (labels.to_vec(), scores.to_vec()),
            "{transform}"
        );
    }
}

#[test]
fn a_category_that_is_not_known_is_refused_where_the_file_says_so() {
    let bytes = |zeros| {
        let attributes = vec![ints("cats_int64s", &[2, 5]), int("zeros", zeros)];
        graph(1, vec![node("OneHotEncoder", "ai.onnx.ml", &["X"], &["Y"], attributes)], &["Y"])
    };
    let run = |zeros, row: &str| {
        let graph = super::super::parse_graph(&bytes(zeros), &LoadOptions::default()).expect("a graph");
        graph.run(&[crate::graph::Tensor::parse(row).expect("a row")])
    };
    for zeros in [0, 1] {
        let found = run(zeros, "f32[1, 2] = [5.0, 2.0]").expect("known categories");
        assert_eq!((found[0].shape(), numbers(&found[0])), (&[1, 2, 2][..], vec![0.0, 1.0, 1.0, 0.0]));
    }
    let unknown = "f32[1, 1] = [3.0]";
    assert_eq!(numbers(&run(1, unknown).expect("zeros")[0]), [0.0, 0.0]);
    assert!(
        run(0, unknown).expect_err("an unknown category").to_string().contains("3 is none of its 2 keys")
    );
}

#[test]
fn floats_of_16_bits_are_widened() {
    let bits: [u16; 7] = [0x3c00, 0xc000, 0x0001, 0x7c00, 0x3555, 0x8000, 0x7bff];
    let raw: Vec<u8> = bits.iter().flat_map(|bits| bits.to_le_bytes()).collect();
    let in_integers = bits.iter().map(|bits| i32::from(*bits)).collect();
    let tensors = [
        TensorProto { raw_data: raw.into(), ..Default::default() },
        TensorProto { int32_data: in_integers, ..Default::default() },
    ];
    for tensor in tensors {
        let tensor = TensorProto { dims: vec![7], data_type: 10, ..tensor };
        let value = AttributeProto { t: tensor.encode_to_vec().into(), ..Default::default() };
        let sum = node("Add", "", &["X", "C"], &["Y"], Vec::new());
        let bytes = graph(10, vec![constant("C", value), sum], &["Y"]);
        let graph = super::super::parse_graph(&bytes, &LoadOptions::default()).expect("a graph");
        let zero = crate::graph::Tensor::parse("f32[1, 1] = [0.0]").expect("a row");
        let found = graph.run(&[zero]).expect("a sum").swap_remove(0);
        let expected = [1.0, -2.0, 2f64.powi(-24), f64::INFINITY, 0.333_251_953_125, 0.0, 65_504.0];
        assert_eq!(found.elements().doubles().expect("numbers"), expected);
    }
}

/// A chain of imputed columns that begins with itself, and one without distances, end with an error.
#[test]
fn imputers_of_neighbors_that_are_not_whole_are_refused() {
    let inputs = |rows: &'static str| ["X", rows, "X", "X", "X", "X", "X", "X", "X", "X"];
    for rows in ["Y", "X"] {
        let column = node("knn_imputer_column", "local_domain", &inputs(rows), &["Y"], Vec::new());
        let bytes = graph(1, vec![column], &["Y"]);
        let error = super::super::parse_graph(&bytes, &LoadOptions::default()).expect_err("no imputer");
        assert!(
            error.to_string().contains("knn_imputer_column") || error.to_string().contains("`Y`"),
            "{error}"
        );
    }
}

/// ONNX's own operators whose shapes are searched for: every dimension reversed, parts of an axis, and copies of a list.
#[test]
fn shapes_that_the_file_leaves_out_are_found() {
    let run = |nodes: Vec<NodeProto>, outputs: &[&str]| {
        let graph = super::super::parse_graph(&graph(1, nodes, outputs), &LoadOptions::default())?;
        let rows = crate::graph::Tensor::parse("f32[2, 3] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]").expect("rows");
        Ok::<_, crate::import::ImportError>(graph.run(&[rows]).expect("values"))
    };
    let own = |op, from: &[&str], to: &[&str], attributes| node(op, "", from, to, attributes);
    let turned = vec![
        own("Unsqueeze", &["X"], &["D"], vec![ints("axes", &[0])]),
        own("Transpose", &["D"], &["Y"], vec![]),
    ];
    let found = run(turned, &["Y"]).expect("a graph").remove(0);
    assert_eq!((found.shape(), numbers(&found)), (&[3, 2, 1][..], vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0]));
    let parts = |attributes| vec![own("Split", &["X"], &["A", "B"], attributes)];
    let found = run(parts(vec![int("axis", -1), ints("split", &[1, 2])]), &["A", "B"]).expect("a graph");
    assert_eq!([numbers(&found[0]), numbers(&found[1])], [vec![1.0, 4.0], vec![2.0, 3.0, 5.0, 6.0]]);
    let error = run(parts(vec![int("axis", 1)]), &["A", "B"]).expect_err("a length that is not known");
    assert!(error.to_string().contains("axis whose length is not known"), "{error}");
    // Two columns, which divide into parts of one.
    let narrow =
        own("Slice", &["X"], &["N"], vec![ints("starts", &[0]), ints("ends", &[2]), ints("axes", &[1])]);
    let wide = own("Reshape", &["N", "L"], &["W"], vec![]);
    let lengths = own("Constant", &[], &["L"], vec![ints("value_ints", &[-1, 2])]);
    let halves = vec![narrow, lengths, wide, own("Split", &["W"], &["A", "B"], vec![int("axis", 1)])];
    let found = run(halves, &["A", "B"]).expect("a graph");
    assert_eq!([numbers(&found[0]), numbers(&found[1])], [vec![1.0, 4.0], vec![2.0, 5.0]]);
    let sums = own("ReduceSum", &["X"], &["S"], vec![ints("axes", &[1]), int("keepdims", 0)]);
    let copies = vec![sums, own("Shape", &["S"], &["R"], vec![]), own("Tile", &["S", "R"], &["Y"], vec![])];
    assert_eq!(numbers(&run(copies, &["Y"]).expect("a graph")[0]), [6.0, 15.0, 6.0, 15.0]);
    let matrix = vec![own("Shape", &["X"], &["R"], vec![]), own("Tile", &["X", "R"], &["Y"], vec![])];
    let error = run(matrix, &["Y"]).expect_err("a matrix");
    assert!(error.to_string().contains("more than one dimension"), "{error}");
    for (op, expected) in [("Sin", 0.841471), ("Cos", 0.540302)] {
        assert_eq!(
            numbers(&run(vec![own(op, &["X"], &["Y"], vec![])], &["Y"]).expect("a graph")[0])[0],
            expected
        );
    }
}
