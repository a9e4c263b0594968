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

/// The table with the columns at these indices.
fn picked(table: &[Vec<String>], indices: impl Iterator<Item = usize> + Clone) -> Vec<Vec<String>> {
    table.iter().map(|line| indices.clone().map(|at| line[at].clone()).collect()).collect()
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
    let phrases = ["missing.csv", "line 1", "without 2 of", "age, tenure_months", "add them"];
    refuses(&["predict", &model, "--rows", &missing], &phrases);
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

/// A table in lines of cells, of the rows of a model, with a header over it.
fn with_header(name: &str, header: &[String]) -> Vec<Vec<String>> {
    let (shape, values) = read_npy::<f32>(&zoo(name, "rows.npy"));
    let cell = |v: &f32| if v.is_nan() { String::new() } else { format!("{v:?}") };
    let rows = values.chunks(shape[1] as usize).map(|row| row.iter().map(cell).collect());
    [header.to_vec()].into_iter().filter(|header| !header.is_empty()).chain(rows).collect()
}

/// The numbers from `from` on, as pandas writes column labels.
fn numbers(from: usize, count: usize, end: &str) -> Vec<String> {
    (from..from + count).map(|number| format!("{number}{end}")).collect()
}

/// Column numbers in another order are matched, or refused: pandas writes `df[[9, 8, …]]` with such a header.
#[test]
fn numbers_in_a_header_are_matched_or_refused() {
    let scratch = Scratch::new("column-numbers");
    let name = "squared-error";
    let model = model(name);
    let run = |table: &[Vec<String>], more: &[&str]| {
        let rows = scratch.file("rows.csv", csv(table));
        fangorn(&[&["predict", &model, "--rows", &rows], more].concat())
    };
    let noted = |table: &[Vec<String>], more: &[&str], phrase: &str| {
        let found = run(table, more);
        let note = text(&found.stderr);
        assert_eq!(found.status.code(), Some(0), "{note}");
        assert!(note.lines().count() == 1 && note.contains(phrase), "`{phrase}` in {note}");
        text(&found.stdout)
    };
    let bare = with_header(name, &[]);
    let columns = bare[0].len();
    let expected = prints(&["predict", &model, "--rows", &scratch.file("bare.csv", csv(&bare))]);
    for end in ["", ".0"] {
        let counted = with_header(name, &numbers(0, columns, end));
        let shuffled = picked(&counted, (0..columns).map(|i| (i * 3 + 7) % columns));
        let turned = picked(&counted, (0..columns).rev());
        let index = before(&turned, |r| if r == 0 { String::new() } else { (r - 1).to_string() });
        let from_one = with_header(name, &numbers(1, columns, end));
        for table in [&counted, &from_one] {
            assert_eq!(noted(table, &[], "by their order"), expected);
            assert_eq!(noted(table, &["--by-position"], "by their order"), expected);
        }
        for table in [&shuffled, &turned, &index] {
            assert_eq!(noted(table, &[], "by these numbers"), expected);
        }
        // The header is none of the rows, whatever the order is.
        let by_position = noted(&turned, &["--by-position"], "header of numbers");
        assert_eq!(by_position.lines().count(), bare.len());
        let from_one_turned = picked(&from_one, (0..columns).rev());
        assert_refused(&run(&from_one_turned, &[]), &["line 1", "1 to 10", "number them from 0"]);
    }
    // What the note says about a row.
    let counted = with_header(name, &numbers(0, columns, ""));
    let note = text(&run(&counted, &[]).stderr);
    assert!(note.contains("write 0.00 for 0"), "{note}");
    let mut row = counted.clone();
    row[0][0] = "0.00".into();
    let found = run(&row, &[]);
    assert!(found.stderr.is_empty(), "{}", text(&found.stderr));
    assert_eq!(text(&found.stdout).lines().count(), bare.len() + 1);
}

/// A model with names has no column numbers.
#[test]
fn numbers_in_another_order_are_no_names() {
    let scratch = Scratch::new("no-names");
    let model = model("churn");
    let expected = prints(&["predict", &model, "--rows", &zoo("churn", "rows.npy")]);
    for from in [0, 1] {
        let counted = with_header("churn", &numbers(from, 12, ""));
        let rows = scratch.file("counted.csv", csv(&counted));
        for more in [&[][..], &["--by-position"]] {
            let found = fangorn(&[&["predict", &model, "--rows", &rows], more].concat());
            assert_eq!(text(&found.stdout), expected, "{}", text(&found.stderr));
            assert!(text(&found.stderr).contains("header of numbers"), "{}", text(&found.stderr));
        }
        let turned = scratch.file("turned.csv", csv(&picked(&counted, (0..12).rev())));
        let phrases = ["turned.csv", "line 1", "another order", "age", "--by-position"];
        refuses(&["predict", &model, "--rows", &turned], &phrases);
    }
}

/// One or two small numbers are as likely a row as a header.
#[test]
fn one_or_two_numbers_are_a_row_or_a_header_by_the_users_word() {
    let scratch = Scratch::new("few-numbers");
    let (one, two) = (model("one-feature"), model("catboost-many-borders"));
    let of = |model: &str, rows: &str, more: &[&str]| {
        let rows = scratch.file("rows.csv", rows);
        fangorn(&[&["predict", model, "--rows", &rows], more].concat())
    };
    let lines = |output: &std::process::Output| text(&output.stdout).lines().count();
    let remedies = ["line 1", "may be a row, or the header", "--by-position"];
    assert_refused(&of(&one, "0\n1\n2\n", &[]), &[&remedies[..], &["write f0 as the header"]].concat());
    for table in ["1,0\n0.5,1\n", "2,1\n0.5,1\n"] {
        assert_refused(&of(&two, table, &[]), &[&remedies[..], &["the model's order"]].concat());
    }
    for (model, table) in [(&one, "0\n1\n2\n"), (&two, "1,0\n0,1\n1,1\n")] {
        let found = of(model, table, &["--by-position"]);
        assert_eq!((found.status.code(), lines(&found)), (Some(0), 3), "{}", text(&found.stderr));
        assert!(text(&found.stderr).contains("taken for a row"), "{}", text(&found.stderr));
    }
    // A name, a header in order, or the index makes a header of it.
    for (model, table) in [(&one, "f0\n1\n2\n"), (&one, ",0\n0,1\n1,2\n"), (&two, "0,1\n1,1\n2,2\n")] {
        let found = of(model, table, &[]);
        assert_eq!((found.status.code(), lines(&found)), (Some(0), 2), "{}", text(&found.stderr));
    }
    // Any other number is a value.
    for table in ["1\n2\n", "0.0\n2\n", "0.5\n0\n"] {
        let found = of(&one, table, &[]);
        assert_eq!((found.status.code(), lines(&found)), (Some(0), 2), "{}", text(&found.stderr));
        assert!(found.stderr.is_empty());
    }
}

/// Names that are numbers are matched as names, and the first line is a header even if its numbers may be values.
#[test]
fn names_that_are_numbers_are_matched() {
    let scratch = Scratch::new("number-names");
    let name = "squared-error";
    let mut forest = fangorn::import::load(model(name).as_ref(), &Default::default()).expect("a model");
    let bare = with_header(name, &[]);
    let columns = bare[0].len();
    let expected = prints(&["predict", &model(name), "--rows", &scratch.file("bare.csv", csv(&bare))]);
    let names: Vec<String> = (0..columns).map(|column| (10 * (column + 1)).to_string()).collect();
    for (feature, name) in forest.features.iter_mut().zip(&names) {
        feature.name = Some(name.clone());
    }
    let named = scratch.file("named.fangorn", fangorn::file::Contents::new(forest).to_bytes());
    let table = with_header(name, &names);
    for table in [table.clone(), picked(&table, (0..columns).rev())] {
        let found = fangorn(&["predict", &named, "--rows", &scratch.file("rows.csv", csv(&table))]);
        assert_eq!(text(&found.stdout), expected, "{}", text(&found.stderr));
        assert!(text(&found.stderr).contains("by the model's names"), "{}", text(&found.stderr));
    }
    let rows = scratch.file("rows.csv", csv(&table));
    let found = fangorn(&["predict", &named, "--by-position", "--rows", &rows]);
    assert_eq!(text(&found.stdout), expected);
    assert!(text(&found.stderr).contains("header of numbers"), "{}", text(&found.stderr));
}

/// A name that a library makes up stands for one column.
#[test]
fn a_made_up_name_that_is_there_twice_is_refused() {
    let scratch = Scratch::new("doubled");
    let mut header: Vec<String> = (0..10).map(|column| format!("f{column}")).collect();
    header[9] = "f0".into();
    let rows = scratch.file("rows.csv", csv(&with_header("squared-error", &header)));
    let phrases = ["rows.csv", "line 1", "`f0` more than once", "one of each"];
    refuses(&["predict", &model("squared-error"), "--rows", &rows], &phrases);
    // Some of the made-up names, beside others, are not taken by position.
    for (at, name) in [(9, "id"), (0, "f10"), (3, "Column_3")] {
        let mut header: Vec<String> = (0..10).rev().map(|column| format!("f{column}")).collect();
        header[at] = name.into();
        let rows = scratch.file("rows.csv", csv(&with_header("squared-error", &header)));
        let phrases = ["rows.csv", "line 1", "1 of the model's 10 columns", "--by-position"];
        refuses(&["predict", &model("squared-error"), "--rows", &rows], &phrases);
    }
}

/// A file of another format that is named `.csv`.
#[test]
fn what_is_no_csv_is_named() {
    let scratch = Scratch::new("foreign");
    let model = model("churn");
    let utf16: Vec<u8> = "age,b\n1,2\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let files: [(&[u8], [&str; 2]); 9] = [
        (b"\x1f\x8b\x08\x00rest", ["gzip", "unpack it"]),
        (b"PK\x03\x04rest", ["zip", "as CSV"]),
        (b"PAR1rest", ["Parquet", ".parquet"]),
        (b"<!DOCTYPE html>\n<html></html>\n", ["HTML", "as CSV"]),
        (b"[{\"age\": 1}]\n", ["JSON", "as CSV"]),
        (b"{\"age\": [1, 2]}\n", ["JSON", "as CSV"]),
        (&utf16, ["UTF-16", "UTF-8"]),
        (b"\xff\xfea\0", ["UTF-16", "UTF-8"]),
        (b"\0\0\0\0", ["binary", "CSV"]),
    ];
    for (content, phrases) in files {
        let rows = scratch.file("rows.csv", content);
        refuses(&["predict", &model, "--rows", &rows], &[&["rows.csv"], &phrases[..]].concat());
    }
}

/// A cell of a column of categories is no category: the message names some that are.
#[test]
fn texts_that_are_no_category_are_refused_as_such() {
    let scratch = Scratch::new("no-category");
    let table = |cell: &str, code: &str| format!("colour,weight,code\n{cell},1.5,{code}\n");
    let named = model("category-names");
    for (cell, code, phrases) in [
        ("purple", "3", ["column 1", "`purple` is none of the column's categories (7: red, green, blue, …)"]),
        ("9", "3", ["column 1", "`9` is none of the column's categories (7: red"]),
        ("red", "55", ["column 3", "`55` is none of the column's categories (5: -5, 3, 7, …)"]),
    ] {
        let rows = scratch.file("rows.csv", table(cell, code));
        refuses(&["predict", &named, "--rows", &rows], &[&["line 2"], &phrases[..]].concat());
    }
    // Names that the file has lost.
    let lost = model("category-names-not-ascii");
    let rows = scratch.file("rows.csv", table("r\u{f6}d", "3"));
    let phrases =
        ["line 2", "column 1", "`r\u{f6}d`", "names that are not ASCII", "3.4", "category's number"];
    refuses(&["predict", &lost, "--rows", &rows], &phrases);
    let rows = scratch.file("rows.csv", "colour,weight,code\n0,heavy,3\n");
    refuses(&["predict", &lost, "--rows", &rows], &["`heavy` is no number; write a number"]);
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
