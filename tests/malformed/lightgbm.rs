//! LightGBM's text, damaged, hostile or not supported: each file is refused with one line that names the location,
//! the cause and the remedy; and whatever is not refused is a sound forest.

use crate::mutate;

use fangorn::forest::reference;
use fangorn::graph::{Elements, Graph, GraphOutput, Operand, Tensor};
use fangorn::import::{ErrorKind, ImportError, Limits, LoadOptions, Location, parse, parse_graph};
use mutate::{KINDS, NUMBERS, Random, Tally, mutate_bytes, replace_number, zoo};

use ErrorKind::{Format, Limit, Options, Schema, Structure, Syntax, Unsupported, Value};

/// The smallest model that has every field: two trees of three leaves, the second with a split on categories.
const MINIMAL: &str = r#"tree
version=v4
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=2
objective=binary sigmoid:2
feature_names=a b c
feature_infos=[0.5:1] [-1:1] -1:0:1:3
tree_sizes=311 290

Tree=0
num_leaves=3
num_cat=0
split_feature=0 1
split_gain=2 1
threshold=0.5 -1.5
decision_type=2 8
left_child=-1 -2
right_child=1 -3
leaf_value=0.25 0.125 -0.75
leaf_weight=1 2 3
leaf_count=1 2 3
is_linear=0
shrinkage=1


Tree=1
num_leaves=3
num_cat=1
split_feature=2 1
split_gain=2 1
threshold=0 0.5
decision_type=1 4
left_child=1 -2
right_child=-1 -3
leaf_value=0.5 0.25 -0.125
cat_boundaries=0 1
cat_threshold=10
shrinkage=0.1


end of trees

feature_importances:
a=1
b=2
c=1

parameters:
[boosting: gbdt]
end of parameters

pandas_categorical:[["round", "square", "flat", "none"]]
"#;

/// The text with some strings replaced, each where it occurs first.
#[track_caller]
fn with(changes: &[(&str, &str)]) -> String {
    let mut text = MINIMAL.to_owned();
    for (from, to) in changes {
        assert!(text.contains(from), "no `{from}`");
        text = text.replacen(from, to, 1);
    }
    text
}

/// The same in the second tree.
#[track_caller]
fn with_second(from: &str, to: &str) -> String {
    let (head, tail) = MINIMAL.split_at(MINIMAL.find("Tree=1").expect("a second tree"));
    assert!(tail.contains(from), "no `{from}`");
    head.to_owned() + &tail.replacen(from, to, 1)
}

fn refusal(bytes: &[u8], options: &LoadOptions) -> ImportError {
    let error = parse(bytes, options).expect_err("a model that must be refused");
    let line = error.to_string();
    assert!(!line.contains(['\n', '\r']), "more than one line: {line}");
    assert!(!error.remedy().is_empty() && !line.contains(".ubj"), "no remedy: {line}");
    error
}

#[track_caller]
fn refused_with(text: impl AsRef<[u8]>, options: &LoadOptions, kind: ErrorKind, location: &str, cause: &str) {
    let error = refusal(text.as_ref(), options);
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.location().to_string(), location, "{error}");
    assert!(error.cause().contains(cause), "`{cause}` is not in: {error}");
}

#[track_caller]
fn refused(text: impl AsRef<[u8]>, kind: ErrorKind, location: &str, cause: &str) {
    refused_with(text, &LoadOptions::default(), kind, location, cause);
}

#[test]
fn the_minimal_model_loads() {
    let forest = parse(MINIMAL.as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        forest.to_text(),
        "forest features=3 outputs=1 trees=2 compare=f64 transform=sigmoid\n\
         \x20 from lightgbm v4 binary sigmoid:2\n\
         \x20 base_score [0.0]\n\
         \x20 scale 2.0\n\
         \x20 classes over 0.5 []\n\
         \x20 set 0 truncated [1, 3]\n\
         tree 0 -> output 0\n\
         \x20 0: if x[0] < 0.5000000000000001, missing left, then 2 else 1\n\
         \x20 1: if x[1] < -1.4999999999999998, missing right, then 3 else 4\n\
         \x20 2: leaf 0 #0 [0.25]\n\
         \x20 3: leaf 1 #1 [0.125]\n\
         \x20 4: leaf 2 #2 [-0.75]\n\
         tree 1 -> output 0\n\
         \x20 0: if x[2] in set 0, missing right, then 1 else 2\n\
         \x20 1: if x[1] < 0.5000000000000001 xor zero, missing right, then 3 else 4\n\
         \x20 2: leaf 0 #3 [0.5]\n\
         \x20 3: leaf 1 #4 [0.25]\n\
         \x20 4: leaf 2 #5 [-0.125]\n"
    );
    let names: Vec<_> = forest.features.iter().map(|f| f.name.as_deref()).collect();
    assert_eq!(names, [Some("a"), Some("b"), Some("c")]);
    assert_eq!(forest.features[2].categories, ["round", "square", "flat", "none"]);
    assert_eq!(reference::leaf_ids(&forest, &[0.5, 0.0, 3.0]), [0, 2]);
    // Line ends and what may be left out change nothing.
    for text in [MINIMAL.replace('\n', "\r\n"), with(&[("tree_sizes=311 290\n", "")])] {
        assert_eq!(parse(text.as_bytes(), &LoadOptions::default()).as_ref(), Ok(&forest));
    }
}

#[test]
fn a_header_that_is_damaged_or_not_supported() {
    refused("tree\n", Syntax, "line 1, column 1", "ends before `end of trees`");
    refused(with(&[("tree\n", "tree\n\nTree\n")]), Syntax, "line 3, column 1", "`Tree`");
    refused(with(&[("version=v4\n", "")]), Schema, "line 1, column 1", "missing field `version`");
    refused(with(&[("v4", "v5")]), Unsupported, "line 2, column 9", "version `v5`");
    refused(with(&[("version=v4", "version")]), Unsupported, "line 2, column 8", "version ``");
    refused(with(&[("num_class=1\n", "")]), Schema, "line 1, column 1", "missing field `num_class`");
    refused(with(&[("num_class=1", "num_class=0")]), Value, "line 3, column 11", "0, but 1 is the least");
    refused(with(&[("num_class=1", "num_class=2")]), Structure, "line 4, column 24", "1 trees an iteration");
    refused(with(&[("iteration=1", "iteration=x1")]), Syntax, "line 4, column 24", "`x1`, but a number");
    refused(with(&[("max_feature_idx=2", "max_feature_idx=-1")]), Value, "line 6, column 17", "-1, but 0");
    refused(with(&[("idx=2", "idx=99999999999")]), Syntax, "line 6, column 17", "`99999999999`, but");
    refused(
        with(&[("max_feature_idx=2\n", "")]),
        Schema,
        "line 1, column 1",
        "missing field `max_feature_idx`",
    );
    refused(
        with(&[("=a b c", "=a b")]),
        Structure,
        "line 8, column 15",
        "2 entries of `feature_names` for 3",
    );
    refused(with(&[(" -1:0:1:3", "")]), Structure, "line 9, column 15", "2 entries of `feature_infos` for 3");
    refused(with(&[("311 290", "311")]), Structure, "line 10, column 12", "1 sizes of trees, 2 trees");
    refused(with(&[("label_index=0", "mode=boosted")]), Syntax, "line 5, column 1", "`mode=boosted`");
    refused(with(&[("label_index=0", "average_outpuu")]), Syntax, "line 5, column 1", "`average_outpuu`");
    refused(
        with(&[("label_index=0", "num_class=1")]),
        Structure,
        "line 5, column 1",
        "`num_class` is stated",
    );
    refused(with(&[("binary sigmoid:2", "coxph")]), Unsupported, "line 7, column 11", "objective `coxph`");
    refused(with(&[("sigmoid:2", "sigmoid:-2")]), Value, "line 7, column 18", "`sigmoid:-2`");
    refused(with(&[("sigmoid:2", "slope:2")]), Unsupported, "line 7, column 18", "with `slope:2`");
    refused(
        with(&[("binary sigmoid:2", "multiclass num_class:3")]),
        Structure,
        "line 7, column 11",
        "does not fit",
    );
    let not_text =
        with(&[("binary", "bin?ry")]).bytes().map(|b| if b == b'?' { 0xff } else { b }).collect::<Vec<_>>();
    refused(not_text, Syntax, "line 7, column 11", "not UTF-8");
}

#[test]
fn trees_that_are_missing_or_out_of_order() {
    refused(with(&[("Tree=1", "Tree=2")]), Syntax, "line 28, column 1", "`Tree=2`, but `Tree=1`");
    refused(with(&[("Tree=0", "Tree=zero")]), Syntax, "line 12, column 1", "`Tree=zero`, but `Tree=0`");
    refused(with(&[("end of trees", "end of tres")]), Syntax, "line 43, column 1", "`end of tres`");
    refused(
        with(&[("shrinkage=1\n", "shrinkage=1\nwhat is this\n")]),
        Syntax,
        "line 26, column 1",
        "`what is this`",
    );
    let three = with(&[
        ("num_class=1", "num_class=3"),
        ("iteration=1", "iteration=3"),
        ("objective=binary sigmoid:2\n", ""),
    ]);
    refused(three, Structure, "line 42, column 1", "2 trees make no whole number of iterations of 3");
    let none = &MINIMAL[..MINIMAL.find("Tree=0").expect("a tree")];
    refused(none, Syntax, "line 11, column 1", "ends before");
    let average = none.replace("311 290", "").replace("label_index=0", "average_output") + "end of trees\n";
    refused(average, Structure, "line 5, column 15", "the average of no trees");
}

#[test]
fn lists_of_the_wrong_length_or_with_no_numbers() {
    refused(
        with(&[("num_leaves=3\n", "")]),
        Schema,
        "line 12, column 1",
        "missing field `num_leaves` in `Tree=0`",
    );
    refused(with(&[("num_leaves=3", "num_leaves=0")]), Value, "line 13, column 12", "0 leaves");
    refused(with(&[("num_leaves=3", "num_leaves=-3")]), Value, "line 13, column 12", "-3 leaves");
    refused(with(&[("num_leaves=3", "num_leaves=3.5")]), Syntax, "line 13, column 12", "`3.5`, but a number");
    refused(
        with(&[("num_leaves=3", "num_leaves=4")]),
        Structure,
        "line 21, column 12",
        "3 values of `leaf_value`, expected 4",
    );
    refused(
        with(&[("num_leaves=3", "num_leaves=1000000")]),
        Structure,
        "line 21, column 12",
        "3 values of `leaf_value`, expected 1000000",
    );
    refused(
        with(&[("num_leaves=3", "num_leaves=2147483647")]),
        Limit,
        "line 13, column 12",
        "4294967293 nodes",
    );
    refused(
        with(&[("num_leaves=3", "num_leaves=2")]),
        Structure,
        "line 21, column 12",
        "3 values of `leaf_value`, expected 2",
    );
    refused(with(&[("num_cat=0\n", "")]), Schema, "line 12, column 1", "missing field `num_cat`");
    refused(with(&[("threshold=0.5 -1.5\n", "")]), Schema, "line 12, column 1", "missing field `threshold`");
    refused(
        with(&[("threshold=0.5 -1.5", "threshold=0.5")]),
        Structure,
        "line 17, column 11",
        "1 values of `threshold`, expected 2",
    );
    refused(
        with(&[("threshold=0.5 -1.5", "threshold=0.5 -1.5 3")]),
        Structure,
        "line 17, column 11",
        "3 values of `threshold`",
    );
    refused(
        with(&[("threshold=0.5 -1.5", "threshold=0.5  1,5")]),
        Syntax,
        "line 17, column 16",
        "`1,5`, but a number",
    );
    refused(
        with(&[("threshold=0.5 -1.5", "threshold=0.5 nan")]),
        Value,
        "line 17, column 15",
        "the threshold is NaN",
    );
    refused(
        with(&[("decision_type=2 8", "decision_type=2 12")]),
        Value,
        "line 18, column 17",
        "12 is no decision type",
    );
    refused(
        with(&[("decision_type=2 8", "decision_type=2 255")]),
        Value,
        "line 18, column 17",
        "255 is no decision type",
    );
    refused(with(&[("decision_type=2 8", "decision_type=2 -8")]), Syntax, "line 18, column 17", "`-8`, but");
    refused(
        with(&[("decision_type=2 8\n", "")]),
        Schema,
        "line 12, column 1",
        "missing field `decision_type`",
    );
    refused(
        with(&[("split_feature=0 1", "split_feature=0 3")]),
        Value,
        "line 15, column 17",
        "feature 3 of 3",
    );
    refused(with(&[("split_feature=0 1", "split_feature=0 -1")]), Syntax, "line 15, column 17", "`-1`, but");
    refused(
        with(&[("0.25 0.125 -0.75", "0.25 0.125")]),
        Structure,
        "line 21, column 12",
        "2 values of `leaf_value`",
    );
    refused(with(&[("0.25 0.125 -0.75", "0.25 inf -0.75")]), Value, "line 21, column 17", "a leaf of inf");
    refused(with(&[("0.25 0.125 -0.75", "0.25 1e999 -0.75")]), Value, "line 21, column 17", "a leaf of inf");
    refused(with(&[("0.25 0.125 -0.75", "0.25 0.125 nan")]), Value, "line 21, column 23", "a leaf of NaN");
    refused(
        with(&[("is_linear=0", "num_cat=0")]),
        Structure,
        "line 24, column 1",
        "`num_cat` is stated a second time",
    );
    refused(with(&[("is_linear=0", "quantised=0")]), Syntax, "line 24, column 1", "`quantised=0`");
}

#[test]
fn children_that_make_no_tree() {
    refused(
        with(&[("left_child=-1 -2", "left_child=-1 2")]),
        Structure,
        "line 19, column 15",
        "child 2 is out of range: split 2 of 2",
    );
    refused(
        with(&[("left_child=-1 -2", "left_child=-1 -4")]),
        Structure,
        "line 19, column 15",
        "child -4 is out of range: leaf 3 of 3",
    );
    refused(
        with(&[("left_child=-1 -2", "left_child=-2147483648 -2")]),
        Structure,
        "line 19, column 12",
        "leaf 2147483647 of 3",
    );
    refused(
        with(&[("left_child=-1 -2", "left_child=-1 0")]),
        Structure,
        "tree 0, node 1",
        "the root is a child",
    );
    refused(
        with(&[("left_child=-1 -2", "left_child=-1 1")]),
        Structure,
        "tree 0, node 1",
        "child 1 has two parents",
    );
    refused(
        with(&[("left_child=-1 -2", "left_child=-1 -3")]),
        Structure,
        "tree 0, node 1",
        "child 4 has two parents",
    );
    refused(
        with(&[("right_child=1 -3", "right_child=-3 1")]),
        Structure,
        "tree 0",
        "2 of 5 nodes can't be reached",
    );
    let chain = with(&[("left_child=-1 -2", "left_child=-1 1"), ("right_child=1 -3", "right_child=-2 -3")]);
    refused(chain, Structure, "tree 0", "can't be reached");
}

#[test]
fn category_sets_that_are_damaged_or_too_large() {
    refused(with_second("num_cat=1", "num_cat=-1"), Value, "line 30, column 9", "-1 category splits");
    refused(with_second("num_cat=1", "num_cat=0"), Structure, "line 33, column 11", "category set 0 of 0");
    refused(
        with_second("num_cat=1", "num_cat=2"),
        Structure,
        "line 38, column 16",
        "2 values of `cat_boundaries`, expected 3",
    );
    refused(
        with_second("num_cat=1", "num_cat=2147483647"),
        Structure,
        "line 38, column 16",
        "expected 2147483648",
    );
    refused(
        with_second("threshold=0 ", "threshold=1 "),
        Structure,
        "line 33, column 11",
        "category set 1 of 1",
    );
    refused(
        with_second("threshold=0 ", "threshold=0.5 "),
        Structure,
        "line 33, column 11",
        "category set 0.5 of 1",
    );
    refused(
        with_second("threshold=0 ", "threshold=-1 "),
        Structure,
        "line 33, column 11",
        "category set -1 of 1",
    );
    refused(
        with_second("cat_boundaries=0 1", "cat_boundaries=1 1"),
        Structure,
        "line 38, column 16",
        "begins at word 1",
    );
    refused(
        with_second("cat_boundaries=0 1", "cat_boundaries=0 -1"),
        Structure,
        "line 38, column 18",
        "from word 0 to word -1",
    );
    refused(
        with_second("cat_boundaries=0 1", "cat_boundaries=0 2"),
        Structure,
        "line 39, column 15",
        "1 values of `cat_threshold`, expected 2",
    );
    refused(
        with_second("cat_boundaries=0 1", "cat_boundaries=0 524289"),
        Unsupported,
        "line 38, column 18",
        "categories of 2^24 and more",
    );
    refused(
        with_second("cat_boundaries=0 1\n", ""),
        Schema,
        "line 28, column 1",
        "missing field `cat_boundaries`",
    );
    refused(
        with_second("cat_threshold=10", "cat_threshold=4294967296"),
        Syntax,
        "line 39, column 15",
        "`4294967296`, but",
    );
    refused(
        with_second("cat_threshold=10", "cat_threshold=10 11"),
        Structure,
        "line 39, column 15",
        "2 values of `cat_threshold`",
    );
}

#[test]
fn what_is_not_supported_is_named() {
    let linear =
        "is_linear=1\nleaf_const=1 2 3\nnum_features=0 2 0\nleaf_features=  0 1   \nleaf_coeff=  0.5 1   ";
    refused(with(&[("is_linear=0", linear)]), Unsupported, "line 26, column 16", "a linear model");
    let remedy = refusal(with(&[("is_linear=0", linear)]).as_bytes(), &LoadOptions::default());
    assert!(remedy.remedy().contains("load_graph"), "{remedy}");
    refused(
        with(&[("is_linear=0", "is_linear=1")]),
        Schema,
        "line 12, column 1",
        "missing field `num_features`",
    );
    let short = "is_linear=1\nnum_features=0 0 0\nleaf_const=1 2";
    refused(with(&[("is_linear=0", short)]), Structure, "line 26, column 12", "2 values of `leaf_const`");
    let zeros = with_second("threshold=0 0.5", "threshold=0 inf");
    refused(zeros, Unsupported, "line 33, column 13", "zeros against everything else");
}

/// The minimal model, whose first tree has linear models in two leaves.
const LINEAR: &str =
    "is_linear=1\nleaf_const=1 2 3\nnum_features=0 2 1\nleaf_features=  0 1  2 \nleaf_coeff=  0.5 1  -2 ";

/// The minimal model with linear models, and changes to their lines.
#[track_caller]
fn linear(changes: &[(&str, &str)]) -> String {
    let mut lines = LINEAR.to_owned();
    for (from, to) in changes {
        assert!(lines.contains(from), "no `{from}`");
        lines = lines.replacen(from, to, 1);
    }
    with(&[("is_linear=0", &lines)])
}

#[track_caller]
fn graph_refused(text: &str, options: &LoadOptions, kind: ErrorKind, location: &str, cause: &str) {
    let error = parse_graph(text.as_bytes(), options).expect_err("a graph that must be refused");
    let line = error.to_string();
    assert!(!line.contains(['\n', '\r']) && !error.remedy().is_empty() && !line.contains(".ubj"), "{line}");
    assert_eq!((error.kind(), &*error.location().to_string()), (kind, location), "{line}");
    assert!(error.cause().contains(cause), "`{cause}` is not in: {line}");
}

#[test]
fn linear_models_that_are_damaged() {
    let graph =
        parse_graph(linear(&[]).as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let rows = Tensor::new([2, 3], Elements::F64(vec![1.0, -2.0, 3.0, 1.0, f64::NAN, 3.0])).expect("rows");
    // Row 0: 2 + 0.5 - 2 in the first tree and 0.25 in the second. Row 1: NaN goes right twice, to 3 - 2 * 3 and -0.125.
    let margins = GraphOutput { name: "margins".into(), operand: Operand::Node(0, 0) };
    let margins = Graph { outputs: vec![margins], ..graph };
    let found = margins.run(&[rows]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(found[0].elements(), &Elements::F64(vec![0.75, -3.125]));

    let refused = |changes: &[(&str, &str)], kind, location: &str, cause: &str| {
        graph_refused(&linear(changes), &LoadOptions::default(), kind, location, cause);
    };
    refused(&[("leaf_const=1 2 3\n", "")], Schema, "line 12, column 1", "missing field `leaf_const`");
    refused(&[("1 2 3", "1 2")], Structure, "line 25, column 12", "2 values of `leaf_const`, expected 3");
    refused(&[("1 2 3", "1 nan 3")], Value, "line 25, column 14", "a leaf of NaN");
    refused(&[("1 2 3", "1 two 3")], Syntax, "line 25, column 14", "`two`, but a number");
    refused(&[("num_features=0 2 1\n", "")], Schema, "line 12, column 1", "missing field `num_features`");
    refused(&[("0 2 1", "0 2")], Structure, "line 26, column 14", "2 values of `num_features`");
    refused(&[("0 2 1", "0 -2 1")], Syntax, "line 26, column 16", "`-2`, but a number");
    refused(
        &[("0 2 1", "0 3 1")],
        Structure,
        "line 27, column 15",
        "3 values of `leaf_features`, expected 4",
    );
    refused(
        &[("0 2 1", "4294967295 4294967295 4294967295")],
        Structure,
        "line 27, column 15",
        &format!(
            "3 values of `leaf_features`, expected {}",
            usize::try_from(12_884_901_885u64).unwrap_or(usize::MAX)
        ),
    );
    refused(&[("  0 1  2 ", "  0 1 ")], Structure, "line 27, column 15", "2 values of `leaf_features`");
    refused(&[("  0 1  2 ", "  0 3  2 ")], Value, "line 27, column 19", "feature 3 of 3");
    refused(&[("  0 1  2 ", "  0 -1  2 ")], Syntax, "line 27, column 19", "`-1`, but a number");
    refused(
        &[("leaf_features=  0 1  2 \n", "")],
        Schema,
        "line 12, column 1",
        "missing field `leaf_features`",
    );
    refused(
        &[("0.5 1  -2", "0.5 1")],
        Structure,
        "line 28, column 12",
        "2 values of `leaf_coeff`, expected 3",
    );
    refused(&[("0.5 1  -2", "0.5 inf  -2")], Value, "line 28, column 18", "a coefficient of inf");
    refused(&[("\nleaf_coeff=  0.5 1  -2 ", "")], Schema, "line 12, column 1", "missing field `leaf_coeff`");
    refused(
        &[("leaf_coeff", "leaf_const=1 2 3\nleaf_coeff")],
        Structure,
        "line 28, column 1",
        "`leaf_const` is stated a second time",
    );
    refused(&[("is_linear=1", "is_linear=yes")], Syntax, "line 24, column 11", "`yes`, but a number");
    // A file without linear models is a forest.
    let constants = linear(&[("0 2 1", "0 0 0"), ("  0 1  2 ", ""), ("  0.5 1  -2 ", "")]);
    for text in [MINIMAL, &constants] {
        graph_refused(text, &LoadOptions::default(), Format, "model", "no leaf has a linear model");
    }
    let limited = |limits, location: &str, cause: &str| {
        graph_refused(&linear(&[]), &LoadOptions { limits, ..Default::default() }, Limit, location, cause);
    };
    limited(Limits { trees: 1, ..Default::default() }, "line 32, column 1", "2 trees, over the limit of 1");
    // The first tree's five nodes fit, and its models do not. Elsewhere they have other sizes.
    if usize::BITS == 64 {
        limited(
            Limits { memory_bytes: 300, ..Default::default() },
            "line 12, column 1",
            "memory bytes, over the limit",
        );
    }
}

#[test]
fn mutations_of_linear_models_never_panic() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo-classical");
    let mut seeds = vec![("minimal".to_owned(), linear(&[]).into_bytes(), 3000)];
    for name in ["linear-regression", "linear-binary", "linear-rf", "linear-multiclass"] {
        let bytes = std::fs::read(folder.join(name).join("model.txt")).expect("the model");
        seeds.push((name.to_owned(), bytes, 150));
    }
    let limits = Limits { features: 1 << 12, outputs: 1 << 8, category_words: 1 << 20, ..Default::default() };
    let options = LoadOptions { limits, ..Default::default() };
    let mut random = Random(20_261_124);
    let (mut loaded, mut refused) = (0, 0);
    for (name, seed, rounds) in &seeds {
        for round in 0..*rounds {
            let mut bytes = seed.clone();
            for _ in 0..1 + random.below(3) {
                mutate(&mut bytes, &mut random);
            }
            match parse_graph(&bytes, &options) {
                Ok(graph) => {
                    loaded += 1;
                    let columns = graph.inputs[0].shape[1].expect("a number of columns");
                    let rows = [vec![0.5; columns], vec![f64::NAN; columns]].concat();
                    let rows = Tensor::new([2, columns], Elements::F64(rows)).expect("two rows");
                    graph.run(&[rows]).unwrap_or_else(|e| panic!("{name}, mutation {round}: {e}"));
                }
                Err(error) => {
                    refused += 1;
                    let line = error.to_string();
                    assert!(!line.chars().any(char::is_control) && !line.is_empty(), "{name}: {line:?}");
                }
            }
        }
    }
    assert!(loaded > 300 && refused > 1000, "{loaded} loaded, {refused} refused");
}

#[test]
fn names_of_categories_that_are_damaged() {
    let names = |json: &str| with(&[(r#"[["round", "square", "flat", "none"]]"#, json)]);
    refused(names(r#"[["round", "square"#), Syntax, "line 54, column 38", "ends inside a string");
    refused(names("[[1, 2]"), Syntax, "line 54, column 27", "`,` or `]`");
    refused(names("[[1, 2]] 3"), Syntax, "line 54, column 29", "after the end");
    refused(names(r#"[{"a": 1}]"#), Schema, "line 54, column 20", "names of categories");
    refused(names("[[[1]]]"), Schema, "line 54, column 20", "the name of a category");
    refused(names(&"[".repeat(100_000)), Schema, "line 54, column 20", "the name of a category");
}

#[test]
fn limits_and_options() {
    let limited = |limits: Limits, location: &str, cause: &str| {
        refused_with(MINIMAL, &LoadOptions { limits, ..Default::default() }, Limit, location, cause);
    };
    limited(Limits { file_bytes: 100, ..Default::default() }, "model", "bytes, over the limit of 100");
    limited(Limits { trees: 1, ..Default::default() }, "line 28, column 1", "2 trees, over the limit of 1");
    limited(Limits { nodes: 9, ..Default::default() }, "line 29, column 12", "10 nodes, over the limit of 9");
    limited(Limits { depth: 1, ..Default::default() }, "tree 0", "2 depth, over the limit of 1");
    limited(
        Limits { features: 2, ..Default::default() },
        "line 6, column 17",
        "3 features, over the limit of 2",
    );
    limited(
        Limits { outputs: 0, ..Default::default() },
        "line 4, column 24",
        "1 outputs, over the limit of 0",
    );
    limited(Limits { category_words: 0, ..Default::default() }, "line 30, column 9", "1 category words");
    let long = with(&[("=a b c", "=abcdefghijk b c")]);
    let options =
        LoadOptions { limits: Limits { string_bytes: 10, ..Default::default() }, ..Default::default() };
    refused_with(long, &options, Limit, "line 8, column 15", "11 string bytes");
    let options = LoadOptions { iteration_range: Some(1..3), ..Default::default() };
    refused_with(MINIMAL, &options, Options, "iteration_range", "rounds 1..3 of a model with 2");
}

#[test]
fn every_truncation_is_refused() {
    let end = MINIMAL.find("end of trees").expect("the end") + "end of trees".len();
    for cut in "tree\n".len()..end {
        refusal(&MINIMAL.as_bytes()[..cut], &LoadOptions::default());
    }
    let error = refusal(&MINIMAL.as_bytes()[..end - 20], &LoadOptions::default());
    assert!(error.cause().contains("ends before `end of trees`"), "{error}");
}

#[test]
fn a_chain_a_hundred_thousand_deep_loads_on_a_small_stack() {
    const SPLITS: usize = 100_000;
    let list =
        |f: &dyn Fn(usize) -> i64, count| (0..count).map(|n| f(n).to_string()).collect::<Vec<_>>().join(" ");
    let text = format!(
        "tree\nversion=v4\nnum_class=1\nmax_feature_idx=0\nfeature_names=x\nfeature_infos=none\n\nTree=0\n\
         num_leaves={}\nnum_cat=0\nsplit_feature={}\nthreshold={}\ndecision_type={}\nleft_child={}\n\
         right_child={}\nleaf_value={}\n\nend of trees\n",
        SPLITS + 1,
        list(&|_| 0, SPLITS),
        list(&|n| n as i64, SPLITS),
        list(&|_| 2, SPLITS),
        list(&|n| !(n as i64), SPLITS),
        list(&|n| if n + 1 < SPLITS { n as i64 + 1 } else { !(SPLITS as i64) }, SPLITS),
        list(&|n| n as i64, SPLITS + 1),
    );
    let run = move || {
        let forest = parse(text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(forest.trees[0].depth() as usize, SPLITS);
        let limits = Limits { depth: SPLITS as u32 - 1, ..Default::default() };
        refusal(text.as_bytes(), &LoadOptions { limits, ..Default::default() })
    };
    let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(run).expect("a thread");
    assert_eq!(thread.join().expect("no overflow").location(), &Location::Field("tree 0".into()));
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    match random.below(9) {
        kind if kind < KINDS => mutate_bytes(bytes, kind, random),
        // A line goes, or moves elsewhere.
        6 => {
            let mut lines: Vec<Vec<u8>> = bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
            let line = lines.remove(random.below(lines.len()));
            if random.below(2) == 0 {
                lines.insert(random.below(lines.len()), line);
            }
            *bytes = lines.join(&b'\n');
        }
        _ => replace_number(bytes, &NUMBERS, random),
    }
    if bytes.is_empty() {
        bytes.push(b't');
    }
}

#[test]
fn mutations_never_panic_and_what_loads_is_sound() {
    let limits = Limits { features: 1 << 12, outputs: 1 << 8, category_words: 1 << 20, ..Default::default() };
    let options = LoadOptions { limits, ..Default::default() };
    // The minimal model, and those of the zoo.
    let mut seeds = vec![("minimal".to_owned(), MINIMAL.as_bytes().to_vec(), 3000)];
    seeds.extend(zoo(&["model.txt"], 16 << 10, 150));
    let mut tally = Tally::default();
    tally.mutate(&seeds, &options, &mut Random(20_261_120), mutate);
    assert!(tally.loaded > 500 && tally.refused > 2000, "{tally:?}");
}
