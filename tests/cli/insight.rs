//! `fangorn importance`, `fangorn drift` and `fangorn report`.

use fangorn::{
    Forest,
    contributions::{Explainer, Interventional},
    cpu::Rows,
    file::Contents,
    import::{self, LoadOptions},
    insight::{Drift, DriftCounter, FeatureBins, MeanContributions, SplitImportances},
};

use super::*;

fn loaded(model: &str) -> Forest {
    let options = LoadOptions { gains: true, raw_categories: true, ..LoadOptions::default() };
    import::load(model.as_ref(), &options).expect("the model")
}

fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&prints(arguments)).expect("JSON")
}

/// The rows of churn with a column of labels: `yes` where the row's index is odd.
fn labelled(scratch: &Scratch, name: &str, labels: [&str; 2]) -> String {
    let text = std::fs::read_to_string(zoo("churn", "rows.csv")).expect("rows");
    let mut lines = text.lines();
    let mut all = format!("answer,{}\n", lines.next().expect("a header"));
    for (row, line) in lines.enumerate() {
        all += &format!("{},{line}\n", labels[row % 2]);
    }
    scratch.file(name, all)
}

#[test]
fn importances_are_the_librarys() {
    let (model, rows) = (model("churn"), zoo("churn", "rows.csv"));
    let forest = loaded(&model);
    let splits = SplitImportances::new(&forest);
    let found = json(&["importance", &model, "--rows", &rows, "--json"]);
    let features = found["features"].as_array().expect("features");
    assert_eq!(features.len(), forest.features.len());
    let values = read_npy::<f32>(&zoo("churn", "rows.npy")).1;
    let rows_of = Rows::new(&values, forest.features.len()).expect("rows");
    let mut means = MeanContributions::new(&forest);
    means.add(&Explainer::new(&forest).expect("one").contributions(&rows_of).expect("all")).expect("rows");
    let mut before = f64::INFINITY;
    for feature in features {
        let column = feature["column"].as_u64().expect("a column") as usize;
        assert_eq!(feature["feature"].as_str(), forest.features[column].name.as_deref());
        let number = |kind: &str| feature[kind].as_f64().expect(kind);
        // The parser of JSON may be wrong in the last bit.
        let is_near = |found: f64, expected: f64| (found - expected).abs() <= 1e-12 * expected;
        assert!(is_near(number("total_gain"), splits.total_gain.as_ref().expect("gains")[column]));
        assert!(is_near(number("total_cover"), splits.total_cover.as_ref().expect("covers")[column]));
        assert_eq!(number("weight"), splits.weight[column] as f64);
        assert!((number("contribution") - means.total()[column]).abs() < 1e-9);
        assert!(number("contribution") <= before, "sorted by the first kind");
        before = number("contribution");
    }
    let scratch = Scratch::new("importance");
    let csv = scratch.path("all.csv");
    let printed = prints(&["importance", &model, "--kind", "gain,weight", "-o", &csv]);
    assert_eq!(printed, "");
    let text = std::fs::read_to_string(csv).expect("a file");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("feature,gain,weight"));
    let first: Vec<&str> = lines.next().expect("a line").split(',').collect();
    let column = forest.features.iter().position(|f| f.name.as_deref() == Some(first[0])).expect("a feature");
    assert_eq!(first[1].parse::<f64>().expect("a number"), splits.gain().expect("gains")[column]);
    assert_eq!(lines.count() + 1, forest.features.len());
}

#[test]
fn permutations_take_labels_of_classes() {
    let (scratch, model) = (Scratch::new("permutation"), model("churn"));
    let rows = labelled(&scratch, "rows.csv", ["0", "1"]);
    let of = |more: &[&str]| {
        let all =
            ["importance", &model, "--rows", &rows, "--label", "answer", "--kind", "permutation", "--json"];
        json(&[&all[..], more].concat())
    };
    let found = of(&[]);
    let note = found["notes"][0].as_str().expect("a note");
    assert!(note.contains("logloss") && note.contains("20 of 20 rows, 5 repeats, seed 0"), "{note}");
    let first = &found["features"][0];
    assert!(first["permutation"].is_f64() && first["permutation_deviation"].as_f64() > Some(0.0), "{first}");
    assert_eq!(of(&[]), found);
    assert_ne!(of(&["--seed", "1"]), found);
    assert!(of(&["--metric", "error"])["notes"][0].as_str().is_some_and(|note| note.contains("error")));
    let few = of(&["--sample", "7"]);
    assert!(few["notes"][0].as_str().is_some_and(|note| note.contains("7 of 20 rows")), "{few}");
    // Truth values are classes, too.
    let rows = labelled(&scratch, "truths.csv", ["False", "True"]);
    let same = json(&[
        "importance",
        &model,
        "--rows",
        &rows,
        "--label",
        "answer",
        "--kind",
        "permutation",
        "--json",
    ]);
    assert_eq!(same["features"], found["features"]);
}

/// Labels that are words may stand in a table as the numbers of their classes.
#[test]
fn labels_are_classes_by_name_or_by_number() {
    let scratch = Scratch::new("numbered-labels");
    let bytes = std::fs::read(model("catboost-labels")).expect("a model");
    let mut json_model: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    let params = &mut json_model["model_info"]["class_params"];
    (params["class_label_type"], params["class_names"]) = ("String".into(), serde_json::json!(["no", "yes"]));
    let model = scratch.file("model.json", json_model.to_string());
    let labels = loaded(&model).classes.labels;
    assert_eq!(labels, ["no", "yes"]);
    let (shape, values) = read_npy::<f32>(&zoo("catboost-labels", "rows.npy"));
    let columns = shape[1] as usize;
    let table = |name: &str, labels: &[String]| {
        let names: Vec<String> = (0..columns).map(|column| format!("f{column}")).collect();
        let mut text = format!("{},answer\n", names.join(","));
        for (row, values) in values.chunks_exact(columns).enumerate() {
            let cells: Vec<String> = values.iter().map(f32::to_string).collect();
            text += &format!("{},{}\n", cells.join(","), labels[row % labels.len()]);
        }
        scratch.file(name, text)
    };
    let numbers: Vec<String> = (0..labels.len()).map(|at| at.to_string()).collect();
    let of = |rows: &str| {
        json(&["importance", &model, "--rows", rows, "--label", "answer", "--kind", "permutation", "--json"])
    };
    assert_eq!(of(&table("names.csv", &labels))["features"], of(&table("numbers.csv", &numbers))["features"]);
    let other = table("other.csv", &["7".to_owned()]);
    let refused = ["importance", &model, "--rows", &other, "--label", "answer", "--kind", "permutation"];
    refuses(&refused, &["`7` is no class", &labels[0]]);
}

#[test]
fn importances_that_a_model_has_not_are_refused_by_name() {
    for (name, kind, phrases) in [
        ("catboost-logloss", "gain", ["--kind gain", "catboost", "contribution"]),
        ("onnx-logistic", "total-gain", ["--kind total-gain", "onnx", "permutation"]),
        ("onnx-logistic", "cover", ["--kind cover", "no covers", "weight"]),
        ("churn", "contribution", ["--kind contribution", "rows", "--rows"]),
        ("churn", "permutation", ["--kind permutation", "labels", "--label"]),
    ] {
        refuses(&["importance", &model(name), "--kind", kind], &phrases);
    }
    let (scratch, churn) = (Scratch::new("importance-refused"), model("churn"));
    let own = scratch.path("churn.fangorn");
    prints(&["convert", &churn, "-o", &own]);
    refuses(&["importance", &own, "--kind", "gain"], &["no gains", ".fangorn"]);
    assert!(prints(&["importance", &own]).contains("no gain: "));
    let rows = labelled(&scratch, "rows.csv", ["no", "yes"]);
    let run = |rows: &str, label: &str| {
        fangorn(&["importance", &churn, "--rows", rows, "--label", label, "--kind", "permutation"])
    };
    assert_refused(&run(&rows, "answer"), &["answer", "row 0", "`no`", "no number"]);
    assert_refused(&run(&rows, "reply"), &["--label", "reply"]);
    assert_refused(&run(&labelled(&scratch, "three.csv", ["0", "2"]), "answer"), &["row 1", "`2`", "0 to 1"]);
    assert_refused(&run(&labelled(&scratch, "none.csv", ["0", ""]), "answer"), &["row 1", "no label"]);
    assert_refused(&run(&zoo("churn", "rows.npy"), "answer"), &["--label", "no names"]);
    refuses(&["importance", &churn, "--label", "answer"], &["--label", "--rows"]);
    refuses(&["importance", &churn, "-o", "all.txt"], &["all.txt", ".csv"]);
    let twice =
        ["importance", &churn, "--rows", "-", "--label", "answer", "--kind", "contribution,permutation"];
    refuses(&twice, &["--rows -", "once"]);
    refuses(
        &["importance", &churn, "--rows", &rows, "--kind", "contribution", "-o", "/nowhere/x.csv"],
        &["/nowhere/x.csv", "folder"],
    );
}

/// Rows of churn many times over, each column changed a bit, so that there are many. `shift` is added to the age.
fn many_rows(scratch: &Scratch, name: &str, shift: f64, order: impl Fn(usize) -> usize) -> String {
    let text = std::fs::read_to_string(zoo("churn", "rows.csv")).expect("rows");
    let lines: Vec<&str> = text.lines().collect();
    let mut all = lines[0].to_owned() + "\n";
    for at in 0..600 {
        let row = order(at);
        let cells = lines[1 + row % (lines.len() - 1)].split(',').enumerate();
        let cells = cells.map(|(column, cell)| match (column, cell.parse::<f64>()) {
            (0, Ok(number)) => format!("{}", number + (row % 13) as f64 + shift),
            _ => cell.to_owned(),
        });
        all += &(cells.collect::<Vec<_>>().join(",") + "\n");
    }
    scratch.file(name, all)
}

#[test]
fn drift_is_nothing_for_shuffled_rows_and_something_for_shifted_ones() {
    let (scratch, churn) = (Scratch::new("drift"), model("churn"));
    let base = many_rows(&scratch, "base.csv", 0.0, |at| at);
    let shuffled = many_rows(&scratch, "shuffled.csv", 0.0, |at| at * 7 % 600);
    let of = |rows: &str| json(&["drift", &churn, "--base", &base, "--rows", rows, "--json"]);
    let same = of(&shuffled);
    for kind in ["features", "trees"] {
        let all = same[kind].as_array().expect(kind);
        assert!(!all.is_empty() && all.iter().all(|one| one["psi"].as_f64() == Some(0.0)), "{same}");
    }
    let shifted = many_rows(&scratch, "shifted.csv", 25.0, |at| at);
    let drift = of(&shifted);
    assert_eq!(drift["features"][0]["feature"], "age");
    assert!(drift["features"][0]["psi"].as_f64() > Some(0.5), "{drift}");
    assert_eq!(drift["features"][1]["psi"].as_f64(), Some(0.0));
    assert!(drift["trees"][0]["psi"].as_f64() > drift["trees"][99]["psi"].as_f64());
    // The library's own numbers.
    let forest = loaded(&churn);
    let bins = FeatureBins::new(&forest).expect("bins");
    let predictor = fangorn::Predictor::new(&forest).expect("a predictor");
    let counted = |file: &str| {
        let text = std::fs::read_to_string(file).expect("rows");
        let cell = |cell: &str| cell.parse::<f32>().unwrap_or(f32::NAN);
        let values: Vec<f32> = text.lines().skip(1).flat_map(|line| line.split(',').map(cell)).collect();
        let mut counter = DriftCounter::new(&forest, &bins);
        let rows = Rows::new(&values, forest.features.len()).expect("rows");
        counter.count(&bins, &predictor, &rows).expect("counts");
        counter
    };
    let (a, b) = (counted(&base), counted(&shifted));
    let expected = Drift::new(&forest, &bins, [&a, &b], 20).expect("drift");
    assert_eq!(drift["features"][0]["psi"].as_f64(), Some(expected.features[0].psi));
    assert_eq!(drift["trees"][5]["psi"].as_f64(), Some(expected.trees[5].psi));
    assert_eq!(drift["base"]["rows"], 600);
    let text = prints(&["drift", &churn, "--base", &base, "--rows", &shifted]);
    assert!(text.lines().nth(3).is_some_and(|line| line.starts_with("age ")), "{text}");
    let limit = ["drift", &churn, "--base", &base, "--rows"];
    let run = |rows: &str, limit_at: &str| fangorn(&[&limit[..], &[rows, "--fail-above", limit_at]].concat());
    assert_eq!(run(&shuffled, "0.1").status.code(), Some(0));
    assert_eq!(run(&shifted, "0.1").status.code(), Some(1));
    refuses(&[&limit[..], &[&shifted, "--fail-above", "much"]].concat(), &["much", "--fail-above"]);
}

/// Columns go by their names, and what is written is whole.
#[test]
fn drift_reads_columns_by_name_and_writes_files() {
    let (scratch, churn) = (Scratch::new("drift-files"), model("churn"));
    let base = many_rows(&scratch, "base.csv", 0.0, |at| at);
    let text = std::fs::read_to_string(&base).expect("rows");
    let turned: String =
        text.lines().map(|line| line.split(',').rev().collect::<Vec<_>>().join(",") + "\n").collect();
    let turned = scratch.file("turned.csv", turned);
    let (csv, svg) = (scratch.path("drift.csv"), scratch.path("drift.svg"));
    let run = ["drift", &churn, "--base", &base, "--rows", &turned, "-o", &csv, "--plot", &svg];
    prints(&run);
    let written = std::fs::read_to_string(csv).expect("a file");
    let lines: Vec<&str> = written.lines().collect();
    assert_eq!(lines[0], "kind,name,psi,by_chance,bins");
    assert_eq!(lines.len(), 1 + loaded(&churn).used_columns().len() + 100);
    assert!(lines[1..].iter().all(|line| line.split(',').nth(2) == Some("0.0")), "{written}");
    let plot = std::fs::read_to_string(svg).expect("a plot");
    assert_well_formed(&plot);
    assert!(plot.matches("class=\"other\"").count() > 20);
    let lacking = scratch.file("lacking.csv", "age,devices\n30,1\n");
    refuses(&["drift", &churn, "--base", &base, "--rows", &lacking], &["lacking.csv", "without 10"]);
    refuses(&["drift", &churn, "--base", "-", "--rows", "-"], &["standard input"]);
}

/// Checks that tags are closed in their order, attributes are quoted, and `&` begins an entity.
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>\n").unwrap_or(page);
    while let Some(at) = rest.find('<') {
        let text = &rest[..at];
        // A style sheet has no entities, and `>` only between tags of the page's own.
        if open.last() != Some(&"style") {
            assert!(!text.contains('>'), "{text}");
            for entity in text.split('&').skip(1) {
                let (name, _) = entity.split_once(';').expect("an entity's end");
                assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "&{name};");
            }
        }
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("a tag's end");
        let tag = &rest[..end];
        assert!(!tag.contains('<') && tag.matches('"').count().is_multiple_of(2), "<{tag}>");
        rest = &rest[end + 1..];
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "</{name}>"),
            None if tag.ends_with('/') => (),
            None => open.push(tag.split_whitespace().next().expect("a name")),
        }
    }
    assert!(open.is_empty(), "{open:?} are open at the end");
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn a_report_shows_the_librarys_numbers() {
    let (scratch, churn) = (Scratch::new("report"), model("churn"));
    let rows = labelled(&scratch, "rows.csv", ["0", "1"]);
    let page = scratch.path("page.html");
    let said = prints(&["report", &churn, "--rows", &rows, "--label", "answer", "--row", "3", "-o", &page]);
    assert!(said.contains("20 of 20 rows"), "{said}");
    let page = std::fs::read_to_string(page).expect("a page");
    assert_well_formed(&page);
    for section in ["importances", "summary", "dependence", "row", "shape"] {
        let (_, section) = page.split_once(&format!("<section id=\"{section}\">")).expect(section);
        assert!(section.split_once("</section>").expect("its end").0.contains("<svg "));
    }
    for forbidden in
        ["<script", "<img", "<link", "<iframe", "href=", "src=", "url(", "@import", "http:", "onload"]
    {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    let forest = loaded(&churn);
    let splits = SplitImportances::new(&forest);
    let values = read_npy::<f32>(&zoo("churn", "rows.npy")).1;
    let rows_of = Rows::new(&values, forest.features.len()).expect("rows");
    let contributions = Explainer::new(&forest).expect("one").contributions(&rows_of).expect("all");
    let mut means = MeanContributions::new(&forest);
    means.add(&contributions).expect("rows");
    let (_, table) = page.split_once("<table id=\"numbers\">").expect("the table");
    let (table, _) = table.split_once("</table>").expect("its end");
    let mut seen = 0;
    for line in table.lines().filter(|line| line.starts_with("<tr><td>")) {
        let name = line.strip_prefix("<tr><td>").and_then(|line| line.split('<').next()).expect("a name");
        let column = forest.features.iter().position(|f| f.name.as_deref() == Some(name)).expect("a feature");
        let numbers: Vec<f64> = line
            .split("data-value=\"")
            .skip(1)
            .map(|cell| cell.split('"').next().expect("a number").parse().expect("a number"))
            .collect();
        // Contribution, permutation, gain.
        assert_eq!(numbers.len(), 3);
        assert_eq!(numbers[0], means.total()[column]);
        assert_eq!(numbers[2], splits.total_gain.as_ref().expect("gains")[column]);
        seen += 1;
    }
    assert_eq!(seen, forest.used_columns().len());
    // The waterfall has the contributions of row 3.
    let width = forest.features.len() + 1;
    let of_row = &contributions[3 * width..][..width];
    let largest = (0..width - 1).max_by(|a, b| of_row[*a].abs().total_cmp(&of_row[*b].abs())).expect("one");
    let title = format!("{:?}</title>", f64::from(of_row[largest]));
    assert!(page.contains(&title), "{title}");
    assert!(page.contains("<h3>Row 3</h3>"));
}

/// Names that are HTML stay text, and what has no covers is explained against a background.
#[test]
fn a_report_escapes_names_and_serves_models_of_all_kinds() {
    let scratch = Scratch::new("report-kinds");
    let mut forest = loaded(&model("churn"));
    let names = [
        "<script>alert(1)</script>",
        "a & b",
        "\"quoted\" 'name'",
        "</svg></title>",
        "\u{202e}turned",
        "ααα 名前 🦊 and a name that is far too long for its place in a picture",
    ];
    for (feature, name) in forest.features.iter_mut().zip(names) {
        feature.name = Some(name.into());
    }
    let bytes = Contents::new(forest).to_bytes();
    let odd = scratch.file("<odd> & model.fangorn", bytes);
    let page = scratch.path("page.html");
    prints(&["report", &odd, "--rows", &zoo("churn", "rows.npy"), "-o", &page]);
    let text = std::fs::read_to_string(&page).expect("a page");
    assert_well_formed(&text);
    assert!(!text.contains("<script") && text.contains("&lt;script&gt;"), "escaped");
    assert!(!text.contains('\u{202e}'));
    let kinds =
        ["softprob", "lightgbm-categories", "onnx-logistic", "catboost-multiclass-depthwise", "one-feature"];
    for name in kinds {
        let rows = zoo(name, "rows.npy");
        prints(&["report", &model(name), "--rows", &rows, "-o", &page, "--sample", "50"]);
        let text = std::fs::read_to_string(&page).expect("a page");
        assert_well_formed(&text);
        assert_eq!(text.contains("as a background"), name == "onnx-logistic", "{name}");
        // Coordinates are numbers.
        for path in text.split(" d=\"").skip(1) {
            let path = path.split('"').next().expect("its end");
            assert!(!path.is_empty() && !path.contains("NaN") && !path.contains("inf"), "{name}: {path}");
        }
    }
    let churn = model("churn");
    let run = ["report", &churn, "--rows", &zoo("churn", "rows.npy"), "-o", &page];
    refuses(&[&run[..], &["--row", "20"]].concat(), &["--row 20", "20 rows"]);
    refuses(&[&run[..], &["--of-output", "1"]].concat(), &["--of-output 1", "1 outputs"]);
}

/// Of a large table some rows are drawn, the same ones each time.
#[test]
fn a_report_draws_rows() {
    let (scratch, churn) = (Scratch::new("report-draws"), model("churn"));
    let rows = many_rows(&scratch, "many.csv", 0.0, |at| at);
    let of = |seed: &str| {
        let page = scratch.path("page.html");
        prints(&[
            "report", &churn, "--rows", &rows, "--sample", "40", "--seed", seed, "--row", "599", "-o", &page,
        ]);
        std::fs::read_to_string(page).expect("a page")
    };
    let first = of("0");
    assert!(first.contains("40 rows, drawn at random from 600 (seed 0)"), "the number of rows");
    assert_eq!(of("0"), first);
    assert_ne!(of("1"), first);
}

/// Cells of -999 are missing as NaN is, for each command that looks at a table.
#[test]
fn a_value_that_stands_for_missing_ones_is_marked() {
    let (scratch, churn) = (Scratch::new("insight-missing"), model("churn"));
    let text = std::fs::read_to_string(zoo("churn", "rows.csv")).expect("rows");
    let table = |name: &str, cell: &str, label: bool| {
        let mut all = String::new();
        for (at, line) in text.lines().enumerate() {
            let mut cells: Vec<&str> = line.split(',').collect();
            if at > 0 {
                cells[at % 3] = cell;
            }
            let first = if at == 0 { "answer" } else { ["0", "1"][at % 2] };
            all += &if label { format!("{first},{}\n", cells.join(",")) } else { cells.join(",") + "\n" };
        }
        scratch.file(name, all)
    };
    let tables = |cell: &str, kind: &str| {
        [false, true]
            .map(|label| table(&format!("{kind}{}.csv", if label { "-labels" } else { "" }), cell, label))
    };
    let (empty, marked) = (tables("", "empty"), tables("-999", "marked"));
    let base = zoo("churn", "rows.csv");
    let page = scratch.path("page.html");
    let all = |[plain, labelled]: &[String; 2], more: &[&str]| {
        let features =
            |arguments: &[&str]| json(&[arguments, &["--json"], more].concat())["features"].clone();
        let label = ["--label", "answer"];
        let permutation = ["importance", &churn, "--rows", labelled, "--kind", "permutation"];
        prints(&[&["report", &churn, "--rows", labelled, "-o", &page][..], &label, more].concat());
        let report = std::fs::read_to_string(&page).expect("a page");
        [
            features(&["importance", &churn, "--rows", plain, "--kind", "contribution"]).to_string(),
            features(&[&permutation[..], &label].concat()).to_string(),
            features(&["drift", &churn, "--base", &base, "--rows", plain]).to_string(),
            report.replace("empty", "").replace("marked", ""),
        ]
    };
    let missing = ["--missing", "-999"];
    let (expected, found, otherwise) = (all(&empty, &[]), all(&marked, &missing), all(&marked, &[]));
    for (at, what) in ["contributions", "permutations", "drift", "report"].iter().enumerate() {
        assert!(found[at] == expected[at], "{what}: marked cells are not missing");
        assert!(otherwise[at] != expected[at], "{what}: cells that nobody marks are missing");
    }
}

#[test]
fn rounds_are_chosen_as_for_predictions() {
    let (model, rows) = (model("early-stopped"), zoo("early-stopped", "rows.npy"));
    let trees = |more: &[&str]| {
        let all = ["importance", &model, "--kind", "weight", "--json"];
        let found = json(&[&all[..], more].concat());
        let features = found["features"].as_array().expect("features").clone();
        features.iter().map(|feature| feature["weight"].as_f64().expect("a weight")).sum::<f64>()
    };
    let splits = |range| {
        let options = LoadOptions { iteration_range: range, raw_categories: true, ..LoadOptions::default() };
        let forest = import::load(model.as_ref(), &options).expect("the model");
        SplitImportances::new(&forest).weight.iter().sum::<u64>() as f64
    };
    let best = loaded(&model).producer.early_stop.expect("a best round").best;
    assert_eq!(trees(&["--iterations", "all"]), splits(None));
    assert_eq!(trees(&["--iterations", "best"]), splits(Some(0..best + 1)));
    assert!(splits(Some(0..best + 1)) < splits(None));
    let drifted = |rounds: &str| {
        json(&["drift", &model, "--base", &rows, "--rows", &rows, "--iterations", rounds, "--json"])
    };
    let count = |found: serde_json::Value| found["trees"].as_array().expect("trees").len();
    assert_eq!([count(drifted("0..2")), count(drifted("all"))], [2, 8]);
    let scratch = Scratch::new("report-rounds");
    let page = scratch.path("page.html");
    prints(&["report", &model, "--rows", &rows, "--iterations", "best", "-o", &page]);
    refuses(&["report", &model, "--rows", &rows, "--iterations", "3..99", "-o", &page], &["3..99"]);
}

/// Contributions against a background are those of the library, and need no covers.
#[test]
fn a_background_says_what_is_expected() {
    let (churn, rows) = (model("churn"), zoo("churn", "rows.npy"));
    let scratch = Scratch::new("insight-background");
    let text = std::fs::read_to_string(zoo("churn", "rows.csv")).expect("rows");
    let few = scratch.file("few.csv", text.lines().take(6).collect::<Vec<_>>().join("\n") + "\n");
    let found = json(&["importance", &churn, "--rows", &rows, "--background", &few, "--json"]);
    let forest = loaded(&churn);
    let columns = forest.features.len();
    let values = read_npy::<f32>(&rows).1;
    let all = Rows::new(&values, columns).expect("rows");
    let explainer = Interventional::new(&forest, &all.slice(0, 5)).expect("an explainer");
    let mut means = MeanContributions::new(&forest);
    means.add(&explainer.contributions(&all).expect("contributions")).expect("rows");
    for feature in found["features"].as_array().expect("features") {
        let column = feature["column"].as_u64().expect("a column") as usize;
        let number = feature["contribution"].as_f64().expect("a contribution");
        assert!((number - means.total()[column]).abs() < 1e-9, "column {column}");
    }
    assert!(
        found["notes"][0].as_str().is_some_and(|note| note.contains("against") && note.contains("few.csv"))
    );
    let page = scratch.path("page.html");
    prints(&["report", &churn, "--rows", &rows, "--background", &few, "-o", &page]);
    assert!(std::fs::read_to_string(&page).expect("a page").contains("few.csv as a background"));
    let (onnx, others) = (model("onnx-logistic"), zoo("onnx-logistic", "rows.npy"));
    let found = json(&["importance", &onnx, "--rows", &others, "--background", &others, "--json"]);
    assert!(found["features"][0]["contribution"].as_f64() > Some(0.0), "{found}");
    let all = ["importance", &churn, "--rows", &rows, "--background", &few];
    refuses(&[&all[..], &["--kind", "gain"]].concat(), &["--background", "--kind contribution"]);
    refuses(&["importance", &churn, "--background", &few], &["--rows"]);
    refuses(&["importance", &churn, "--rows", "-", "--background", "-"], &["--background", "standard input"]);
    refuses(&["report", &churn, "--rows", "-", "--background", "-"], &["--background", "standard input"]);
    refuses(&["report", &churn, "--rows", &rows, "--background", "/nowhere/x.csv"], &["/nowhere/x.csv"]);
}
