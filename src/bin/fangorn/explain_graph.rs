//! `fangorn explain` for a graph of classical operators: how its forests, products and types were chosen.

use std::{
    fmt::{self, Write as _},
    path::Path,
};

use fangorn::{
    cost::{CHOICE_ROWS, Estimate},
    graph::{ForestWays, Graph, GraphExplanation, PassChange, Passes, ProductWays},
};
use serde::Serialize;

use crate::{
    Outcome,
    error::{Error, Result, one_line},
    output,
};

#[derive(Serialize)]
struct Report {
    model: String,
    batch: usize,
    forests: Vec<ForestReport>,
    products: Vec<ProductReport>,
    passes: Vec<PassReport>,
}

#[derive(Serialize)]
struct ForestReport {
    node: String,
    trees: usize,
    splits: usize,
    outputs: usize,
    walk: WayReport,
    /// `None` if the forest can't be products, or if the target has no costs of products.
    matrices: Option<WayReport>,
    refused: Option<&'static str>,
    chosen: &'static str,
}

#[derive(Serialize)]
struct WayReport {
    way: &'static str,
    us_per_row: f64,
    terms: Vec<TermReport>,
}

#[derive(Serialize)]
struct TermReport {
    what: &'static str,
    count: f64,
    us_each: f64,
}

#[derive(Serialize)]
struct ProductReport {
    node: String,
    rows: usize,
    columns: usize,
    filled: usize,
    dtype: &'static str,
    smallest_type: &'static str,
    dense_us_per_row: f64,
    skipping_us_per_row: f64,
    chosen: &'static str,
}

#[derive(Serialize)]
struct PassReport {
    pass: &'static str,
    nodes: (usize, usize),
    weights: (usize, usize),
    dtypes: Vec<String>,
}

/// Explains a graph, as `predict` runs it.
///
/// # Errors
/// The graph does not verify.
pub fn run(model: &Path, graph: &Graph, rows: usize, json: bool) -> Result<Outcome> {
    let why = GraphExplanation::new(graph, &Passes::default(), rows);
    let why = why.map_err(|e| Error::file(model, e.to_string()))?;
    let report = Report {
        model: model.display().to_string(),
        batch: rows,
        forests: why.forests.iter().map(|ways| forest(ways, rows)).collect(),
        products: why.products.iter().map(product).collect(),
        passes: why.changes.iter().map(pass).collect(),
    };
    let text = match json {
        true => serde_json::to_string(&report).map_err(|e| Error::Defect(e.to_string()))? + "\n",
        false => {
            let mut text = String::new();
            // Writing to a String does not fail.
            let _ = write(&mut text, &report, &why.changes);
            text
        }
    };
    output::print(&text)?;
    Ok(Outcome::Done)
}

fn forest(ways: &ForestWays, rows: usize) -> ForestReport {
    let way = |way, estimate: &Estimate| WayReport {
        way,
        us_per_row: estimate.seconds() * 1e6 / rows as f64,
        terms: estimate
            .terms
            .iter()
            .map(|term| TermReport { what: term.what, count: term.count, us_each: term.each * 1e6 })
            .collect(),
    };
    let (work, walk) = &ways.choice.walk;
    let products = ways.choice.products.as_ref().filter(|_| ways.refused.is_none());
    ForestReport {
        node: ways.name.clone(),
        trees: ways.facts.trees,
        splits: ways.facts.splits,
        outputs: ways.outputs,
        walk: way(work.name(), walk),
        matrices: products.map(|estimate| way("products of matrices", estimate)),
        refused: ways.refused,
        chosen: if ways.products { "matrices" } else { "walk" },
    }
}

fn product(ways: &ProductWays) -> ProductReport {
    ProductReport {
        node: ways.name.clone(),
        rows: ways.shape[0],
        columns: ways.shape[1],
        filled: ways.filled,
        dtype: ways.dtype.name(),
        smallest_type: ways.smallest_type.name(),
        dense_us_per_row: ways.dense * 1e6,
        skipping_us_per_row: ways.skipping * 1e6,
        chosen: if ways.skips { "skipping zeros" } else { "dense" },
    }
}

fn pass(change: &PassChange) -> PassReport {
    PassReport {
        pass: change.pass.name(),
        nodes: change.nodes,
        weights: change.weights,
        dtypes: change.rewrites.clone(),
    }
}

fn write(out: &mut String, report: &Report, changes: &[PassChange]) -> fmt::Result {
    writeln!(out, "model     {}", one_line(&report.model))?;
    writeln!(out, "\nForests, by estimates for a batch of {} on one thread:\n", report.batch)?;
    if report.forests.is_empty() {
        writeln!(out, "  there is none")?;
    }
    for forest in &report.forests {
        let ForestReport { node, trees, splits, outputs, .. } = forest;
        let counts = [(*trees, "tree"), (*splits, "split"), (*outputs, "output")]
            .map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }));
        writeln!(out, "{}: {}", one_line(node), counts.join(", "))?;
        way(out, &forest.walk, forest.chosen == "walk")?;
        match (&forest.matrices, forest.refused) {
            (Some(matrices), _) => way(out, matrices, forest.chosen == "matrices")?,
            (None, Some(refused)) => writeln!(out, "{:>26}products of matrices: none, since {refused}", "")?,
            (None, None) => writeln!(out, "{:>26}products of matrices: not measured here", "")?,
        }
    }
    if !report.forests.is_empty() {
        writeln!(out, "\nA forest takes the way with the least estimate for {CHOICE_ROWS} rows.")?;
    }
    writeln!(out, "\nProducts with a weight, by estimates of a row:\n")?;
    if report.products.is_empty() {
        writeln!(out, "  there is none")?;
    }
    for product in &report.products {
        let ProductReport { node, rows, columns, filled, dtype, smallest_type, chosen, .. } = product;
        writeln!(
            out,
            "{}: {rows} x {columns}, {filled} not 0, in {dtype}; the weight is exact in {smallest_type}",
            one_line(node)
        )?;
        for (way, us) in
            [("dense", product.dense_us_per_row), ("skipping zeros", product.skipping_us_per_row)]
        {
            writeln!(out, "{us:>10.4} µs a row  {way}{}", if way == *chosen { ", chosen" } else { "" })?;
        }
    }
    writeln!(out, "\nPasses:\n")?;
    if changes.is_empty() {
        writeln!(out, "  none changed the graph")?;
    }
    for change in changes {
        writeln!(out, "  {change}")?;
        change.rewrites.iter().try_for_each(|rewrite| writeln!(out, "    {rewrite}"))?;
    }
    Ok(())
}

fn way(out: &mut String, way: &WayReport, chosen: bool) -> fmt::Result {
    writeln!(out, "{:>10.4} µs a row  {}{}", way.us_per_row, way.way, if chosen { ", chosen" } else { "" })?;
    for term in way.terms.iter().filter(|term| term.count > 0.0) {
        writeln!(out, "{:>22}{:.0} {} at {:.2} ns", "", term.count, term.what, term.us_each * 1e3)?;
    }
    Ok(())
}
