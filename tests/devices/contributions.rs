//! Contributions by the operator, on every backend that is built in and answers.

use crate::{
    generate::{
        Seeded,
        explained::{assert_close, forest, rows},
    },
    support::{self, devices, for_each_specimen},
};

use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor, TensorData};
use fangorn::{
    Error, Forest,
    contributions::{Explainer, reference},
    cpu::Rows,
    forest::{Predicate, Side},
    op::ForestOp,
};

fn tensor(rows: &[f32], columns: usize, device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(rows.to_vec(), [rows.len() / columns, columns]), device)
}

fn contributions(what: &str, op: &Arc<ForestOp>, x: Tensor<2>) -> Vec<f32> {
    let count = x.dims()[0];
    let found = op.contributions(x).expect(what);
    assert_eq!(found.dims(), [count, op.outputs(), op.features() + 1], "{what}");
    found.into_data().try_to_vec().expect("f32")
}

#[test]
fn every_backend_gives_what_tree_shap_gives() {
    for (name, device) in devices() {
        let mut draws = Seeded(29);
        for case in 0..24 {
            // Chains of many features need several passes.
            let (features, splits, count) = [(5, 9, 3), (3, 40, 64), (40, 150, 2), (60, 20, 131)][case % 4];
            let (vector, deep) = (case % 3 == 0, case % 5 == 0 || case % 8 == 2);
            let forest = forest(&mut draws, features, splits, vector, deep);
            let data = rows::<f32>(&mut draws, count, features);
            let op = Arc::new(ForestOp::new(forest).expect("an operator"));
            let what = format!("case {case} on {name}");
            let found = contributions(&what, &op, tensor(&data, features, &device));
            let width = op.outputs() * (features + 1);
            for (row, found) in data.chunks_exact(features).zip(found.chunks_exact(width)) {
                let row: Vec<f64> = row.iter().copied().map(f64::from).collect();
                assert_close(&what, found, &reference::tree_shap(op.forest(), &row));
            }
        }
    }
}

#[test]
fn trained_models_have_the_cpus_contributions_on_every_backend() {
    let explained = std::cell::Cell::new(0);
    for (name, device) in devices() {
        for_each_specimen(|s| {
            let Ok(explainer) = Explainer::new(&s.forest) else { return };
            // Enough rows for the values of each model, few enough for a device in software.
            let data = &s.rows[..s.count.min(24) * s.columns()];
            let of_rows = Rows::new(data, s.columns()).expect("rows");
            let expected = explainer.contributions(&of_rows).expect("contributions");
            let what = format!("{} on {name}", s.name);
            let op = Arc::new(ForestOp::new(s.forest.clone()).expect(&what));
            let found = contributions(&what, &op, tensor(data, s.columns(), &device));
            let of_row = explainer.width();
            for (found, expected) in found.chunks_exact(of_row).zip(expected.chunks_exact(of_row)) {
                let expected: Vec<f64> = expected.iter().copied().map(f64::from).collect();
                assert_close(&what, found, &expected);
            }
            explained.set(explained.get() + 1);
        });
    }
    assert!(explained.get() > 20, "{} models with covers", explained.get());
}

#[test]
fn rows_are_read_in_their_strides_and_types() {
    let s = support::named("churn");
    for (name, device) in devices() {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let plain = contributions(name, &op, tensor(&s.rows, s.columns(), &device));
        let columns: Vec<f32> = (0..s.columns())
            .flat_map(|c| (0..s.count).map(move |r| (r, c)))
            .map(|(r, c)| s.row(r)[c])
            .collect();
        let transposed = tensor(&columns, s.count, &device).transpose();
        assert_eq!(contributions(name, &op, transposed), plain, "transposed on {name}");
        let tail = tensor(&s.rows, s.columns(), &device).slice([3..s.count, 0..s.columns()]);
        assert_eq!(contributions(name, &op, tail), plain[3 * (s.columns() + 1)..], "sliced on {name}");
        let none = tensor(&s.rows, s.columns(), &device).slice([0..0, 0..s.columns()]);
        assert!(contributions(name, &op, none).is_empty(), "no rows on {name}");
        if name == "ndarray" {
            continue;
        }
        for dtype in [DType::F16, DType::BF16] {
            let narrow = TensorData::new(s.rows.clone(), [s.count, s.columns()]).convert_dtype(dtype);
            let widened: Vec<f32> = narrow.clone().convert::<f32>().try_to_vec().expect("f32");
            let expected = contributions(name, &op, tensor(&widened, s.columns(), &device));
            let x = Tensor::<2>::from_data(narrow, (&device, dtype));
            assert_eq!(contributions(name, &op, x), expected, "{dtype:?} on {name}");
        }
    }
}

#[test]
fn contributions_stand_between_tensor_operations() {
    let s = support::named("churn");
    for (name, device) in devices() {
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let plain = contributions(name, &op, tensor(&s.rows, s.columns(), &device));
        // Fusion records the operations around this one.
        let x = tensor(&s.rows, s.columns(), &device) * 1.0;
        let doubled = op.contributions(x).expect(name) * 2.0 + 1.0;
        let doubled: Vec<f32> = doubled.into_data().try_to_vec().expect("f32");
        assert_eq!(doubled, plain.iter().map(|c| c * 2.0 + 1.0).collect::<Vec<_>>(), "{name}");
        let tracked = tensor(&s.rows, s.columns(), &device.clone().autodiff()).require_grad();
        assert_eq!(contributions(name, &op, tracked), plain, "autodiff on {name}");
        // They add up to the margins.
        let x = tensor(&s.rows, s.columns(), &device);
        let sums = op.contributions(x.clone()).expect(name).sum_dim(2).reshape([s.count, op.outputs()]);
        let off = (sums - op.margins(x).expect(name)).abs().max().into_scalar::<f32>();
        assert!(off < 1e-5, "{name}: {off}");
    }
    let op = Arc::new(ForestOp::new(s.forest.clone()).expect("an operator"));
    let device = Device::capture();
    let graph = device
        .capture_scope(|scope| {
            let found = op.contributions(tensor(&s.rows, s.columns(), &device)).expect("recorded");
            assert_eq!(found.dims(), [s.count, 1, s.columns() + 1]);
            scope.complete([], [])
        })
        .expect("captured");
    assert!(format!("{:?}", graph.graph.operations).contains("forest_contributions"));
}

#[test]
fn what_cannot_be_explained_is_refused_by_name() {
    // A chain of 700 splits: deeper than a unit's stacks on a cubecl device.
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
        let op = Arc::new(ForestOp::new(deep.clone()).expect(name));
        match op.contributions(tensor(&[3.5], 1, &device)) {
            Ok(found) => {
                let exact = reference::tree_shap(op.forest(), &[3.5]);
                assert_close(name, &found.into_data().try_to_vec::<f32>().expect("f32"), &exact);
            }
            Err(Error::Contributions(why)) => {
                assert!(why.contains("700 splits") && why.contains("678") && why.contains("CPU"), "{why}");
            }
            Err(other) => panic!("{name}: {other}"),
        }
        let op = Arc::new(ForestOp::new(bare.clone()).expect(name));
        let refused = op.contributions(tensor(&s.rows, s.columns(), &device));
        assert!(matches!(refused, Err(Error::Contributions(why)) if why.contains("covers")), "{name}");
        let op = Arc::new(ForestOp::new(s.forest.clone()).expect(name));
        let narrow = op.contributions(Tensor::zeros([2, 1], &device));
        assert!(matches!(narrow, Err(Error::Columns { found: 1, .. })), "{name}");
    }
}

#[test]
#[cfg(feature = "cube")]
fn rows_go_in_pieces() {
    use burn::backend::DispatchDevice;
    use fangorn::cube::{self, Buffer};

    let mut draws = Seeded(31);
    let forest = forest(&mut draws, 6, 30, false, false);
    let data = rows::<f32>(&mut draws, 401, 6);
    for (name, device) in devices() {
        let DispatchDevice::Cube(cube) = device.as_dispatch() else { continue };
        let client = cube.client();
        let whole = cube::Explainer::new(&client, &forest).expect(name);
        let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let rows = cube::Rows {
            words: Buffer { handle: client.create_from_slice(&bytes), len: data.len() },
            batch: 401,
            row_stride: 6,
            column_stride: 1,
            offset: 0,
        };
        let run = |explainer: &cube::Explainer| {
            let len = 401 * explainer.width();
            let out = Buffer { handle: client.empty(len * 4), len };
            explainer.run(&rows, fangorn::plan::RowType::F32, &out);
            client.read_one(out.handle).expect(name)
        };
        let expected = run(&whole);
        assert!(run(&whole.clone().with_most_rows(130)) == expected, "pieces on {name}");
    }
}
