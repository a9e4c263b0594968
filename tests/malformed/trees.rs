//! Trees, splits and leaves that make no forest.

use fangorn::import::{
    ErrorKind::{Schema, Structure, Value as BadValue},
    Limits, LoadOptions, parse,
};
use serde_json::{Value, json};

use crate::{MODEL, both, minimal, refused, tree_refused};

#[test]
fn the_minimal_model_loads() {
    for (encoding, bytes) in both(&minimal()) {
        let forest = parse(&bytes, &LoadOptions::default()).unwrap_or_else(|e| panic!("{encoding}: {e}"));
        assert_eq!(
            forest.to_text(),
            "forest features=3 outputs=1 trees=2 compare=f32 transform=sigmoid\n\
             \x20 from xgboost 3.2.0 binary:logistic\n\
             \x20 base_score [0.0]\n\
             \x20 classes over 0.5 []\n\
             \x20 set 0 [1, 3]\n\
             tree 0 -> output 0\n\
             \x20 0: if x[0] < 0.5, missing left, then 1 else 2\n\
             \x20 1: leaf 1 #0 [0.25]\n\
             \x20 2: if x[2] < -1.5, missing right, then 3 else 4\n\
             \x20 3: leaf 3 #1 [0.125]\n\
             \x20 4: leaf 4 #2 [-0.75]\n\
             tree 1 -> output 0\n\
             \x20 0: if x[0] < 0.5, missing left, then 1 else 2\n\
             \x20 1: leaf 1 #3 [0.25]\n\
             \x20 2: if x[2] not in set 0, missing right, then 3 else 4\n\
             \x20 3: leaf 3 #4 [0.125]\n\
             \x20 4: leaf 4 #5 [-0.75]\n"
        );
    }
}

#[test]
fn children_and_parents_that_make_no_tree() {
    tree_refused(
        &[("left_children/0", json!(5))],
        Structure,
        ".left_children[0]",
        "child 5 is out of range (5 nodes)",
    );
    tree_refused(
        &[("right_children/2", json!(-7))],
        Structure,
        ".right_children[2]",
        "child -7 is out of range",
    );
    tree_refused(&[("left_children/2", json!(0))], Structure, ".left_children[2]", "there is a cycle");
    tree_refused(&[("left_children/2", json!(2))], Structure, ".left_children[2]", "its parent is 0");
    tree_refused(
        &[("right_children/2", json!(1))],
        Structure,
        ".right_children[2]",
        "two parents or a cycle",
    );
    tree_refused(
        &[("right_children/2", json!(3))],
        Structure,
        ".right_children[2]",
        "node 3 has two parents",
    );
    tree_refused(&[("parents/3", json!(0))], Structure, ".left_children[2]", "its parent is 0: two parents");
    tree_refused(&[("parents/0", json!(2))], Structure, ".parents[0]", "the tree has no root");
    tree_refused(&[("left_children/2", json!(-1))], Structure, ".parents[3]", "a second root or a cycle");
    // A cycle of two nodes that the root does not reach.
    let cycle = [
        ("left_children", json!([-1, 2, 1, -1, -1])),
        ("right_children", json!([-1, 3, 4, -1, -1])),
        ("parents", json!([i32::MAX, 2, 1, 1, 2])),
    ];
    tree_refused(&cycle, Structure, ".parents[1]", "the root does not reach node 1");
    let split = [("split_indices/2", json!(i32::MAX)), ("default_left/2", json!(1))];
    tree_refused(&split, Structure, ".split_indices[2]", "a deleted node that the root reaches");
    let empty: Vec<(&str, Value)> = [
        "left_children",
        "right_children",
        "parents",
        "split_indices",
        "split_conditions",
        "default_left",
        "split_type",
    ]
    .map(|field| (field, json!([])))
    .into_iter()
    .chain([("tree_param/num_nodes", json!("0"))])
    .collect();
    tree_refused(&empty, Structure, "", "a tree without nodes has no root");
}

#[test]
fn arrays_of_the_wrong_length() {
    let short = |n: usize| Value::Array(vec![json!(0); n]);
    for field in ["left_children", "right_children", "parents", "split_indices", "default_left", "split_type"]
    {
        tree_refused(&[(field, short(4))], Structure, &format!(".{field}"), "4 entries for 5 nodes");
    }
    tree_refused(&[("split_conditions", short(6))], Structure, ".split_conditions", "6 entries for 5 nodes");
    let claim = [("tree_param/num_nodes", json!("1000000000"))];
    tree_refused(&claim, Structure, ".left_children", "5 entries for 1000000000 nodes");
    let model = "learner.gradient_booster.model";
    refused(
        &[(&format!("{MODEL}/tree_info"), short(3))],
        Structure,
        &format!("{model}.tree_info"),
        "3 entries for 2 trees",
    );
    let trees = format!("{MODEL}/gbtree_model_param/num_trees");
    refused(
        &[(&trees, json!("7"))],
        Structure,
        &format!("{model}.gbtree_model_param.num_trees"),
        "7 trees claimed, 2 in",
    );
    let starts = format!("{MODEL}/iteration_indptr");
    for bad in [json!([0, 2, 1]), json!([1, 2]), json!([0, 1]), json!([]), json!([0, 1, u32::MAX])] {
        refused(
            &[(&starts, bad)],
            Structure,
            &format!("{model}.iteration_indptr"),
            "expected ascending numbers from 0",
        );
    }
    let rounds =
        [(&*starts, Value::Null), (&format!("{MODEL}/gbtree_model_param/num_parallel_tree"), json!("3"))];
    let location = format!("{model}.gbtree_model_param.num_parallel_tree");
    refused(&rounds, Structure, &location, "2 trees make no whole number of rounds of 3");
    refused(
        &[("/learner/feature_names", json!(["a"]))],
        Structure,
        "learner.feature_names",
        "1 names for 3 features",
    );
    let base = "learner.learner_model_param.base_score";
    refused(
        &[("/learner/learner_model_param/base_score", json!("[1E-1,2E-1]"))],
        Structure,
        base,
        "2 values for 1 outputs",
    );
}

#[test]
fn numbers_out_of_range() {
    tree_refused(&[("split_indices/2", json!(3))], BadValue, ".split_indices[2]", "feature 3 of 3");
    tree_refused(
        &[("split_conditions/0", json!("NaN"))],
        BadValue,
        ".split_conditions[0]",
        "the threshold is NaN",
    );
    tree_refused(&[("split_conditions/1", json!("NaN"))], BadValue, ".split_conditions[1]", "a leaf of NaN");
    tree_refused(
        &[("split_conditions/1", json!("-Infinity"))],
        BadValue,
        ".split_conditions[1]",
        "a leaf of -inf",
    );
    tree_refused(&[("split_conditions/4", json!(1e39))], BadValue, ".split_conditions[4]", "a leaf of inf");
    tree_refused(&[("split_type/2", json!(2))], BadValue, ".split_type[2]", "split type 2");
    tree_refused(&[("id", json!(0))], Structure, ".id", "tree 0 stands in the file twice");
    tree_refused(&[("id", json!(2))], Structure, ".id", "tree 2 of 2");
    let targets = "learner.gradient_booster.model.tree_info[1]";
    refused(&[(&format!("{MODEL}/tree_info/1"), json!(1))], BadValue, targets, "output 1 of 1");
    let base = |text: &str, cause: &str| {
        let location = "learner.learner_model_param.base_score";
        refused(&[("/learner/learner_model_param/base_score", json!(text))], BadValue, location, cause);
    };
    base("1.5E0", "1.5, but the objective takes a value that is between 0 and 1");
    base("NaN", "NaN, but");
    let gamma = [
        ("/learner/objective/name", json!("reg:gamma")),
        ("/learner/learner_model_param/base_score", json!("[0E0]")),
    ];
    refused(&gamma, BadValue, "learner.learner_model_param.base_score", "a value that is above 0");
    for word in ["[nan]", "inf", "[-infinity]", "[Inf]", "[]"] {
        let base = [("/learner/learner_model_param/base_score", json!(word))];
        refused(&base, Schema, "learner.learner_model_param.base_score", word);
    }
}

#[test]
fn category_sets() {
    tree_refused(
        &[("categories_nodes", json!([3]))],
        Structure,
        ".split_type[2]",
        "`categories_nodes` does not list it",
    );
    tree_refused(&[("categories_nodes", json!([5]))], Structure, ".categories_nodes[0]", "node 5 of 5");
    tree_refused(
        &[("categories_nodes", json!([2, 2]))],
        Structure,
        ".categories_segments",
        "1 entries for 2 category",
    );
    let twice = [
        ("categories_nodes", json!([2, 2])),
        ("categories_segments", json!([0, 0])),
        ("categories_sizes", json!([1, 1])),
    ];
    tree_refused(&twice, Structure, ".categories_nodes[1]", "ascending order");
    tree_refused(
        &[("categories_sizes", json!([3]))],
        Structure,
        ".categories_segments[0]",
        "categories 0 and the next 3 of 2",
    );
    let past = [("categories_segments", json!([i64::MAX])), ("categories_sizes", json!([i64::MAX]))];
    tree_refused(&past, Structure, ".categories_segments[0]", "of 2");
    tree_refused(&[("categories_sizes", json!([0]))], Structure, ".categories_sizes[0]", "at least one");
    tree_refused(
        &[("categories/1", json!(1 << 24))],
        BadValue,
        ".categories[1]",
        "16777216 is not below 2^24",
    );
    tree_refused(
        &[("categories/1", json!(-1))],
        Schema,
        ".categories[1]",
        "invalid value: integer `-1`, expected u32",
    );
    let names = format!("{MODEL}/cats/enc");
    let location = "learner.gradient_booster.model.cats.enc";
    refused(&[(&names, json!([{"values": []}]))], Structure, location, "1 entries for 3 features");
    let cut = json!([{"values": []}, {"values": []}, {"offsets": [0, 1, 9], "values": [97, 98]}]);
    refused(
        &[(&names, cut)],
        Structure,
        &format!("{location}[2].offsets[2]"),
        "a name from byte 1 to byte 9 of 2",
    );
    let back = json!([{"values": []}, {"values": []}, {"offsets": [2, 1], "values": [97, 98]}]);
    refused(
        &[(&names, back)],
        Structure,
        &format!("{location}[2].offsets[1]"),
        "a name from byte 2 to byte 1 of 2",
    );
}

#[test]
fn vector_leaves() {
    let width = |w: &str| ("tree_param/size_leaf_vector", json!(w));
    tree_refused(
        &[width("4")],
        Structure,
        ".tree_param.size_leaf_vector",
        "leaves of 4 values in a model of 1 outputs",
    );
    tree_refused(&[width("-1")], Schema, ".tree_param.size_leaf_vector", "integer `-1`, expected u64");
    let targets = ("/learner/learner_model_param/num_target", json!("2"));
    let first = format!("{MODEL}/trees/0/tree_param/size_leaf_vector");
    let location = "learner.gradient_booster.model.trees[0].base_weights[3]";
    let changes = [targets.clone(), (&*first, json!("2"))];
    refused(&changes, Structure, location, "leaf vector 3 of width 2, but `base_weights` has 5 values");
    let leaves = format!("{MODEL}/trees/0/leaf_weights");
    let changes = [targets, (&first, json!("2")), (&leaves, json!([0.5, 0.5]))];
    let location = "learner.gradient_booster.model.trees[0].right_children[1]";
    refused(&changes, Structure, location, "leaf vector -1 of width 2, but `leaf_weights` has 2 values");
}

/// Trees of one value a leaf beside trees of vectors become vectors, which the file does not spell out.
#[test]
fn leaves_that_become_vectors_are_counted() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/zoo/vector-leaf-mixed/model.ubj");
    let bytes = std::fs::read(path).expect("the model");
    let forest = parse(&bytes, &LoadOptions::default()).expect("a forest");
    let nodes = forest.trees.iter().map(|tree| tree.nodes.len()).sum();
    assert_eq!(forest.leaf_values.len(), 3 * forest.leaf_count());
    let limits = Limits { nodes, ..Limits::default() };
    let refused = parse(&bytes, &LoadOptions { limits, ..LoadOptions::default() }).expect_err("a limit");
    let cause = format!("{} leaves of 3 values each, over the limit of {nodes} nodes", forest.leaf_count());
    assert!(refused.to_string().contains(&cause), "{refused}");
}
