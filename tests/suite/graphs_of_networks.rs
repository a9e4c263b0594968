//! Operators of networks, against their definitions in plain loops, on windows of every kind.

use fangorn::{
    Forest,
    forest::{CompareType, Side, reference},
    graph::{Elements, Graph, Operator, Pool, Pooling, Tensor, Unary, Window},
};

use crate::generate::Seeded;

fn values(random: &mut Seeded, count: usize) -> Vec<f32> {
    (0..count).map(|_| random.below(2000) as f32 / 500.0 - 2.0).collect()
}

fn floats(shape: &[usize], values: Vec<f32>) -> Tensor {
    Tensor::new(shape, Elements::F32(values)).expect("as many as the shape has")
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.elements().doubles().expect("numbers")
}

/// A random window, and lengths of images and windows that it fits.
fn drawn(random: &mut Seeded) -> (Window, [usize; 2], [usize; 2]) {
    let pair = |random: &mut Seeded, most: usize| [1 + random.below(most), 1 + random.below(most)];
    let size = pair(random, 4);
    let window = Window {
        strides: pair(random, 3),
        padding: std::array::from_fn(|_| random.below(size[0].min(size[1]))),
        dilations: pair(random, 2),
    };
    let covered = |axis: usize| (size[axis] - 1) * window.dilations[axis] + 1;
    let image = [covered(0) + random.below(7), covered(1) + random.below(7)];
    (window, image, size)
}

/// The pixel of the image under pixel `at` of the window that gives pixel `to` of the result, down and across.
fn pixel(window: &Window, image: [usize; 2], to: [usize; 2], at: [usize; 2]) -> Option<[usize; 2]> {
    let one = |axis: usize| {
        let padded = to[axis] * window.strides[axis] + at[axis] * window.dilations[axis];
        padded.checked_sub(window.padding[axis]).filter(|pixel| *pixel < image[axis])
    };
    Some([one(0)?, one(1)?])
}

fn pairs([down, across]: [usize; 2]) -> impl Iterator<Item = [usize; 2]> + Clone {
    (0..down).flat_map(move |y| (0..across).map(move |x| [y, x]))
}

#[test]
fn convolutions_are_sums_over_windows() {
    let mut with_bias = 0;
    for seed in 0..300 {
        let mut random = Seeded(seed);
        let (window, image, size) = drawn(&mut random);
        let groups = 1 + random.below(3);
        let (seen, of_group, rows) = (1 + random.below(3), 1 + random.below(9), random.below(4));
        let (channels, filters) = (seen * groups, of_group * groups);
        let x = values(&mut random, rows * channels * image[0] * image[1]);
        let weights = values(&mut random, filters * seen * size[0] * size[1]);
        let bias = values(&mut random, filters);
        let mut operands = vec![
            floats(&[rows, channels, image[0], image[1]], x.clone()),
            floats(&[filters, seen, size[0], size[1]], weights.clone()),
        ];
        if random.below(2) == 0 {
            operands.push(floats(&[filters], bias.clone()));
            with_bias += 1;
        }
        let operator = Operator::Convolve { window, groups };
        let found = operator.evaluate(&operands.iter().collect::<Vec<_>>()).expect("images");
        let [_, _, down, across] = *found[0].shape() else { panic!("images") };
        let mut expected = Vec::new();
        for (row, filter) in (0..rows).flat_map(|row| (0..filters).map(move |filter| (row, filter))) {
            for to in pairs([down, across]) {
                let mut sum = if operands.len() > 2 { f64::from(bias[filter]) } else { 0.0 };
                for channel in 0..seen {
                    for at in pairs(size) {
                        let Some([y, x_at]) = pixel(&window, image, to, at) else { continue };
                        let of_image = row * channels + filter / of_group * seen + channel;
                        let weight = ((filter * seen + channel) * size[0] + at[0]) * size[1] + at[1];
                        let pixel = x[(of_image * image[0] + y) * image[1] + x_at];
                        sum += f64::from(pixel) * f64::from(weights[weight]);
                    }
                }
                expected.push(sum);
            }
        }
        let found = numbers(&found[0]);
        assert_eq!(found.len(), expected.len(), "{seed}");
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
        assert!(found.iter().zip(&expected).all(near), "{seed}: {window:?}, {groups} groups");
    }
    assert!((100..200).contains(&with_bias));
}

#[test]
fn pools_take_the_greatest_pixel_or_the_mean() {
    for seed in 0..300 {
        let mut random = Seeded(seed);
        let (window, image, size) = drawn(&mut random);
        let (rows, channels) = (random.below(3), 1 + random.below(3));
        let x = values(&mut random, rows * channels * image[0] * image[1]);
        let how = Pooling::ALL[random.below(3)];
        let images = floats(&[rows, channels, image[0], image[1]], x.clone());
        let found = Operator::Pool(Pool { size, window, how }).evaluate(&[&images]).expect("images");
        let [_, _, down, across] = *found[0].shape() else { panic!("images") };
        let mut expected = Vec::new();
        for of_image in 0..rows * channels {
            for to in pairs([down, across]) {
                let inside: Vec<f64> = pairs(size)
                    .filter_map(|at| pixel(&window, image, to, at))
                    .map(|[y, at]| f64::from(x[(of_image * image[0] + y) * image[1] + at]))
                    .collect();
                expected.push(match how {
                    Pooling::Greatest => inside.iter().copied().fold(f64::NEG_INFINITY, f64::max),
                    Pooling::Mean => inside.iter().sum::<f64>() / inside.len() as f64,
                    Pooling::MeanWithPadding => inside.iter().sum::<f64>() / (size[0] * size[1]) as f64,
                });
            }
        }
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 || a == b || a.is_nan() && b.is_nan();
        assert!(numbers(&found[0]).iter().zip(&expected).all(near), "{seed}: {how:?}, {window:?}");
    }
    // A window that is far larger than the image takes no longer than the image.
    let huge = usize::MAX >> 4;
    let window = Window { strides: [huge, huge], padding: [huge - 1; 4], dilations: [1, 3] };
    let pool = Pool { size: [huge, huge / 3], window, how: Pooling::Mean };
    let image = floats(&[1, 1, 2, 2], vec![1.0, 2.0, 3.0, 5.0]);
    let found = Operator::Pool(pool).evaluate(&[&image]).expect("images");
    assert_eq!(found[0].shape(), [1, 1, 2, 2]);
    let missing = floats(&[1, 1, 1, 3], vec![1.0, f32::NAN, 2.0]);
    let pool = Pool { size: [1, 2], window: Window::PLAIN, how: Pooling::Greatest };
    let found = Operator::Pool(pool).evaluate(&[&missing]).expect("images");
    assert!(numbers(&found[0]).iter().all(|v| v.is_nan()));
}

#[test]
fn layers_are_normalized_line_by_line() {
    for width in [1, 2, 7, 8, 9, 31, 128] {
        let mut random = Seeded(width as u64);
        let (x, scale, bias) =
            (values(&mut random, 6 * width), values(&mut random, width), values(&mut random, width));
        let operands = [
            floats(&[2, 3, width], x.clone()),
            floats(&[width], scale.clone()),
            floats(&[width], bias.clone()),
        ];
        let found = Operator::LayerNorm { epsilon: 1e-5 }.evaluate(&operands.each_ref()).expect("lines");
        assert_eq!(found[0].shape(), [2, 3, width]);
        for (line, found) in x.chunks(width).zip(numbers(&found[0]).chunks(width)) {
            let mean = line.iter().map(|v| f64::from(*v)).sum::<f64>() / width as f64;
            let variance = line.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / width as f64;
            for (at, found) in found.iter().enumerate() {
                let normal = (f64::from(line[at]) - mean) / (variance + 1e-5).sqrt();
                let expected = normal * f64::from(scale[at]) + f64::from(bias[at]);
                assert!((found - expected).abs() <= 1e-6 * expected.abs().max(1.0), "{width}");
            }
        }
    }
}

/// A batch of products, and a product with one matrix: each is the product of its own matrices.
#[test]
fn products_of_many_matrices() {
    let mut random = Seeded(5);
    for (outer, inner) in
        [(vec![3, 2], vec![3, 2]), (vec![3, 2], vec![]), (vec![2], vec![3, 2]), (vec![], vec![4])]
    {
        let (m, k, n) = (17, 5, 9);
        let x = values(&mut random, outer.iter().product::<usize>() * m * k);
        let y = values(&mut random, inner.iter().product::<usize>() * k * n);
        let a = floats(&[&outer[..], &[m, k]].concat(), x.clone());
        let b = floats(&[&inner[..], &[k, n]].concat(), y.clone());
        let found = Operator::MatMul.evaluate(&[&a, &b]).expect("matrices").remove(0);
        let many = if outer.len() > inner.len() { &outer } else { &inner };
        assert_eq!(found.shape(), [&many[..], &[m, n]].concat());
        let count: usize = many.iter().product();
        // The last axes of the shorter list are those of the longer one.
        let (of_a, of_b) = (outer.iter().product::<usize>(), inner.iter().product::<usize>());
        for (at, sum) in numbers(&found).into_iter().enumerate() {
            let (matrix, row, column) = (at / (m * n), at / n % m, at % n);
            assert!(matrix < count);
            let products = (0..k).map(|i| {
                let x = x[(matrix % of_a * m + row) * k + i];
                f64::from(x) * f64::from(y[(matrix % of_b * k + i) * n + column])
            });
            assert!((sum - products.sum::<f64>()).abs() < 1e-5, "{outer:?} and {inner:?}");
        }
    }
}

#[test]
fn texts_of_networks_are_read_back_and_wrong_ones_refused() {
    let forest = Forest::builder(2, 1).compare(CompareType::F32);
    let mut forest = forest;
    let mut tree = forest.tree(0);
    tree.split(0, CompareType::F32.at_most(0.5), Side::Left, 1, 2);
    tree.leaf(1, &[1.0]);
    tree.leaf(2, &[2.0]);
    let forest = std::sync::Arc::new(forest.build().expect("a forest"));
    let mut graph = Graph::default();
    let x = graph.input("x", fangorn::graph::Dtype::F32, [None, Some(2)]);
    let slots = graph.node("slots", Operator::LeafSlots(forest.clone()), [x]);
    let shaped = graph.node("images", Operator::Reshape(vec![-1, 1, 1, 2]), [x]);
    let window = Window { strides: [1, 2], padding: [1, 0, 0, 1], dilations: [1, 1] };
    let pool = Operator::Pool(Pool { size: [2, 2], window, how: Pooling::MeanWithPadding });
    let pooled = graph.node("pool", pool, [shaped]);
    let filters = graph.weight(floats(&[2, 1, 1, 1], vec![1.0, -1.0]));
    let seen = graph.node("see", Operator::Convolve { window: Window::PLAIN, groups: 1 }, [pooled, filters]);
    let weights = graph.weight(floats(&[1], vec![1.5]));
    let normal = graph.node("normal", Operator::LayerNorm { epsilon: 1e-6 }, [seen, weights, weights]);
    let gelu = graph.node("gelu", Operator::Unary(Unary::Gelu), [normal]);
    graph.output("slots", slots);
    graph.output("gelu", gelu);
    let text = graph.to_string();
    assert_eq!(Graph::parse(&text).expect("a graph"), graph);
    let rows = floats(&[3, 2], vec![0.25, 1.0, 0.75, 1.0, f32::NAN, 1.0]);
    let found = graph.run(std::slice::from_ref(&rows)).expect("slots");
    let expected: Vec<f64> = [[0.25f32, 1.0], [0.75, 1.0], [f32::NAN, 1.0]]
        .iter()
        .flat_map(|row| reference::leaf_slots(&forest, row))
        .map(f64::from)
        .collect();
    assert_eq!((found[0].shape(), numbers(&found[0])), (&[3, 1][..], expected));
    let predicted = fangorn::graph::GraphPredictor::new(graph, 1).expect("compiled");
    assert_eq!(predicted.predict(&[rows]).expect("slots")[0], found[0]);
    for (from, to, cause) in [
        ("strides=[1, 2]", "strides=[0, 2]", "steps above 0"),
        ("size=[2, 2]", "size=[2, 9]", "does not fit"),
        ("size=[2, 2]", "size=[2]", "has not 2 numbers"),
        ("groups=1", "groups=2", "don't see"),
        ("how=meanWithPadding", "how=least", "not known"),
        ("epsilon=1e-6", "", ""),
    ] {
        assert!(text.contains(from), "{from}");
        let error = Graph::parse(&text.replace(from, to)).expect_err(to).to_string();
        assert!(error.contains(cause), "{error}");
    }
}
