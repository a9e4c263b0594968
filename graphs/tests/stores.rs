//! Modules in burn's stores, which know tensors only by their names.

#![cfg(feature = "store")]

mod support;

use burn::{
    module::Module,
    nn::{Linear, LinearConfig},
    store::{BurnpackStore, ModuleSnapshot, SafetensorsStore},
    tensor::{Device, Tensor},
};
use fangorn::Forest;
use fangorn_graphs::forest::{ForestModule, ForestModuleConfig, Output};
use support::{alike, bits, devices, forest, model, named, tensor};

fn module(forest: &Forest, device: &Device) -> ForestModule {
    ForestModuleConfig::new(forest.clone()).with_output(Output::Margins).init(device).expect("a module")
}

#[derive(Module, Debug)]
struct Model {
    head: Linear,
    forest: ForestModule,
}

impl Model {
    fn new(forest: &Forest, device: &Device) -> Self {
        let outputs = forest.outputs as usize;
        Self { head: LinearConfig::new(outputs, 2).init(device), forest: module(forest, device) }
    }

    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.head.forward(self.forest.forward(x).expect("rows"))
    }
}

/// Returns a store with a module's bytes, ready to be read.
fn bytes(module: &ForestModule) -> SafetensorsStore {
    let mut store = SafetensorsStore::from_bytes(None);
    module.save_into(&mut store).expect("bytes");
    SafetensorsStore::from_bytes(Some(store.get_bytes().expect("bytes")))
}

#[test]
fn a_store_brings_the_same_bits_back() {
    let s = named("softprob");
    let folder = std::env::temp_dir().join(format!("fangorn-stores-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, device) in devices() {
        let mut saved = Model::new(&s.forest, &device);
        saved.forest.leaf_values =
            saved.forest.leaf_values.map(|leaves| leaves.mul_scalar(1.5).add_scalar(0.01));
        let expected = bits(saved.forward(s.tensor(&device)));
        let fresh = || Model::new(&s.forest, &device);
        assert_ne!(bits(fresh().forward(s.tensor(&device))), expected);
        let same = |loaded: Model, what: &str| {
            assert_eq!(bits(loaded.forward(s.tensor(&device))), expected, "{what} on {name}");
        };
        let file = folder.join(format!("{name}.bpk"));
        saved.save_into(&mut BurnpackStore::from_file(&file)).expect("a file");
        let mut loaded = fresh();
        loaded.load_from(&mut BurnpackStore::from_file(&file)).expect("a file");
        same(loaded, "burnpack");
        let file = folder.join(format!("{name}.safetensors"));
        saved.save_into(&mut SafetensorsStore::from_file(&file)).expect("a file");
        let mut loaded = fresh();
        loaded.load_from(&mut SafetensorsStore::from_file(&file)).expect("a file");
        same(loaded, "safetensors");
    }
    std::fs::remove_dir_all(&folder).expect("the folder");
}

#[test]
fn a_store_of_another_forest_predicts_as_that_one() {
    let (a, rows) = (forest(5), support::rows(&forest(5), 200, 5));
    let b = alike(&a);
    for (name, device) in devices() {
        let x = || tensor(&rows, a.features.len(), &device);
        let expected = bits(module(&b, &device).forward(x()).expect(name));
        let mut loaded = module(&a, &device);
        assert_ne!(bits(loaded.forward(x()).expect(name)), expected);
        loaded.load_from(&mut bytes(&module(&b, &device))).expect("of the same shapes");
        assert_eq!(bits(loaded.forward(x()).expect(name)), expected, "{name}");
    }
}

#[test]
fn a_store_of_a_forest_of_another_size_is_refused_by_name() {
    let (a, b) = (model("logistic-missing"), model("softprob"));
    let device = devices()[0].1.clone();
    let error = module(&a, &device).load_from(&mut bytes(&module(&b, &device)));
    let error = error.expect_err("other shapes").to_string();
    assert!(error.contains("structure"), "{error}");
}
