//! The predictor's promises: `Send + Sync`, no allocation on the way of a prediction, any strides, any batch.

mod support;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

use fangorn::{
    Predictor,
    cpu::{Program, Rows},
    forest::reference,
    plan::{Request, lower},
    schedule::{Preset, Schedule},
    sum::Contract,
};
use support::{assert_margins, named, reference_margins};

thread_local!(static ALLOCATIONS: Cell<usize> = const { Cell::new(0) });

/// Counts the allocations of each thread.
struct Counting;

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: the caller keeps the rules of `GlobalAlloc`, and the system asks for the same.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the rules of `GlobalAlloc`, and the system asks for the same.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations(run: impl FnOnce()) -> usize {
    let before = ALLOCATIONS.with(Cell::get);
    run();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn is_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Predictor>();
    let s = named("logistic-missing");
    let predictor = Predictor::new(&s.forest).expect("compiled");
    let alone = predictor.predict(&s.rows, s.columns()).expect("rows");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(predictor.predict(&s.rows, s.columns()).expect("rows"), alone));
        }
    });
}

#[test]
fn allocates_nothing_beyond_the_output() {
    for model in ["logistic-missing", "softprob", "softmax", "vector-leaf", "category-partition"] {
        let s = named(model);
        let copies = "tile(tree, t0, t1, trees/3)\nreorder(t0, batch, t1)\nparallel(t0)";
        let mut schedules: Vec<Schedule> = Preset::ALL.iter().map(|p| p.schedule(&s.forest, false)).collect();
        schedules.push(Schedule::parse(copies).expect("a schedule"));
        for (schedule, sum) in schedules.iter().flat_map(|s| Contract::ALL.map(|sum| (s, sum))) {
            let predictor = Predictor::builder(&s.forest)
                .schedule(schedule.clone())
                .threads(1)
                .sum(sum)
                .build()
                .expect("compiled");
            let rows = Rows::new(&s.rows, s.columns()).expect("rows");
            let mut out = vec![0.0; rows.len() * predictor.width()];
            // The first call of a thread may set its scratch up.
            predictor.values_into(&rows, &mut out).expect("predicted");
            let count = allocations(|| predictor.values_into(&rows, &mut out).expect("predicted"));
            assert_eq!(count, 0, "{model}, {sum}, with\n{schedule}");
            let count = allocations(|| drop(predictor.predict(&s.rows, s.columns())));
            assert_eq!(count, 1, "{model}, {sum}, with\n{schedule}");
        }
    }
}

#[test]
fn reads_rows_by_their_strides() {
    let s = named("logistic-missing");
    let (count, columns) = (s.count, s.columns());
    let predictor = Predictor::new(&s.forest).expect("compiled");
    let plain = predictor.margins(&Rows::new(&s.rows, columns).expect("rows")).expect("margins");
    let mut by_column = vec![0.0; s.rows.len()];
    let mut padded = vec![f32::NAN; count * (columns + 3)];
    for r in 0..count {
        for c in 0..columns {
            by_column[c * count + r] = s.row(r)[c];
            padded[r * (columns + 3) + c] = s.row(r)[c];
        }
    }
    let transposed = Rows::strided(&by_column, [count, columns], [1, count]).expect("rows");
    assert_eq!(predictor.margins(&transposed).expect("margins"), plain);
    let wide = Rows::strided(&padded, [count, columns], [columns + 3, 1]).expect("rows");
    assert_eq!(predictor.margins(&wide).expect("margins"), plain);
    // One row, repeated by a stride of zero, in a batch of few rows and in one of many.
    for count in [5, 65] {
        let same = Rows::strided(&s.rows, [count, columns], [0, 1]).expect("rows");
        // Few rows may be summed in another order.
        assert_margins("the same row", &s.forest, &predictor.margins(&same).expect("margins"), |_| {
            reference_margins(&s)(0)
        });
        let slots = reference::leaf_slots(&s.forest, s.row(0)).repeat(count);
        assert_eq!(predictor.leaf_slots(&same).expect("slots"), slots, "{count} rows");
    }
}

#[test]
fn takes_no_row_one_row_and_a_million() {
    let s = named("one-feature");
    let predictor = Predictor::new(&s.forest).expect("compiled");
    assert!(predictor.predict(&[0f32; 0], 1).expect("no rows").is_empty());
    let million: Vec<f32> = (0..1_000_000).map(|r| s.row(r % s.count)[0]).collect();
    let found = predictor.margins(&Rows::new(&million, 1).expect("rows")).expect("margins");
    let expected = reference_margins(&s);
    assert_margins("a million rows", &s.forest, &found, |r| expected(r % s.count));
    let one = predictor.margins(&Rows::new(&million[..1], 1).expect("rows")).expect("margins");
    assert_margins("one row", &s.forest, &one, &expected);
}

#[test]
fn refuses_rows_of_another_width() {
    let s = named("logistic-missing");
    let predictor = Predictor::new(&s.forest).expect("compiled");
    let narrow =
        predictor.predict(&s.rows[..s.columns() - 1], s.columns() - 1).expect_err("a column is missing");
    assert!(narrow.to_string().contains(&s.columns().to_string()), "{narrow}");
    assert!(predictor.predict(&s.rows[1..], s.columns()).is_err(), "no whole number of rows");
    assert!(Rows::strided(&s.rows, [s.count + 1, s.columns()], [s.columns(), 1]).is_err(), "past the end");
    assert!(Rows::strided(&s.rows, [usize::MAX, 2], [usize::MAX, 1]).is_err(), "overflow");
    let rows = Rows::new(&s.rows, s.columns()).expect("rows");
    assert!(predictor.values_into(&rows, &mut [0.0; 3]).is_err(), "no room");
}

#[test]
fn f64_rows_need_nodes_of_their_own() {
    let forest = named("lightgbm-regression").forest;
    // Ranks would be made of them.
    let schedule = Preset::Xgboost.schedule(&forest, false);
    let lowered = lower(&forest, &schedule, Request::cpu()).expect("a plan");
    let rows = vec![0.5f64; forest.features.len()];
    let rows = Rows::new(&rows, forest.features.len()).expect("a row");
    let mut slots = vec![0; forest.trees.len()];
    let program = Program::new(&forest, &lowered, 1).expect("a program");
    // Narrowed thresholds would decide some rows otherwise, so there is no answer rather than that one.
    let error = program.slots(&rows, &mut slots).expect_err("no nodes for them");
    assert!(error.to_string().contains("with_doubles"), "{error}");
    program.with_doubles(&forest, &lowered).slots(&rows, &mut slots).expect("slots");
    assert_eq!(slots, reference::leaf_slots(&forest, &[0.5f64; 64][..forest.features.len()]));
}

/// Leaves at the ends of what an `f32` holds: rounded to nothing, and so large that a partial sum overflows where the whole does not.
/// Both are within the sum's bound, so a model of theirs proves itself as any other.
#[test]
fn leaves_at_the_ends_of_numbers_pass_the_self_check() {
    let forest = |leaves: &[f64]| {
        let mut forest = fangorn::Forest::builder(3, 1);
        for (t, leaf) in leaves.iter().enumerate() {
            let mut tree = forest.tree(0);
            let less = fangorn::forest::CompareType::F32.less(0.5);
            tree.split(t as u32 % 3, less, fangorn::forest::Side::Left, 1, 2);
            tree.leaf(1, &[*leaf]);
            tree.leaf(2, &[-*leaf]);
        }
        forest.build().expect("a forest")
    };
    let tiny: Vec<f64> = (0..40).map(|t| 1e-46 * f64::from(t % 7)).collect();
    for leaves in [&tiny[..], &[1e-46], &[3e38, 3e38, 3e38, -3e38], &[3.4e38]] {
        let forest = forest(leaves);
        for preset in Preset::ALL {
            let schedule = preset.schedule(&forest, false);
            let predictor = Predictor::builder(&forest).schedule(schedule.clone()).threads(1).build();
            let predictor = predictor.unwrap_or_else(|e| panic!("{leaves:?}, {}: {e}", preset.name()));
            assert_eq!(predictor.run_check(&forest, fangorn::check::SelfCheck::Quick, &mut |_, _| {}), None);
        }
    }
}
