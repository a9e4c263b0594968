//! Checkpoints of treelite that are damaged, hostile or not supported: each is refused with one line that names the
//! location, the cause and the remedy; and whatever is not refused is a sound forest.

use crate::checkpoint;

use crate::mutate;

use checkpoint::{Checkpoint, Model, Node, i32s, reals, u8s, u32s, u64s};
use fangorn::import::{
    ErrorKind::{self, Limit, Options, Structure, Syntax, Unsupported, Value},
    ImportError, Limits, LoadOptions, Location, parse,
};
use mutate::{KINDS, Random, Tally, mutate_bytes, zoo};

fn refusal(bytes: &[u8], options: &LoadOptions) -> ImportError {
    let error = parse(bytes, options).expect_err("the checkpoint is bad");
    let line = error.to_string();
    assert!(!line.contains('\n') && line.contains("; ") && !error.remedy().is_empty(), "{line}");
    assert!(!line.contains("save_model"), "treelite's models are saved with serialize: {line}");
    error
}

fn expect(bytes: &[u8], kind: ErrorKind, location: &str, cause: &str) {
    let error = refusal(bytes, &LoadOptions::default());
    let line = error.to_string();
    assert_eq!(error.kind(), kind, "{line}");
    assert_eq!(error.location().to_string(), location, "{line}");
    assert!(error.cause().contains(cause), "{line}\n  where `{cause}` is expected");
}

fn sound() -> Checkpoint {
    Checkpoint::of(&Model::default())
}

/// The default checkpoint with one field changed is refused at a field.
fn refused(field: &str, bytes: impl AsRef<[u8]>, kind: ErrorKind, location: &str, cause: &str) {
    expect(&sound().with(field, bytes).bytes(), kind, location, cause);
}

/// The same at the byte where the changed field begins.
fn refused_there(field: &str, bytes: impl AsRef<[u8]>, kind: ErrorKind, cause: &str) {
    let location = format!("byte {}", sound().begin(field));
    refused(field, bytes, kind, &location, cause);
}

/// A model is refused at a field.
fn model_refused(model: Model, kind: ErrorKind, location: &str, cause: &str) {
    expect(&model.bytes(), kind, location, cause);
}

#[test]
fn the_checkpoint_to_start_from_is_sound() {
    assert!(parse(&sound().bytes(), &LoadOptions::default()).is_ok());
}

#[test]
fn versions_and_types() {
    let version = |major: i32, minor: i32| {
        sound().with("major_ver", major.to_le_bytes()).with("minor_ver", minor.to_le_bytes()).bytes()
    };
    expect(&version(3, 9), Unsupported, "major_ver", "a checkpoint of treelite 3.9.1");
    assert!(refusal(&version(3, 9), &LoadOptions::default()).remedy().contains("Model.deserialize"));
    expect(&version(5, 0), Unsupported, "major_ver", "treelite 5.0.1");
    let types = |threshold: u8, leaf: u8| {
        sound().with("threshold_type", [threshold]).with("leaf_output_type", [leaf]).bytes()
    };
    expect(&types(2, 3), Unsupported, "threshold_type", "thresholds of type 2 and leaves of type 3");
    expect(&types(2, 1), Unsupported, "threshold_type", "leaves of type 1");
    expect(&types(0, 0), Unsupported, "threshold_type", "thresholds of type 0");
    // f32 arrays where the header says f64.
    let wide = sound().with("threshold_type", [3]).with("leaf_output_type", [3]);
    refusal(&wide.bytes(), &LoadOptions::default());
}

#[test]
fn counts_of_the_header() {
    let target_id = format!("byte {}", sound().begin("target_id"));
    refused("num_feature", (-1i32).to_le_bytes(), Value, "num_feature", "-1 is negative");
    refused("num_feature", 2i32.to_le_bytes(), Value, "trees[1].split_index[0]", "feature 2 of 2");
    refused("task_type", [5], Value, "task_type", "task type 5");
    refused_there("average_tree_output", [2], Value, "2, but 0 or 1 is expected");
    refused("num_target", (-2i32).to_le_bytes(), Value, "num_target", "-2 is negative");
    refused("num_target", 0i32.to_le_bytes(), Value, "num_target", "a model without targets");
    refused_there("num_class", i32s(&[1, 1]), Structure, "`num_class`: 2 entries for 1 targets");
    refused("num_class", i32s(&[0]), Value, "num_class[0]", "0 classes");
    refused("num_class", i32s(&[i32::MIN]), Value, "num_class[0]", "-2147483648 classes");
    refused("num_class", i32s(&[i32::MAX]), Limit, "num_class", "2147483647 outputs, over the limit");
    refused_there("leaf_vector_shape", i32s(&[1]), Structure, "1 entries for 2 dimensions");
    refused("leaf_vector_shape", i32s(&[1, 3]), Structure, "leaf_vector_shape", "leaves of 1 x 3 values");
    refused("leaf_vector_shape", i32s(&[-1, 1]), Structure, "leaf_vector_shape", "leaves of -1 x 1 values");
    refused_there("target_id", i32s(&[0]), Structure, "`target_id`: 1 entries for 2 trees");
    refused_there("class_id", i32s(&[0; 3]), Structure, "`class_id`: 3 entries for 2 trees");
    refused("target_id", i32s(&[0, 1]), Value, "target_id[1]", "1, but -1 or a number below 1");
    refused("target_id", i32s(&[-2, 0]), Value, "target_id[0]", "-2, but -1 or a number below 1");
    refused("class_id", i32s(&[0, i32::MIN]), Value, "class_id[1]", "-2147483648, but -1");
    refused("num_tree", u64::MAX.to_le_bytes(), Limit, "num_tree", &format!("{} trees", usize::MAX));
    refused("num_tree", 3u64.to_le_bytes(), Structure, &target_id, "2 entries for 3 trees");
}

#[test]
fn scores_and_postprocessors() {
    refused_there("base_scores", reals(&[], true), Structure, "0 entries for 1 outputs");
    refused("base_scores", reals(&[f64::NAN], true), Value, "base_scores[0]", "NaN is not a finite number");
    refused("base_scores", reals(&[f64::NEG_INFINITY], true), Value, "base_scores[0]", "-inf is not");
    refused("postprocessor", u8s(b"max_index"), Unsupported, "postprocessor", "`max_index` is not supported");
    refused("postprocessor", u8s(b"\xff"), Syntax, "postprocessor", "not UTF-8");
    refused("postprocessor", u8s(b"a\nb"), Unsupported, "postprocessor", "`a\\nb` is not supported");
    let with = |postprocessor, alpha, ratio| Model {
        postprocessor,
        sigmoid_alpha: alpha,
        ratio_c: ratio,
        ..Model::default()
    };
    model_refused(with("sigmoid", f32::NAN, 1.0), Value, "sigmoid_alpha", "NaN is not a finite");
    model_refused(with("multiclass_ova", f32::INFINITY, 1.0), Value, "sigmoid_alpha", "inf is not a finite");
    model_refused(
        with("exponential_standard_ratio", 1.0, 0.0),
        Value,
        "ratio_c",
        "which margins are divided by",
    );
    model_refused(with("exponential_standard_ratio", 1.0, f32::NAN), Value, "ratio_c", "NaN is not");
    let several = |postprocessor, classes: &[i32]| Model {
        postprocessor,
        classes: classes.to_vec(),
        base_scores: vec![0.0; classes.len() * 3],
        ..Model::default()
    };
    for name in ["sigmoid", "hinge", "exponential", "signed_square", "logarithm_one_plus_exp"] {
        let cause = format!("postprocessor `{name}` of a target with 3 classes is not supported");
        model_refused(several(name, &[3]), Unsupported, "postprocessor", &cause);
    }
    model_refused(several("softmax", &[3, 3]), Unsupported, "postprocessor", "softmax of each of 2 targets");
    model_refused(
        several("multiclass_ova", &[3, 2]),
        Unsupported,
        "postprocessor",
        "that differ in their classes",
    );
    let averaged = Model { average: true, ..several("softmax", &[3]) };
    model_refused(averaged, Unsupported, "average_tree_output", "no tree adds to output 1");
}

#[test]
fn arrays_that_the_file_does_not_hold() {
    for claim in [1u64 << 62, u64::MAX, 1 << 40, 4000] {
        for field in ["num_class", "target_id", "postprocessor", "base_scores", "attributes"] {
            refused_there(field, claim.to_le_bytes(), Syntax, &format!("`{field}`: {claim} items"));
        }
        for field in ["cleft", "threshold", "leaf_vector", "category_list", "category_list_end", "gain"] {
            let cause = format!("`{field}` of tree 1: {claim} items");
            refused_there(&format!("trees[1].{field}"), claim.to_le_bytes(), Syntax, &cause);
        }
    }
    let skip = |size: u64, count: u64| {
        [&1i32.to_le_bytes()[..], &u8s(b"x"), &size.to_le_bytes(), &count.to_le_bytes()].concat()
    };
    let location = format!("byte {}", sound().begin("num_opt_field_per_model") + 13);
    let field = "num_opt_field_per_model";
    refused(field, skip(1 << 40, 1 << 40), Syntax, &location, "1099511627776 items of 1099511627776 bytes");
    refused(field, skip(8, 1 << 20), Syntax, &location, "1048576 items of 8 bytes, and");
    refused_there(field, (-1i32).to_le_bytes(), Value, "-1 fields");
    let location = format!("byte {}", sound().begin("trees[1].num_nodes"));
    let field = "trees[0].num_opt_field_per_node";
    refused(field, i32::MAX.to_le_bytes(), Syntax, &location, "`num_opt_field_per_node` of tree 0");
}

#[test]
fn arrays_of_the_wrong_length() {
    for field in ["node_type", "default_left", "cmp", "category_list_right_child"] {
        let cause = format!("`{field}` of tree 0: 2 entries for 3 nodes");
        refused_there(&format!("trees[0].{field}"), u8s(&[0; 2]), Structure, &cause);
    }
    for field in ["cleft", "cright", "split_index"] {
        refused_there(&format!("trees[0].{field}"), i32s(&[-1; 4]), Structure, "4 entries for 3 nodes");
    }
    for field in ["leaf_value", "threshold"] {
        refused_there(&format!("trees[0].{field}"), reals(&[], false), Structure, "0 entries for 3 nodes");
    }
    for field in ["leaf_vector_begin", "leaf_vector_end", "category_list_begin", "category_list_end"] {
        refused_there(&format!("trees[0].{field}"), u64s(&[0; 2]), Structure, "2 entries for 3 nodes");
    }
    let nodes = |count: i32| count.to_le_bytes();
    refused("trees[0].num_nodes", nodes(0), Structure, "trees[0].num_nodes", "a tree of 0 nodes has no root");
    refused("trees[1].num_nodes", nodes(-7), Structure, "trees[1].num_nodes", "a tree of -7 nodes");
    refused("trees[0].num_nodes", nodes(i32::MAX), Limit, "trees[0].num_nodes", "nodes, over the limit");
    refused_there("trees[0].has_categorical_split", [7], Value, "7, but 0 or 1 is expected");
}

#[test]
fn nodes_that_make_no_tree() {
    let cleft = "trees[0].cleft[0]";
    refused("trees[0].cleft", i32s(&[3, -1, -1]), Structure, cleft, "child 3 is out of range (3 nodes)");
    refused("trees[0].cleft", i32s(&[-5, -1, -1]), Structure, cleft, "child -5 is out of range");
    refused("trees[0].cleft", i32s(&[-1; 3]), Structure, cleft, "child -1 is out of range");
    refused("trees[0].cleft", i32s(&[0, -1, -1]), Structure, cleft, "there is a cycle");
    refused("trees[0].cleft", i32s(&[2, -1, -1]), Structure, "trees[0].cright[0]", "child 2 has two parents");
    refused("trees[0].cright", i32s(&[2, 1, -1]), Structure, "trees[0].cright[1]", "a leaf with child 1");
    refused("trees[0].node_type", u8s(&[0, 0, 0]), Structure, cleft, "a leaf with child 1");
    refused("trees[0].node_type", u8s(&[3, 0, 0]), Value, "trees[0].node_type[0]", "node type 3");
    let split = |left, right| Node::Test(2, 0, 0.0, true, left, right);
    let leaf = || Node::Leaf(1.0);
    // Nodes 2 and 4 are each other's children; the root reaches neither.
    let cycle = vec![split(1, 3), leaf(), split(4, 5), leaf(), split(2, 6), leaf(), leaf()];
    model_refused(Model::of(vec![cycle]), Structure, "tree 0", "4 of 7 nodes can't be reached");
    let second = vec![split(1, 2), leaf(), leaf(), split(4, 5), leaf(), leaf()];
    model_refused(Model::of(vec![second]), Structure, "tree 0", "3 of 6 nodes can't be reached");
}

#[test]
fn numbers_of_nodes() {
    let location = "trees[0].split_index[0]";
    refused("trees[0].split_index", i32s(&[3, -1, -1]), Value, location, "feature 3 of 3");
    refused("trees[0].split_index", i32s(&[-1; 3]), Value, location, "feature -1 of 3");
    refused("trees[0].cmp", u8s(&[0; 3]), Value, "trees[0].cmp[0]", "operator 0");
    refused("trees[0].cmp", u8s(&[6, 0, 0]), Value, "trees[0].cmp[0]", "operator 6");
    refused("trees[0].default_left", u8s(&[2, 0, 0]), Value, "trees[0].default_left[0]", "2, but 0 or 1");
    let right = u8s(&[255, 0, 0]);
    let location = "trees[1].category_list_right_child[0]";
    refused("trees[1].category_list_right_child", right, Value, location, "255, but 0 or 1");
    let nan = reals(&[f64::NAN, 0.0, 0.0], false);
    refused("trees[0].threshold", nan, Value, "trees[0].threshold[0]", "the threshold is NaN");
    let leaf = |value: f64| reals(&[0.0, value, 0.0], false);
    refused("trees[0].leaf_value", leaf(f64::NAN), Value, "trees[0].leaf_value[1]", "a leaf of NaN");
    refused("trees[0].leaf_value", leaf(-1e39), Value, "trees[0].leaf_value[1]", "a leaf of -inf");
    let wide = Model { wide: true, ..Model::of(vec![vec![Node::Leaf(1e39)]]) };
    model_refused(wide, Value, "trees[0].leaf_value[0]", "a leaf of 1e39");
}

#[test]
fn category_lists() {
    let list = "trees[1].category_list";
    let begin = "trees[1].category_list_begin[0]";
    refused(list, u32s(&[1, 3, 1 << 24]), Unsupported, begin, "category 16777216 is not below 2^24");
    refused(list, u32s(&[u32::MAX, 3, 4]), Unsupported, begin, "category 4294967295");
    refused(list, u32s(&[1, 3]), Structure, begin, "entries 0 to 3 of `category_list`, which has 2");
    refused("trees[1].category_list_begin", u64s(&[4, 3, 3]), Structure, begin, "entries 4 to 3");
    let end = "trees[1].category_list_end";
    refused(end, u64s(&[u64::MAX, 3, 3]), Structure, begin, "entries 0 to 18446744073709551615");
    let among = |left, right| Node::In(0, true, vec![1, 2, 3], false, left, right);
    let leaf = || Node::Leaf(1.0);
    let two = Model::of(vec![vec![among(1, 2), among(3, 4), leaf(), leaf(), leaf()]]);
    let overlap = Checkpoint::of(&two)
        .with("trees[0].category_list_begin", u64s(&[0, 1, 6, 6, 6]))
        .with("trees[0].category_list_end", u64s(&[6, 6, 6, 6, 6]));
    let location = "trees[0].category_list_begin[1]";
    expect(&overlap.bytes(), Structure, location, "the lists of `category_list` overlap");
}

#[test]
fn leaf_vectors() {
    let vectors = |leaf: [i32; 2], reach: (i32, i32), values: &[f64]| Model {
        classes: vec![3, 3],
        leaf,
        reach: vec![reach],
        base_scores: vec![0.0; 6],
        trees: vec![vec![Node::Vector(values.to_vec())]],
        ..Model::default()
    };
    let location = "trees[0].leaf_vector_begin[0]";
    let three = vectors([1, 3], (0, -1), &[1.0, 2.0, 3.0]);
    assert!(parse(&three.bytes(), &LoadOptions::default()).is_ok());
    model_refused(
        vectors([1, 3], (0, -1), &[1.0, 2.0]),
        Structure,
        location,
        "a leaf of 2 values in a model",
    );
    model_refused(vectors([1, 1], (0, 2), &[1.0, 2.0]), Structure, location, "whose leaves have 1");
    model_refused(vectors([2, 3], (-1, -1), &[]), Structure, location, "a leaf of 1 values");
    model_refused(
        vectors([1, 3], (0, 0), &[1.0; 3]),
        Structure,
        "class_id[0]",
        "but leaves have 1 x 3 values",
    );
    model_refused(vectors([2, 1], (0, -1), &[1.0; 2]), Structure, "class_id[0]", "a tree of 1 targets and 3");
    model_refused(vectors([2, 1], (-1, 3), &[1.0; 2]), Value, "class_id[0]", "3, but -1 or a number below 3");
    let uneven = Model { classes: vec![3, 2], ..vectors([2, 1], (-1, 2), &[1.0; 2]) };
    model_refused(uneven, Value, "class_id[0]", "2, but -1 or a number below 2");
    let infinite = vectors([1, 3], (0, -1), &[1.0, f64::INFINITY, 0.0]);
    model_refused(infinite, Value, "trees[0].leaf_vector[1]", "a leaf of inf");
    let outside = Checkpoint::of(&three).with("trees[0].leaf_vector_end", u64s(&[4]));
    expect(&outside.bytes(), Structure, location, "entries 0 to 4 of `leaf_vector`, which has 3");
    // Leaves that all use the same vector would make a small file a huge forest.
    let split = Node::Test(2, 0, 0.0, true, 1, 2);
    let shared = Model {
        trees: vec![vec![split, Node::Vector(vec![1.0; 3]), Node::Leaf(0.0)]],
        ..vectors([1, 3], (0, -1), &[])
    };
    let shared = Checkpoint::of(&shared)
        .with("trees[0].leaf_vector_begin", u64s(&[0; 3]))
        .with("trees[0].leaf_vector_end", u64s(&[0, 3, 3]));
    let location = "trees[0].leaf_vector_begin[2]";
    expect(&shared.bytes(), Structure, location, "the lists of `leaf_vector` overlap");
}

#[test]
fn leaves_spread_over_too_many_outputs() {
    // Each leaf has 2 values for 2 x 20 000 outputs, so a forest of them would be mostly zeros.
    let classes = 20_000;
    let model = Model {
        classes: vec![classes, classes],
        leaf: [2, 1],
        reach: vec![(-1, 7); 40],
        base_scores: vec![0.0; 2 * classes as usize],
        trees: vec![vec![Node::Vector(vec![1.0, 2.0])]; 40],
        ..Model::default()
    };
    let cause = "leaves of 2 values in a model of 40000 outputs";
    model_refused(model, Unsupported, "trees[8].leaf_vector", cause);
}

#[test]
fn limits_are_kept() {
    let limits = |limits: Limits| LoadOptions { limits, ..Default::default() };
    let default = Limits::default;
    for (options, location, cause, field) in [
        (limits(Limits { trees: 1, ..default() }), "num_tree", "2 trees, over the limit of 1", "trees"),
        (limits(Limits { nodes: 5, ..default() }), "trees[1].num_nodes", "6 nodes, over the limit", "nodes"),
        (limits(Limits { depth: 0, ..default() }), "tree 0", "1 depth, over the limit of 0", "depth"),
        (limits(Limits { features: 2, ..default() }), "num_feature", "3 features", "features"),
        (limits(Limits { outputs: 0, ..default() }), "num_class", "1 outputs", "outputs"),
        (
            limits(Limits { category_words: 1, ..default() }),
            "trees[1].category_list",
            "2 category words",
            "category_words",
        ),
        (limits(Limits { string_bytes: 7, ..default() }), "postprocessor", "8 string bytes", "string_bytes"),
    ] {
        let error = refusal(&sound().bytes(), &options);
        assert_eq!((error.kind(), error.location().to_string().as_str()), (Limit, location), "{error}");
        assert!(error.cause().contains(cause), "{error}");
        assert!(error.remedy().contains(&format!("Limits::{field}")), "{error}");
    }
}

#[test]
fn boosting_rounds_are_not_known() {
    let options = LoadOptions { iteration_range: Some(0..1), ..Default::default() };
    let error = refusal(&sound().bytes(), &options);
    assert_eq!(
        (error.kind(), error.location()),
        (Options, &Location::Field("iteration_range".into())),
        "{error}"
    );
}

#[test]
fn every_truncation_is_refused_and_so_is_what_follows_the_end() {
    let bytes = sound().bytes();
    for end in 0..bytes.len() {
        let error = parse(&bytes[..end], &LoadOptions::default()).expect_err("cut");
        // Shorter ones are not yet known to be treelite's.
        if end >= 14 {
            let at = error.location().clone();
            assert!(
                matches!((error.kind(), at), (Syntax, Location::Byte(at)) if at <= end),
                "cut at {end}: {error}"
            );
        }
    }
    let longer = [&bytes[..], b"\0"].concat();
    expect(&longer, Syntax, &format!("byte {}", bytes.len()), "1 bytes after the end of the model");
}

#[test]
fn a_chain_a_hundred_thousand_deep_loads_on_a_small_stack() {
    let splits = 100_000;
    let mut tree = Vec::new();
    for n in 0..splits {
        tree.push(Node::Test(3, 0, f64::from(n), false, 2 * n + 1, 2 * n + 2));
        tree.push(Node::Leaf(f64::from(n)));
    }
    tree.push(Node::Leaf(-1.0));
    let bytes = Model::of(vec![tree]).bytes();
    let run = move || {
        let forest = parse(&bytes, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(forest.trees[0].depth(), 100_000);
        let limits = Limits { depth: 99_999, ..Default::default() };
        refusal(&bytes, &LoadOptions { limits, ..Default::default() })
    };
    let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(run).expect("a thread");
    let error = thread.join().expect("no overflow");
    assert_eq!((error.kind(), error.location()), (Limit, &Location::Field("tree 0".into())));
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    match random.below(8) {
        kind if kind < KINDS => mutate_bytes(bytes, kind, random),
        6 => mutate_bytes(bytes, 0, random),
        // A huge or a negative number, if one is there.
        _ => {
            let at = random.below(bytes.len());
            let length = 1 + random.below(16.min(bytes.len() - at));
            let edge = random.pick(&[0x00, 0x01, 0x7f, 0x80, 0xff]);
            bytes[at..at + length].fill(edge);
        }
    }
    if bytes.is_empty() {
        bytes.push(4);
    }
}

#[test]
fn mutations_never_panic_and_what_loads_is_sound() {
    let limits = Limits { features: 1 << 12, outputs: 1 << 8, category_words: 1 << 20, ..Default::default() };
    let options = LoadOptions { limits, ..Default::default() };
    let mut seeds = vec![("by hand".to_owned(), sound().bytes(), 6000)];
    seeds.extend(zoo(&["model.tl"], 1 << 20, 200));
    let mut tally = Tally::default();
    tally.mutate(&seeds, &options, &mut Random(20_261_120), mutate);
    assert!(tally.loaded > 500 && tally.refused > 2000, "{tally:?}");
}
