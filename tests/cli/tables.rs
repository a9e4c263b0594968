//! CSV whose columns go by name, and first lines that are a header, a row, or neither.

use crate::{Scratch, assert_refused, fangorn, model, prints, read_npy, refuses, text, with_input, zoo};

/// The rows of `churn` as text, the names of the columns first.
fn table() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(zoo("churn", "rows.csv")).expect("rows");
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn csv(table: &[Vec<String>]) -> String {
    table.iter().map(|line| line.join(",") + "\n").collect()
}

/// The table with the columns at these places.
fn picked(table: &[Vec<String>], places: impl Iterator<Item = usize> + Clone) -> Vec<Vec<String>> {
    table.iter().map(|line| places.clone().map(|at| line[at].clone()).collect()).collect()
}

/// A column of these cells put before a table's.
fn before(table: &[Vec<String>], cell: impl Fn(usize) -> String) -> Vec<Vec<String>> {
    let with = |(r, line): (usize, &Vec<String>)| [vec![cell(r)], line.clone()].concat();
    table.iter().enumerate().map(with).collect()
}

#[test]
fn columns_go_by_name() {
    let scratch = Scratch::new("by-name");
    let (model, table) = (model("churn"), table());
    let predict = |rows: &str| prints(&["predict", &model, "--rows", rows]);
    let expected = predict(&zoo("churn", "rows.npy"));
    let columns = table[0].len();
    let turned = picked(&table, (0..columns).rev());
    let shuffled = picked(&table, (0..columns).map(|i| (i * 5 + 3) % columns));
    for (name, table) in [("same", &table), ("turned", &turned), ("shuffled", &shuffled)] {
        assert_eq!(predict(&scratch.file("rows.csv", csv(table))), expected, "{name}");
    }
    let marked = "\u{feff}".to_owned() + &csv(&turned);
    assert_eq!(predict(&scratch.file("marked.csv", marked)), expected, "a mark of UTF-8");
    let returned = csv(&turned).replace('\n', "\r\n");
    assert_eq!(predict(&scratch.file("returned.csv", returned)), expected, "other line ends");
    let quoted: Vec<String> = turned[0].iter().map(|name| format!("\"{name}\"")).collect();
    let quoted = csv(&[&[quoted][..], &turned[1..]].concat());
    assert_eq!(predict(&scratch.file("quoted.csv", quoted)), expected, "quotes");
    let spaced: Vec<String> = turned[0].iter().map(|name| format!(" {name} ")).collect();
    let spaced = csv(&[&[spaced][..], &turned[1..]].concat());
    assert_eq!(predict(&scratch.file("spaced.csv", spaced)), expected, "spaces");

    // In the model's order without names, or with other ones by the user's word.
    assert_eq!(predict(&scratch.file("bare.csv", csv(&table[1..]))), expected, "no header");
    let by_position = |rows: &str| prints(&["predict", &model, "--rows", rows, "--by-position"]);
    assert_eq!(by_position(&scratch.file("bare.csv", csv(&table[1..]))), expected);
    let others: Vec<String> = (0..columns).map(|i| format!("c{i}")).collect();
    let others = scratch.file("others.csv", csv(&[&[others][..], &table[1..]].concat()));
    assert_eq!(by_position(&others), expected);
    refuses(&["predict", &model, "--rows", &others], &["others.csv", "line 1", "age", "--by-position"]);
    let turned = scratch.file("turned.csv", csv(&turned));
    assert_ne!(by_position(&turned), expected);

    // Every command reads tables alike.
    let profiles = [&turned, &zoo("churn", "rows.npy")].map(|rows| {
        let profile = scratch.path("profile.json");
        prints(&["profile", &model, "--rows", rows, "-o", &profile]);
        std::fs::read(profile).expect("a profile")
    });
    assert_eq!(profiles[0], profiles[1]);
    let same = prints(&["diff", &model, &model, "--rows", &turned]);
    assert!(same.contains("0 have other values"), "{same}");
    prints(&["bench", &model, "--rows", &turned, "--batch", "8", "--seconds", "0.01"]);
}

#[test]
fn columns_that_the_model_does_not_have_are_left_out_with_a_note() {
    let scratch = Scratch::new("left-out");
    let (model, table) = (model("churn"), table());
    let expected = prints(&["predict", &model, "--rows", &zoo("churn", "rows.npy")]);
    let id = before(&table, |r| if r == 0 { "id".into() } else { format!("customer {r}") });
    let index = before(&table, |r| if r == 0 { String::new() } else { (r - 1).to_string() });
    for (table, name) in [(id, "id"), (index, "one without a name")] {
        let rows = scratch.file("rows.csv", csv(&table));
        let output = fangorn(&["predict", &model, "--rows", &rows]);
        let note = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{note}");
        assert_eq!(text(&output.stdout), expected);
        assert!(note.lines().count() == 1 && note.contains("left out, 1") && note.contains(name), "{note}");
        assert_refused(
            &fangorn(&["predict", &model, "--rows", &rows, "--by-position"]),
            &["line 1", " 13 ", " 12"],
        );
    }
}

#[test]
fn columns_that_are_missing_or_there_twice_are_refused() {
    let scratch = Scratch::new("missing");
    let (model, table) = (model("churn"), table());
    let missing = scratch.file("missing.csv", csv(&picked(&table, 2..12)));
    let parts = ["missing.csv", "line 1", "without 2 of", "age, tenure_months", "--by-position"];
    refuses(&["predict", &model, "--rows", &missing], &parts);
    let doubled = scratch.file("doubled.csv", csv(&picked(&table, (0..12).chain([1]))));
    refuses(&["predict", &model, "--rows", &doubled], &["doubled.csv", "more than once", "tenure_months"]);
    let mut misspelt = table.clone();
    misspelt[0][0] = "Age".into();
    let misspelt = scratch.file("misspelt.csv", csv(&misspelt));
    refuses(&["predict", &model, "--rows", &misspelt], &["misspelt.csv", "without 1 of", "age"]);
    let mut short = table.clone();
    short[3].pop();
    refuses(
        &["predict", &model, "--rows", &scratch.file("short.csv", csv(&short))],
        &["short.csv", "line 4"],
    );
}

/// A first line as pandas writes it over columns that have no names.
#[test]
fn a_header_of_numbers_is_no_row() {
    let scratch = Scratch::new("numbers");
    for name in ["squared-error", "catboost-one-hot"] {
        let model = model(name);
        let (shape, values) = read_npy::<f32>(&zoo(name, "rows.npy"));
        let columns = shape[1] as usize;
        let cell = |v: &f32| if v.is_nan() { String::new() } else { format!("{v:?}") };
        let rows: Vec<Vec<String>> =
            values.chunks(columns).map(|row| row.iter().map(cell).collect()).collect();
        let expected = prints(&["predict", &model, "--rows", &scratch.file("bare.csv", csv(&rows))]);
        let header: Vec<String> = (0..columns).map(|i| i.to_string()).collect();
        let table = [&[header][..], &rows[..]].concat();
        let index = before(&table, |r| if r == 0 { String::new() } else { (r - 1).to_string() });
        for table in [table, index] {
            let output = fangorn(&["predict", &model, "--rows", &scratch.file("rows.csv", csv(&table))]);
            let note = text(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{name}: {note}");
            assert_eq!(text(&output.stdout), expected, "{name}");
            assert_eq!(note.lines().count(), 1, "{name}: {note}");
        }
    }
}

/// Names that libraries make up are matched where they are there.
#[test]
fn made_up_names_go_by_their_number() {
    let scratch = Scratch::new("made-up");
    for (name, stem) in [("squared-error", "f"), ("lightgbm-regression", "Column_")] {
        let model = model(name);
        let columns = read_npy::<f32>(&zoo(name, "rows.npy")).0[1] as usize;
        let row = |r: usize| {
            (0..columns).map(move |c| format!("{}.5", (r * 7 + c * 3) % 5)).collect::<Vec<String>>()
        };
        let rows: Vec<Vec<String>> = (0..4).map(row).collect();
        let expected = prints(&["predict", &model, "--rows", &scratch.file("bare.csv", csv(&rows))]);
        let header = |stem: &str| (0..columns).map(|i| format!("{stem}{i}")).collect::<Vec<_>>();
        let named = [&[header(stem)][..], &rows[..]].concat();
        let turned = csv(&picked(&named, (0..columns).rev()));
        assert_eq!(prints(&["predict", &model, "--rows", &scratch.file("turned.csv", turned)]), expected);
        let others = csv(&[&[header("column ")][..], &rows[..]].concat());
        assert_eq!(prints(&["predict", &model, "--rows", &scratch.file("others.csv", others)]), expected);
    }
}

#[test]
fn a_first_row_is_never_a_header_in_silence() {
    let scratch = Scratch::new("first");
    let model = model("squared-error");
    let row = |first: &str| format!("{first},1.5,2,3,4,5,6,7,8,9\n");
    let predict = |first: &str| {
        let rows = scratch.file("rows.csv", row(first) + &row("0.5"));
        fangorn(&["predict", &model, "--rows", &rows])
    };
    for [word, same] in [
        ["null", ""],
        ["None", ""],
        ["N/A", ""],
        ["<NA>", ""],
        ["TRUE", "1"],
        ["false", "0"],
        ["inf", "1e400"],
        ["-Infinity", "-1e400"],
    ] {
        let [found, expected] = [word, same].map(|first| text(&predict(first).stdout));
        assert_eq!(found.lines().count(), 2, "{word}");
        assert_eq!(found, expected, "{word}");
    }
    for odd in ["-", "1;2", "1_000", "0x10", "\"1,5\"", "red", "5%"] {
        let cell = odd.trim_matches('"');
        assert_refused(&predict(odd), &["rows.csv", "line 1", "column 1", &format!("`{cell}`")]);
    }
    let below = scratch.file("below.csv", row("1") + &row("-"));
    refuses(&["predict", &model, "--rows", &below], &["below.csv", "line 2", "column 1", "`-`"]);
    for (separator, name) in [(";", "semicolons"), ("\t", "tabs")] {
        let rows = scratch.file("rows.csv", row("1").replace(',', separator));
        refuses(&["predict", &model, "--rows", &rows], &["rows.csv", name, "commas"]);
    }
    let input = with_input(&["predict", &model, "--rows", "-"], b"");
    assert_refused(&input, &["standard input", "no row"]);
}

/// Cells of a column whose categories have names.
#[test]
fn names_of_categories_are_their_codes() {
    let scratch = Scratch::new("categories");
    let model = model("category-names");
    let report = prints(&["inspect", &model, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let features = report["features"].as_array().expect("a list");
    let names = |c: usize| features[c]["category_names"].as_array().expect("a list");
    let named = (0..features.len()).find(|c| names(*c).iter().any(|n| n.as_str().is_some_and(is_word)));
    let column = named.expect("a column with words");
    let code = names(column).iter().position(|n| n.as_str().is_some_and(is_word)).expect("a word");
    let row = |cell: &str| {
        // A column of categories has its own first name, any other a number.
        let usual = |c: usize| names(c).first().and_then(|name| name.as_str()).unwrap_or("1");
        let cells = (0..features.len()).map(|c| if c == column { cell } else { usual(c) });
        cells.collect::<Vec<_>>().join(",") + "\n"
    };
    let word = names(column)[code].as_str().expect("text");
    let [by_name, by_code] = [word, &code.to_string()].map(|cell| {
        prints(&["predict", &model, "--rows", &scratch.file("rows.csv", row(word) + &row(cell))])
    });
    assert_eq!(by_name, by_code);
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(char::is_alphabetic)
}
