//! `fangorn drift`: compares the distributions of two tables, as a model sees them.

use std::{
    fmt::Write as _,
    io::Write as _,
    path::{Path, PathBuf},
    sync::Mutex,
};

use clap::{Args, value_parser};
use fangorn::{
    Forest, Predictor,
    forest::Coding,
    insight::{Bin, Drift, DriftCounter, FeatureBins, FeatureDrift},
};
use serde_json::{Value, json};

use crate::{
    Outcome,
    answer::{MissingChoice, RoundsChoice},
    atomic_file::AtomicFile,
    drift_plot,
    error::{Error, Result, one_line},
    library_error,
    limits::LimitsChoice,
    output::{self, Table, Values},
    row_source::{RowSource, view},
    rows::{self, Element, Matrix, TableChoice},
    schedule::compiled,
    standard_input::rows_path,
    text::{aligned, csv_path, feature_name, number},
};

/// Compare the distributions of two tables over a model's features and leaves
#[derive(Debug, Args)]
#[command(after_help = "Example:
  fangorn drift model.ubj --base train.parquet --rows today.csv
  fangorn drift model.ubj --base train.csv --rows today.csv -o drift.csv --plot drift.svg --fail-above 0.25")]
pub struct DriftArgs {
    /// The model file, in any format that fangorn reads
    model: PathBuf,
    /// The rows to compare with, usually the training data: a .npy, .csv, .parquet, .arrow or .libsvm file. Both tables
    /// are read part by part, so they may be larger than memory
    #[arg(long, value_name = "FILE")]
    base: PathBuf,
    /// The rows to compare, in any format of --base; - reads CSV or a stream of Arrow from standard input
    #[arg(long, value_name = "FILE", value_parser = rows_path())]
    rows: PathBuf,
    /// About how many bins a feature or a tree gets. The model's thresholds cut a feature's values into bins, and each
    /// leaf of a tree is a bin; neighbouring bins are joined until each holds at least 1/N of the base's rows
    #[arg(long, value_name = "N", default_value = "20", value_parser = value_parser!(u16).range(2..=1000))]
    bins: u16,
    /// Exit with status 1 if a feature's population stability index (PSI) is above this number
    #[arg(long, value_name = "PSI", value_parser = psi_limit)]
    fail_above: Option<f64>,
    /// Print JSON, with all bins
    #[arg(long)]
    json: bool,
    /// Write a table of all features and trees to this .csv file
    #[arg(short, value_name = "FILE.csv", value_parser = csv_path)]
    o: Option<PathBuf>,
    /// Draw the distributions of the 8 features that differ most into this SVG file
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    rounds: RoundsChoice,
    #[command(flatten)]
    missing: MissingChoice,
    #[command(flatten)]
    table: TableChoice,
    #[command(flatten)]
    limits: LimitsChoice,
}

fn psi_limit(text: &str) -> Result<f64, String> {
    let limit = text.parse::<f64>().ok().filter(|limit| limit.is_finite() && *limit >= 0.0);
    limit.ok_or_else(|| "give a number of at least 0".into())
}

/// The maximum number of features and of trees that the text lists.
const MOST_FEATURES: usize = 20;
const MOST_TREES: usize = 5;

/// Runs the command.
///
/// # Errors
/// The model or a table is wrong, or an output can't be written.
pub fn run(args: &DriftArgs) -> Result<Outcome> {
    for path in args.o.iter().chain(&args.plot) {
        AtomicFile::check(path)?;
    }
    rows::check_standard_input(["--base", "--rows"], [Some(&args.base), Some(&args.rows)])?;
    let forest = args.rounds.load(&args.model, &args.limits, false)?.forest;
    if forest.used_columns().is_empty() {
        let what = "the model has no split, so all rows are alike to it; give a model with splits";
        return Err(Error::file(&args.model, what));
    }
    let bins = FeatureBins::new(&forest).map_err(library_error)?;
    let predictor = compiled(Predictor::builder(&forest)).map_err(library_error)?;
    let count = |path: &Path| -> Result<DriftCounter> {
        let source = RowSource::open(path, &forest, args.table, None, args.missing)?;
        match source.reads_doubles() {
            true => count::<f64>(&forest, &bins, &predictor, &source),
            false => count::<f32>(&forest, &bins, &predictor, &source),
        }
    };
    let (base, rows) = (count(&args.base)?, count(&args.rows)?);
    let drift = Drift::new(&forest, &bins, [&base, &rows], args.bins.into()).map_err(library_error)?;
    if let Some(path) = &args.o {
        let text = csv(&forest, &drift);
        AtomicFile::write(path, |out| out.write_all(text.as_bytes()))?;
    }
    if let Some(path) = &args.plot {
        let svg = drift_plot::svg(&forest, &drift);
        AtomicFile::write(path, |out| out.write_all(svg.as_bytes()))?;
    }
    let text = match args.json {
        true => {
            serde_json::to_string_pretty(&json(args, &forest, &drift))
                .map_err(|e| Error::Defect(e.to_string()))?
                + "\n"
        }
        false => table(&forest, &drift),
    };
    output::print(&text)?;
    let largest = drift.features.first().map_or(0.0, |feature| feature.psi);
    match args.fail_above {
        Some(limit) if largest > limit => Ok(Outcome::Differs),
        _ => Ok(Outcome::Done),
    }
}

/// Counts the rows of a table in each bin. Each thread has its own counts.
fn count<T: Element>(
    forest: &Forest,
    bins: &FeatureBins,
    predictor: &Predictor,
    source: &RowSource<'_>,
) -> Result<DriftCounter> {
    let idle: Mutex<Vec<DriftCounter>> = Mutex::new(Vec::new());
    let poisoned = || Error::Defect("a thread that counts has panicked".into());
    let one = |rows: &Matrix<T>| {
        let free = idle.lock().map_err(|_| poisoned())?.pop();
        let mut counter = free.unwrap_or_else(|| DriftCounter::new(forest, bins));
        counter.count(bins, predictor, &view(rows)?).map_err(library_error)?;
        idle.lock().map_err(|_| poisoned())?.push(counter);
        Ok(Table { rows: rows.rows, columns: 0, values: Values::Ints(Vec::new()) })
    };
    source.each(1, one, |_| Ok(()))?;
    let mut all = DriftCounter::new(forest, bins);
    idle.lock().map_err(|_| poisoned())?.iter().for_each(|counter| all.merge(counter));
    Ok(all)
}

/// Returns the values of a bin in words.
pub fn bin_text(forest: &Forest, feature: u32, bin: Bin) -> String {
    let column = &forest.features[feature as usize];
    match bin {
        // A category that no split asks for has no number.
        Bin::Missing if matches!(column.coding, Coding::Hashes { .. }) => return "other categories".into(),
        Bin::Numbers { from, below } if matches!(column.coding, Coding::Hashes { .. }) => {
            let inside =
                |code: f64| from.is_none_or(|from| code >= from) && below.is_none_or(|below| code < below);
            let codes = column.codes();
            let code = |name: &String| codes.as_ref().and_then(|codes| codes.of(name));
            let names = column.categories.iter().filter(|name| code(name).is_some_and(inside));
            let names: Vec<&str> = names.map(String::as_str).collect();
            if !names.is_empty() {
                return names.join(", ");
            }
        }
        _ => {}
    }
    match bin {
        Bin::Numbers { from: None, below: None } => "all values".into(),
        Bin::Numbers { from: None, below: Some(below) } => format!("below {}", number(below)),
        Bin::Numbers { from: Some(from), below: None } => format!("from {} on", number(from)),
        // A bin of a single number comes from splits that compare values for equality.
        Bin::Numbers { from: Some(from), below: Some(below) }
            if below == from.next_up() || below == f64::from((from as f32).next_up()) =>
        {
            number(from)
        }
        Bin::Numbers { from: Some(from), below: Some(below) } => match [number(from), number(below)] {
            [from_text, below_text] if from_text == below_text => format!("{from:?} to {below:?}"),
            [from, below] => format!("{from} to {below}"),
        },
        Bin::Category(category) => column
            .categories
            .get(category as usize)
            .cloned()
            .unwrap_or_else(|| format!("category {category}")),
        Bin::OtherCategories => "other categories".into(),
        Bin::Missing => "missing".into(),
    }
}

/// Returns the shares of the base's rows and of the other table's in each bin.
pub fn shares(feature: &FeatureDrift, rows: [u64; 2]) -> Vec<[f64; 2]> {
    let share = |counts: [u64; 2]| [0, 1].map(|side| counts[side] as f64 / rows[side].max(1) as f64);
    feature.bins.iter().map(|(_, counts)| share(*counts)).collect()
}

/// Returns the bin whose share has changed most, with its shares.
fn most_changed(forest: &Forest, feature: &FeatureDrift, rows: [u64; 2]) -> String {
    let shares = shares(feature, rows);
    let change = |at: &usize| (shares[*at][1] - shares[*at][0]).abs();
    let most = (0..shares.len()).max_by(|a, b| change(a).total_cmp(&change(b)));
    match most.filter(|at| change(at) > 0.0) {
        None => String::new(),
        Some(at) => {
            let [base, rows] = shares[at].map(|share| format!("{:.1} %", 100.0 * share));
            let bin = one_line(&bin_text(forest, feature.feature, feature.bins[at].0));
            format!("{bin}: {base} -> {rows}")
        }
    }
}

fn table(forest: &Forest, drift: &Drift) -> String {
    let [base, rows] = drift.rows;
    let mut text = format!("base {base} rows, compared with {rows} rows\n\n");
    let mut lines = vec![["feature", "psi", "by chance", "largest change"].map(str::to_owned).to_vec()];
    for feature in drift.features.iter().take(MOST_FEATURES) {
        lines.push(vec![
            one_line(&feature_name(forest, feature.feature as usize)),
            format!("{:.4}", feature.psi),
            format!("{:.4}", feature.by_chance),
            most_changed(forest, feature, drift.rows),
        ]);
    }
    text += &aligned(&lines);
    let more = |text: &mut String, all: usize, most: usize, what: &str| {
        if all > most {
            let _ = writeln!(text, "and {} more {what}; --json lists every one", all - most);
        }
    };
    more(&mut text, drift.features.len(), MOST_FEATURES, "features");
    let mut lines = vec![["tree", "psi", "by chance"].map(str::to_owned).to_vec()];
    for tree in drift.trees.iter().take(MOST_TREES) {
        lines.push(vec![tree.tree.to_string(), format!("{:.4}", tree.psi), format!("{:.4}", tree.by_chance)]);
    }
    text.push('\n');
    text += &aligned(&lines);
    more(&mut text, drift.trees.len(), MOST_TREES, "trees");
    text
}

fn csv(forest: &Forest, drift: &Drift) -> String {
    let mut text = "kind,name,psi,by_chance,bins\n".to_owned();
    for feature in &drift.features {
        let name = feature_name(forest, feature.feature as usize);
        let (psi, chance, bins) = (feature.psi, feature.by_chance, feature.bins.len());
        let _ = writeln!(text, "feature,{},{psi:?},{chance:?},{bins}", output::quoted(&name));
    }
    for tree in &drift.trees {
        let (psi, chance, bins) = (tree.psi, tree.by_chance, tree.bins.len());
        let _ = writeln!(text, "tree,{},{psi:?},{chance:?},{bins}", tree.tree);
    }
    text
}

fn json(args: &DriftArgs, forest: &Forest, drift: &Drift) -> Value {
    let feature = |of: &FeatureDrift| {
        let bin = |(bin, [base, rows]): &(Bin, [u64; 2])| {
            let text = bin_text(forest, of.feature, *bin);
            match bin {
                Bin::Numbers { from, below } => {
                    json!({"bin": text, "from": from, "below": below, "base": base, "rows": rows})
                }
                _ => json!({"bin": text, "base": base, "rows": rows}),
            }
        };
        json!({
            "feature": feature_name(forest, of.feature as usize),
            "column": of.feature,
            "psi": of.psi,
            "by_chance": of.by_chance,
            "bins": of.bins.iter().map(bin).collect::<Vec<_>>(),
        })
    };
    let trees = drift.trees.iter().map(
        |tree| json!({"tree": tree.tree, "psi": tree.psi, "by_chance": tree.by_chance, "bins": tree.bins}),
    );
    json!({
        "model": args.model.display().to_string(),
        "base": {"file": args.base.display().to_string(), "rows": drift.rows[0]},
        "rows": {"file": args.rows.display().to_string(), "rows": drift.rows[1]},
        "features": drift.features.iter().map(feature).collect::<Vec<_>>(),
        "trees": trees.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use fangorn::{
        Forest,
        forest::{Coding, Real},
        insight::Bin,
    };

    use super::bin_text;

    #[test]
    fn bins_of_hashed_categories_have_their_names() {
        let mut forest = Forest::builder(1, 1).build().expect("a forest");
        // CatBoost's hashes of `1000`, `red` and `a`.
        let codes = vec![(901_807_697, Real(0.5)), (3_052_168_893, Real(1.5)), (3_489_901_818, Real(2.5))];
        forest.features[0].coding = Coding::Hashes { codes, needed: false };
        let bins = [(None, Some(0.6)), (Some(0.6), Some(1.6)), (Some(1.6), None)];
        let texts =
            |forest: &Forest| bins.map(|(from, below)| bin_text(forest, 0, Bin::Numbers { from, below }));
        assert_eq!(texts(&forest)[1], "0.6 to 1.6");
        forest.features[0].categories = ["red", "1000", "a", "blue"].map(str::to_owned).to_vec();
        assert_eq!(texts(&forest), ["1000", "red", "a"]);
        assert_eq!(bin_text(&forest, 0, Bin::Missing), "other categories");
        assert_eq!(forest.features[0].category(1.5), Some("red"));
        assert_eq!(forest.features[0].category(0.6), None);
    }
}
