//! Tests on hand-made checkpoints. GTIL defines what is expected.

#[path = "../../../tests/support/checkpoint.rs"]
mod checkpoint;

use std::path::Path;

use super::super::{LoadOptions, load, parse};
use crate::Forest;
use crate::forest::{ClassRule, Transform, reference};
use checkpoint::{Checkpoint, Model, Node, u8s};

fn forest(model: &Model) -> Forest {
    parse(&model.bytes(), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// A split with two leaves, `[-1.5]` and `[2.5]`.
fn stump(split: Node) -> Model {
    Model::of(vec![vec![split, Node::Leaf(-1.5), Node::Leaf(2.5)]])
}

#[test]
fn operators_decide_as_they_do_in_their_type() {
    let near = |t: f64| {
        let narrow = t as f32;
        let single = [narrow.next_down(), narrow, narrow.next_up()].map(f64::from);
        single.into_iter().chain([t.next_down(), t, t.next_up()])
    };
    let thresholds = [0.0, -0.0, 1e-45, 0.1, -2.5, 16_777_217.0, 1e-35, f64::INFINITY, f64::NEG_INFINITY];
    let ends = [f64::from(f32::MAX), f64::from(f32::MIN), f64::from(f32::MIN_POSITIVE), 5e-324, f64::NAN];
    for wide in [false, true] {
        let cast = |x: f64| if wide { x } else { f64::from(x as f32) };
        for (operator, holds) in [
            (1, &(|x, t| x == t) as &dyn Fn(f64, f64) -> bool),
            (2, &|x, t| x < t),
            (3, &|x, t| x <= t),
            (4, &|x, t| x > t),
            (5, &|x, t| x >= t),
        ] {
            for t in thresholds {
                for default_left in [false, true] {
                    let split = Node::Test(operator, 1, t, default_left, 1, 2);
                    let forest = forest(&Model { wide, ..stump(split) });
                    for x in thresholds.into_iter().flat_map(near).chain(ends) {
                        let left = if x.is_nan() { default_left } else { holds(cast(x), cast(t)) };
                        let leaf = if left { 1 } else { 2 };
                        let what = format!("{x:e} by operator {operator} and {t:e}, wide {wide}");
                        assert_eq!(reference::leaf_ids(&forest, &[0.0, x, 0.0]), [leaf], "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn categories_are_looked_up_as_gtil_does() {
    let members = vec![0, 2, 31, 32, 70, (1 << 24) - 1];
    let inside = [-0.0, 0.0, 0.5, 2.0, 2.7, 31.0, 32.999, 70.0, 16_777_215.0, 1e-45];
    let outside =
        [-0.5, -1e-45, -1.0, 1.0, 30.999, 33.0, 71.0, 16_777_214.0, 16_777_216.0, 4_294_967_296.0, 1e30];
    let ends = [-1e30, f64::INFINITY, f64::NEG_INFINITY];
    for wide in [false, true] {
        for (default_left, right) in [(false, false), (false, true), (true, false), (true, true)] {
            let split = Node::In(0, default_left, members.clone(), right, 1, 2);
            let forest = forest(&Model { wide, ..stump(split) });
            let leaf = |x: f64| reference::leaf_ids(&forest, &[x, 0.0, 0.0])[0];
            for x in inside {
                assert_eq!(leaf(x), if right { 2 } else { 1 }, "{x:e} is in, list goes right: {right}");
            }
            for x in outside.into_iter().chain(ends) {
                assert_eq!(leaf(x), if right { 1 } else { 2 }, "{x:e} is out, list goes right: {right}");
            }
            assert_eq!(leaf(f64::NAN), if default_left { 1 } else { 2 });
        }
    }
    let empty = forest(&stump(Node::In(0, true, vec![], false, 1, 2)));
    assert_eq!(reference::leaf_ids(&empty, &[0.0, 0.0, 0.0]), [2]);
}

#[test]
fn leaves_keep_their_numbers_wherever_they_stand() {
    let tree = vec![
        Node::Test(2, 0, 1.0, true, 4, 1),
        Node::Test(4, 1, 2.0, true, 3, 2),
        Node::Leaf(10.0),
        Node::Leaf(20.0),
        Node::Leaf(30.0),
    ];
    let forest = forest(&Model::of(vec![tree, vec![Node::Leaf(0.5)]]));
    assert_eq!(reference::leaf_ids(&forest, &[0.0, 0.0, 0.0]), [4, 0]);
    assert_eq!(reference::leaf_ids(&forest, &[1.0, 2.0, 0.0]), [2, 0]);
    assert_eq!(reference::leaf_ids(&forest, &[1.0, 2.5, 0.0]), [3, 0]);
    assert_eq!(reference::margins(&forest, &[1.0, f32::NAN, 0.0]), [20.5]);
}

#[test]
fn leaves_that_were_pruned_are_dropped() {
    let tree = vec![
        Node::Test(2, 0, 1.0, true, 2, 5),
        Node::Leaf(10.0),
        Node::In(1, false, vec![1], true, 6, 4),
        Node::Leaf(20.0),
        Node::Leaf(30.0),
        Node::Leaf(40.0),
        Node::Leaf(50.0),
    ];
    let forest = forest(&Model::of(vec![tree]));
    assert_eq!(forest.trees[0].nodes.len(), 5);
    assert_eq!(reference::leaf_ids(&forest, &[0.0, 1.0, 0.0]), [4]);
    assert_eq!(reference::leaf_ids(&forest, &[0.0, 2.0, 0.0]), [6]);
    assert_eq!(reference::leaf_ids(&forest, &[1.0, 1.0, 0.0]), [5]);
    assert_eq!(reference::margins(&forest, &[0.0, 2.0, 0.0]), [50.0]);
}

fn leaves(values: &[&[f64]]) -> Vec<Vec<Node>> {
    values
        .iter()
        .map(|v| vec![if v.len() == 1 { Node::Leaf(v[0]) } else { Node::Vector(v.to_vec()) }])
        .collect()
}

fn margins(
    classes: &[i32],
    leaf: [i32; 2],
    reach: &[(i32, i32)],
    average: bool,
    values: &[&[f64]],
) -> Vec<f64> {
    let outputs = classes.len() * classes.iter().max().map_or(0, |most| *most as usize);
    let model = Model {
        classes: classes.to_vec(),
        leaf,
        reach: reach.to_vec(),
        average,
        base_scores: (1..=outputs).map(|o| o as f64 * 100.0).collect(),
        ..Model::of(leaves(values))
    };
    reference::margins(&forest(&model), &[0.0, 0.0, 0.0])
}

#[test]
fn trees_add_to_the_outputs_they_name() {
    let all: &[&[f64]] = &[&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[10.0; 6]];
    assert_eq!(
        margins(&[3, 3], [2, 3], &[(-1, -1); 2], false, all),
        [111.0, 212.0, 313.0, 414.0, 515.0, 616.0]
    );
    // A target of two classes beside one of three: the last output is padding.
    assert_eq!(margins(&[3, 2], [2, 3], &[(-1, -1); 2], true, all), [105.5, 206.0, 306.5, 407.0, 507.5, 0.0]);
    let pairs: &[&[f64]] = &[&[1.0, 2.0], &[3.0, 4.0]];
    assert_eq!(
        margins(&[3, 3], [2, 1], &[(-1, 0), (-1, 2)], false, pairs),
        [101.0, 200.0, 303.0, 402.0, 500.0, 604.0]
    );
    let threes: &[&[f64]] = &[&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], &[6.0, 7.0, 8.0]];
    assert_eq!(
        margins(&[3, 3], [1, 3], &[(0, -1), (1, -1), (1, -1)], true, threes),
        [101.0, 202.0, 303.0, 405.0, 506.0, 607.0]
    );
    let ones: &[&[f64]] = &[&[1.0], &[2.0], &[4.0]];
    assert_eq!(
        margins(&[2, 2], [1, 1], &[(1, 0), (0, 1), (1, 0)], false, ones),
        [100.0, 202.0, 305.0, 400.0]
    );
    // With one target or one class, -1 names that one.
    assert_eq!(margins(&[1, 1], [2, 1], &[(-1, -1), (-1, 0)], true, pairs), [102.0, 203.0]);
    assert_eq!(margins(&[3], [1, 3], &[(0, -1), (-1, -1), (-1, -1)], false, threes), [111.0, 214.0, 317.0]);
    assert_eq!(margins(&[2], [1, 1], &[(-1, 1), (0, 0), (-1, 1)], false, ones), [102.0, 205.0]);
    // A vector of one value counts as a single value.
    let single = Model::of(vec![vec![Node::Vector(vec![7.0])]]);
    assert_eq!(reference::margins(&forest(&single), &[0.0, 0.0, 0.0]), [7.0]);
}

fn values(postprocessor: &'static str, task: u8, margins: &[f64]) -> (Forest, Vec<f64>) {
    let model = Model {
        task,
        classes: vec![margins.len() as i32],
        base_scores: margins.to_vec(),
        postprocessor,
        sigmoid_alpha: 2.0,
        ratio_c: 4.0,
        ..Model::of(vec![])
    };
    let forest = forest(&model);
    let values = reference::values(&forest, &[0.0, 0.0, 0.0]);
    (forest, values)
}

#[test]
fn postprocessors() {
    let sigmoid = |m: f64| 1.0 / (1.0 + (-m).exp());
    for (name, transform, expected) in [
        ("identity", Transform::Identity, -1.5),
        ("identity_multiclass", Transform::Identity, -1.5),
        ("signed_square", Transform::SignedSquare, -2.25),
        ("hinge", Transform::Step, 0.0),
        ("sigmoid", Transform::Sigmoid, sigmoid(-3.0)),
        ("multiclass_ova", Transform::Sigmoid, sigmoid(-3.0)),
        ("exponential", Transform::Exp, (-1.5f64).exp()),
        ("exponential_standard_ratio", Transform::PowerOfTwo, 0.375f64.exp2()),
        ("logarithm_one_plus_exp", Transform::Softplus, (-1.5f64).exp().ln_1p()),
        ("softmax", Transform::Softmax, 1.0),
    ] {
        let (forest, found) = values(name, 1, &[-1.5]);
        assert_eq!(forest.transform, transform);
        assert!((found[0] - expected).abs() < 1e-15, "{name}: {found:?}");
        assert_eq!(forest.classes.rule, ClassRule::None);
        assert_eq!(forest.producer.objective, name);
    }
    let (_, ova) = values("multiclass_ova", 2, &[0.5, -0.25, 0.0]);
    assert_eq!(ova, [sigmoid(1.0), sigmoid(-0.5), 0.5]);
    let (_, softmax) = values("softmax", 2, &[1.0, 1.0, f64::from(f32::MIN)]);
    assert_eq!(softmax, [0.5, 0.5, 0.0]);
}

#[test]
fn classes() {
    let over = ClassRule::Over { threshold: 0.5.into() };
    let rule = |name, task, margins: &[f64]| values(name, task, margins).0.classes.rule;
    assert_eq!(rule("sigmoid", 0, &[0.0]), over);
    assert_eq!(rule("hinge", 0, &[0.0]), over);
    assert_eq!(rule("identity", 0, &[0.0]), ClassRule::None);
    assert_eq!(rule("identity_multiclass", 0, &[0.0; 2]), ClassRule::Largest);
    for name in ["identity_multiclass", "softmax", "multiclass_ova"] {
        assert_eq!(rule(name, 2, &[0.0; 3]), ClassRule::Largest);
        assert_eq!(rule(name, 1, &[0.0; 3]), ClassRule::None);
    }
    for task in [1, 3, 4] {
        assert_eq!(rule("sigmoid", task, &[0.0]), ClassRule::None);
    }
}

#[test]
fn fields_of_later_releases_are_skipped() {
    let field = [u8s(b"name"), 4u64.to_le_bytes().into(), 3u64.to_le_bytes().into(), vec![255; 12]].concat();
    let two = [2i32.to_le_bytes().to_vec(), field.clone(), field].concat();
    let mut later = Checkpoint::of(&Model::default()).with("minor_ver", 9i32.to_le_bytes());
    for slot in
        ["num_opt_field_per_model", "trees[0].num_opt_field_per_tree", "trees[1].num_opt_field_per_node"]
    {
        later = later.with(slot, &two);
    }
    let options = LoadOptions { iteration_range: Some(0..0), ..Default::default() };
    let later = parse(&later.bytes(), &options).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(later.producer.version, "4.9.1");
    assert_eq!(later.trees, forest(&Model::default()).trees);
}

#[test]
fn f64_rows_of_the_zoo() {
    let array = |folder: &Path, name: &str| -> Option<npyz::NpyFile<std::io::Cursor<Vec<u8>>>> {
        let bytes = std::fs::read(folder.join(name)).ok()?;
        Some(npyz::NpyFile::new(std::io::Cursor::new(bytes)).expect("a npy file"))
    };
    let zoo = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo");
    let mut models = 0;
    for folder in std::fs::read_dir(zoo).expect("the zoo").flatten().map(|entry| entry.path()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(rows) = array(&folder, "rows64.npy").filter(|_| name.starts_with("treelite-")) else {
            continue;
        };
        let rows: Vec<f64> = rows.into_vec().expect("f64 rows");
        let leaves: Vec<i32> =
            array(&folder, "leaves64.npy").expect("leaves").into_vec().expect("i32 leaves");
        let expected: Vec<f64> =
            array(&folder, "margin64.npy").expect("margins").into_vec().expect("f64 margins");
        let forest =
            load(&folder.join("model.tl"), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let (trees, outputs) = (forest.trees.len(), forest.outputs as usize);
        let bounds = forest.sum_bound();
        for (r, row) in rows.chunks(forest.features.len()).enumerate() {
            let ids: Vec<i32> = reference::leaf_ids(&forest, row).into_iter().map(|id| id as i32).collect();
            assert_eq!(ids, leaves[r * trees..][..trees], "{name}, row {r}");
            for (o, margin) in reference::margins(&forest, row).into_iter().enumerate() {
                let off = (margin - expected[r * outputs + o]).abs();
                assert!(off <= bounds[o], "{name}, row {r}, output {o}: {margin} is off by {off:e}");
            }
        }
        models += 1;
    }
    assert!(models >= 10, "{models} models with f64 rows");
}
