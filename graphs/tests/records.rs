//! Modules saved and loaded: a record brings its own forest, or is refused with the name of what does not
//! fit.

mod support;

use burn::{
    module::{Module, ModuleVisitor, Param},
    nn::{Linear, LinearConfig},
    store::ModuleRecord,
    tensor::{DType, Device, Int, Tensor},
};
use fangorn::{Forest, schedule::Preset};
use fangorn_graphs::{
    Error,
    forest::{ForestModule, ForestModuleConfig, Output, Record},
};
use support::{alike, bits, devices, forest, model, named, tensor};

#[derive(Module, Debug)]
struct Model {
    head: Linear,
    forest: ForestModule,
}

fn module(forest: &Forest, device: &Device) -> ForestModule {
    ForestModuleConfig::new(forest.clone()).with_output(Output::Margins).init(device).expect("a module")
}

fn surrounded(forest: &Forest, device: &Device) -> Model {
    let outputs = forest.outputs as usize;
    Model { head: LinearConfig::new(outputs, 2).init(device), forest: module(forest, device) }
}

impl Model {
    fn forward(&self, x: Tensor<2>) -> Tensor<2> {
        self.head.forward(self.forest.forward(x).expect("rows"))
    }

    /// Changes the leaf values, as training does.
    fn trained(mut self) -> Self {
        self.forest.leaf_values =
            self.forest.leaf_values.map(|leaves| leaves.mul_scalar(1.5).add_scalar(0.01));
        self
    }
}

#[test]
fn a_record_brings_the_same_bits_back() {
    let s = named("softprob");
    let folder = std::env::temp_dir().join(format!("fangorn-records-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, device) in devices() {
        let saved = surrounded(&s.forest, &device).trained();
        let expected = bits(saved.forward(s.tensor(&device)));
        let fresh = || surrounded(&s.forest, &device);
        assert_ne!(bits(fresh().forward(s.tensor(&device))), expected);
        let same = |loaded: Model, what: &str| {
            assert_eq!(bits(loaded.forward(s.tensor(&device))), expected, "{what} on {name}");
        };
        let bytes = saved.clone().into_record().into_bytes().expect("a record");
        same(fresh().load_record(ModuleRecord::from_bytes(bytes).expect("a record")), "record");
        let file = folder.join(format!("{name}.bpk"));
        saved.clone().save_file(&file).expect("a file");
        same(fresh().load_file(&file), "record in a file");
    }
    std::fs::remove_dir_all(&folder).expect("the folder");
}

#[test]
fn a_record_of_another_forest_predicts_as_that_one() {
    let (a, rows) = (forest(5), support::rows(&forest(5), 200, 5));
    let b = alike(&a);
    for (name, device) in devices() {
        let x = || tensor(&rows, a.features.len(), &device);
        let expected = bits(module(&b, &device).forward(x()).expect(name));
        assert_ne!(bits(module(&a, &device).forward(x()).expect(name)), expected);
        let loaded = module(&a, &device).load_record(module(&b, &device).into_record());
        assert_eq!(bits(loaded.forward(x()).expect(name)), expected, "{name}");
        assert_eq!(*loaded.operator().expect(name).forest(), b);
        assert_eq!(bits(loaded.clone().valid().forward(x()).expect(name)), expected, "a snapshot on {name}");
    }
}

#[test]
fn a_record_of_a_forest_of_another_size_is_refused_by_name() {
    let (a, b) = (model("logistic-missing"), model("softprob"));
    let device = devices()[0].1.clone();
    let error = module(&a, &device).try_load_record(module(&b, &device).into_record());
    let error = error.expect_err("other shapes").to_string();
    assert!(error.contains("structure") && error.contains("leaf_values"), "{error}");
}

#[test]
fn what_was_loaded_in_part_is_refused_by_name() {
    let a = forest(5);
    let device = devices()[0].1.clone();
    let refused = |loaded: ForestModule| {
        let x = Tensor::<2>::zeros([2, a.features.len()], &device);
        let calls = [
            loaded.verify().expect_err("verify"),
            loaded.forward(x.clone()).expect_err("forward"),
            loaded.leaf_slots(x).expect_err("leaves"),
        ];
        for error in calls {
            assert!(matches!(error, Error::Record(_)), "{error}");
            assert!(error.to_string().contains("`structure` and `fingerprint`"), "{error}");
        }
    };
    // Without validation nobody compares the shapes of structures. So the leaf values and the fingerprint are
    // loaded, and the structure is not.
    let mut longer = a.clone();
    longer.features[0].name = Some("a name that makes the file longer".repeat(9));
    let record = module(&longer, &device).into_record().validate(false);
    refused(module(&a, &device).try_load_record(record).expect("not validated"));
    // The structure is loaded without the other tensors.
    let record =
        module(&alike(&a), &device).into_record_group(burn::module::ParamGroup::from_path("structure"));
    refused(module(&a, &device).try_load_record(record.allow_partial(true)).expect("in part"));
}

#[test]
fn leaves_alone_are_loaded_onto_their_forest() {
    let a = forest(5);
    let rows = support::rows(&a, 50, 5);
    let device = devices()[0].1.clone();
    let trained = surrounded(&a, &device).trained().forest;
    let record = trained.clone().into_record_group(burn::module::ParamGroup::from_path("leaf_values"));
    let loaded = module(&a, &device).try_load_record(record.allow_partial(true)).expect("in part");
    let x = || tensor(&rows, a.features.len(), &device);
    assert_eq!(bits(loaded.forward(x()).expect("rows")), bits(trained.forward(x()).expect("rows")));
}

#[test]
fn words_that_are_no_forest_are_refused() {
    let a = forest(5);
    let device = devices()[0].1.clone();
    let mut words = words_of(&module(&a, &device));
    let at = words.len() / 2;
    words[at] ^= 1;
    let error = ForestModuleConfig::of_structure(&words).expect_err("a bit is turned").to_string();
    assert!(error.contains("structure"), "{error}");
}

/// Returns the parameter `structure` of a module, as a visitor finds it.
fn words_of(module: &ForestModule) -> Vec<i32> {
    #[derive(Default)]
    struct Words(String, Vec<i32>);
    impl ModuleVisitor for Words {
        fn enter_module(&mut self, name: &str, _: &str) {
            self.0 = name.into();
        }
        fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
            if self.0 == "structure" {
                self.1 = param.val().into_data().try_to_vec().expect("words of 32 bits");
            }
        }
    }
    let mut words = Words::default();
    module.visit(&mut words);
    words.1
}

#[test]
fn a_module_is_made_of_a_record_alone() {
    let s = named("softprob");
    let device = devices()[0].1.clone();
    let trained = surrounded(&s.forest, &device).trained().forest;
    let made = ForestModuleConfig::of_structure(&words_of(&trained)).expect("a structure");
    let made = made.with_output(Output::Margins).init(&device).expect("a module");
    let loaded = made.load_record(trained.clone().into_record());
    let [found, expected] = [loaded, trained].map(|m| bits(m.forward(s.tensor(&device)).expect("rows")));
    assert_eq!(found, expected);
}

#[test]
fn a_module_that_waits_for_its_record_is_made_of_its_shape() {
    let s = named("softprob");
    let record = Record::new(&s.forest);
    for (name, device) in devices() {
        let waiting = || ForestModule::unloaded(record.leaf_shape(), record.words(), &device);
        let error = waiting().forward(s.tensor(&device)).expect_err("no forest yet").to_string();
        assert!(error.contains("load the record"), "{error}");
        let made = ForestModuleConfig::new(s.forest.clone()).init(&device).expect("a module");
        let expected = bits(made.forward(s.tensor(&device)).expect("rows"));
        let loaded = waiting().load_record(made.clone().into_record());
        assert_eq!(bits(loaded.forward(s.tensor(&device)).expect("rows")), expected, "{name}");
        // The tensors are those of the module.
        let [(_, leaves), (_, structure), (_, fingerprint)] = record.clone().into_tensors();
        assert_eq!(structure.try_to_vec::<i32>().expect("words"), words_of(&made));
        assert_eq!(
            leaves.try_to_vec::<f32>().expect("leaves").len(),
            made.leaf_values.val().shape().num_elements()
        );
        assert_eq!(fingerprint.shape().num_elements(), 2);
    }
}

#[test]
fn leaves_that_were_saved_as_halves_are_widened() {
    let a = forest(5);
    let rows = support::rows(&a, 50, 5);
    for (name, device) in devices().into_iter().filter(|(name, _)| *name != "ndarray") {
        let mut halved = module(&a, &device);
        halved.leaf_values = Param::from_tensor(halved.leaf_values.val().cast(DType::F16));
        let x = || tensor(&rows, a.features.len(), &device);
        // The leaf values are multiples of 1/512 from -1 to 1, which half precision holds.
        let expected = bits(module(&a, &device).forward(x()).expect(name));
        assert_eq!(bits(halved.forward(x()).expect(name)), expected, "{name}");
    }
}

#[test]
fn the_schedule_and_the_output_stay_the_modules_own() {
    let s = named("logistic-missing");
    let device = devices()[0].1.clone();
    let values = ForestModuleConfig::new(s.forest.clone())
        .with_schedule(Preset::Default.schedule(&s.forest, false))
        .init(&device)
        .expect("a module");
    let expected = bits(values.forward(s.tensor(&device)).expect("rows"));
    let loaded = values.load_record(module(&s.forest, &device).into_record());
    assert_eq!(bits(loaded.forward(s.tensor(&device)).expect("rows")), expected);
}
