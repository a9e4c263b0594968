//! Texts that several commands print: names of features, numbers, and tables.

use std::path::PathBuf;

use fangorn::Forest;

/// Returns the name of a feature, or `f` and its column if it has none.
pub fn feature_name(forest: &Forest, feature: usize) -> String {
    forest.features[feature].name.clone().unwrap_or(format!("f{feature}"))
}

/// Reads the name of a CSV file.
pub fn csv_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv")) {
        true => Ok(path),
        false => Err("its name has to end in .csv".into()),
    }
}

/// Returns a number with four significant digits.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if value == 0.0 {
        "0".into()
    } else if !(1e-4..1e7).contains(&magnitude) {
        format!("{value:.3e}")
    } else {
        let whole = magnitude.log10().floor() as i32 + 1;
        let text = format!("{value:.*}", (4 - whole).max(0) as usize);
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    }
}

/// Returns lines of cells in aligned columns. The first column is left-aligned, all others are right-aligned.
pub fn aligned(lines: &[Vec<String>]) -> String {
    let width = |at: usize| {
        lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..lines.first().map_or(0, Vec::len)).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let mut row = String::new();
        for (at, cell) in line.iter().enumerate() {
            let pad = " ".repeat(widths[at].saturating_sub(cell.chars().count()));
            row += &if at == 0 { format!("{cell}{pad}") } else { format!("  {pad}{cell}") };
        }
        text += row.trim_end();
        text.push('\n');
    }
    text
}
