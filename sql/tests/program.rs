//! The program `fangorn-sql` as a user meets it.

use std::{path::PathBuf, process::Command};

struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_fangorn-sql")).args(arguments).output().expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn tables_are_queried_and_written() {
    let scratch = Scratch(std::env::temp_dir().join(format!("fangorn-sql-{}", std::process::id())));
    std::fs::create_dir_all(&scratch.0).expect("a folder");
    let path = |name: &str| scratch.0.join(name).display().to_string();
    let names = ["f0", "f1", "f2", "f3", "f4", "f5", "f6", "f7"].join(",");
    std::fs::write(path("rows.csv"), format!("id,{names}\n7,0.5,1,2,3,4,5,6,7\n8,,1,,3,,5,,7\n"))
        .expect("a file");
    let zoo = |model: &str| format!("{}/../tests/zoo/{model}/model.ubj", env!("CARGO_MANIFEST_DIR"));
    let model = format!("--model=m={}", zoo("softprob"));
    let table = format!("--table=rows={}", path("rows.csv"));

    // A list of five outputs is five columns of a CSV, and a list of JSON.
    let query = format!("SELECT id, forest_predict('m', {names}) AS p FROM rows ORDER BY id");
    let (code, csv, said) = run(&[&model, &table, &query]);
    assert_eq!((code, &*said), (Some(0), ""));
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines[0], ["id", "p_0", "p_1", "p_2", "p_3", "p_4"]);
    assert_eq!((lines.len(), lines[2][0], lines[1].len()), (3, "8", 6));
    let sum: f64 = lines[1][1..].iter().map(|p| p.parse::<f64>().expect("a number")).sum();
    assert!((sum - 1.0).abs() < 1e-5, "{csv}");
    let (code, json, _) = run(&[&model, &table, "--json", &query]);
    assert!(code == Some(0) && json.starts_with("{\"id\":7,\"p\":[") && json.lines().count() == 2, "{json}");

    // Files, by their endings, which are read again. One that fails leaves nothing.
    for name in ["out.parquet", "out.csv", "out.json", "out.arrow"] {
        let out = path(name);
        let (code, _, said) = run(&[&model, &table, "-o", &out, &query]);
        assert_eq!((code, &*said), (Some(0), ""), "{name}");
        if name != "out.arrow" {
            let (code, count, said) = run(&[&format!("SELECT count(*) AS n FROM '{out}'")]);
            assert_eq!((code, &*count, &*said), (Some(0), "n\n2\n", ""), "{name}");
        }
        std::fs::remove_file(&out).expect("a file");
    }
    let (code, empty, _) = run(&[&table, "SELECT id FROM rows WHERE false"]);
    assert_eq!((code, &*empty), (Some(0), "id\n"));
    for (arguments, part) in [
        (&[&*table, "SELECT forest_predict('x', f0) FROM rows"][..], "neither the name of a model"),
        (&[&*table, "SELECT nothing FROM rows"], "nothing"),
        (&["SELECT 1", "-o", "out.txt"], ".parquet"),
        (&["--table=rows=/nowhere.csv", "SELECT 1"], "/nowhere.csv"),
        (&[&*table, "-o", &path("out.csv"), "SELECT 1 / (id - 7) FROM rows"], "zero"),
    ] {
        let (code, out, said) = run(arguments);
        assert_eq!((code, &*out), (Some(2), ""), "{said}");
        assert!(said.starts_with("fangorn: ") && said.lines().count() == 1 && said.contains(part), "{said}");
    }
    let left: Vec<_> =
        std::fs::read_dir(&scratch.0).expect("the folder").flatten().map(|e| e.file_name()).collect();
    assert_eq!(left, ["rows.csv"]);
    let (code, help, _) = run(&["--help"]);
    assert!(code == Some(0) && help.contains("Example:\n  fangorn sql "), "{help}");
}
