//! The models of the example pipelines at small sizes: training lowers the loss, and one record brings
//! network and forest back to the bit.

mod support;

// The tests use sizes of their own, not the examples'.
#[allow(dead_code)]
#[path = "../examples/click_through/model.rs"]
mod click_through;
#[allow(dead_code)]
#[path = "../examples/deep_hybrid/model.rs"]
mod deep_hybrid;
#[path = "../examples/text/gelu.rs"]
mod gelu;
#[allow(unused_imports)]
#[path = "../examples/stages/mod.rs"]
mod stages;
#[allow(dead_code)]
#[path = "../examples/text/model.rs"]
mod text;

use burn::{
    module::Module,
    nn::{
        LinearConfig,
        loss::{BinaryCrossEntropyLossConfig, CrossEntropyLoss},
    },
    optim::{AdamConfig, GradientsParams},
    store::ModuleRecord,
    tensor::{DType, Device, Distribution, Int, Tensor, TensorData},
};
use click_through::ClickThrough;
use deep_hybrid::DeepHybrid;
use fangorn_graphs::{
    classical::{GraphModule, Value},
    fangorn::{
        Forest,
        graph::{self, Elements, Graph, GraphPredictor},
    },
    forest::{ForestModule, ForestModuleConfig},
};
use support::{Seeded, bits, devices, floats};
use text::Text;

/// Guards a device's random numbers, which the whole process shares. Tests that seed or draw them run one
/// after the other.
static SEEDS: std::sync::Mutex<()> = std::sync::Mutex::new(());

const ROWS: usize = 32;
const STEPS: usize = 30;

/// Takes steps of Adam. Returns the trained network and the loss of each step.
fn trained<M: Module>(mut network: M, rate: f64, loss: impl Fn(&M) -> Tensor<1>) -> (M, Vec<f32>) {
    let mut optimizer = AdamConfig::new().init();
    let mut losses = Vec::new();
    for _ in 0..STEPS {
        let found = loss(&network);
        let grads = GradientsParams::from_grads(found.backward(), &network);
        network = optimizer.step(rate, network, grads);
        losses.extend(floats(found));
    }
    (network.valid(), losses)
}

fn ids(values: Vec<i32>, device: &Device) -> Tensor<2, Int> {
    let columns = values.len() / ROWS;
    Tensor::from_data(TensorData::new(values, [ROWS, columns]), (device, DType::I32))
}

/// Returns a forest of one output over `columns` columns, whose thresholds fit a network's features.
fn forest(columns: usize) -> Forest {
    use fangorn::forest::{CompareType, Side};
    use fangorn_graphs::fangorn;
    let mut random = Seeded(3);
    let mut forest = Forest::builder(columns, 1);
    for _ in 0..10 {
        let mut tree = forest.tree(0);
        for (left, right) in [(1, 2), (3, 4), (5, 6)] {
            let threshold = CompareType::F32.cast(random.step() / 2.0);
            let ask = CompareType::F32.less(threshold);
            tree.split(random.below(columns) as u32, ask, Side::Left, left, right);
        }
        for _ in 0..4 {
            tree.leaf(0, &[random.step()]);
        }
    }
    forest.build().expect("a forest")
}

fn module(forest: &Forest, device: &Device) -> ForestModule {
    ForestModuleConfig::new(forest.clone()).init(device).expect("a module")
}

/// Saves a module and loads it into one of other weights. Predictions differ before and are the same bits
/// after.
fn comes_back<M: Module>(name: &str, saved: M, fresh: M, predict: impl Fn(&M) -> Vec<u32>) {
    let expected = predict(&saved);
    assert_ne!(predict(&fresh), expected, "{name}: other weights");
    let bytes = saved.into_record().into_bytes().expect("a record");
    let loaded = fresh.try_load_record(ModuleRecord::from_bytes(bytes).expect("a record")).expect(name);
    assert_eq!(predict(&loaded), expected, "{name}");
}

/// A pipeline as one graph predicts what its modules predict, compiled for the CPU and on the device. A feature next to a
/// threshold may reach another leaf, since products are summed in another order.
fn as_one_graph(name: &str, graph: &Graph, rows: (Elements, Value), expected: Tensor<2>, device: &Device) {
    let expected = floats(expected);
    let near = |what: &str, found: &[f32]| {
        assert_eq!(found.len(), expected.len(), "{name}, {what}");
        let outside = found.iter().zip(&expected).filter(|(a, b)| (*a - *b).abs() > 1e-4).count();
        assert!(outside * 10 <= expected.len(), "{name}, {what}: {found:?} and {expected:?}");
    };
    let columns = rows.0.len() / ROWS;
    let predictor = GraphPredictor::new(graph.clone(), 1).expect(name);
    let of_cpu = graph::Tensor::new([ROWS, columns], rows.0).expect("rows");
    let found = predictor.predict(&[of_cpu]).expect(name).remove(0);
    let Elements::F32(found) = found.into_elements() else { panic!("floats") };
    near("on the CPU", &found);
    let module = GraphModule::new(graph, device).expect(name);
    let found = module.forward([rows.1]).expect(name).remove(0);
    near("as a module", &floats(found.float::<2>().expect(name)));
}

/// `first` makes no keys and no values, and gives the numbers of `forward` up to rounding.
#[test]
fn a_first_token_is_what_it_is_among_all() {
    let _seeds = SEEDS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let device = Device::flex();
    let sizes = text::Sizes { vocabulary: 1, length: 5, width: 12, heads: 3, inner: 16, layers: 1 };
    let layer = text::Layer::new(sizes, &device);
    let (rows, text::Sizes { length, width, .. }) = (7, sizes);
    let x = Tensor::<2>::random([rows * length, width], Distribution::Normal(0.0, 1.0), &device);
    let all = layer.forward(x.clone(), length).reshape([rows, length, width]).narrow(1, 0, 1);
    let (all, first) = (floats(all.reshape([rows, width])), floats(layer.first(x, length)));
    assert_eq!(all.len(), first.len());
    for (a, b) in all.iter().zip(first) {
        assert!((a - b).abs() < 1e-5, "{a} and {b}");
    }
}

#[test]
fn text_learns_and_comes_back() {
    let _seeds = SEEDS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let sizes = text::Sizes { vocabulary: 20, length: 5, width: 8, heads: 2, inner: 16, layers: 2 };
    let mut random = Seeded(1);
    let tokens: Vec<i32> = (0..ROWS * 5).map(|_| random.below(20) as i32).collect();
    // The label depends on the fourth token, and the network reads the first, so attention has to bring it
    // there.
    let labels: Vec<i32> = tokens.chunks(5).map(|row| i32::from(row[3] < 10)).collect();
    let forest = forest(8);
    for (name, device) in devices() {
        let training = device.clone().autodiff();
        training.seed(7);
        let x = ids(tokens.clone(), &training);
        let wanted = Tensor::<1, Int>::from_data(TensorData::new(labels.clone(), [ROWS]), &training);
        let (network, losses) = trained(text::Classifier::new(sizes, 2, &training), 0.01, |network| {
            CrossEntropyLoss::new(None, &training).forward(network.forward(x.clone()), wanted.clone())
        });
        assert!(losses[STEPS - 1] < 0.3 * losses[0], "{name}: {losses:?}");
        let logistic = || LinearConfig::new(8, 1).init(&device);
        let saved = Text { encoder: network.encoder, logistic: logistic(), forest: module(&forest, &device) };
        let fresh = Text {
            encoder: text::Encoder::new(sizes, &device),
            logistic: logistic(),
            forest: module(&support::alike(&forest), &device),
        };
        let x = || ids(tokens.clone(), &device);
        for head in ["forest", "regression"] {
            let expected = match head {
                "forest" => saved.by_forest(x()).expect(name),
                _ => saved.by_regression(x()),
            };
            let rows = (Elements::I32(tokens.clone()), x().into());
            as_one_graph(name, &saved.graph(head).expect(name), rows, expected, &device);
        }
        comes_back(name, saved.clone(), fresh.clone(), |text| bits(text.by_forest(x()).expect(name)));
        comes_back(name, saved, fresh, |text| bits(text.by_regression(x())));
    }
}

#[test]
fn deep_hybrid_learns_and_comes_back() {
    let _seeds = SEEDS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let sizes = deep_hybrid::Sizes { side: 4, channels: [2, 4], features: 6 };
    let mut random = Seeded(2);
    let images: Vec<f32> = (0..ROWS * 16).map(|_| random.step() as f32).collect();
    let labels: Vec<i32> = images.chunks(16).map(|row| i32::from(row[5] + row[6] > 0.0)).collect();
    let forest = forest(6);
    for (name, device) in devices() {
        let training = device.clone().autodiff();
        training.seed(7);
        let x = support::tensor(&images, 16, &training);
        let wanted = Tensor::<1, Int>::from_data(TensorData::new(labels.clone(), [ROWS]), &training);
        let (network, losses) = trained(deep_hybrid::Classifier::new(sizes, 2, &training), 0.03, |network| {
            CrossEntropyLoss::new(None, &training).forward(network.forward(x.clone()), wanted.clone())
        });
        assert!(losses[STEPS - 1] < 0.5 * losses[0], "{name}: {losses:?}");
        let saved = DeepHybrid { seen: network.seen, forest: module(&forest, &device) };
        let fresh = DeepHybrid {
            seen: deep_hybrid::Seen::new(sizes, &device),
            forest: module(&support::alike(&forest), &device),
        };
        let x = || support::tensor(&images, 16, &device);
        let rows = (Elements::F32(images.clone()), x().into());
        as_one_graph(name, &saved.graph().expect(name), rows, saved.forward(x()).expect(name), &device);
        comes_back(name, saved, fresh, |hybrid| bits(hybrid.forward(x()).expect(name)));
    }
}

#[test]
fn click_through_learns_from_leaves_and_comes_back() {
    let _seeds = SEEDS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let sizes = click_through::Sizes { numbers: 2, ids: 2, known: 7, width: 3, inner: [8, 4] };
    let mut random = Seeded(4);
    let row = |random: &mut Seeded| {
        let numbers = [random.step() as f32, random.step() as f32];
        [numbers[0], numbers[1], random.below(3) as f32, 3.0 + random.below(4) as f32]
    };
    let table: Vec<f32> = (0..ROWS).flat_map(|_| row(&mut random)).collect();
    let forest = forest(2 + 2);
    for (name, device) in devices() {
        // The label depends on the leaf of the first tree, and on no column.
        let leaves = module(&forest, &device).leaf_slots(support::tensor(&table, 4, &device)).expect(name);
        let leaves: Vec<i32> = leaves.narrow(1, 0, 1).try_into_vec_as().expect(name);
        let labels = leaves.into_iter().map(|slot| slot % 2).collect::<Vec<_>>();
        let training = device.clone().autodiff();
        training.seed(7);
        let x = support::tensor(&table, 4, &training);
        let wanted = ids(labels, &training);
        let network = ClickThrough::new(sizes, module(&forest, &training), &training).expect(name);
        let loss = BinaryCrossEntropyLossConfig::new().with_logits(true).init(&training);
        let (saved, losses) = trained(network, 0.03, |network| {
            loss.forward(network.logits(x.clone()).expect(name), wanted.clone())
        });
        assert!(losses[STEPS - 1] < 0.5 * losses[0], "{name}: {losses:?}");
        let fresh = ClickThrough::new(sizes, module(&support::alike(&forest), &device), &device).expect(name);
        let x = || support::tensor(&table, 4, &device);
        let rows = (Elements::F32(table.clone()), x().into());
        as_one_graph(name, &saved.graph().expect(name), rows, saved.forward(x()).expect(name), &device);
        comes_back(name, saved, fresh, |click| bits(click.forward(x()).expect(name)));
    }
}
