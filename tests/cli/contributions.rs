//! `fangorn predict --output contributions` and `--output interactions`.

use super::*;

#[test]
fn contributions_have_the_features_names_and_add_up() {
    let rows = zoo("churn", "rows.csv");
    let margins = csv::<f64>(&prints(&["predict", &model("churn"), "--rows", &rows, "--output", "margin"]));
    let text = prints(&["predict", &model("churn"), "--rows", &rows, "--output", "contributions"]);
    let (header, values) = text.split_once('\n').expect("a header");
    assert!(header.ends_with(",bias"), "{header}");
    let values = csv::<f64>(values);
    assert_eq!(values.len(), margins.len());
    for (row, margin) in values.iter().zip(margins) {
        assert_eq!(row.len(), header.split(',').count());
        assert!((row.iter().sum::<f64>() - margin[0]).abs() < 1e-5);
    }
}

#[test]
fn a_model_without_covers_is_refused_by_name() {
    let rows = zoo("onnx-logistic", "rows.npy");
    let run = ["predict", &model("onnx-logistic"), "--rows", &rows, "--output", "contributions"];
    refuses(&run, &["no covers", "ONNX", "--background"]);
    let rows = zoo("churn", "rows.csv");
    let run = ["predict", &model("churn"), "--rows", &rows, "--output", "contributions", "--sum", "exact"];
    refuses(&run, &["--sum", "contributions"]);
}

/// With a background, models without covers have contributions, too: they add up to margins, and the bias is the mean
/// margin of the background. A background of the row itself leaves nothing to explain.
#[test]
fn a_background_explains_models_with_and_without_covers() {
    for (name, file) in
        [("churn", "rows.csv"), ("onnx-logistic", "rows.npy"), ("lightgbm-binary", "rows.npy")]
    {
        let (model, rows) = (model(name), zoo(name, file));
        let margins = csv::<f64>(&prints(&["predict", &model, "--rows", &rows, "--output", "margin"]));
        let run = ["predict", &model, "--rows", &rows, "--output", "contributions", "--background", &rows];
        let text = prints(&run);
        let values = csv::<f64>(text.split_once('\n').expect("a header").1);
        assert_eq!(values.len(), margins.len(), "{name}");
        let outputs = margins[0].len();
        for output in 0..outputs {
            let mean = margins.iter().map(|margin| margin[output]).sum::<f64>() / margins.len() as f64;
            let mut most = 0f64;
            for (row, margin) in values.iter().zip(&margins) {
                let row = &row[output * row.len() / outputs..][..row.len() / outputs];
                let (bias, features) = row.split_last().expect("a bias");
                assert!((bias - mean).abs() < 1e-4, "{name}, output {output}: bias {bias} for {mean}");
                assert!((row.iter().sum::<f64>() - margin[output]).abs() < 1e-4, "{name}, output {output}");
                most = features.iter().fold(most, |most, value| most.max(value.abs()));
            }
            assert!(most > 1e-3, "{name}, output {output}");
        }
    }
}

#[test]
fn a_background_is_for_contributions_and_has_rows() {
    let run = ["predict", &model("churn"), "--rows", "-", "--output", "contributions", "--background", "-"];
    refuses(&run, &["--rows and --background", "standard input"]);
    let (model, rows) = (model("churn"), zoo("churn", "rows.csv"));
    let run = ["predict", &model, "--rows", &rows, "--background", &rows];
    refuses(&run, &["--background", "--output contributions"]);
    let run =
        ["predict", &model, "--rows", &rows, "--output", "contributions", "--background", "nowhere.csv"];
    refuses(&run, &["nowhere.csv"]);
}

/// A feature may be called `bias`.
#[test]
fn the_bias_has_a_name_of_its_own() {
    let scratch = Scratch::new("bias");
    let json = std::fs::read_to_string(model("odd-feature-names")).expect("a model");
    let renamed = scratch.file("model.json", json.replace("a b", "bias"));
    let rows = zoo("odd-feature-names", "rows.npy");
    let table = prints(&["predict", &renamed, "--rows", &rows, "--output", "contributions"]);
    let header = table.lines().next().expect("a header");
    assert!(header.starts_with("bias,") && header.ends_with(",bias_"), "{header}");
}

#[test]
fn lines_of_interactions_add_up_to_contributions() {
    let rows = zoo("churn", "rows.csv");
    let of = |output| prints(&["predict", &model("churn"), "--rows", &rows, "--output", output]);
    let (contributions, interactions) = (of("contributions"), of("interactions"));
    let (single, contributions) = contributions.split_once('\n').expect("a header");
    let (header, interactions) = interactions.split_once('\n').expect("a header");
    let single: Vec<&str> = single.split(',').collect();
    let header: Vec<&str> = header.split(',').collect();
    let width = single.len();
    assert_eq!(header.len(), width * width);
    assert_eq!((header[0], header[width * width - 1]), (single[0], "bias"));
    assert_eq!(header[1], format!("{} × {}", single[0], single[1]));
    let interactions = csv::<f64>(interactions);
    let contributions = csv::<f64>(contributions);
    assert_eq!(interactions.len(), contributions.len());
    for (matrix, contributions) in interactions.iter().zip(contributions) {
        for (line, contribution) in matrix.chunks_exact(width).zip(contributions) {
            assert!((line.iter().sum::<f64>() - contribution).abs() < 1e-4);
        }
    }
}

/// The reference interpreter and burn's backends give what the CPU gives.
#[test]
fn every_backend_explains() {
    let rows = zoo("churn", "rows.csv");
    let gpu = std::env::var_os("FANGORN_REQUIRE_GPU").is_some();
    let built_in =
        [("reference", true), ("flex", cfg!(feature = "flex")), ("wgpu", gpu && cfg!(feature = "wgpu"))];
    let outputs: [&[&str]; 4] = [
        &["contributions"],
        &["interactions"],
        &["contributions", "--background", &rows],
        &["interactions", "--background", &rows],
    ];
    for output in outputs {
        let of = |backend| {
            let model = model("churn");
            let run = ["predict", &model, "--rows", &rows, "--backend", backend, "--output"];
            let text = prints(&[&run[..], output].concat());
            csv::<f64>(text.split_once('\n').expect("a header").1)
        };
        let expected = of("cpu");
        for (backend, _) in built_in.into_iter().filter(|(_, built_in)| *built_in) {
            if backend == "reference" && output.len() > 1 {
                continue;
            }
            let found = of(backend);
            let lengths = |rows: &[Vec<f64>]| rows.iter().map(Vec::len).collect::<Vec<_>>();
            assert_eq!(lengths(&found), lengths(&expected), "{output:?} on {backend}");
            for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
                assert!((found - expected).abs() < 1e-5, "{output:?} on {backend}: {found} for {expected}");
            }
        }
    }
    let (model, without) = (model("churn"), model("onnx-logistic"));
    let run = ["predict", &model, "--rows", &rows, "--backend", "reference"];
    let run = [&run[..], &["--output", "contributions", "--background", &rows]].concat();
    refuses(&run, &["--backend", "background", "CPU"]);
    let rows = zoo("onnx-logistic", "rows.npy");
    let run = ["predict", &without, "--rows", &rows, "--backend", "reference", "--output", "contributions"];
    refuses(&run, &["no covers", "ONNX"]);
}

/// A bench times contributions, and says by which algorithm.
#[test]
fn contributions_are_timed() {
    let (model, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let bench =
        ["bench", &model, "--rows", &rows, "--batch", "4", "--seconds", "0.01", "--output", "contributions"];
    let found = prints(&[&bench[..], &["--json"]].concat());
    assert!(found.contains("quadrature"), "{found}");
    let of_pairs = [&bench[..9], &["interactions", "--json"]].concat();
    assert!(prints(&of_pairs).contains("cpu_us_per_row_median"));
    let found = prints(&[&bench[..], &["--background", &rows, "--json"]].concat());
    assert!(found.contains("background"), "{found}");
    let found = prints(&[&of_pairs[..], &["--background", &rows]].concat());
    assert!(found.contains("background"), "{found}");
    let of_margins = ["bench", &model, "--rows", &rows, "--background", &rows];
    refuses(&of_margins, &["--background", "--output contributions"]);
    refuses(&[&bench[..], &["--backend", "reference"]].concat(), &["contributions", "--backend"]);
    if cfg!(feature = "flex") {
        for run in [&of_pairs[..], &[&bench[..], &["--background", &rows, "--json"]].concat()] {
            assert!(prints(&[run, &["--backend", "flex"]].concat()).contains("cpu_us_per_row_median"));
        }
    }
}
