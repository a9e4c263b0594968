//! The memo tables that the paper prints, or describes.

use fangorn_fusion::{
    dag::{Builder, Dag},
    explore::{Close, MemoTable, Template},
};

/// Expression (2) of the paper, numbered as figure 5 numbers it: operators 4 to 11.
pub fn expression_2() -> Dag {
    let builder = Builder::new();
    let _first = builder.dense("W", 1, 1);
    let (x, v, p) =
        (builder.dense("X", 100_000, 100), builder.dense("v", 100, 4), builder.dense("P", 100_000, 5));
    let product = x.matmul(v);
    let p = p.columns(0, 4);
    let q = p * product;
    let scaled = p * q.row_sums();
    let difference = q - scaled;
    builder.output("H", x.transpose().matmul(difference));
    builder.finish().unwrap()
}

/// Expression (1), over X with a share of elements that are not 0.
pub fn expression_1(filled: f64) -> Dag {
    let builder = Builder::new();
    let x = builder.csr("X", 20_000, 10_000, filled);
    let (u, v, r) =
        (builder.dense("U", 20_000, 20), builder.dense("V", 10_000, 20), builder.dense("r", 20_000, 1));
    let weighted = x.not_equal(0.0) * u.matmul(v.transpose());
    builder.output("O", weighted.matmul(v) + u * 1e-6 * r);
    builder.finish().unwrap()
}

#[test]
fn figure_5_expression_2() {
    let dag = expression_2();
    let memo = MemoTable::explore(&dag);
    // Eight groups; three entries of 11; no C(-1) at 7, whose rowSums closes the Cell template.
    assert_eq!(
        memo.display(&dag),
        "11 ba(+*): R(-1,9) R(10,-1) R(10,9)
10 r(t): R(-1)
9 b(-): C(-1,-1) C(-1,8) C(6,-1) C(6,8) R(-1,8) R(6,-1) R(6,8)
8 b(*): C(-1,-1) R(-1,7) R(5,-1) R(5,7)
7 ua(+R): C(6) R(-1) R(6)
6 b(*): C(-1,-1) R(-1,4) R(5,-1) R(5,4)
5 rix: R(-1)
4 ba(+*): R(-1,-1)
"
    );
    let close = |node: usize| memo.entries(node).iter().map(|entry| entry.close).collect::<Vec<_>>();
    assert_eq!(close(11), [Close::ClosedValid; 3]);
    assert_eq!(close(10), [Close::OpenInvalid]);
    assert_eq!(close(7), [Close::ClosedValid, Close::OpenValid, Close::OpenValid]);
}

#[test]
fn dominated_entries_of_figure_5() {
    let dag = expression_2();
    let memo = MemoTable::explore(&dag).without_dominated(&dag);
    let texts = |node: usize| memo.entries(node).iter().map(ToString::to_string).collect::<Vec<_>>();
    // R(10,9) dominates R(10,-1), but R(6,8) does not dominate R(-1,8): group 6 has two consumers.
    assert_eq!(texts(11), ["R(10,9)"]);
    assert!(texts(9).contains(&"R(-1,8)".to_owned()), "{:?}", texts(9));
}

#[test]
fn expression_1_has_an_outer_template_that_ends_at_the_product() {
    let dag = expression_1(0.01);
    let memo = MemoTable::explore(&dag);
    assert_eq!(
        memo.display(&dag),
        "13 b(+): C(-1,-1) C(-1,12) R(9,-1) R(9,12)
12 b(*): C(-1,-1) C(11,-1)
11 b(*): C(-1,-1)
9 ba(+*): R(-1,-1) R(8,-1) O(8,-1)
8 b(*): C(-1,-1) C(5,-1) O(-1,7) O(5,7)
7 ba(+*): O(-1,-1)
5 b(!=): C(-1,-1)
"
    );
}

#[test]
fn an_outer_product_without_a_sparse_factor_never_ends() {
    let builder = Builder::new();
    let (x, u, v) =
        (builder.dense("X", 2000, 1000), builder.dense("U", 2000, 20), builder.dense("V", 1000, 20));
    builder.output("loss", (x * (u.matmul(v.transpose()) + 1e-15).log()).sum());
    let dag = builder.finish().unwrap();
    let memo = MemoTable::explore(&dag);
    for node in memo.nodes() {
        let ends = |close: Close| close != Close::OpenInvalid;
        let outer = memo.entries(node).iter().filter(|entry| entry.template == Template::Outer);
        assert!(outer.clone().all(|entry| !ends(entry.close)), "{}", memo.display(&dag));
    }
}

#[test]
fn figure_1_full_aggregates_open_multi_aggregates() {
    let builder = Builder::new();
    let (x, y) = (builder.dense("X", 1000, 100), builder.dense("Y", 1000, 100));
    builder.output("a", x.square().sum());
    builder.output("b", (x * y).sum());
    let dag = builder.finish().unwrap();
    let text = MemoTable::explore(&dag).display(&dag);
    assert_eq!(
        text,
        "5 ua(+RC): C(4) M(4)
4 b(*): C(-1,-1)
3 ua(+RC): C(2) M(2)
2 u(square): C(-1)
"
    );
}
