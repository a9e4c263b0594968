use super::{Operation, Prologue};
use crate::forest::{CategoryRule, CompareType, Forest, Node, Predicate, Side, Transform, reference};

/// A stump on column 0 of `features`: leaf id 1 on the left, leaf id 2 on the right, missing values on the
/// right.
fn stump(features: usize, compare: CompareType, predicate: Predicate) -> Forest {
    let mut forest = Forest::builder(features, 1).compare(compare).names(["first", "second"]);
    if let Predicate::InSet { .. } = predicate {
        forest.set([1, 2], CategoryRule::NotNegative);
    }
    let mut tree = forest.tree(0);
    tree.split(0, predicate, Side::Right, 1, 2);
    tree.leaf(1, &[-1.0]);
    tree.leaf(2, &[1.0]);
    forest.build().expect("a forest")
}

fn arithmetic(operation: Operation, number: f64, precision: CompareType) -> Prologue {
    Prologue::Arithmetic { operation, numbers: vec![number], precision }
}

fn refusal(forest: &Forest, steps: &[Prologue]) -> String {
    forest.with_prologue(steps, CompareType::F32).expect_err("refused").to_string()
}

const F32: CompareType = CompareType::F32;
const F64: CompareType = CompareType::F64;

#[test]
fn the_threshold_is_the_smallest_input_that_reaches_it() {
    let forest = stump(1, F32, F32.less(0.1));
    let raw = forest.with_prologue(&Prologue::standard_scaler(&[0.3], &[7.0], F32), F32).expect("folded");
    let Node::Split { predicate: Predicate::Less { threshold }, .. } = raw.trees[0].nodes[0] else {
        panic!("{:?}", raw.trees[0].nodes[0]);
    };
    let t = threshold.0 as f32;
    let scaled = |x: f32| (x - 0.3) / 7.0;
    assert!(scaled(t) >= 0.1 && scaled(t.next_down()) < 0.1, "{t:e}");
    assert_eq!((raw.compare, raw.leaf_values), (F32, forest.leaf_values));
}

#[test]
fn a_negative_scale_swaps_children_and_the_missing_side() {
    let forest = stump(1, F32, F32.less(2.0));
    let raw = forest.with_prologue(&[arithmetic(Operation::Multiply, -0.5, F32)], F32).expect("folded");
    assert!(matches!(raw.trees[0].nodes[0], Node::Split { missing: Side::Left, left: 2, right: 1, .. }));
    for (x, leaf) in [(-4.0, 2), ((-4.0f32).next_up(), 1), (f32::NAN, 2), (f32::INFINITY, 1)] {
        assert_eq!(reference::leaf_ids(&raw, &[x]), [leaf], "{x:e}");
    }
}

#[test]
fn columns_are_chosen_and_named() {
    let forest = stump(2, F32, F32.less(0.5));
    let chosen = Prologue::Columns { columns: vec![3, 0], width: 5 };
    // Steps before the choice take a number for each of the five columns, steps after it for each of the two.
    let before = Prologue::Arithmetic {
        operation: Operation::Add,
        numbers: vec![0.0, 0.0, 0.0, 1.0, 0.0],
        precision: F32,
    };
    let raw = forest
        .with_prologue(&[before, chosen.clone(), arithmetic(Operation::Multiply, 2.0, F32)], F32)
        .expect("folded");
    assert!(matches!(raw.trees[0].nodes[0], Node::Split { feature: 3, .. }));
    let names: Vec<Option<&str>> = raw.features.iter().map(|f| f.name.as_deref()).collect();
    assert_eq!(names, [Some("second"), None, None, Some("first"), None]);
    let leaf = |x: f32| reference::leaf_ids(&raw, &[9.0, 9.0, 9.0, x, 9.0]);
    assert_eq!([leaf((-0.75f32).next_up()), leaf(-0.75), leaf((-0.75f32).next_down())], [[2], [2], [1]]);
    // Steps that only choose columns leave the type of comparison as it is.
    let wide = stump(2, F64, F64.less(0.1)).with_prologue(&[chosen], F32).expect("folded");
    assert_eq!((wide.compare, wide.features.len()), (F64, 5));
}

#[test]
fn types_are_those_that_are_asked_for() {
    let forest = stump(1, F32, F32.at_most(0.1f32.into()));
    // Rows of doubles that are rounded first: a double that rounds to the threshold is not above it.
    let raw = forest.with_prologue(&[Prologue::Cast(F32)], F64).expect("folded");
    let leaf = |forest: &Forest, x: f64| reference::leaf_ids(forest, &[x])[0];
    let last = f64::midpoint(0.1f32.into(), 0.1f32.next_up().into());
    assert_eq!(raw.compare, F64);
    for x in [0.1, f64::from(0.1f32), last.next_down(), last, last.next_up(), f64::from(0.1f32.next_up())] {
        assert_eq!(leaf(&raw, x), leaf(&forest, x), "{x:e}");
    }
    assert_ne!(leaf(&raw, last.next_down()), leaf(&raw, last), "a half rounds to the even one, the next");
    // Rows of doubles that are scaled as doubles, and that the forest then rounds.
    let raw = forest.with_prologue(&Prologue::min_max_scaler(&[3.0], &[-0.2], F64), F64).expect("folded");
    for x in [0.1, 0.1f64.next_up(), 0.100_000_000_5, 0.100_000_001] {
        assert_eq!(leaf(&raw, x), leaf(&forest, f64::from((x * 3.0 - 0.2) as f32)), "{x:e}");
    }
    // A forest of doubles on rows of floats.
    let wide = stump(1, F64, F64.at_most(0.1));
    let raw = wide.with_prologue(&[arithmetic(Operation::Divide, 3.0, F64)], F32).expect("folded");
    assert_eq!(raw.compare, F32);
    for x in [0.3f32.next_down(), 0.3, 0.3f32.next_up()] {
        assert_eq!(leaf(&raw, x.into()), leaf(&wide, f64::from(x) / 3.0), "{x:e}");
    }
}

#[test]
fn a_scale_of_zero_makes_a_constant_and_infinities_missing() {
    // Every finite value becomes 0, which is not less. Infinities become NaN, which goes right as well.
    let forest = stump(1, F32, F32.less(0.0));
    let raw = forest.with_prologue(&[arithmetic(Operation::Multiply, 0.0, F32)], F32).expect("folded");
    for x in [0.0, -1.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX] {
        assert_eq!(reference::leaf_ids(&raw, &[x]), [2], "{x:e}");
    }
    // Zero divided by zero is missing, and missing values go to the side of larger values.
    let raw = forest.with_prologue(&[arithmetic(Operation::Divide, 0.0, F32)], F32).expect("folded");
    let leaf = |x: f32| reference::leaf_ids(&raw, &[x])[0];
    assert_eq!([leaf(-1e-45), leaf(-0.0), leaf(0.0), leaf(1e-45), leaf(f32::NAN)], [1, 2, 2, 2, 2]);
}

#[test]
fn an_equality_that_one_raw_value_reaches_stays_an_equality() {
    let forest = stump(1, F32, Predicate::Equal { value: 3.0.into() });
    let raw = forest.with_prologue(&[arithmetic(Operation::Subtract, 0.5, F32)], F32).expect("folded");
    let leaf = |x: f32| reference::leaf_ids(&raw, &[x])[0];
    assert_eq!([leaf(3.5f32.next_down()), leaf(3.5), leaf(3.5f32.next_up()), leaf(f32::NAN)], [2, 1, 2, 2]);
    // No raw value gives the number that the split compares with.
    let forest = stump(1, F32, Predicate::Equal { value: f64::from(f32::MIN_POSITIVE / 4.0).into() });
    let raw = forest.with_prologue(&[arithmetic(Operation::Add, 1.0, F32)], F32).expect("folded");
    assert_eq!(reference::leaf_ids(&raw, &[-1.0f32]), [2]);
}

#[test]
fn a_node_that_no_split_replaces_is_named() {
    let several = stump(1, F32, Predicate::Equal { value: 1.0.into() });
    let said = refusal(
        &several,
        &[arithmetic(Operation::Multiply, 1e-5, F32), arithmetic(Operation::Add, 1.0, F32)],
    );
    assert!(
        said.starts_with("tree 0, node 0, column 0: ") && said.contains("more than one threshold"),
        "{said}"
    );
    // Missing values go right, all others left. Small raw values become 0 and then 0 / 0, which is missing.
    let hole = stump(1, F32, Predicate::Always);
    let said = refusal(
        &hole,
        &[arithmetic(Operation::Multiply, 1e-45, F32), arithmetic(Operation::Divide, 0.0, F32)],
    );
    assert!(said.contains("more than one threshold"), "{said}");
    // If only zero becomes missing, one equality stands for the split.
    let raw = hole.with_prologue(&[arithmetic(Operation::Divide, 0.0, F32)], F32).expect("folded");
    let leaf = |x: f32| reference::leaf_ids(&raw, &[x])[0];
    assert_eq!([leaf(-1e-45), leaf(-0.0), leaf(0.0), leaf(1e-45), leaf(f32::NAN)], [1, 2, 2, 1, 2]);
    let categories = stump(1, F32, Predicate::InSet { set: 0, inside: Side::Left });
    let said = refusal(&categories, &[arithmetic(Operation::Multiply, 2.0, F32)]);
    assert!(
        said.contains("read as a category") && said.ends_with("prepare the rows before the forest instead")
    );
    let neutral = [arithmetic(Operation::Subtract, 0.0, F64), arithmetic(Operation::Divide, 1.0, F64)];
    assert_eq!(categories.with_prologue(&neutral, F32).expect("nothing is computed"), categories);
    let aside = stump(1, F32, Predicate::LessZeroAside { threshold: 1.0.into() });
    assert!(refusal(&aside, &[arithmetic(Operation::Add, 0.25, F32)]).contains("more than one threshold"));
    assert_eq!(aside.with_prologue(&neutral, F32).expect("nothing is computed"), aside);
}

#[test]
fn steps_that_do_not_fit_are_named() {
    let forest = Forest { transform: Transform::Sigmoid, ..stump(2, F32, F32.less(0.5)) };
    let numbers = |numbers: &[f64]| Prologue::Arithmetic {
        operation: Operation::Add,
        numbers: numbers.to_vec(),
        precision: F32,
    };
    let said = refusal(&forest, &[numbers(&[1.0]), numbers(&[1.0; 3])]);
    assert_eq!(said, "step 1: 3 numbers for 2 columns; give it one number, or one a column");
    let said = refusal(&forest, &[numbers(&[0.0, 1e39])]);
    assert_eq!(said, "step 0: number 1, 1e39, is not finite in f32; use finite numbers");
    assert!(refusal(&forest, &[numbers(&[f64::NAN, 0.0])]).contains("NaN, is not finite"));
    let columns = |columns: &[u32], width| Prologue::Columns { columns: columns.to_vec(), width };
    assert!(refusal(&forest, &[columns(&[0], 3)]).contains("gives 1 columns, 2 are asked"));
    assert!(refusal(&forest, &[columns(&[0, 3], 3)]).contains("column 3 of 3"));
}
