//! Tests of what is peculiar to LightGBM: the zone of zeros, decision types, categories, averages, names, and
//! rows in `f64`.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::super::{ErrorKind, ImportError, LoadOptions, load, parse};
use crate::forest::{ClassRule, Forest, Predicate, Real, Transform, ZERO_ZONE, reference};

/// Returns the folders of LightGBM models with rows in `f64`, from the crate's zoo and from the folder
/// `FANGORN_ZOO`.
fn zoo() -> Vec<PathBuf> {
    let mut zoos = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/zoo")];
    zoos.extend(std::env::var_os("FANGORN_ZOO").map(PathBuf::from));
    let folders = zoos.iter().filter_map(|zoo| std::fs::read_dir(zoo).ok()).flatten();
    let mut folders: Vec<PathBuf> = folders.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.retain(|folder| folder.join("model.txt").exists() && folder.join("rows64.npy").exists());
    folders.sort();
    folders
}

fn array<T: npyz::Deserialize>(folder: &Path, name: &str) -> Vec<T> {
    let bytes = std::fs::read(folder.join(name)).expect("the file");
    npyz::NpyFile::new(&bytes[..]).expect("npy").into_vec().expect("npy values")
}

#[test]
fn rows_in_f64_end_in_their_producers_leaves() {
    let folders = zoo();
    assert!(folders.len() >= 30, "{} models", folders.len());
    for folder in folders {
        let forest =
            load(&folder.join("model.txt"), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let rows: Vec<f64> = array(&folder, "rows64.npy");
        let leaves: Vec<i32> = array(&folder, "leaves64.npy");
        let margins: Vec<f64> = array(&folder, "margin64.npy");
        let (trees, outputs) = (forest.trees.len(), forest.outputs as usize);
        for (r, row) in rows.chunks(forest.features.len()).enumerate() {
            let location = format!("{}, row {r}: {row:?}", folder.display());
            let ids: Vec<i32> = reference::leaf_ids(&forest, row).into_iter().map(|id| id as i32).collect();
            assert_eq!(ids, leaves[r * trees..][..trees], "{location}");
            // LightGBM adds up the same numbers in the same order.
            assert_eq!(reference::margins(&forest, row), margins[r * outputs..][..outputs], "{location}");
        }
    }
}

/// Returns a file with a stump for each threshold and decision type, on one feature. Every tree contains
/// `more`.
fn stumps(splits: &[(String, u8)], more: &str) -> String {
    let mut text =
        "tree\nversion=v4\nnum_class=1\nmax_feature_idx=0\nfeature_names=x\nfeature_infos=none\n\n"
            .to_owned();
    for (t, (threshold, kind)) in splits.iter().enumerate() {
        text += &format!(
            "Tree={t}\nnum_leaves=2\n{more}split_feature=0\nthreshold={threshold}\ndecision_type={kind}\n\
             left_child=-1\nright_child=-2\nleaf_value=-1 1\n\n"
        );
    }
    text + "end of trees\n"
}

fn read(text: &str) -> Result<Forest, ImportError> {
    parse(text.as_bytes(), &LoadOptions::default())
}

#[test]
fn before_2_2_nothing_stands_between_the_trees_and_the_next_section() {
    let old = |end: &str| {
        stumps(&[("0.5".into(), 8)], "num_cat=0\n")
            .replace("version=v4", "version=v2")
            .replace("end of trees\n", end)
    };
    let forest = read(&old("\nfeature importances:\nx=1\n")).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(reference::margins(&forest, &[0.5f64]), [-1.0]);
    assert!(read(&old("")).is_err_and(|e| e.cause().contains("ends before")));
}

/// Returns the id of the leaf to which LightGBM sends `x`, computed as LightGBM does.
fn leaf(threshold: f64, kind: u8, x: f64) -> u32 {
    let zone = f64::from(1e-35f32);
    let (missing, left) = (kind >> 2, kind & 2 != 0);
    let x = if x.abs() <= zone || (x.is_nan() && missing != 2) { 0.0 } else { x };
    let is_missing = (missing == 1 && x == 0.0) || (missing == 2 && x.is_nan());
    u32::from(!if is_missing { left } else { x <= threshold })
}

#[test]
fn every_decision_type_around_zero_and_at_the_ends() {
    let zone = f64::from(ZERO_ZONE);
    let near = |v: f64| [v.next_down(), v, v.next_up()];
    let middle = [0.0, -0.0, 5e-324, -5e-324, 1e-40, -1e-40, 0.1, 1.0, 1e300, -1e300, f64::MAX, f64::MIN];
    let thresholds: Vec<f64> = middle.into_iter().chain(near(zone)).chain(near(-zone)).collect();
    let ends = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let values: Vec<f64> = thresholds.iter().flat_map(|t| near(*t)).chain(ends).collect();
    for kind in [0, 2, 4, 6, 8, 10] {
        for threshold in thresholds.iter().copied().chain(ends[..2].iter().copied()) {
            let forest = match read(&stumps(&[(format!("{threshold:e}"), kind)], "num_cat=0\n")) {
                Ok(forest) => forest,
                // This split separates zeros from everything else. LightGBM does not write such a split.
                Err(e) if threshold == f64::INFINITY && kind == 4 => {
                    assert_eq!(e.kind(), ErrorKind::Unsupported, "{e}");
                    continue;
                }
                Err(e) => panic!("{threshold:e}, decision type {kind}: {e}"),
            };
            for x in &values {
                let expected = leaf(threshold, kind, *x);
                assert_eq!(
                    reference::leaf_ids(&forest, &[*x]),
                    [expected],
                    "{x:e} at {threshold:e} by {kind}"
                );
            }
        }
    }
}

#[test]
fn zeros_stand_aside_only_where_they_must() {
    let predicate = |threshold: &str, kind| {
        let forest =
            read(&stumps(&[(threshold.into(), kind)], "num_cat=0\n")).unwrap_or_else(|e| panic!("{e}"));
        match forest.trees[0].nodes[0] {
            crate::forest::Node::Split { predicate, .. } => predicate,
            crate::forest::Node::Leaf { .. } => panic!("no split"),
        }
    };
    let zone = f64::from(ZERO_ZONE);
    assert_eq!(predicate("1", 6), Predicate::Less { threshold: Real(1f64.next_up()) });
    assert_eq!(predicate("1", 4), Predicate::LessZeroAside { threshold: Real(1f64.next_up()) });
    assert_eq!(predicate("-1", 4), Predicate::Less { threshold: Real((-1f64).next_up()) });
    assert_eq!(predicate("-1", 6), Predicate::LessZeroAside { threshold: Real((-1f64).next_up()) });
    assert_eq!(predicate("0", 10), Predicate::Less { threshold: Real(zone.next_up()) });
    assert_eq!(predicate("-1e-40", 10), Predicate::Less { threshold: Real(-zone) });
    assert_eq!(predicate("inf", 8), Predicate::Always);
}

#[test]
fn categories_are_truncated_and_the_rest_goes_right() {
    let sets = "num_cat=1\ncat_boundaries=0 3\ncat_threshold=11 3 2147483648\n";
    let inside = [-0.999, -0.5, -0.0, 0.0, 0.5, 1.9, 3.0, 32.0, 33.9, 95.0, 95.999, 5e-324];
    let outside =
        [-1.0, -1.5, 2.0, 2.7, 31.0, 34.0, 94.0, 96.0, 1e30, -1e30, f64::INFINITY, f64::NEG_INFINITY];
    let large = [16_777_215.0, 16_777_216.0, 2_147_483_648.0, 4_294_967_296.0, 4_294_967_297.0, f64::NAN];
    // A category split ignores the other bits of its decision type.
    for kind in [1, 3, 5, 7, 9, 11] {
        let forest = read(&stumps(&[("0".into(), kind)], sets)).unwrap_or_else(|e| panic!("{e}"));
        for x in inside {
            assert_eq!(reference::leaf_ids(&forest, &[x]), [0], "{x:e}");
        }
        for x in outside.into_iter().chain(large) {
            assert_eq!(reference::leaf_ids(&forest, &[x]), [1], "{x:e}");
        }
    }
}

#[test]
fn a_tree_of_one_leaf_and_the_constants_of_a_linear_one() {
    let stump = stumps(&[("0.5".into(), 2)], "num_cat=0\n");
    let old = stump.replace("num_leaves=2", "num_leaves=1").replace("leaf_value=-1 1", "leaf_value=7");
    assert_eq!(read(&old).map(|f| reference::margins(&f, &[0.0])), Ok(vec![7.0]));
    let new = "leaf_value=7\nsplit_feature=\nthreshold=\nis_linear=0";
    let new = old.replace("split_feature=0\nthreshold=0.5\n", "").replace("leaf_value=7", new);
    assert_eq!(read(&new).map(|f| reference::leaf_ids(&f, &[0.0])), Ok(vec![0]));
    let linear =
        "leaf_value=-1 1\nis_linear=1\nleaf_const=3 4\nnum_features=0 0\nleaf_features=  \nleaf_coeff=  ";
    let linear = stump.replace("leaf_value=-1 1", linear);
    assert_eq!(read(&linear).map(|f| reference::margins(&f, &[0.0])), Ok(vec![3.0]));
}

/// Returns a file of `trees` stumps, whose header has `lines` in place of `num_class=1`.
fn headed(lines: &str, trees: usize) -> String {
    stumps(&vec![("0.5".into(), 2); trees], "num_cat=0\n").replace("num_class=1\n", lines)
}

#[test]
fn averages_are_over_the_iterations_that_are_kept() {
    let text = headed("num_class=1\nobjective=binary sigmoid:3\naverage_output\n", 6);
    let scale = |range: Option<(u32, u32)>| {
        let iteration_range = range.map(|(start, end)| Range { start, end });
        let options = LoadOptions { iteration_range, ..Default::default() };
        parse(text.as_bytes(), &options).map(|f| (f.trees.len(), f.scale.0)).map_err(|e| e.kind())
    };
    assert_eq!(scale(None), Ok((6, 0.5)));
    assert_eq!(scale(Some((2, 4))), Ok((2, 1.5)));
    assert_eq!(scale(Some((2, 0))), Ok((4, 0.75)));
    assert_eq!(scale(Some((3, 3))), Err(ErrorKind::Structure));
    assert_eq!(scale(Some((0, 7))), Err(ErrorKind::Options));
    let classes = headed("num_class=3\nobjective=multiclass num_class:3\naverage_output\n", 6);
    let forest = read(&classes).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((forest.scale.0, forest.outputs), (0.5, 3));
    let options = LoadOptions { iteration_range: Some(1..2), ..Default::default() };
    let last = parse(classes.as_bytes(), &options).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((last.trees.len(), last.scale.0), (3, 1.0));
}

#[test]
fn objectives_and_their_parameters() {
    let meaning = |classes: usize, line: &str| {
        let text = headed(&format!("num_class={classes}\n{line}\n"), classes);
        read(&text).map(|f| (f.transform, f.scale.0, f.classes.rule)).map_err(|e| (e.kind(), e.to_string()))
    };
    let half = ClassRule::Over { threshold: Real(0.5) };
    for (classes, line, expected) in [
        (1, "", (Transform::Identity, 1.0, ClassRule::None)),
        (3, "", (Transform::Identity, 1.0, ClassRule::None)),
        (1, "objective=custom", (Transform::Identity, 1.0, ClassRule::None)),
        (1, "objective=regression", (Transform::Identity, 1.0, ClassRule::None)),
        (1, "objective=mape sqrt", (Transform::SignedSquare, 1.0, ClassRule::None)),
        (1, "objective=tweedie", (Transform::Exp, 1.0, ClassRule::None)),
        (1, "objective=binary sigmoid:1.25", (Transform::Sigmoid, 1.25, half)),
        (1, "objective=cross_entropy", (Transform::Sigmoid, 1.0, half)),
        (1, "objective=cross_entropy_lambda", (Transform::Softplus, 1.0, ClassRule::None)),
        (4, "objective=multiclass num_class:4", (Transform::Softmax, 1.0, ClassRule::Largest)),
        (4, "objective=multiclassova num_class:4 sigmoid:2", (Transform::Sigmoid, 2.0, ClassRule::Largest)),
    ] {
        assert_eq!(meaning(classes, line), Ok(expected), "{line}");
    }
    for (classes, line, kind, word) in [
        (1, "objective=regression_l3", ErrorKind::Unsupported, "`regression_l3`"),
        (1, "objective=", ErrorKind::Unsupported, "``"),
        (1, "objective=binary tanh:2", ErrorKind::Unsupported, "`tanh:2`"),
        (1, "objective=huber sqrt", ErrorKind::Unsupported, "`huber` with `sqrt`"),
        (1, "objective=binary sigmoid:0", ErrorKind::Value, "`sigmoid:0`"),
        (1, "objective=binary sigmoid:x", ErrorKind::Value, "`sigmoid:x`"),
        (3, "objective=binary sigmoid:1", ErrorKind::Structure, "3 trees an iteration"),
        (3, "objective=multiclass num_class:4", ErrorKind::Structure, "num_class:4"),
        (3, "objective=multiclass", ErrorKind::Structure, "does not fit"),
        (1, "objective=custom loss", ErrorKind::Unsupported, "`custom loss`"),
    ] {
        let (found, message) = meaning(classes, line).expect_err(line);
        assert_eq!(found, kind, "{message}");
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn names_of_categories_go_where_only_they_can() {
    // Returns the names that each column gets, from the entries of `feature_infos` and the lists of names.
    let declared = |infos: &str, lists: &str, declared: &str| {
        let columns = infos.split(' ').count();
        let names: Vec<String> = (0..columns).map(|f| format!("f{f}")).collect();
        let text = format!(
            "tree\nversion=v4\nnum_class=1\nmax_feature_idx={}\nfeature_names={}\nfeature_infos={infos}\n\n\
             end of trees\n\nparameters:\n[data: ]\n{declared}end of parameters\n\npandas_categorical:{lists}\n",
            columns - 1,
            names.join(" ")
        );
        let forest = read(&text).unwrap_or_else(|e| panic!("{e}"));
        forest.features.into_iter().map(|f| f.categories.join(",")).collect::<Vec<_>>()
    };
    let named = |infos: &str, lists: &str| declared(infos, lists, "");
    assert_eq!(named("[0.5:2] -1:2:0:1", r#"[["a", "b", "c"]]"#), ["", "a,b,c"]);
    assert_eq!(named("0:1 [-1:7]", r#"[["x\"y", "stra\u00dfe"]]"#), ["x\"y,straße", ""]);
    assert_eq!(
        named("0:1 1:0 [0:1]", "[[1, 2], [1.5, 2.25], [false, true]]"),
        ["1,2", "1.5,2.25", "False,True"]
    );
    // A column with 9 codes can't have 3 names.
    assert_eq!(named("8:1:0 -1:2:0", r#"[["a", "b", "c"]]"#), ["", "a,b,c"]);
    // Either column could be the one with names. The other could be ordered, or hold plain integers.
    assert_eq!(named("[0:2] -1:2:0:1", r#"[["a", "b", "c"]]"#), ["", ""]);
    assert_eq!(named("none -1:2:0:1", r#"[["a", "b", "c"]]"#), ["", ""]);
    assert_eq!(named("[0:2] -1:2:0:1", r#"[["a", "b", "c"], ["d", "e", "f"]]"#), ["a,b,c", "d,e,f"]);
    // The file declares which columns are categorical. Those with an order are not among them.
    let abc = r#"[["a", "b", "c"]]"#;
    assert_eq!(declared("[0:2] -1:2:0:1", abc, "[categorical_feature: 1]\n"), ["", "a,b,c"]);
    assert_eq!(declared("[0:2] -1:2:0:1 [0:1]", abc, "[categorical_feature: 0,1]\n"), ["", "", ""]);
    assert_eq!(declared("[0:9] -1:2:0:1 [0:1]", abc, "[categorical_feature: 0]\n"), ["", "", ""]);
    assert_eq!(declared("[0:2] -1:2:0:1", abc, "[categorical_feature: ]\n"), ["", ""]);
    assert_eq!(declared("[0:2] -1:2:0:1", abc, "[categorical_feature: name:f1]\n"), ["", ""]);
    assert_eq!(declared("[0:2] -1:2:0:1", abc, "[categorical_feature: 7]\n"), ["", ""]);
    // No lists at all, and more lists than columns.
    assert_eq!(named("0:1 [0:1]", "null"), ["", ""]);
    assert_eq!(named("0:1", r#"[["a", "b"], ["c", "d"]]"#), [""]);
}

#[test]
fn names_that_are_not_utf8_are_left_out() {
    let text = stumps(&[("0.5".into(), 2)], "num_cat=0\n").replace("feature_names=x", "feature_names=?");
    let bytes: Vec<u8> = text.bytes().map(|b| if b == b'?' { 0xe9 } else { b }).collect();
    let forest = parse(&bytes, &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(forest.features[0].name, None);
}
