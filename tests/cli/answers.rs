//! What a producer's users may ask for: the rounds that predict, what is a missing value, and where sums start.

use serde_json::Value;

use crate::{Scratch, csv, fangorn, model, npy, prints, read_npy, refuses, text, zoo};

/// Values in a file, however many columns they are written in.
fn values(file: &str) -> Vec<f32> {
    read_npy(file).1
}

/// What is predicted into a file, and what is said meanwhile.
fn predicted(scratch: &Scratch, arguments: &[&str]) -> (Vec<f32>, String) {
    let out = scratch.path("predicted.npy");
    let output = fangorn(&[&["predict"][..], arguments, &["-o", &out]].concat());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
    (values(&out), said)
}

#[track_caller]
fn assert_near(found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len());
    let same = |(f, e): (&f32, &f32)| {
        f == e || (f.is_nan() && e.is_nan()) || (f - e).abs() <= 1e-6 * e.abs().max(1.0)
    };
    let off = found.iter().zip(expected).position(|pair| !same(pair));
    assert_eq!(off.map(|i| (i, found[i], expected[i])), None);
}

#[test]
fn the_best_rounds_predict_where_they_are_asked_for() {
    let scratch = Scratch::new("iterations");
    let (stopped, rows) = (model("early-stopped"), zoo("early-stopped", "rows.npy"));
    for (output, all, best) in
        [("margin", "margin.npy", "margin-best.npy"), ("value", "output.npy", "output-best.npy")]
    {
        let [all, best] = [all, best].map(|file| values(&zoo("early-stopped", file)));
        let with = |more: &[&str]| {
            predicted(&scratch, &[&[&*stopped, "--rows", &rows, "--output", output][..], more].concat())
        };
        let (found, said) = with(&[]);
        assert_near(&found, &all);
        assert!(said.contains("the best iteration is 2 (of 8)"), "{said}");
        assert!(said.contains("--iterations best") && said.lines().count() == 1, "{said}");
        for (iterations, expected) in
            [("all", &all), ("0..8", &all), ("0..0", &all), ("best", &best), ("0..3", &best)]
        {
            let (found, said) = with(&["--iterations", iterations]);
            assert_near(&found, expected);
            assert_eq!(said, "", "{iterations}");
        }
    }
    let predict = ["predict", &stopped, "--rows", &rows, "--iterations"];
    refuses(&[&predict[..], &["0..9"]].concat(), &["model.ubj", "0..9 of a model with 8"]);
    assert_eq!(fangorn(&[&predict[..], &["worst"]].concat()).status.code(), Some(2));

    // What is converted keeps all rounds and the best one's number, and knows no rounds.
    let own = scratch.path("stopped.fangorn");
    prints(&["convert", &stopped, "-o", &own]);
    refuses(&["predict", &own, "--rows", &rows, "--iterations", "best"], &["rounds of boosting"]);
    for model in [&stopped, &own] {
        let printed = prints(&["inspect", model]);
        assert!(printed.contains("\nbest iteration 2 (of 8); predicts with all 8"), "{printed}");
        let report: Value = serde_json::from_str(&prints(&["inspect", model, "--json"])).expect("JSON");
        assert_eq!((&report["best_iteration"], &report["rounds"]), (&2.into(), &8.into()));
    }
}

#[test]
fn rounds_of_other_models_are_chosen_or_refused_by_name() {
    let rows = |name: &str| zoo(name, "rows.npy");
    let predict = |name: &str, iterations: &str| {
        fangorn(&["predict", &model(name), "--rows", &rows(name), "--iterations", iterations])
    };
    for name in ["churn", "lightgbm-binary", "onnx-logistic"] {
        let refused = predict(name, "best");
        crate::assert_refused(&refused, &["no best iteration", "--iterations 0..100"]);
    }
    for name in ["churn", "lightgbm-binary", "catboost-logloss", "sklearn-boosting-classifier"] {
        let [first, all] = ["0..1", "all"].map(|iterations| predict(name, iterations));
        assert_eq!(first.status.code(), Some(0), "{name}: {}", text(&first.stderr));
        assert!(first.stderr.is_empty() && first.stdout != all.stdout, "{name}");
    }
    crate::assert_refused(&predict("onnx-logistic", "0..1"), &["model.onnx", "load the whole model"]);
    // The last round is the best one, which goes without saying.
    assert!(
        prints(&["inspect", &model("logistic-1.7.6")])
            .contains("\nbest iteration 19 (of 20), the last one\n")
    );
    prints(&["predict", &model("logistic-1.7.6"), "--rows", &rows("logistic-1.7.6")]);
}

#[test]
fn sums_may_start_at_no_finite_number() {
    let scratch = Scratch::new("base");
    let rows = zoo("logistic-1.7.6", "rows.npy");
    let json = std::fs::read_to_string(model("logistic-1.7.6")).expect("a model");
    for (base, margin, value) in [("0E0", "-inf", "0.0"), ("-5E-1", "NaN", "NaN"), ("1E39", "inf", "inf")] {
        let json = json.replace("binary:logistic", "count:poisson");
        let json = json.replace(r#""base_score":"5E-1""#, &format!(r#""base_score":"{base}""#));
        let poisson = scratch.file("poisson.json", json);
        for (output, expected) in [("margin", margin), ("value", value)] {
            let predict = ["predict", &poisson, "--rows", &rows, "--output", output];
            for more in [&[][..], &["--backend", "reference"], &["--sum", "tree"]] {
                let printed = prints(&[&predict[..], more].concat());
                assert!(
                    printed.lines().all(|line| line == expected),
                    "{base}, {output}, {more:?}: {printed}"
                );
            }
            let exact = [&predict[..], &["--sum", "exact"]].concat();
            refuses(&exact, &["base_score: value 0 is", "use the contract `any` or `tree`"]);
        }
        assert!(prints(&["inspect", &poisson]).contains(&format!("\nbase score  {margin}\n")));
    }
}

#[test]
fn a_value_may_stand_for_missing_ones() {
    let scratch = Scratch::new("missing");
    let model = model("logistic-missing");
    let (shape, rows) = read_npy::<f32>(&zoo("logistic-missing", "rows.npy"));
    assert!(rows.iter().any(|v| v.is_nan()));
    let expected = prints(&["predict", &model, "--rows", &zoo("logistic-missing", "rows.npy")]);
    let file = |name: &str, rows: Vec<f64>| scratch.file(name, npy(&shape, npyz::Order::C, &rows));
    let filled = |by: f64| rows.iter().map(move |v| if v.is_nan() { by } else { f64::from(*v) }).collect();
    for (name, value, rows) in [
        ("number.npy", "-999", filled(-999.0)),
        // Both sides are f32 before they are compared.
        ("near.npy", "-999.1", filled(-999.1 + 1e-9)),
        ("infinite.npy", "-inf", filled(f64::NEG_INFINITY)),
        ("plain.npy", "nan", filled(f64::NAN)),
        // NaN stays missing beside the value.
        ("beside.npy", "-12345", filled(f64::NAN)),
    ] {
        let rows = file(name, rows);
        assert_eq!(prints(&["predict", &model, "--rows", &rows, "--missing", value]), expected, "{value}");
        assert_eq!(prints(&["predict", &model, "--rows", &rows, &format!("--missing={value}")]), expected);
    }
    // The neighbours of the value are values.
    let off: Vec<f32> = rows.iter().map(|v| if v.is_nan() { (-999f32).next_up() } else { *v }).collect();
    let off = scratch.file("off.npy", npy(&shape, npyz::Order::C, &off));
    assert_ne!(prints(&["predict", &model, "--rows", &off, "--missing", "-999"]), expected);
    assert_eq!(fangorn(&["predict", &model, "--rows", &off, "--missing", "none"]).status.code(), Some(2));
}

#[test]
fn sums_start_at_margins_of_each_rows_own() {
    let scratch = Scratch::new("base-margin");
    for name in [
        "churn",
        "poisson",
        "softprob",
        "dart-softprob",
        "vector-leaf-softprob",
        "catboost-logloss",
        "catboost-one-vs-all",
    ] {
        let file = |file: &str| zoo(name, file);
        let (model, rows, starts) = (model(name), file("rows.npy"), file("base_margin.npy"));
        for (output, expected) in [("margin", file("margin-from.npy")), ("value", file("output-from.npy"))] {
            let predict = ["predict", &model, "--rows", &rows, "--output", output, "--base-margin", &starts];
            for more in [&[][..], &["--backend", "reference"], &["--sum", "tree"]] {
                let found = fangorn(&[&predict[..], more, &["--expect", &expected]].concat());
                let said = text(&found.stderr);
                assert_eq!(found.status.code(), Some(0), "{name}, {output}, {more:?}: {said}");
                // XGBoost's sums to the last bit, also where they start at 2^24.
                if output == "margin" && !name.starts_with("catboost") {
                    assert!(said.contains("largest difference 0.0 "), "{name}: {said}");
                }
            }
        }
    }
    // The class is that of the values.
    let (shape, from) = read_npy::<f32>(&zoo("softprob", "output-from.npy"));
    let largest = |row: &[f32]| (1..row.len()).fold(0, |best, i| if row[i] > row[best] { i } else { best });
    let expected: Vec<i32> = from.chunks(shape[1] as usize).map(|row| largest(row) as i32).collect();
    let of = |name: &str| [model(name), zoo(name, "rows.npy"), zoo(name, "base_margin.npy")];
    let [softprob, rows, starts] = of("softprob");
    let class = ["predict", &softprob, "--rows", &rows, "--output", "class", "--base-margin", &starts];
    assert_eq!(csv::<i32>(&prints(&class)).concat(), expected);
    // One column may be flat, and f64 is rounded.
    let [churn, rows, starts] = of("churn");
    let (shape, values) = read_npy::<f32>(&starts);
    let wide: Vec<f64> = values.iter().map(|v| f64::from(*v) * (1.0 + 1e-12)).collect();
    let flat = scratch.file("flat.npy", npy(&shape[..1], npyz::Order::C, &wide));
    let predict = |starts: &str| prints(&["predict", &churn, "--rows", &rows, "--base-margin", starts]);
    assert_eq!(predict(&flat), predict(&starts));
    let short = scratch.file("short.npy", npy(&[shape[0] - 1, 1], npyz::Order::C, &values[1..]));
    refuses(
        &["predict", &churn, "--rows", &rows, "--base-margin", &short],
        &["short.npy", "19 rows", "20 are"],
    );
    let [softprob, rows, _] = of("softprob");
    let wrong = zoo("dart-softprob", "base_margin.npy");
    refuses(
        &["predict", &softprob, "--rows", &rows, "--base-margin", &wrong],
        &["3 columns", "margins have 5"],
    );
    let [churn, rows, starts] = of("churn");
    let churn = ["predict", &churn, "--rows", &rows, "--base-margin", &starts];
    refuses(
        &[&churn[..], &["--output", "leaf"]].concat(),
        &["--base-margin", "margins, values and classes", "leave it out"],
    );
    refuses(&[&churn[..], &["--sum", "exact"]].concat(), &["--base-margin", "--sum exact"]);
    let lightgbm = [model("lightgbm-binary"), zoo("lightgbm-binary", "rows.npy")];
    let lightgbm = ["predict", &lightgbm[0], "--rows", &lightgbm[1], "--base-margin", &starts];
    refuses(&lightgbm, &["--base-margin", "lightgbm", "--output margin"]);
}

#[test]
fn labels_that_are_texts_stay_as_they_are() {
    let scratch = Scratch::new("labels");
    let rows = zoo("catboost-labels", "rows.npy");
    let json = std::fs::read(model("catboost-labels")).expect("a model");
    let json: Value = serde_json::from_slice(&json).expect("JSON");
    let classes = |model: &str| prints(&["predict", model, "--rows", &rows, "--output", "class"]);
    let expected = classes(&model("catboost-labels"));
    assert!(expected.lines().all(|line| line == "3" || line == "8") && expected.contains('3'), "{expected}");
    for (sort, names, [no, yes]) in [
        ("String", serde_json::json!(["03", "8"]), ["03", "8"]),
        ("String", serde_json::json!(["+3", " 8"]), ["+3", " 8"]),
        ("Float", serde_json::json!([3, 8]), ["3.0", "8.0"]),
        ("Integer", serde_json::json!([30, 1099511627776i64]), ["30", "1099511627776"]),
    ] {
        let mut json = json.clone();
        let params = json.pointer_mut("/model_info/class_params").expect("the classes");
        params["class_label_type"] = sort.into();
        params["class_names"] = names;
        let named = scratch.file("model.json", json.to_string());
        let own = scratch.path("model.fangorn");
        prints(&["convert", &named, "-o", &own]);
        let label = |line: &str| if line == "3" { no } else { yes };
        let expected: Vec<&str> = expected.lines().map(label).collect();
        for model in [&named, &own] {
            assert_eq!(classes(model).lines().collect::<Vec<_>>(), expected, "{sort}");
        }
    }
}
