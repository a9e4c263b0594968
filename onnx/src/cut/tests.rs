use super::cut_model;
use crate::graph::{ML, Node};
use crate::wire::{fields, put, put_integer, text};

fn message(entries: &[(u64, &[u8])]) -> Vec<u8> {
    let mut message = Vec::new();
    entries.iter().for_each(|(number, body)| put(&mut message, *number, body));
    message
}

fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> Vec<u8> {
    let ml = op.starts_with("Tree") || op == "ZipMap";
    let mut entries: Vec<(u64, &[u8])> = Vec::new();
    entries.extend(inputs.iter().map(|name| (1, name.as_bytes())));
    entries.extend(outputs.iter().map(|name| (2, name.as_bytes())));
    entries.extend([(4, op.as_bytes()), (7, if ml { ML.as_bytes() } else { b"" })]);
    message(&entries)
}

/// Returns an output of tensors of an element type, 1 for floats and 8 for strings. `None` makes it a
/// sequence.
fn output(name: &str, element: Option<u64>) -> Vec<u8> {
    let kind = match element {
        Some(element) => {
            let mut tensor = Vec::new();
            put_integer(&mut tensor, 1, element);
            message(&[(1, &tensor)])
        }
        None => message(&[(4, b"")]),
    };
    message(&[(1, name.as_bytes()), (2, &kind)])
}

fn model(nodes: &[Vec<u8>], tensors: &[Vec<u8>], outputs: &[Vec<u8>]) -> Vec<u8> {
    let of = |number, all: &[Vec<u8>]| {
        let mut fields = Vec::new();
        all.iter().for_each(|body| put(&mut fields, number, body));
        fields
    };
    let graph = [of(1, nodes), of(5, tensors), of(12, outputs)].concat();
    message(&[(2, b"a producer"), (7, &graph), (8, b"")])
}

fn tensor(name: &str) -> Vec<u8> {
    message(&[(8, name.as_bytes())])
}

/// Returns the names of the operators, initializers and outputs of a model after the cut.
fn cut(model: &[u8]) -> [Vec<String>; 3] {
    let cut = cut_model(model).expect("it can be cut").expect("something is cut");
    let whole = fields(&cut).expect("fields");
    assert_eq!(whole.iter().map(|f| f.number).collect::<Vec<_>>(), [2, 7, 8], "all else stays");
    let graph = fields(whole[1].body.expect("a graph")).expect("fields");
    let names = |number, name: u64| {
        let of = |body| fields(body).expect("fields").iter().find_map(|f| f.of(name)).map(text);
        graph.iter().filter_map(|f| f.of(number)).filter_map(of).collect()
    };
    [names(1, 4), names(5, 8), names(12, 1)]
}

fn refusal(nodes: &[Vec<u8>], tensors: &[Vec<u8>], outputs: &[Vec<u8>]) -> String {
    cut_model(&model(nodes, tensors, outputs)).expect_err("refused")
}

fn classifier() -> Vec<u8> {
    node("TreeEnsembleClassifier", &["X"], &["label", "scores"])
}

fn zip() -> Vec<u8> {
    node("ZipMap", &["scores"], &["maps"])
}

#[test]
fn a_graph_of_numbers_is_left_alone() {
    let nodes = [classifier(), node("Relu", &["X"], &["unused"])];
    let outputs = [output("label", Some(7)), output("scores", Some(1))];
    assert_eq!(cut_model(&model(&nodes, &[tensor("unused too")], &outputs)), Ok(None));
}

#[test]
fn scores_stand_in_place_of_maps() {
    let nodes = [classifier(), zip()];
    let cut = cut(&model(&nodes, &[], &[output("label", Some(7)), output("maps", None)]));
    assert_eq!(cut, [vec!["TreeEnsembleClassifier"], vec![], vec!["label", "scores"]]);
    // Scores that are an output already are not added again.
    let both = [output("maps", None), output("scores", Some(1))];
    let nodes = [classifier(), zip()];
    assert_eq!(self::cut(&model(&nodes, &[], &both))[2], ["scores"]);
}

#[test]
fn strings_go_with_all_that_only_they_need() {
    let nodes = [
        classifier(),
        node("Cast", &["label"], &["number"]),
        node("ArrayFeatureExtractor", &["names", "number"], &["name"]),
        node("Mul", &["scores", "two"], &["twice"]),
    ];
    let tensors = [tensor("names"), tensor("two")];
    let outputs = [output("name", Some(8)), output("twice", Some(1))];
    let [nodes, tensors, outputs] = cut(&model(&nodes, &tensors, &outputs));
    assert_eq!(nodes, ["TreeEnsembleClassifier", "Mul"]);
    assert_eq!((tensors, outputs), (vec!["two".to_owned()], vec!["twice".to_owned()]));
}

#[test]
fn what_a_graph_inside_takes_stays() {
    let branch = message(&[(1, &node("Identity", &["outer"], &["inner"])), (12, &output("inner", Some(1)))]);
    let attribute = message(&[(1, b"then_branch"), (6, &branch)]);
    let mut choice = node("If", &["X"], &["chosen"]);
    put(&mut choice, 5, &attribute);
    let nodes =
        [node("Relu", &["X"], &["outer"]), node("Tanh", &["X"], &["nobody's"]), choice, classifier(), zip()];
    let cut = cut(&model(&nodes, &[], &[output("chosen", Some(1)), output("maps", None)]));
    assert_eq!(cut[0], ["Relu", "If", "TreeEnsembleClassifier"]);
}

#[test]
fn a_label_that_nobody_takes_is_marked() {
    let marked = |outputs: &[Vec<u8>]| {
        let cut = cut_model(&model(&[classifier()], &[], outputs)).expect("it can be cut");
        let cut = cut.unwrap_or_else(|| model(&[classifier()], &[], outputs));
        let whole = fields(&cut).expect("fields");
        let graph = fields(whole[1].body.expect("a graph")).expect("fields");
        let node = graph.iter().find_map(|f| f.of(1)).expect("a node");
        assert_eq!(Node::read(node).expect("a node").outputs, ["label", "scores"]);
        fields(node).expect("fields").iter().any(|f| f.number == 5)
    };
    assert!(marked(&[output("scores", Some(1))]));
    assert!(!marked(&[output("scores", Some(1)), output("label", Some(7))]));
    assert!(marked(&[output("scores", Some(1)), output("label", Some(8))]));
    // An input that another operator leaves out has an empty name, and so has a label that is left out.
    let nodes = [
        node("TreeEnsembleClassifier", &["X"], &["", "scores"]),
        node("Clip", &["scores", "", "most"], &["Y"]),
    ];
    let unnamed = model(&nodes, &[], &[output("Y", Some(1))]);
    let cut = cut_model(&unnamed).expect("it can be cut").expect("it is marked");
    assert!(cut.len() > unnamed.len());
}

/// A marked model is a copy in another folder, which no longer finds files beside the model.
#[test]
fn a_marked_model_must_be_in_one_file() {
    let mut elsewhere = tensor("weights");
    put_integer(&mut elsewhere, 14, 1);
    let nodes = [node("Mul", &["X", "weights"], &["Z"]), classifier()];
    let labels = [output("scores", Some(1)), output("label", Some(7))];
    assert_eq!(cut_model(&model(&nodes, &[elsewhere.clone()], &labels)), Ok(None));
    let said = refusal(&nodes, &[elsewhere], &labels[..1]);
    assert!(said.contains("initializer `weights` is in another file"), "{said}");
}

#[test]
fn what_cannot_be_cut_is_named() {
    let scores = || output("scores", Some(1));
    let said = refusal(&[classifier(), zip(), node("SequenceAt", &["maps"], &["Y"])], &[], &[scores()]);
    assert!(said.contains("operator SequenceAt takes the maps of a ZipMap"), "{said}");
    let said = refusal(&[classifier()], &[], &[scores(), output("label", None)]);
    assert!(said.contains("output `label` is a sequence or a map"), "{said}");
    let said = refusal(&[classifier()], &[], &[output("label", Some(8))]);
    assert!(said.contains("nothing would be left"), "{said}");
    let mut elsewhere = tensor("weights");
    put_integer(&mut elsewhere, 14, 1);
    let nodes = [node("Mul", &["X", "weights"], &["Y"]), classifier(), zip()];
    let said = refusal(&nodes, &[elsewhere], &[output("Y", Some(1)), output("maps", None)]);
    assert!(said.contains("initializer `weights` is in another file"), "{said}");
    assert!(cut_model(b"").expect_err("no model").contains("graph: missing field"));
    let whole = model(&nodes, &[], &[scores()]);
    assert!(cut_model(&whole[..whole.len() - 9]).is_err());
}
