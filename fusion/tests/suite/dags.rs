//! Graphs: their text, sizes, common subexpressions and refusals.

use fangorn_fusion::{
    Bindings, Matrix,
    dag::{Builder, Dag, Format},
};

#[test]
fn a_graph_parses_back() {
    let builder = Builder::new();
    let (x, s) = (builder.dense("X \"odd\"\n", 30, 4), builder.csr("S", 30, 4, 0.25));
    let value = (x * s + 0.5).log().max(1e-9).row_sums() / -x.columns(1, 2);
    builder.output("value", value);
    builder.output("product", s.transpose().matmul(x));
    let dag = builder.finish().unwrap();
    assert_eq!(Dag::parse(&dag.to_string()).unwrap(), dag);
}

#[test]
fn a_common_subexpression_is_one_node() {
    let builder = Builder::new();
    let (x, y) = (builder.dense("X", 3, 3), builder.dense("Y", 3, 3));
    assert_eq!((x * y).node(), (x * y).node());
    assert_ne!((x * y).node(), (y * x).node());
    assert_eq!(x.transpose().transpose().node(), x.node());
}

#[test]
fn sizes_are_propagated() {
    let builder = Builder::new();
    let s = builder.csr("S", 100, 50, 0.1);
    let (u, v) = (builder.dense("U", 100, 5), builder.dense("V", 50, 5));
    let product = s * u.matmul(v.transpose());
    builder.output("kept", product);
    builder.output("ones", s.not_equal(0.0));
    builder.output("full", (s + 1.0) * 2.0);
    let dag = builder.finish().unwrap();
    let size = |name: &str| dag.size(dag.outputs().iter().find(|output| output.name == name).unwrap().node);
    assert_eq!((size("kept").format, size("kept").filled), (Format::Csr, 0.1));
    assert_eq!(size("kept").bytes(), 12.0 * 500.0 + 8.0 * 101.0);
    assert_eq!((size("ones").format, size("ones").filled), (Format::Csr, 0.1));
    assert_eq!((size("full").format, size("full").filled), (Format::Dense, 1.0));
}

#[test]
fn what_does_not_fit_is_refused_with_its_place() {
    let builder = Builder::new();
    let (x, y) = (builder.dense("X", 3, 4), builder.dense("Y", 3, 5));
    builder.output("sum", x + y);
    let error = builder.finish().unwrap_err().to_string();
    assert_eq!(error, "node %2: add of 3 x 4 and 3 x 5: lengths must be equal, or one of them 1");
    for (text, problem) in [
        ("%0 = input \"X\": dense[3, 0]\noutput \"x\": %0", "no rows or no columns"),
        ("%0 = input \"X\": dense[3, 99999999999999]\noutput \"x\": %0", "2^32"),
        (
            "%0 = input \"X\": dense[3, 2]\n%1 = sine(%0)\noutput \"x\": %1",
            "line 2 of the graph's text: there is no",
        ),
        ("%0 = abs(%1)\noutput \"x\": %0", "does not come before"),
        ("%0 = input \"X\": dense[3, 2]", "no output"),
        ("%0 = input \"X\": csr[3, 2] filled 2\noutput \"x\": %0", "from 0 to 1"),
        ("%0 = input \"X: dense[3, 2]", "closing quotation mark"),
    ] {
        let error = Dag::parse(text).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
    }
}

#[test]
fn the_interpreter_computes_by_hand() {
    let builder = Builder::new();
    let (x, s) = (builder.dense("X", 2, 3), builder.csr("S", 2, 3, 0.5));
    builder.output("gram", x.transpose().matmul(s));
    builder.output("scaled", x / x.row_sums());
    builder.output("absorbed", s * (x - x).log());
    let dag = builder.finish().unwrap();
    let x = vec![1.0, 2.0, 5.0, 3.0, 1.0, 0.0];
    let s = [0.0, 1.0, 0.0, 2.0, 0.0, 0.0];
    let bindings = Bindings::from([
        ("X".to_owned(), Matrix::dense((2, 3), x).unwrap()),
        ("S".to_owned(), Matrix::csr((2, 3), &s).unwrap()),
    ]);
    let found = dag.interpret(&bindings).unwrap();
    assert_eq!(found["gram"].to_dense(), [6.0, 1.0, 0.0, 2.0, 2.0, 0.0, 0.0, 5.0, 0.0]);
    assert_eq!(found["scaled"].to_dense(), [0.125, 0.25, 0.625, 0.75, 0.25, 0.0]);
    let infinite = f64::NEG_INFINITY;
    assert_eq!(found["absorbed"].to_dense(), [0.0, infinite, 0.0, infinite, 0.0, 0.0]);
    let error = dag.interpret(&Bindings::new()).unwrap_err().to_string();
    assert!(error.contains("nothing is bound"), "{error}");
}
