//! The command line of the README's first command, which is built without the feature `tables`.

use crate::{Scratch, fangorn, prints, refuses, text, zoo};

#[test]
fn it_predicts_keeps_columns_and_goes_on() {
    let (model, rows) = (zoo("churn", "model.ubj"), zoo("churn", "rows.csv"));
    let found = fangorn(&["predict", &model, "--rows", &rows, "--expect", &zoo("churn", "output.npy")]);
    assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
    assert!(text(&found.stderr).contains("largest difference 0.0"), "{}", text(&found.stderr));
    let scratch = Scratch::new("lean");
    let with_id = std::fs::read_to_string(&rows).expect("rows");
    let with_id: String = with_id
        .lines()
        .enumerate()
        .map(|(at, line)| if at == 0 { format!("id,{line}\n") } else { format!("\"a,{at}\",{line}\n") })
        .collect();
    let with_id = scratch.file("id.csv", with_id);
    let out = scratch.path("out.csv");
    let line = ["predict", &model, "--rows", &with_id, "--keep", "id", "-o", &out];
    let plain = prints(&["predict", &model, "--rows", &rows]);
    let expected: String =
        plain.lines().enumerate().map(|(at, value)| format!("\"a,{}\",{value}\n", at + 1)).collect();
    for resume in [&[][..], &["--resume"]] {
        prints(&[&line[..], resume].concat());
        assert_eq!(std::fs::read_to_string(&out).expect("predictions"), format!("id,value\n{expected}"));
    }
}

#[test]
fn files_of_parquet_and_arrow_are_refused_by_name() {
    let (model, rows) = (zoo("churn", "model.ubj"), zoo("churn", "rows.csv"));
    let scratch = Scratch::new("lean-refused");
    for name in ["rows.parquet", "rows.PQ", "rows.feather", "rows.arrow"] {
        let file = scratch.file(name, "");
        let phrases = [name, "--features tables"];
        refuses(&["predict", &model, "--rows", &file], &phrases);
        refuses(&["predict", &model, "--rows", &rows, "--expect", &file], &phrases);
        refuses(&["predict", &model, "--rows", &rows, "-o", &file], &phrases);
        refuses(&["bench", &model, "--rows", &file], &phrases);
        refuses(&["importance", &model, "--rows", &file], &phrases);
    }
}
