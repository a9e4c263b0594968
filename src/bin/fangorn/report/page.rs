//! The page: one file without scripts, which loads nothing.

use std::fmt::Write as _;

use fangorn::{
    Forest,
    forest::{Coding, Transform},
};

use super::{
    Report,
    charts::{self, SwarmLine},
    findings::{Findings, RowContributions},
};
use crate::{
    svg::{STYLE, Svg, escaped},
    text::{feature_name, number},
};

/// The maximum number of features of a chart of bars, of a summary and of a waterfall.
const MOST_BARS: usize = 15;
const MOST_SWARMS: usize = 12;
const MOST_CHANGES: usize = 10;
/// The maximum number of rows of a summary. More dots would overlap.
const MOST_DOTS: usize = 800;

/// The page's own style rules. Those of its pictures come in addition.
const PAGE_STYLE: &str = "\
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1000px;margin:auto;padding:1rem}
h1{font-size:1.5rem;margin:.5rem 0;overflow-wrap:anywhere}h2{font-size:1.15rem;margin:2rem 0 .3rem;border-top:1px solid var(--line);padding-top:1rem}
h3{font-size:.95rem;margin:.2rem 0;font-weight:600;overflow-wrap:anywhere}p{margin:.3rem 0 .8rem;max-width:46rem;overflow-wrap:anywhere}
.soft{color:var(--soft)}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,320px),1fr));gap:1.2rem}
figure{margin:0;min-width:0;max-width:500px;break-inside:avoid}
svg{display:block;width:100%;height:auto}
svg .tick{stroke:var(--soft)}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(140px,1fr));gap:.6rem;margin:.6rem 0}
dl div{border:1px solid var(--line);border-radius:6px;padding:.35rem .6rem;min-width:0}
dt{color:var(--soft);font-size:.8rem}dd{margin:0;font-size:.95rem;font-weight:600;overflow-wrap:anywhere}
details{margin:.6rem 0}summary{cursor:pointer}
.wide{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.85rem}th,td{padding:.2rem .7rem .2rem 0;text-align:right;border-bottom:1px solid var(--line);font-variant-numeric:tabular-nums}
th:first-child,td:first-child{text-align:left;max-width:16rem;overflow-wrap:anywhere}
@media print{body{font-size:11pt}h2{break-after:avoid}details{display:none}main{max-width:none}}
";

/// Returns the page.
pub fn html(args: &Report, forest: &Forest, found: &Findings) -> String {
    let model = file_name(&args.model);
    let mut page = String::new();
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{0}: what the model does</title>\n<style>\n{STYLE}{PAGE_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n",
        escaped(&model)
    );
    head(&mut page, args, forest, found);
    importances(&mut page, args, forest, found);
    summary(&mut page, args, forest, found);
    dependences(&mut page, args, forest, found);
    row(&mut page, args, forest, found);
    shape(&mut page, forest, found);
    let _ = write!(
        page,
        "<p class=\"soft\">Made by fangorn {} report.</p>\n</main>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION")
    );
    page
}

fn file_name(path: &std::path::Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Begins a section, with a line that says what it shows.
fn section(page: &mut String, id: &str, title: &str, text: &str) {
    let _ = write!(
        page,
        "<section id=\"{id}\">\n<h2>{}</h2>\n<p class=\"soft\">{}</p>\n",
        escaped(title),
        escaped(text)
    );
}

/// Adds a picture with a title.
fn figure(page: &mut String, title: &str, svg: &Svg) {
    let _ = write!(page, "<figure>\n<h3>{}</h3>\n{}</figure>\n", escaped(title), svg.element(title));
}

fn fact(page: &mut String, name: &str, value: &str) {
    let _ = writeln!(page, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(value));
}

fn head(page: &mut String, args: &Report, forest: &Forest, found: &Findings) {
    let producer = &forest.producer;
    page.push_str("<dl>\n");
    fact(page, "trained by", format!("{} {}", producer.library, producer.version).trim());
    fact(page, "objective", if producer.objective.is_empty() { "not given" } else { &producer.objective });
    fact(page, "features", &format!("{} of {} used", found.order.len(), forest.features.len()));
    fact(page, "outputs", &forest.outputs.to_string());
    fact(page, "trees", &found.stats.trees.to_string());
    fact(page, "leaves", &found.stats.leaves.to_string());
    page.push_str("</dl>\n");
    let drawn = match found.rows as u64 == found.seen {
        true => format!("all {} rows", found.seen),
        false => {
            format!("{} rows, drawn at random from {} (seed {})", found.rows, found.seen, args.sample.seed)
        }
    };
    let _ = writeln!(page, "<p>Rows: {} of {}.</p>", escaped(&drawn), escaped(&file_name(&args.rows)));
}

/// Returns the name of the output that is drawn, with a space before it. Returns nothing if there is only one
/// output.
fn of_output(args: &Report, forest: &Forest) -> String {
    match forest.outputs {
        1 => String::new(),
        _ => match forest.classes.labels.get(args.of_output as usize) {
            Some(label) => format!(" of class {label}"),
            None => format!(" of output {}", args.of_output),
        },
    }
}

fn importances(page: &mut String, args: &Report, forest: &Forest, found: &Findings) {
    section(
        page,
        "importances",
        "Which features matter",
        "A contribution is what a feature adds to a row's margin (a SHAP value). Gain is how much a feature's splits \
         improved the objective in training. A permutation importance is how much the loss rises if the feature's column \
         is shuffled.",
    );
    let mut columns: Vec<(String, Vec<f64>)> = Vec::new();
    if let Ok(explained) = &found.explained {
        columns.push(("mean |contribution|".into(), explained.means.total()));
    }
    if let Some((options, permuted)) = &found.permuted {
        columns.push((format!("permutation ({})", options.metric), permuted.mean.clone()));
    }
    if let Some(gain) = &found.splits.total_gain {
        columns.push(("total gain".into(), gain.clone()));
    }
    if columns.len() < 2
        && let Some(cover) = &found.splits.total_cover
    {
        columns.push(("total cover".into(), cover.clone()));
    }
    if columns.len() < 2 {
        columns.push(("splits".into(), found.splits.weight.iter().map(|n| *n as f64).collect()));
    }
    page.push_str("<div class=\"charts\">\n");
    for (title, values) in &columns {
        let mut order = found.order.clone();
        order.sort_by(|a, b| values[*b].total_cmp(&values[*a]));
        order.truncate(MOST_BARS);
        let names: Vec<String> = order.iter().map(|f| feature_name(forest, *f)).collect();
        let values: Vec<f64> = order.iter().map(|f| values[*f]).collect();
        figure(page, title, &charts::bars(&names, &values));
    }
    page.push_str("</div>\n");
    if let Some((options, permuted)) = &found.permuted {
        let _ = writeln!(
            page,
            "<p class=\"soft\">{} of the rows is {}; {} permutations of each column, seed {}, label {}.</p>",
            options.metric,
            number(permuted.baseline),
            options.repeats,
            options.seed,
            escaped(args.labels.label.as_deref().unwrap_or_default())
        );
    }
    if found.splits.total_gain.is_none() {
        page.push_str("<p class=\"soft\">The model's file holds no gains.</p>\n");
    }
    table(page, forest, found, &columns);
    page.push_str("</section>\n");
}

/// Adds the importances of all features that some split reads, as numbers.
fn table(page: &mut String, forest: &Forest, found: &Findings, columns: &[(String, Vec<f64>)]) {
    page.push_str(
        "<details><summary>All numbers</summary>\n<div class=\"wide\">\n<table id=\"numbers\">\n<tr><th>feature</th>",
    );
    for (title, _) in columns {
        let _ = write!(page, "<th>{}</th>", escaped(title));
    }
    page.push_str("<th>splits</th></tr>\n");
    for f in &found.order {
        let _ = write!(page, "<tr><td>{}</td>", escaped(&feature_name(forest, *f)));
        for (_, values) in columns {
            let _ = write!(page, "<td data-value=\"{:?}\">{}</td>", values[*f], number(values[*f]));
        }
        let _ = writeln!(page, "<td>{}</td></tr>", found.splits.weight[*f]);
    }
    page.push_str("</table>\n</div>\n</details>\n");
}

/// Says why there are no contributions.
fn unexplained(page: &mut String, why: &str) {
    let _ = writeln!(page, "<p>There are no contributions here: {}.</p>", escaped(why));
}

fn summary(page: &mut String, args: &Report, forest: &Forest, found: &Findings) {
    let text = format!(
        "Each dot is a row. To the right, the feature raises the row's margin{}; to the left, it lowers it. The colour is the \
         feature's value.",
        of_output(args, forest)
    );
    section(page, "summary", "What each feature does", &text);
    match &found.explained {
        Err(why) => unexplained(page, why),
        Ok(explained) => {
            let width = forest.features.len() + 1;
            let rows = found.rows.min(MOST_DOTS);
            let line = |f: &usize| SwarmLine {
                name: feature_name(forest, *f),
                contributions: explained
                    .of_rows
                    .chunks_exact(width)
                    .take(rows)
                    .map(|row| f64::from(row[*f]))
                    .collect(),
                values: &found.columns[*f][..rows],
            };
            let lines: Vec<SwarmLine<'_>> = found.order.iter().take(MOST_SWARMS).map(line).collect();
            figure(page, &format!("Contributions of {rows} rows"), &charts::summary(&lines));
            let expected =
                format!("The expectation for a feature that is not known comes from {}.", explained.expected);
            let _ = writeln!(page, "<p class=\"soft\">{}</p>", escaped(&expected));
        }
    }
    page.push_str("</section>\n");
}

fn dependences(page: &mut String, args: &Report, forest: &Forest, found: &Findings) {
    let text = format!(
        "The red line is partial dependence: the mean margin{} if the feature of all rows is replaced by one value. Each \
         grey line is one row. Marks above the axis are the deciles of the feature's values; the least and the largest \
         hundredth are left out.",
        of_output(args, forest)
    );
    section(page, "dependence", "How the prediction depends on a feature", &text);
    page.push_str("<div class=\"charts\">\n");
    for dependence in &found.dependences {
        let feature = dependence.feature as usize;
        let svg =
            charts::dependence_of(dependence, args.of_output as usize, &found.columns[feature], |value| {
                value_text(forest, feature, value)
            });
        figure(page, &feature_name(forest, feature), &svg);
    }
    page.push_str("</div>\n</section>\n");
}

/// Returns a value in words: the category's name if the model's file has one.
fn value_text(forest: &Forest, feature: usize, value: f64) -> String {
    match (forest.features[feature].category(value), &forest.features[feature].coding) {
        (Some(name), _) => name.to_owned(),
        // Categories that no split asks for have no number of their own.
        (None, Coding::Hashes { .. }) if value.is_nan() => "another category".into(),
        (None, _) if value.is_nan() => "missing".into(),
        (None, _) => number(value),
    }
}

fn row(page: &mut String, args: &Report, forest: &Forest, found: &Findings) {
    let values: Vec<String> = found.row_values.iter().take(8).map(|v| number(f64::from(*v))).collect();
    let more = match found.row_values.len().saturating_sub(8) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let margin = match forest.transform {
        Transform::Identity => String::new(),
        transform => {
            format!(", which is the sum before the objective's {}", transform.name().replace('_', " "))
        }
    };
    let text = format!(
        "Row {} of the file, counted from 0. The prediction is {}{more}. The picture shows how the features lead from \
         what is expected to the row's margin{}{margin}.",
        args.row,
        values.join(", "),
        of_output(args, forest),
    );
    section(page, "row", "Why this prediction", &text);
    match &found.explained {
        Err(why) => unexplained(page, why),
        Ok(explained) => waterfall(page, args, forest, found, explained),
    }
    page.push_str("</section>\n");
}

fn waterfall(
    page: &mut String,
    args: &Report,
    forest: &Forest,
    found: &Findings,
    explained: &RowContributions,
) {
    let Some((bias, contributions)) = explained.of_row.split_last() else { return };
    let mut order = found.order.clone();
    order.sort_by(|a, b| contributions[*b].abs().total_cmp(&contributions[*a].abs()));
    let (shown, others) = order.split_at(order.len().min(MOST_CHANGES));
    let change = |f: &usize| {
        let name = format!("{} = {}", feature_name(forest, *f), value_text(forest, *f, found.row[*f]));
        (name, f64::from(contributions[*f]))
    };
    let mut changes: Vec<(String, f64)> = shown.iter().map(change).collect();
    if !others.is_empty() {
        let rest = others.iter().map(|f| f64::from(contributions[*f])).sum();
        changes.push((format!("{} other features", others.len()), rest));
    }
    let title = format!("Row {}", args.row);
    figure(page, &title, &charts::waterfall(f64::from(*bias), &changes));
}

fn shape(page: &mut String, forest: &Forest, found: &Findings) {
    let stats = &found.stats;
    section(
        page,
        "shape",
        "What the forest looks like",
        "The depth of a leaf is the number of splits on the way to it. A threshold is the number that a split compares a \
         value with.",
    );
    page.push_str("<dl>\n");
    fact(page, "trees", &stats.trees.to_string());
    fact(page, "nodes", &stats.nodes.to_string());
    fact(page, "leaves", &stats.leaves.to_string());
    fact(page, "most leaves of a tree", &stats.max_leaves.to_string());
    fact(page, "deepest tree", &stats.depths.len().saturating_sub(1).to_string());
    fact(page, "shallowest leaf", &stats.min_leaf_depth.to_string());
    page.push_str("</dl>\n<div class=\"charts\">\n");
    let counted = |counts: &[usize]| -> (Vec<usize>, Vec<String>) {
        let first = counts.iter().position(|count| *count > 0).unwrap_or(0);
        (counts[first..].to_vec(), (first..counts.len()).map(|at| at.to_string()).collect())
    };
    let (counts, texts) = counted(&stats.depths);
    figure(page, "Trees by depth", &charts::columns(&counts, &texts, "depth of the tree"));
    let (counts, texts) = counted(&stats.leaf_depths);
    figure(page, "Leaves by depth", &charts::columns(&counts, &texts, "depth of the leaf"));
    let (counts, texts) = counted(&stats.leaf_counts);
    let least: Vec<String> = texts
        .iter()
        .map(|text| {
            text.parse::<u32>().ok().and_then(|k| 1usize.checked_shl(k.max(1) - 1)).unwrap_or(0).to_string()
        })
        .collect();
    figure(
        page,
        "Trees by number of leaves",
        &charts::columns(&counts, &least, "leaves, from this number to twice it"),
    );
    let leaf_values = &found.leaf_values;
    figure(
        page,
        "Leaf values",
        &charts::histogram(
            &leaf_values.counts,
            [leaf_values.least, leaf_values.largest],
            "value of the leaf",
        ),
    );
    for (feature, thresholds) in &found.thresholds {
        let title = format!("Thresholds of {}", feature_name(forest, *feature));
        let svg = charts::histogram(&thresholds.counts, [thresholds.least, thresholds.largest], "threshold");
        figure(page, &title, &svg);
    }
    page.push_str("</div>\n</section>\n");
}
