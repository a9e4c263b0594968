//! ONNX files that are damaged, hostile or not supported: each is refused with one line that names the location, the
//! cause and the remedy; and whatever is not refused is a sound forest.

use crate::mutate;

use crate::messages::{
    Attributes, Message, Node,
    Value::{self, Floats, Int, Ints, Tensor, Text, Texts},
    around, node, singles, tensor, trees, with,
};
use fangorn::forest::reference;
use fangorn::import::{ErrorKind, Limits, LoadOptions, Location, parse};
use mutate::{Random, Tally};

/// The same votes for classes.
fn classes(labels: Vec<i64>) -> Attributes {
    let rename = |(name, value): (&'static str, Value)| match name {
        "target_treeids" => ("class_treeids", value),
        "target_nodeids" => ("class_nodeids", value),
        "target_ids" => ("class_ids", value),
        "target_weights" => ("class_weights", value),
        _ => (name, value),
    };
    let kept = |a: &(&str, Value)| !matches!(a.0, "n_targets" | "base_values");
    trees().into_iter().filter(kept).map(rename).chain([("classlabels_int64s", Ints(labels))]).collect()
}

/// The unified form: node 0 leads to node 1 and leaf 0, node 1 asks for membership.
fn unified() -> Attributes {
    vec![
        ("n_targets", Int(1)),
        ("tree_roots", Ints(vec![0])),
        ("nodes_modes", Tensor(2, vec![2], vec![0, 6])),
        ("nodes_splits", singles(&[0.5, 0.0])),
        ("nodes_featureids", Ints(vec![0, 1])),
        ("nodes_truenodeids", Ints(vec![1, 1])),
        ("nodes_trueleafs", Ints(vec![0, 1])),
        ("nodes_falsenodeids", Ints(vec![0, 2])),
        ("nodes_falseleafs", Ints(vec![1, 1])),
        ("membership_values", singles(&[1.0, 3.0, f32::NAN])),
        ("leaf_targetids", Ints(vec![0, 0, 0])),
        ("leaf_weights", singles(&[0.25, 0.5, -0.75])),
    ]
}

fn without(mut all: Attributes, name: &str) -> Attributes {
    all.retain(|a| a.0 != name);
    all
}

fn regressor(changes: Attributes) -> Vec<u8> {
    around("TreeEnsembleRegressor", with(trees(), changes)).bytes()
}

#[track_caller]
fn refused_with(bytes: &[u8], options: &LoadOptions, kind: ErrorKind, location: &str, cause: &str) {
    let error = parse(bytes, options).expect_err("a model that must be refused");
    let line = error.to_string();
    assert!(!line.contains(['\n', '\r']), "more than one line: {line}");
    assert!(!error.remedy().is_empty() && !error.remedy().contains("Booster"), "the remedy: {line}");
    assert_eq!(line, format!("{}: {}; {}", error.location(), error.cause(), error.remedy()));
    assert_eq!(error.kind(), kind, "{line}");
    assert_eq!(error.location().to_string(), location, "{line}");
    assert!(error.cause().contains(cause), "`{cause}` is not in: {line}");
}

#[track_caller]
fn refused(bytes: &[u8], kind: ErrorKind, location: &str, cause: &str) {
    refused_with(bytes, &LoadOptions::default(), kind, location, cause);
}

#[track_caller]
fn regressor_refused(changes: Attributes, kind: ErrorKind, location: &str, cause: &str) {
    refused(&regressor(changes), kind, &format!("graph.node[0]{location}"), cause);
}

#[track_caller]
fn classifier_refused(changes: Attributes, kind: ErrorKind, location: &str, cause: &str) {
    let attributes = with(classes(vec![0, 1]), changes);
    let bytes = around("TreeEnsembleClassifier", attributes).bytes();
    refused(&bytes, kind, &format!("graph.node[0]{location}"), cause);
}

#[track_caller]
fn unified_refused(changes: Attributes, kind: ErrorKind, location: &str, cause: &str) {
    let bytes = around("TreeEnsemble", with(unified(), changes)).bytes();
    refused(&bytes, kind, &format!("graph.node[0]{location}"), cause);
}

use ErrorKind::{Limit, Options, Schema, Structure, Syntax, Unsupported, Value as BadValue};

#[test]
fn the_minimal_models_load() {
    let forest = parse(&regressor(vec![]), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        forest.to_text(),
        "forest features=2 outputs=1 trees=2 compare=f32 transform=identity\n\
         \x20 from onnx hand TreeEnsembleRegressor\n\
         \x20 base_score [0.125]\n\
         tree 0 -> output 0\n\
         \x20 0: if x[0] < 0.5000000596046448, missing right, then 1 else 2\n\
         \x20 1: if x[1] < -1.4999998807907104, missing right, then 4 else 3\n\
         \x20 2: leaf 2 #0 [0.25]\n\
         \x20 3: leaf 3 #1 [0.5]\n\
         \x20 4: leaf 4 #2 [-0.75]\n\
         tree 1 -> output 0\n\
         \x20 0: if x[1] == 2.0, missing right, then 1 else 2\n\
         \x20 1: leaf 1 #3 [1.0]\n\
         \x20 2: leaf 2 #4 [2.0]\n"
    );
    let bytes = around("TreeEnsemble", unified()).bytes();
    let forest = parse(&bytes, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(reference::leaf_ids(&forest, &[0.0, 3.0]), [1]);
    assert_eq!(reference::leaf_ids(&forest, &[0.0, 2.0]), [2]);
    let bytes = around("TreeEnsembleClassifier", classes(vec![0, 1])).bytes();
    parse(&bytes, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn children_that_make_no_tree() {
    let yes = |children: Vec<i64>| vec![("nodes_truenodeids", Ints(children))];
    let location = ".nodes_truenodeids";
    regressor_refused(
        yes(vec![9, 3, 0, 0, 0, 1, 0, 0]),
        Structure,
        &format!("{location}[0]"),
        "the tree has no node 9",
    );
    regressor_refused(yes(vec![-1, 3, 0, 0, 0, 1, 0, 0]), Structure, &format!("{location}[0]"), "no node -1");
    // The number is another tree's.
    regressor_refused(yes(vec![1, 3, 0, 0, 0, 4, 0, 0]), Structure, &format!("{location}[5]"), "no node 4");
    regressor_refused(
        yes(vec![0, 3, 0, 0, 0, 1, 0, 0]),
        Unsupported,
        &format!("{location}[0]"),
        "or a cycle",
    );
    regressor_refused(
        yes(vec![1, 0, 0, 0, 0, 1, 0, 0]),
        Unsupported,
        &format!("{location}[0]"),
        "or a cycle",
    );
    // Nodes 1, 3 and 4 are of no tree any more.
    regressor_refused(
        yes(vec![2, 3, 0, 0, 0, 1, 0, 0]),
        Structure,
        ".nodes_nodeids[1]",
        "does not reach this node",
    );
    let twice = vec![("nodes_nodeids", Ints(vec![0, 1, 2, 3, 3, 0, 1, 2]))];
    regressor_refused(twice, Structure, ".nodes_nodeids[4]", "in the tree already");
    let twice = vec![("nodes_nodeids", Ints(vec![0, 1, 2, 1 << 40, 1 << 40, 0, 1, 2]))];
    regressor_refused(twice, Structure, ".nodes_nodeids[4]", "in the tree already");
    let apart = vec![("nodes_treeids", Ints(vec![0, 0, 0, 4, 0, 4, 4, 4]))];
    regressor_refused(apart, Unsupported, ".nodes_treeids[4]", "the nodes of tree 0 do not stand together");
}

#[test]
fn arrays_of_the_wrong_length() {
    for name in ["nodes_nodeids", "nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids"] {
        let changes = vec![(name, Ints(vec![0; 7]))];
        regressor_refused(changes, Structure, &format!(".{name}"), "7 entries for 8 nodes");
    }
    let short = vec![("nodes_modes", Texts(vec!["LEAF"; 9]))];
    regressor_refused(short, Structure, ".nodes_modes", "9 entries for 8 nodes");
    let short = vec![("nodes_values", Floats(vec![0.0; 3]))];
    regressor_refused(short, Structure, ".nodes_values", "3 entries for 8 nodes");
    let short = vec![("nodes_missing_value_tracks_true", Ints(vec![0; 2]))];
    regressor_refused(short, Structure, ".nodes_missing_value_tracks_true", "2 entries for 8 nodes");
    for name in ["target_nodeids", "target_ids"] {
        regressor_refused(
            vec![(name, Ints(vec![0; 6]))],
            Structure,
            &format!(".{name}"),
            "6 entries for 5 votes",
        );
    }
    let short = vec![("target_weights", Floats(vec![0.0; 4]))];
    regressor_refused(short, Structure, ".target_weights", "4 entries for 5 votes");
    let long = vec![("base_values", Floats(vec![1.0; 3]))];
    regressor_refused(long, Structure, ".base_values", "3 base values for 1 outputs");
    unified_refused(
        vec![("leaf_targetids", Ints(vec![0]))],
        Structure,
        ".leaf_targetids",
        "1 entries for 3 leaves",
    );
    unified_refused(
        vec![("nodes_trueleafs", Ints(vec![0]))],
        Structure,
        ".nodes_trueleafs",
        "1 entries for 2 nodes",
    );
    let tensor = Tensor(1, vec![3], vec![0; 8]);
    unified_refused(
        vec![("nodes_splits", tensor)],
        Structure,
        ".nodes_splits",
        "2 numbers in a tensor of shape [3]",
    );
    let tensor = Tensor(1, vec![i64::MAX, i64::MAX], vec![0; 8]);
    unified_refused(vec![("nodes_splits", tensor)], Structure, ".nodes_splits", "2 numbers in a tensor");
    let tensor = Tensor(1, vec![2], vec![0; 7]);
    unified_refused(
        vec![("nodes_splits", tensor)],
        Structure,
        ".nodes_splits",
        "7 bytes are no whole number",
    );
}

#[test]
fn numbers_out_of_range() {
    let features = |f| vec![("nodes_featureids", Ints(vec![0, f, 0, 0, 0, 1, 0, 0]))];
    regressor_refused(features(2), BadValue, ".nodes_featureids[1]", "feature 2 of 2");
    regressor_refused(features(-1), BadValue, ".nodes_featureids[1]", "feature -1 is not between");
    regressor_refused(features(i64::MAX), BadValue, ".nodes_featureids[1]", "feature 9223372036854775807");
    let nan = vec![("nodes_values", Floats(vec![0.5, f32::NAN, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0]))];
    regressor_refused(nan, BadValue, ".nodes_values[1]", "the threshold is NaN");
    let weights = vec![("target_weights", Floats(vec![0.25, f32::INFINITY, 0.0, 0.0, 0.0]))];
    regressor_refused(weights, BadValue, ".target_weights[1]", "inf is not a finite number");
    let base = vec![("base_values", Floats(vec![f32::NAN]))];
    regressor_refused(base, BadValue, ".base_values[0]", "NaN is not a finite number");
    let mode = Texts(vec!["BRANCH_LEQ", "branch", "LEAF", "LEAF", "LEAF", "BRANCH_EQ", "LEAF", "LEAF"]);
    regressor_refused(vec![("nodes_modes", mode)], BadValue, ".nodes_modes[1]", "mode `branch` is not known");
    let flag = vec![("nodes_missing_value_tracks_true", Ints(vec![0, 0, 0, 0, 0, 2, 0, 0]))];
    regressor_refused(flag, BadValue, ".nodes_missing_value_tracks_true[5]", "2 is neither 0 nor 1");
    let output = vec![("target_ids", Ints(vec![0, 0, 0, 1, 0]))];
    regressor_refused(output, BadValue, ".target_ids[3]", "output 1 of 1");
    regressor_refused(vec![("n_targets", Int(0))], BadValue, ".n_targets", "not above zero");
    regressor_refused(vec![("n_targets", Int(-4))], BadValue, ".n_targets", "not above zero");
    regressor_refused(
        vec![("post_transform", Text("EXP"))],
        BadValue,
        ".post_transform",
        "post transform `EXP`",
    );
    regressor_refused(
        vec![("aggregate_function", Text("MEAN"))],
        BadValue,
        ".aggregate_function",
        "`MEAN` is not",
    );
    let leaf = vec![
        ("nodes_nodeids", Ints(vec![0, 1, -2, 3, 4, 0, 1, 2])),
        ("nodes_falsenodeids", Ints(vec![-2, 4, 0, 0, 0, 2, 0, 0])),
        ("target_nodeids", Ints(vec![-2, 3, 4, 1, 2])),
    ];
    regressor_refused(leaf, BadValue, ".nodes_nodeids[2]", "leaf number -2 is not between");
    unified_refused(
        vec![("nodes_modes", Tensor(2, vec![2], vec![7, 6]))],
        BadValue,
        ".nodes_modes[0]",
        "mode 7",
    );
    unified_refused(
        vec![("nodes_falseleafs", Ints(vec![1, 5]))],
        BadValue,
        ".nodes_falseleafs[1]",
        "5 is neither",
    );
    unified_refused(
        vec![("nodes_truenodeids", Ints(vec![2, 1]))],
        Structure,
        ".nodes_truenodeids[0]",
        "child 2 is out of range (2 nodes)",
    );
    unified_refused(
        vec![("nodes_falsenodeids", Ints(vec![0, 3]))],
        Structure,
        ".nodes_falsenodeids[1]",
        "child 3 is out of range (3 leaves)",
    );
    unified_refused(
        vec![("tree_roots", Ints(vec![-1]))],
        Structure,
        ".tree_roots[0]",
        "root -1 is out of range",
    );
    unified_refused(
        vec![("tree_roots", Ints(vec![0, 0]))],
        Unsupported,
        ".nodes_truenodeids[0]",
        "two parents",
    );
    unified_refused(
        vec![("nodes_truenodeids", Ints(vec![0, 1]))],
        Unsupported,
        ".nodes_truenodeids[0]",
        "or a cycle",
    );
    unified_refused(
        vec![("membership_values", singles(&[f32::NAN]))],
        Structure,
        ".nodes_modes[1]",
        "no members",
    );
    let more = singles(&[1.0, f32::NAN, 2.0, f32::NAN]);
    unified_refused(
        vec![("membership_values", more)],
        Structure,
        ".membership_values",
        "more sets of members",
    );
    unified_refused(
        vec![("leaf_targetids", Ints(vec![0, 1, 0]))],
        BadValue,
        ".leaf_targetids[1]",
        "output 1 of 1",
    );
}

#[test]
fn leaves_and_votes_that_do_not_fit() {
    let nowhere = vec![("target_nodeids", Ints(vec![2, 3, 4, 1, 8]))];
    regressor_refused(nowhere, Structure, ".target_nodeids[4]", "there is no node 8 in tree 4");
    let nowhere = vec![("target_treeids", Ints(vec![0, 0, 0, 4, 3]))];
    regressor_refused(nowhere, Structure, ".target_nodeids[4]", "there is no node 2 in tree 3");
    // What is voted at an inner node counts for nothing, and leaves its leaf without a weight.
    let inner = vec![("target_nodeids", Ints(vec![2, 3, 1, 1, 2]))];
    regressor_refused(inner, Structure, ".nodes_nodeids[4]", "a leaf without a weight");
    let twice = vec![
        ("target_nodeids", Ints(vec![2, 3, 3, 1, 2])),
        ("n_targets", Int(2)),
        ("base_values", Floats(vec![0.0; 2])),
    ];
    regressor_refused(twice, Unsupported, ".nodes_nodeids[3]", "two weights for output 0");
    let both = vec![("nodes_values_as_tensor", singles(&[0.0; 8]))];
    regressor_refused(both, Structure, ".nodes_values", "are both there");
    let attributes = [trees(), vec![("n_targets", Int(1))]].concat();
    let bytes = around("TreeEnsembleRegressor", attributes).bytes();
    refused(&bytes, Structure, "graph.node[0]", "attribute `n_targets` is there twice");
    let bytes = around("TreeEnsembleRegressor", without(trees(), "n_targets")).bytes();
    refused(&bytes, Schema, "graph.node[0].n_targets", "missing attribute");
    let bytes = around("TreeEnsembleClassifier", without(classes(vec![0, 1]), "classlabels_int64s")).bytes();
    refused(&bytes, Schema, "graph.node[0].classlabels_int64s", "without labels");
    let labels = vec![("classlabels_strings", Texts(vec!["a", "b"]))];
    classifier_refused(labels, Structure, ".classlabels_strings", "integers and strings");
}

#[test]
fn what_runtimes_take_differently_is_refused_by_name() {
    for name in ["LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"] {
        regressor_refused(
            vec![("post_transform", Text(name))],
            Unsupported,
            ".post_transform",
            "of one target",
        );
    }
    for number in [1, 2] {
        let cause = format!("post transform {number} of TreeEnsemble");
        unified_refused(vec![("post_transform", Int(number))], Unsupported, ".post_transform", &cause);
    }
    classifier_refused(
        vec![("base_values", Floats(vec![0.5, 0.5]))],
        Unsupported,
        ".base_values",
        "two base values",
    );
    classifier_refused(vec![("post_transform", Text("PROBIT"))], Unsupported, ".post_transform", "PROBIT");
    let second = vec![("class_ids", Ints(vec![1; 5])), ("base_values", Floats(vec![0.5]))];
    classifier_refused(second, Unsupported, ".base_values", "a base value");
    let second = vec![("class_ids", Ints(vec![1; 5])), ("class_weights", Floats(vec![0.5; 5]))];
    classifier_refused(second, Unsupported, "", "the second of two classes alone");
    let both = vec![("class_ids", Ints(vec![0, 1, 0, 1, 0]))];
    classifier_refused(both, Unsupported, "", "by the sign of the second score alone");
    classifier_refused(
        vec![("classlabels_int64s", Ints(vec![9]))],
        Unsupported,
        ".classlabels_int64s",
        "one class",
    );
    // Rows that reach no leaf with a score for class 2.
    let three = vec![("classlabels_int64s", Ints(vec![0, 1, 2])), ("class_ids", Ints(vec![0, 1, 2, 0, 1]))];
    classifier_refused(three, Unsupported, "", "reach no leaf with a score for some class");
    let min = vec![
        ("aggregate_function", Text("MIN")),
        ("n_targets", Int(2)),
        ("target_ids", Ints(vec![0, 1, 0, 0, 0])),
        ("base_values", Floats(vec![0.0; 2])),
    ];
    regressor_refused(min, Unsupported, ".nodes_nodeids[2]", "MIN and MAX over leaves that speak for some");
    let base = vec![("n_targets", Int(2)), ("base_values", Floats(vec![0.0, 1.0]))];
    regressor_refused(base, Unsupported, ".base_values", "no leaf with a weight for target 1");
    let odd = vec![
        ("membership_values", singles(&[0.5, 2.7, f32::NAN])),
        ("nodes_modes", Tensor(2, vec![2], vec![6, 0])),
    ];
    unified_refused(odd, Unsupported, ".nodes_modes[0]", "a set of values that are not whole numbers");
}

#[test]
fn graphs_that_are_not_followed() {
    let graph = || around("TreeEnsembleRegressor", trees());
    let mut before = graph();
    before.nodes.insert(0, node("Gather", &["X", "i"], &["G"]));
    before.nodes[1].from = &["G"];
    refused(
        &before.bytes(),
        Unsupported,
        "graph.node[0]",
        "operator Gather `n` is not supported before the trees",
    );
    let mut after = graph();
    after.nodes[0].to = &["T"];
    after.nodes.push(node("Tanh", &["T"], &["Y"]));
    refused(&after.bytes(), Unsupported, "graph.node[1]", "operator Tanh `n`");
    // The first that is not followed is named, not the one at the end.
    after.nodes[1].to = &["A"];
    after.nodes.push(node("Identity", &["A"], &["Y"]));
    refused(&after.bytes(), Unsupported, "graph.node[1]", "operator Tanh `n`");
    let mut two = graph();
    two.nodes.push(Node { op: "TreeEnsembleRegressor", from: &["X"], to: &["Z"], attributes: trees() });
    refused(&two.bytes(), Unsupported, "graph.node[1]", "a second tree ensemble, after graph.node[0]");
    let mut other = graph();
    other.nodes = vec![node("LinearRegressor", &["X"], &["Y"])];
    refused(&other.bytes(), Unsupported, "graph.node", "the first of its operators is LinearRegressor");
    let mut half = graph();
    half.element = 10;
    refused(&half.bytes(), Unsupported, "graph.node[0].input", "float16");
    let mut lost = graph();
    lost.nodes[0].from = &["W"];
    refused(&lost.bytes(), Structure, "graph.node[0].input", "no input of the graph");
    let mut lost = graph();
    lost.outputs = vec!["Q"];
    refused(&lost.bytes(), Structure, "graph.output[0]", "no operator gives the output `Q`");
    let mut none = graph();
    none.outputs = vec![];
    refused(&none.bytes(), Structure, "graph.output", "no output");
    let mut input = graph();
    input.outputs = vec!["X"];
    refused(&input.bytes(), Unsupported, "graph.output[0]", "does not come from the trees");
    let mut twice = graph();
    twice.nodes.push(node("Identity", &["Y"], &["Z"]));
    twice.outputs = vec!["Y", "Z"];
    refused(&twice.bytes(), Unsupported, "graph.output[1]", "a second output of scores");
    let mut newer = graph();
    newer.ml = 6;
    refused(&newer.bytes(), Unsupported, "opset_import", "version 6");
    let mut normal = graph();
    normal.nodes[0].to = &["T"];
    normal.nodes.push(Node {
        op: "Normalizer",
        from: &["T"],
        to: &["Y"],
        attributes: vec![("norm", Text("L1"))],
    });
    refused(
        &normal.bytes(),
        Unsupported,
        "graph.node[1]",
        "operator Normalizer `n` is not supported for what the trees give",
    );
    let mut truncated = graph();
    truncated
        .nodes
        .insert(0, Node { op: "Cast", from: &["X"], to: &["C"], attributes: vec![("to", Int(7))] });
    truncated.nodes[1].from = &["C"];
    refused(
        &truncated.bytes(),
        Unsupported,
        "graph.node[0]",
        "operator Cast `n` is not supported before the trees",
    );
    let mut outside = graph();
    outside.nodes[0].to = &["T"];
    outside.nodes.push(node("Mul", &["T", "c"], &["Y"]));
    outside.constants = vec![tensor("c", 1, &[1], &[]).int(14, 1)];
    refused(&outside.bytes(), Unsupported, "graph.node[1]", "in another file");
    outside.constants = vec![tensor("c", 1, &[2, 1], &[0; 8])];
    refused(&outside.bytes(), Unsupported, "graph.node[1]", "operator Mul `n`");
    outside.constants = vec![tensor("c", 1, &[1], &0f32.to_le_bytes())];
    refused(&outside.bytes(), Unsupported, "graph.node[1]", "operator Mul `n`");
}

#[test]
fn bytes_that_are_no_model() {
    let whole = regressor(vec![]);
    refused(&[8, 8], Schema, "graph", "missing field");
    let graph = whole.iter().position(|b| *b == 0x3A).expect("field 7");
    refused(&whole[..whole.len() - 30], Syntax, &format!("byte {graph}"), "buffer underflow");
    refused(&whole[..graph + 1], Syntax, &format!("byte {graph}"), "varint");
    let broken = Message::default().int(1, 8).bytes(7, &Message::default().bytes(1, &[0x0A, 9, b'X']).0).0;
    refused(&broken, Syntax, "graph.node[0]", "NodeProto.input");
    let text = Message::default().bytes(1, &[0xFF, 0xFE]);
    let broken = Message::default().int(1, 8).bytes(7, &Message::default().bytes(1, &text.0).0).0;
    refused(&broken, Syntax, "graph.node[0]", "UTF-8");
    let group = [&[8, 8][..], &[0x3B].repeat(1000)].concat();
    let error = parse(&group, &LoadOptions::default()).expect_err("groups without end");
    assert_eq!((error.kind(), error.location()), (Syntax, &Location::Byte(2)), "{error}");
}

#[test]
fn what_is_over_a_limit() {
    let limited = |bytes: &[u8], change: fn(&mut Limits), location: &str, cause: &str| {
        let mut options = LoadOptions::default();
        change(&mut options.limits);
        refused_with(bytes, &options, Limit, location, cause);
    };
    let bytes = regressor(vec![]);
    limited(&bytes, |l| l.nodes = 7, "graph.node[0].nodes_treeids", "8 nodes");
    limited(&bytes, |l| l.trees = 1, "graph.node[0].nodes_treeids", "2 trees");
    limited(&bytes, |l| l.depth = 1, "tree 0", "2 depth");
    limited(&bytes, |l| l.features = 1, "graph.input", "2 features");
    limited(&bytes, |l| l.string_bytes = 3, "producer_name", "4 string bytes");
    let many = regressor(vec![("n_targets", Int(1 << 40))]);
    refused(&many, Limit, "graph.node[0].n_targets", "outputs");
    // Leaves of 60 000 values each that the file does not hold.
    let wide = regressor(vec![
        ("n_targets", Int(60_000)),
        ("base_values", Floats(vec![])),
        ("target_ids", Ints(vec![0, 1, 2, 3, 4])),
    ]);
    limited(&wide, |l| l.nodes = 100_000, "graph.node[0]", "5 leaves of 60000 values each");
    let set =
        around("TreeEnsemble", with(unified(), vec![("membership_values", singles(&[16_777_215.0, 1.0]))]));
    limited(
        &set.bytes(),
        |l| l.category_words = 1000,
        "graph.node[0].nodes_modes[1]",
        "524288 category words",
    );
    // A set taken apart is more nodes than the file has.
    let apart =
        around("TreeEnsemble", with(unified(), vec![("membership_values", singles(&[0.5, 1.5, 2.5, 3.5]))]));
    limited(&apart.bytes(), |l| l.nodes = 5, "graph.node[0]", "6 nodes");
    let options = LoadOptions { iteration_range: Some(0..1), ..LoadOptions::default() };
    refused_with(&bytes, &options, Options, "iteration_range", "boosting rounds");
}

#[test]
fn mutations_are_refused_or_sound() {
    let labels = vec![("classlabels_int64s", Ints(vec![0, 1, 2])), ("class_ids", Ints(vec![0, 1, 2, 0, 1]))];
    let mut zipped = around("TreeEnsembleClassifier", classes(vec![0, 1]));
    zipped.nodes[0].to = &["L", "P"];
    zipped.nodes.push(node("ZipMap", &["P"], &["Y"]));
    let files = [
        regressor(vec![]),
        around("TreeEnsemble", unified()).bytes(),
        around("TreeEnsembleClassifier", with(classes(vec![]), labels)).bytes(),
        zipped.bytes(),
    ];
    let mut random = Random(0x1234_5678_9ABC_DEF1);
    let mut tally = Tally::default();
    let mut survives = |bytes: &[u8], what: &str| tally.read(bytes, &LoadOptions::default(), what);
    for (f, file) in files.iter().enumerate() {
        for end in 0..file.len() {
            survives(&file[..end], &format!("file {f}, the first {end} bytes"));
        }
        for round in 0..1500 {
            let mut bytes = file.clone();
            for _ in 0..=random.below(4) {
                let i = 2 + random.below(bytes.len() - 2);
                match random.below(6) {
                    0 => bytes[i] ^= 1 << random.below(8),
                    1 => bytes[i] = [0, 1, 0x7F, 0x80, 0xFF][random.below(5)],
                    2 => drop(bytes.remove(i)),
                    3 => bytes.insert(i, random.below(256) as u8),
                    4 => {
                        let j = 2 + random.below(bytes.len() - 2);
                        bytes.swap(i, j);
                    }
                    // A huge number.
                    _ => drop(bytes.splice(i..i + 1, [0xFF; 9].into_iter().chain([0x01]))),
                }
            }
            survives(&bytes, &format!("file {f}, round {round}"));
        }
    }
    assert!(tally.loaded > 50 && tally.refused > 1500, "{tally:?}");
}
