//! Every model of the zoo, on the reference interpreter and on the CPU with every preset: leaf ids equal to the last
//! one, margins and values within the sum's contract.

use crate::support;

use fangorn::{Predictor, cpu::Rows, forest::reference, schedule::Preset};
use support::{Output, Specimen, assert_margins, assert_values, for_each_specimen, reference_margins};

#[test]
fn reference_says_what_the_producer_says() {
    for_each_specimen(|s| {
        for r in 0..s.count {
            let ids: Vec<i32> =
                reference::leaf_ids(&s.forest, s.row(r)).into_iter().map(|i| i as i32).collect();
            let trees = s.forest.trees.len();
            if !s.leaves.is_empty() {
                assert_eq!(ids, &s.leaves[r * trees..][..trees], "{}: row {r}", s.name);
            }
        }
        assert_margins(&s.name, &s.forest, &s.margin, reference_margins(s));
        match &s.output {
            Output::Values(values) => assert_values(&s.name, &s.forest, values, reference_margins(s)),
            Output::Classes(classes) => {
                let found: Vec<i32> = (0..s.count).map(|r| class(s, r)).collect();
                assert_eq!(&found, classes, "{}: classes", s.name);
            }
        }
    });
}

/// The producer's label of a row's class.
fn class(s: &Specimen, r: usize) -> i32 {
    let number =
        reference::classes_of_slots(&s.forest, &reference::leaf_slots(&s.forest, s.row(r)))[0] as usize;
    match s.forest.classes.labels.get(number) {
        Some(label) => label.parse().expect("labels of the zoo are numbers"),
        None => number as i32,
    }
}

#[test]
fn every_preset_gives_the_same() {
    for_each_specimen(|s| {
        let rows = Rows::strided(&s.rows, [s.count, s.columns()], [s.columns(), 1]).expect("rows");
        for preset in Preset::ALL {
            let what = format!("{} with {}", s.name, preset.name());
            let schedule = preset.schedule(&s.forest, false);
            let predictor = Predictor::builder(&s.forest)
                .schedule(schedule.clone())
                .build()
                .unwrap_or_else(|e| panic!("{what}: {e}"));
            let leaves: Vec<i32> =
                predictor.leaf_ids(&rows).expect(&what).into_iter().map(|i| i as i32).collect();
            let expected: Vec<i32> = match s.leaves.is_empty() {
                true => (0..s.count)
                    .flat_map(|r| reference::leaf_ids(&s.forest, s.row(r)))
                    .map(|i| i as i32)
                    .collect(),
                false => s.leaves.clone(),
            };
            assert_eq!(leaves, expected, "{what}");
            assert_margins(&what, &s.forest, &predictor.margins(&rows).expect(&what), reference_margins(s));
            let mut values = vec![0.0; s.count * predictor.width()];
            predictor.values_into(&rows, &mut values).expect(&what);
            assert_values(&what, &s.forest, &values, reference_margins(s));
        }
    });
}

#[test]
fn f64_rows_decide_as_their_producer_does() {
    for_each_specimen(|s| {
        let Some(wide) = &s.wide else { return };
        let columns = s.columns();
        let rows = Rows::strided(&wide.rows, [wide.count, columns], [columns, 1]).expect("rows");
        let row = |r: usize| &wide.rows[r * columns..][..columns];
        let ids: Vec<i32> =
            (0..wide.count).flat_map(|r| reference::leaf_ids(&s.forest, row(r))).map(|i| i as i32).collect();
        if !wide.leaves.is_empty() {
            assert_eq!(ids, wide.leaves, "{} on the reference", s.name);
        }
        assert_margins(&s.name, &s.forest, &wide.margin, |r| reference::margins(&s.forest, row(r)));
        for preset in Preset::ALL {
            let what = format!("{} with {}", s.name, preset.name());
            let predictor = Predictor::builder(&s.forest)
                .schedule(preset.schedule(&s.forest, false))
                .build()
                .expect(&what);
            let leaves: Vec<i32> =
                predictor.leaf_ids(&rows).expect(&what).into_iter().map(|i| i as i32).collect();
            assert_eq!(leaves, ids, "{what}");
            let margins = predictor.margins(&rows).expect(&what);
            assert_margins(&what, &s.forest, &margins, |r| reference::margins(&s.forest, row(r)));
        }
    });
}
