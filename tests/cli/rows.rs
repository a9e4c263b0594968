//! Rows in any form that is read, and those that are refused.

use crate::{Scratch, assert_refused, fangorn, model, npy, prints, read_npy, refuses, text, with_input, zoo};

#[test]
fn rows_are_read_in_any_form() {
    let scratch = Scratch::new("rows");
    let (shape, values) = read_npy::<f32>(&zoo("churn", "rows.npy"));
    let [rows, columns] = [shape[0] as usize, shape[1] as usize];
    let predict = |rows: &str| prints(&["predict", &model("churn"), "--rows", rows]);
    let expected = predict(&zoo("churn", "rows.npy"));
    assert_eq!(expected.lines().count(), rows);

    assert_eq!(predict(&zoo("churn", "rows.csv")), expected, "a header");
    let wide: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
    assert_eq!(predict(&scratch.file("f64.npy", npy(&shape, npyz::Order::C, &wide))), expected);
    let turned: Vec<f32> = (0..columns)
        .flat_map(|c| (0..rows).map(move |r| [r, c]))
        .map(|[r, c]| values[r * columns + c])
        .collect();
    assert_eq!(predict(&scratch.file("fortran.npy", npy(&shape, npyz::Order::Fortran, &turned))), expected);

    for missing in ["", "nan", "NaN", "NA", "?", " ", "null", "None", "N/A", "<NA>", "#N/A", "-nan", "\"\""] {
        let cell = |v: &f32| if v.is_nan() { missing.to_owned() } else { format!("{v:?}") };
        let line = |row: &[f32]| row.iter().map(cell).collect::<Vec<_>>().join(",");
        let lines: Vec<String> = values.chunks(columns).map(line).collect();
        let plain = scratch.file("plain.csv", lines.join("\n"));
        assert_eq!(predict(&plain), expected, "`{missing}` for a missing value, no header, no last line end");
        let spaced = scratch.file("spaced.csv", lines.join("\r\n\r\n") + "\r\n");
        assert_eq!(predict(&spaced), expected, "`{missing}`, other line ends and empty lines");
    }

    let one = scratch.file("one.npy", npy(&[shape[1]], npyz::Order::C, &values[..columns]));
    // One row's leaves may be added up in another order than many's.
    let value = |text: &str| text.lines().next().and_then(|line| line.parse::<f32>().ok()).expect("a value");
    assert!((value(&predict(&one)) - value(&expected)).abs() < 1e-6);
    let ints: Vec<i64> = vec![1; columns];
    let counted = scratch.file("ints.npy", npy(&[1, shape[1]], npyz::Order::C, &ints));
    let written = scratch.file("ints.csv", vec!["1"; columns].join(","));
    assert_eq!(predict(&counted), predict(&written));
}

#[test]
fn halves_are_read() {
    let scratch = Scratch::new("halves");
    let model = model("squared-error");
    let singles: Vec<f32> = (0..20).map(|i| i as f32 / 8.0 - 1.0).collect();
    let header = "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 10), }\n";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(singles.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()));
    let predict = |rows: &str| prints(&["predict", &model, "--rows", rows]);
    let expected = predict(&scratch.file("f4.npy", npy(&[2, 10], npyz::Order::C, &singles)));
    assert_eq!(predict(&scratch.file("f2.npy", &bytes)), expected);
    let at = bytes.len() - 40;
    bytes[at..].chunks_exact_mut(2).for_each(<[u8]>::reverse);
    let offset = bytes.windows(3).position(|w| w == b"<f2").expect("the type");
    bytes[offset] = b'>';
    assert_eq!(predict(&scratch.file("big.npy", &bytes)), expected);
}

#[test]
fn rows_come_from_standard_input() {
    let bytes = std::fs::read(zoo("churn", "rows.csv")).expect("rows");
    let output = with_input(&["predict", &model("churn"), "--rows", "-"], &bytes);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(
        text(&output.stdout),
        prints(&["predict", &model("churn"), "--rows", &zoo("churn", "rows.csv")])
    );
    let output = with_input(&["predict", &model("churn"), "--rows", "-"], b"1,2\n");
    assert_refused(&output, &["standard input", "line 1", " 2 ", " 12"]);
}

#[test]
fn no_row_predicts_to_nothing() {
    let scratch = Scratch::new("empty");
    let model = model("churn");
    let empty: [f32; 0] = [];
    let files = [
        scratch.file("a.npy", npy(&[0, 12], npyz::Order::C, &empty)),
        scratch.file("b.npy", npy(&[0], npyz::Order::C, &empty)),
    ];
    for rows in &files {
        for backend in ["cpu", "reference"] {
            for output in ["margin", "value", "class", "leaf", "tree"] {
                let arguments = ["predict", &model, "--rows", rows, "--output", output, "--backend", backend];
                assert_eq!(prints(&arguments), "", "{rows}");
                let out = scratch.path("out.npy");
                prints(&[&arguments[..], &["-o", &out]].concat());
                let width = if matches!(output, "leaf" | "tree") { 100 } else { 1 };
                let shape = npyz::NpyFile::new(&std::fs::read(&out).expect("a file")[..])
                    .expect("npy")
                    .shape()
                    .to_vec();
                assert_eq!(shape, [0, width]);
            }
        }
    }
    refuses(&["bench", &model, "--rows", &files[0]], &["a.npy", "no row"]);
    let header: String =
        std::fs::read_to_string(zoo("churn", "rows.csv")).expect("rows").lines().take(1).collect();
    let none = scratch.file("none.csv", "");
    refuses(&["predict", &model, "--rows", &none], &["none.csv", "no row", "empty", "at least one"]);
    let bare = scratch.file("bare.csv", header + "\n");
    refuses(&["predict", &model, "--rows", &bare], &["bare.csv", "no row", "a header"]);
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let scratch = Scratch::new("misfits");
    let model = model("churn");
    let refuses = |rows: &str, phrases: &[&str]| refuses(&["predict", &model, "--rows", rows], phrases);
    refuses(&zoo("softmax", "rows.npy"), &["softmax/rows.npy", " 8 ", " 12"]);
    let line = "1,2,3,4,5,6,7,8,9,10,11,12\n";
    refuses(
        &scratch.file("short.csv", format!("{line}\n{line}1,2\n")),
        &["short.csv", "line 4", " 2 ", " 12"],
    );
    refuses(&scratch.file("long.csv", format!("{line}13,{line}")), &["long.csv", "line 2", " 13 ", " 12"]);
    let word = format!("{line}\n\n{}", line.replace("5", "five"));
    refuses(&scratch.file("word.csv", word), &["word.csv", "line 4", "column 5", "five"]);
    refuses(&scratch.path("absent.csv"), &["absent.csv"]);
    refuses(&scratch.file("rows.txt", line), &["rows.txt", ".npy", ".csv"]);
    let floats = [1.0f32; 24];
    refuses(&scratch.file("flat.npy", npy(&[24], npyz::Order::C, &floats)), &["flat.npy", "24", "12"]);
    refuses(
        &scratch.file("cube.npy", npy(&[1, 2, 12], npyz::Order::C, &floats)),
        &["cube.npy", "3 dimensions"],
    );
    let whole = npy(&[2, 12], npyz::Order::C, &floats);
    refuses(&scratch.file("cut.npy", &whole[..whole.len() - 1]), &["cut.npy", "95 bytes"]);
    refuses(&scratch.file("header.npy", &whole[..20]), &["header.npy"]);
    refuses(&scratch.file("csv.npy", line), &["csv.npy", "no npy file"]);
    refuses(&scratch.file("none.npy", ""), &["none.npy"]);
    let announced = |shape: &str, dtype: &str| {
        let header = format!("{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.into_bytes());
        bytes
    };
    refuses(&scratch.file("a.npy", announced("(4294967296, 4294967296)", "'<f4'")), &["a.npy"]);
    refuses(&scratch.file("b.npy", announced("(9223372036854775807, 12)", "'<f4'")), &["b.npy"]);
    refuses(&scratch.file("c.npy", announced("(99999999999, 12)", "'<f4'")), &["c.npy"]);
    refuses(&scratch.file("d.npy", announced("(1, 12)", "'|O'")), &["d.npy", "objects", "astype"]);
    refuses(&scratch.file("e.npy", announced("(0, 12)", "'<U4'")), &["e.npy", "text", "U4", "astype"]);
    for (descr, what) in
        [("'<M8[ns]'", "dates"), ("'<m8[s]'", "times"), ("'<c8'", "complex"), ("[('a', '<f4')]", "fields")]
    {
        refuses(&scratch.file("h.npy", announced("(1, 12)", descr)), &["h.npy", what, "not read"]);
    }
    // What a header says of its own length is no reason to make room for it.
    let claims = b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr': '<f4'}\n";
    refuses(&scratch.file("i.npy", claims), &["i.npy", "ends in its header"]);
    let lines = "{\n".to_owned() + &"(".repeat(60_000);
    let nested = [&b"\x93NUMPY\x01\x00"[..], &(lines.len() as u16).to_le_bytes(), lines.as_bytes()].concat();
    refuses(&scratch.file("j.npy", nested), &["j.npy", "no plain array"]);
    refuses(&scratch.file("f.npy", announced("(0, 12)", &"(".repeat(60_000))), &["f.npy"]);
    refuses(&scratch.file("g.npy", announced("()", "'<f4'")), &["g.npy"]);
}

#[test]
fn damaged_npy_files_never_panic() {
    let scratch = Scratch::new("damage");
    let whole = std::fs::read(zoo("churn", "rows.npy")).expect("rows");
    let mut state = 7u64;
    for round in 0..60 {
        let mut bytes = whole.clone();
        for _ in 0..3 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes[(state >> 33) as usize % 128] = (state >> 25) as u8;
        }
        let rows = scratch.file("rows.npy", &bytes);
        let output = fangorn(&["predict", &model("churn"), "--rows", &rows]);
        let line = text(&output.stderr);
        match output.status.code() {
            Some(0) => {}
            _ => assert_refused(&output, &["rows.npy"]),
        }
        assert!(!line.contains("internal"), "round {round}: {line}");
    }
}

/// A parser that comes back to each open bracket would take hours for these.
#[test]
fn headers_of_many_brackets_are_refused_at_once() {
    let scratch = Scratch::new("brackets");
    for (open, close) in [("[", "]"), ("{", "}"), ("(", ")")] {
        for count in [4, 31, 5000] {
            let texts = format!("{open}'{}',", close.repeat(3)).repeat(count);
            for header in [open.repeat(count), open.repeat(count) + &close.repeat(count), texts] {
                let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
                bytes.extend((header.len() as u16).to_le_bytes());
                bytes.extend(header.as_bytes());
                let file = scratch.path("rows.npy");
                std::fs::write(&file, bytes).expect("a file");
                refuses(&["predict", &model("churn"), "--rows", &file], &["rows.npy", "npy"]);
            }
        }
    }
}

/// JAX and TensorFlow save bfloat16 through ml_dtypes; numpy writes its two bytes as a type without a meaning.
#[test]
fn bfloat16_is_read_and_said() {
    let scratch = Scratch::new("bf16");
    let (shape, values) = read_npy::<f32>(&zoo("churn", "rows.npy"));
    let rounded: Vec<half::bf16> = values.iter().map(|v| half::bf16::from_f32(*v)).collect();
    let singles: Vec<f32> = rounded.iter().map(|v| v.to_f32()).collect();
    let singles = scratch.file("singles.npy", npy(&shape, npyz::Order::C, &singles));
    let expected = prints(&["predict", &model("churn"), "--rows", &singles]);
    for (descr, big) in [("<V2", false), ("|V2", false), (">V2", true)] {
        let header = format!(
            "{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}, {}), }}",
            shape[0], shape[1]
        );
        let header = format!("{header:117}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(rounded.iter().flat_map(|v| if big { v.to_be_bytes() } else { v.to_le_bytes() }));
        let rows = scratch.file("bf16.npy", bytes);
        let found = fangorn(&["predict", &model("churn"), "--rows", &rows]);
        assert_eq!(found.status.code(), Some(0), "{}", text(&found.stderr));
        assert_eq!(text(&found.stdout), expected, "{descr}");
        assert!(text(&found.stderr).contains("bfloat16"), "{}", text(&found.stderr));
    }
}
