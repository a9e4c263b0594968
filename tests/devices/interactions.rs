//! Interactions, and contributions against a background, by the operator on every backend that is built in and answers.

use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor, TensorData};
use fangorn::{
    Error, Forest,
    contributions::{Explainer, Interventional, reference},
    cpu::Rows,
    forest::{Predicate, Side},
    op::{Background, ForestOp},
};

use crate::{
    generate::{
        Seeded,
        explained::{assert_close, assert_close_interactions, forest, rows},
    },
    support::{self, devices, for_each_specimen},
};

fn tensor(rows: &[f32], columns: usize, device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(rows.to_vec(), [rows.len() / columns, columns]), device)
}

fn interactions(what: &str, op: &Arc<ForestOp>, x: Tensor<2>) -> Vec<f32> {
    let (count, side) = (x.dims()[0], op.features() + 1);
    let found = op.interactions(x).expect(what);
    assert_eq!(found.dims(), [count, op.outputs(), side, side], "{what}");
    found.into_data().try_to_vec().expect("f32")
}

fn background(forest: &Forest, typical: &Rows<'_, f32>) -> Arc<Background> {
    Arc::new(Background::new(Interventional::new(forest, typical).expect("an explainer")))
}

fn doubles(row: &[f32]) -> Vec<f64> {
    row.iter().copied().map(f64::from).collect()
}

#[test]
fn every_backend_gives_the_interactions_of_the_reference() {
    for (name, device) in devices() {
        let mut draws = Seeded(37);
        for case in 0..16 {
            // Chains of many features need several passes.
            let (features, splits, count) = [(5, 9, 3), (3, 30, 64), (30, 60, 2), (12, 15, 131)][case % 4];
            let (vector, deep) = (case % 3 == 0, case % 5 == 0 || case % 8 == 2);
            let forest = forest(&mut draws, features, splits, vector, deep);
            let data = rows::<f32>(&mut draws, count, features);
            let op = Arc::new(ForestOp::new(forest).expect("an operator"));
            let what = format!("case {case} on {name}");
            let found = interactions(&what, &op, tensor(&data, features, &device));
            let width = op.outputs() * (features + 1) * (features + 1);
            for (row, found) in data.chunks_exact(features).zip(found.chunks_exact(width)).take(16) {
                let exact = reference::interactions(op.forest(), &doubles(row));
                assert_close_interactions(&what, features + 1, found, &exact);
            }
        }
    }
}

#[test]
fn every_backend_gives_the_references_contributions_against_a_background() {
    for (name, device) in devices() {
        let mut draws = Seeded(41);
        for case in 0..24 {
            // Trees of few splits have pattern tables, deeper ones do not; some forests have both.
            let (features, splits, count) = [(5, 7, 3), (3, 40, 64), (40, 150, 2), (12, 14, 131)][case % 4];
            let (vector, deep) = (case % 3 == 0, case % 5 == 0 || case % 8 == 2);
            let mut forest = forest(&mut draws, features, splits, vector, deep);
            forest.covers = None;
            let others = [1, 7, 32, 33, 70][case % 5];
            let data = rows::<f32>(&mut draws, count, features);
            let typical = rows::<f32>(&mut draws, others, features);
            let what = format!("case {case} on {name}");
            let background = background(&forest, &Rows::new(&typical, features).expect("rows"));
            let found = background.contributions(tensor(&data, features, &device)).expect(&what);
            let outputs = background.outputs();
            assert_eq!(found.dims(), [count, outputs, features + 1], "{what}");
            let found: Vec<f32> = found.into_data().try_to_vec().expect("f32");
            let typical = doubles(&typical);
            let typical: Vec<&[f64]> = typical.chunks_exact(features).collect();
            for (row, found) in
                data.chunks_exact(features).zip(found.chunks_exact(outputs * (features + 1))).take(16)
            {
                assert_close(&what, found, &reference::interventional(&forest, &doubles(row), &typical));
            }
        }
    }
}

#[test]
fn every_backend_gives_the_definitions_interactions_against_a_background() {
    for (name, device) in devices() {
        let mut draws = Seeded(61);
        for case in 0..16 {
            let (features, splits, count) = [(5, 7, 3), (3, 40, 64), (7, 20, 2), (6, 14, 131)][case % 4];
            let (vector, deep) = (case % 3 == 0, case % 5 == 0 || case % 8 == 2);
            let mut forest = forest(&mut draws, features, splits, vector, deep);
            forest.covers = None;
            let others = [1, 7, 33, 70][case % 4];
            let data = rows::<f32>(&mut draws, count, features);
            let typical = rows::<f32>(&mut draws, others, features);
            let what = format!("case {case} on {name}");
            let background = background(&forest, &Rows::new(&typical, features).expect("rows"));
            let found = background.interactions(tensor(&data, features, &device)).expect(&what);
            let (outputs, side) = (background.outputs(), features + 1);
            assert_eq!(found.dims(), [count, outputs, side, side], "{what}");
            let found: Vec<f32> = found.into_data().try_to_vec().expect("f32");
            let typical: Vec<&[f32]> = typical.chunks_exact(features).collect();
            for (row, found) in
                data.chunks_exact(features).zip(found.chunks_exact(outputs * side * side)).take(4)
            {
                let exact = reference::interventional_interactions_by_subsets(&forest, row, &typical);
                assert_close_interactions(&what, side, found, &exact);
            }
        }
    }
}

#[test]
fn trained_models_have_the_cpus_interactions_and_backgrounds_on_every_backend() {
    let explained = std::cell::Cell::new([0, 0, 0]);
    for (name, device) in devices() {
        for_each_specimen(|s| {
            // Enough rows for the values of each model, few enough for a device in software.
            let columns = s.columns();
            let data = &s.rows[..s.count.min(8) * columns];
            let typical = &s.rows[s.rows.len() - s.count.min(5) * columns..];
            let (of_rows, typical) =
                (Rows::new(data, columns).expect("rows"), Rows::new(typical, columns).expect("rows"));
            let what = format!("{} on {name}", s.name);
            let op = Arc::new(ForestOp::new(s.forest.clone()).expect(&what));
            let mut done = explained.get();
            // A large model takes long on a device in software.
            if s.forest.leaf_count() > 20_000 {
                return;
            }
            if let Ok(explainer) = Explainer::new(&s.forest)
                && columns <= 100
            {
                let expected = explainer.interactions(&of_rows).expect("interactions");
                let found = interactions(&what, &op, tensor(data, columns, &device));
                let of_row = explainer.interactions_width().expect("a number");
                for (found, expected) in found.chunks_exact(of_row).zip(expected.chunks_exact(of_row)) {
                    assert_close_interactions(&what, columns + 1, found, &doubles(expected));
                }
                done[0] += 1;
            }
            if let Ok(explainer) = Interventional::new(&s.forest, &typical) {
                let expected = explainer.contributions(&of_rows).expect("contributions");
                let pairs = (columns <= 100).then(|| explainer.interactions(&of_rows));
                let of_row = explainer.width();
                let background = Arc::new(Background::new(explainer));
                let x = || tensor(data, columns, &device);
                let found = background.contributions(x()).expect(&what);
                let found: Vec<f32> = found.into_data().try_to_vec().expect("f32");
                for (found, expected) in found.chunks_exact(of_row).zip(expected.chunks_exact(of_row)) {
                    assert_close(&what, found, &doubles(expected));
                }
                done[1] += 1;
                if let Some(Ok(expected)) = pairs {
                    let found = background.interactions(x()).expect(&what);
                    let found: Vec<f32> = found.into_data().try_to_vec().expect("f32");
                    let of_row = of_row * (columns + 1);
                    for (found, expected) in found.chunks_exact(of_row).zip(expected.chunks_exact(of_row)) {
                        assert_close_interactions(&what, columns + 1, found, &doubles(expected));
                    }
                    done[2] += 1;
                }
            }
            explained.set(done);
        });
    }
    assert!(explained.get().iter().all(|models| *models > 20), "{:?} models", explained.get());
}

#[test]
fn both_stand_between_tensor_operations() {
    let s = support::named("churn");
    let columns = s.columns();
    let typical = Rows::new(&s.rows[..4 * columns], columns).expect("rows");
    for (name, device) in devices() {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let background = background(&s.forest, &typical);
        let x = || tensor(&s.rows, columns, &device);
        let plain = interactions(name, &op, x());
        // Fusion records the operations around this one.
        let doubled = op.interactions(x() * 1.0).expect(name) * 2.0 + 1.0;
        let doubled: Vec<f32> = doubled.into_data().try_to_vec().expect("f32");
        assert_eq!(doubled, plain.iter().map(|c| c * 2.0 + 1.0).collect::<Vec<_>>(), "{name}");
        let tracked = tensor(&s.rows, columns, &device.clone().autodiff()).require_grad();
        assert_eq!(interactions(name, &op, tracked.clone()), plain, "autodiff on {name}");
        // They add up to contributions, and those against a background to the margins.
        let of_features = op.interactions(x()).expect(name).sum_dim(3).squeeze_dim::<3>(3);
        let off = (of_features - op.contributions(x()).expect(name)).abs().max().into_scalar::<f32>();
        assert!(off < 1e-5, "{name}: {off}");
        let against = |x: Tensor<2>| background.contributions(x).expect(name);
        let sums = (against(x() * 1.0) * 2.0).sum_dim(2).reshape([s.count, op.outputs()]) / 2.0;
        let off = (sums - op.margins(x()).expect(name)).abs().max().into_scalar::<f32>();
        assert!(off < 1e-5, "{name}: {off}");
        let of_features = background.interactions(x() * 1.0).expect(name).sum_dim(3).squeeze_dim::<3>(3);
        let off = (of_features - against(x())).abs().max().into_scalar::<f32>();
        assert!(off < 1e-5, "{name}: {off}");
        let of_tracked: Vec<f32> = against(tracked).into_data().try_to_vec().expect("f32");
        assert_eq!(of_tracked, against(x()).into_data().try_to_vec::<f32>().expect("f32"), "{name}");
        let none = || x().slice([0..0, 0..columns]);
        assert_eq!(op.interactions(none()).expect(name).dims(), [0, 1, columns + 1, columns + 1]);
        assert_eq!(against(none()).dims(), [0, 1, columns + 1]);
    }
    let op = Arc::new(ForestOp::new(s.forest.clone()).expect("an operator"));
    let background = background(&s.forest, &typical);
    let device = Device::capture();
    let graph = device
        .capture_scope(|scope| {
            let x = tensor(&s.rows, columns, &device);
            let found = op.interactions(x.clone()).expect("recorded");
            assert_eq!(found.dims(), [s.count, 1, columns + 1, columns + 1]);
            let found = background.contributions(x.clone()).expect("recorded");
            assert_eq!(found.dims(), [s.count, 1, columns + 1]);
            let found = background.interactions(x).expect("recorded");
            assert_eq!(found.dims(), [s.count, 1, columns + 1, columns + 1]);
            scope.complete([], [])
        })
        .expect("captured");
    let recorded = format!("{:?}", graph.graph.operations);
    assert!(recorded.contains("forest_interactions") && recorded.contains("forest_contributions_against"));
    assert!(recorded.contains("forest_interactions_against"));
}

#[test]
fn rows_are_read_in_their_strides_and_types() {
    let s = support::named("churn");
    let (columns, side) = (s.columns(), s.columns() + 1);
    let typical = Rows::new(&s.rows[..4 * columns], columns).expect("rows");
    for (name, device) in devices() {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let background = background(&s.forest, &typical);
        let against = |x: Tensor<2>| -> Vec<f32> {
            background.contributions(x).expect(name).into_data().try_to_vec().expect("f32")
        };
        let x = || tensor(&s.rows, columns, &device);
        let plain = (interactions(name, &op, x()), against(x()));
        let by_columns: Vec<f32> =
            (0..columns).flat_map(|c| (0..s.count).map(move |r| (r, c))).map(|(r, c)| s.row(r)[c]).collect();
        let transposed = || tensor(&by_columns, s.count, &device).transpose();
        assert_eq!(
            (interactions(name, &op, transposed()), against(transposed())),
            plain,
            "transposed on {name}"
        );
        let tail = || x().slice([3..s.count, 0..columns]);
        let of_tail = (plain.0[3 * side * side..].to_vec(), plain.1[3 * side..].to_vec());
        assert_eq!((interactions(name, &op, tail()), against(tail())), of_tail, "sliced on {name}");
        if name == "ndarray" {
            continue;
        }
        for dtype in [DType::F16, DType::BF16] {
            let narrow = TensorData::new(s.rows.clone(), [s.count, columns]).convert_dtype(dtype);
            let widened: Vec<f32> = narrow.clone().convert::<f32>().try_to_vec().expect("f32");
            let wide = || tensor(&widened, columns, &device);
            let x = || Tensor::<2>::from_data(narrow.clone(), (&device, dtype));
            let expected = (interactions(name, &op, wide()), against(wide()));
            assert_eq!((interactions(name, &op, x()), against(x())), expected, "{dtype:?} on {name}");
        }
    }
}

/// With so many rows a unit adds up several trees, and several blocks of background rows.
#[test]
fn units_take_several_trees_and_blocks_of_background_rows() {
    let mut draws = Seeded(47);
    let (features, count, others) = (6, 20_000, 150);
    let draw = |draws: &mut Seeded| loop {
        let forest = forest(draws, features, 40, false, true);
        // Some trees have pattern tables, and some have not.
        let all = forest.trees.len();
        let typical = rows::<f32>(draws, others, features);
        let explainer =
            Interventional::new(&forest, &Rows::new(&typical, features).expect("rows")).expect("it");
        if all >= 12 && explainer.algorithm().contains(&format!("of {all} trees")) {
            return (forest, explainer);
        }
    };
    let (forest, explainer) = draw(&mut draws);
    let data = rows::<f32>(&mut draws, count, features);
    let some = |all: &[f32], width: usize| -> Vec<f32> {
        (0..count).step_by(997).flat_map(|row| all[row * width..][..width].to_vec()).collect()
    };
    let few = some(&data, features);
    let few = Rows::new(&few, features).expect("rows");
    let by_paths = Explainer::new(&forest).expect("an explainer");
    let expected = [
        by_paths.contributions(&few).expect("contributions"),
        by_paths.interactions(&few).expect("interactions"),
        explainer.contributions(&few).expect("contributions"),
        explainer.interactions(&few).expect("interactions"),
    ];
    let width = forest.outputs as usize * (features + 1);
    let widths = [width, width * (features + 1), width, width * (features + 1)];
    let background = Arc::new(Background::new(explainer));
    let op = Arc::new(ForestOp::new(forest).expect("an operator"));
    for (name, device) in devices() {
        let x = || tensor(&data, features, &device);
        let vec = |data: TensorData| -> Vec<f32> { data.try_to_vec().expect("f32") };
        let found = [
            vec(op.contributions(x()).expect(name).into_data()),
            vec(op.interactions(x()).expect(name).into_data()),
            vec(background.contributions(x()).expect(name).into_data()),
            vec(background.interactions(x()).expect(name).into_data()),
        ];
        for (kind, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let found = some(found, widths[kind]);
            for (found, expected) in found.chunks_exact(widths[kind]).zip(expected.chunks_exact(widths[kind]))
            {
                let what = format!("kind {kind} on {name}");
                match kind {
                    1 | 3 => assert_close_interactions(&what, features + 1, found, &doubles(expected)),
                    _ => assert_close(&what, found, &doubles(expected)),
                }
            }
        }
    }
}

#[test]
fn a_forest_without_trees_has_only_biases() {
    let forest = Forest::builder(2, 3).base_score([1.5, 0.0, -2.0]).build().expect("a forest");
    let typical = [0.5f32, 1.0];
    let background = background(&forest, &Rows::new(&typical, 2).expect("a row"));
    let op = Arc::new(ForestOp::new(forest).expect("an operator"));
    for (name, device) in devices() {
        let x = || tensor(&[3.5, 1.0, 7.0, 2.0], 2, &device);
        let expected: Vec<f32> = [[0.0, 0.0, 1.5], [0.0; 3], [0.0, 0.0, -2.0]].concat().repeat(2);
        let found = background.contributions(x()).expect(name).into_data();
        assert_eq!(found.try_to_vec::<f32>().expect("f32"), expected, "{name}");
        let found = interactions(name, &op, x());
        let biases: Vec<f32> = found.iter().skip(8).step_by(9).copied().collect();
        assert_eq!(biases, [1.5, 0.0, -2.0, 1.5, 0.0, -2.0], "{name}");
        assert_eq!(found.iter().filter(|value| **value != 0.0).count(), 4, "{name}");
        let of_background = background.interactions(x()).expect(name).into_data();
        assert_eq!(of_background.try_to_vec::<f32>().expect("f32"), found, "{name}");
    }
}

/// A chain of 700 splits is deeper than a unit's stacks on a cubecl device.
#[test]
fn what_a_device_cannot_explain_is_refused_by_name() {
    let mut builder = Forest::builder(1, 1).base_score([0.0]);
    let mut tree = builder.tree(0);
    for n in 0..700u32 {
        let threshold = (n as f32).into();
        tree.split(0, Predicate::Less { threshold }, Side::Left, 701 + n, if n < 699 { n + 1 } else { 700 });
    }
    for leaf in 0..=700u32 {
        tree.leaf(leaf, &[f64::from(leaf)]);
    }
    let covers = (0..700u32).map(|n| f64::from(701 - n)).chain(std::iter::repeat_n(1.0, 701));
    tree.covers(covers);
    let deep = builder.build().expect("a forest");
    let s = support::named("churn");
    let mut bare = s.forest.clone();
    bare.covers = None;
    for (name, device) in devices() {
        let typical = [600.5f32];
        let deep_background = background(&deep, &Rows::new(&typical, 1).expect("a row"));
        let on_cube = !matches!(name, "flex" | "ndarray");
        let deep_op = Arc::new(ForestOp::new(deep.clone()).expect(name));
        match deep_op.interactions(tensor(&[3.5], 1, &device)) {
            Ok(_) => assert!(!on_cube, "{name}"),
            Err(refused) => assert!(refused.to_string().contains("700 splits"), "{name}: {refused}"),
        }
        match deep_background.interactions(tensor(&[3.5], 1, &device)) {
            Ok(_) => assert!(!on_cube, "{name}"),
            Err(refused) => assert!(refused.to_string().contains("700 splits"), "{name}: {refused}"),
        }
        match deep_background.contributions(tensor(&[3.5], 1, &device)) {
            Ok(found) => {
                assert!(!on_cube, "{name}");
                let exact = reference::interventional(&deep, &[3.5f64], &[&[600.5f64]]);
                assert_close(name, &found.into_data().try_to_vec::<f32>().expect("f32"), &exact);
            }
            Err(Error::Contributions(why)) => {
                assert!(why.contains("700 splits") && why.contains("678") && why.contains("CPU"), "{why}");
            }
            Err(other) => panic!("{name}: {other}"),
        }
        let op = Arc::new(ForestOp::new(bare.clone()).expect(name));
        let refused = op.interactions(tensor(&s.rows, s.columns(), &device));
        assert!(matches!(refused, Err(Error::Contributions(why)) if why.contains("covers")), "{name}");
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let narrow = op.interactions(Tensor::zeros([2, 1], &device));
        assert!(matches!(narrow, Err(Error::Columns { found: 1, .. })), "{name}");
        let typical = Rows::new(&s.rows, s.columns()).expect("rows");
        let narrow = background(&s.forest, &typical).contributions(Tensor::zeros([2, 1], &device));
        assert!(matches!(narrow, Err(Error::Columns { found: 1, .. })), "{name}");
    }
}

#[test]
#[cfg(feature = "cube")]
fn rows_go_in_pieces() {
    use burn::backend::DispatchDevice;
    use fangorn::{
        cube::{self, Buffer},
        plan::RowType,
    };

    let mut draws = Seeded(43);
    // Some trees have tables, some do not.
    let forest = forest(&mut draws, 6, 30, false, false);
    let data = rows::<f32>(&mut draws, 401, 6);
    let typical = rows::<f32>(&mut draws, 9, 6);
    let against = Interventional::new(&forest, &Rows::new(&typical, 6).expect("rows")).expect("an explainer");
    for (name, device) in devices() {
        let DispatchDevice::Cube(cube) = device.as_dispatch() else { continue };
        let client = cube.client();
        let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let rows = cube::Rows {
            words: Buffer { handle: client.create_from_slice(&bytes), len: data.len() },
            batch: 401,
            row_stride: 6,
            column_stride: 1,
            offset: 0,
        };
        let read = |len: usize, run: &dyn Fn(&Buffer)| {
            let out = Buffer { handle: client.empty(len * 4), len };
            run(&out);
            client.read_one(out.handle).expect(name)
        };
        let of = |explainer: &cube::Explainer| {
            read(401 * explainer.width(), &|out| explainer.run(&rows, RowType::F32, out))
        };
        let explainers = [
            ("interactions", cube::Explainer::of_interactions(&client, &forest)),
            ("contributions against a background", cube::Explainer::against(&client, &against)),
            (
                "interactions against a background",
                cube::Explainer::of_interactions_against(&client, &against),
            ),
        ];
        for (what, whole) in explainers {
            let whole = whole.expect(what);
            let pieces = whole.clone().with_most_rows(130);
            assert!(of(&whole) == of(&pieces), "{what} in pieces on {name}");
        }
    }
}
