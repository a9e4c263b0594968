//! Checks a pipeline that was loaded from its file: on the CPU it predicts the same bits, and on a GPU the same within
//! a tolerance.

use std::path::Path;

use burn::tensor::Device;
use fangorn_graphs::fangorn::graph::GraphPredictor;

use super::{Pipeline, Result, Saved, Table, Work, file, serve};

/// The maximum difference of a prediction on a GPU or of a graph. The network rounds differently there, so a feature
/// close to a threshold may send a row to another leaf. One row in a hundred may differ by more.
const TOLERANCE: f32 = 1e-4;

/// Saves a pipeline, loads it, and compares the predictions of both for the test rows.
pub fn saved_and_loaded<P: Pipeline>(work: &Work, file: &Path, trained: P) -> Result<()> {
    let device = Device::flex();
    let (rows, labels) = work.labelled("test")?;
    let expected = by_each_head(work, &trained, &rows, &device)?;
    for (head, predicted) in P::HEADS.iter().zip(&expected) {
        let width = predicted.len() / labels.len().max(1);
        let right = predicted.chunks(width.max(1)).zip(&labels).filter(|(p, l)| P::right(p, **l)).count();
        println!("{head}: {right} of {} test rows right", labels.len());
        work.write(&format!("expected-{head}.npy"), predicted, &[labels.len(), width])?;
    }
    file::write_parameters(&trained, &work.path("parameters"))?;
    trained.export(work)?;
    trained.into_record().save(file)?;
    println!("saved: {} ({} KiB)", file.display(), std::fs::metadata(file)?.len() / 1024);

    let saved = Saved::open(file)?;
    let loaded = saved.load::<P>(&device)?;
    let bits = |values: &[Vec<f32>]| -> Vec<u32> { values.iter().flatten().map(|v| v.to_bits()).collect() };
    if bits(&by_each_head(work, &loaded, &rows, &device)?) != bits(&expected) {
        return Err("what was loaded predicts otherwise than what was saved".into());
    }
    println!("loaded: the same bits on the CPU");
    as_graphs(&loaded, &rows, &expected)?;
    #[cfg(feature = "wgpu")]
    on_a_gpu::<P>(work, &saved, &rows, &expected)?;
    Ok(())
}

/// Returns the predictions of each head for the rows.
fn by_each_head<P: Pipeline>(
    work: &Work,
    pipeline: &P,
    rows: &Table,
    device: &Device,
) -> Result<Vec<Vec<f32>>> {
    P::HEADS.iter().map(|head| work.predictions(pipeline, head, rows, device)).collect()
}

/// Compares the predictions of each head as one graph, in which products are summed in another order.
fn as_graphs<P: Pipeline>(pipeline: &P, rows: &Table, expected: &[Vec<f32>]) -> Result<()> {
    for (head, expected) in P::HEADS.iter().zip(expected) {
        let graph = GraphPredictor::new(pipeline.graph(head)?, 1)?;
        for change in graph.changes() {
            println!("{head}: {change}");
        }
        let found = serve::by_graph(&graph, rows)?;
        let outside = far(&found, expected, rows.rows());
        println!("{head}: {} of {} rows within {TOLERANCE} as a graph", rows.rows() - outside, rows.rows());
        if outside * 100 > rows.rows() || found.len() != expected.len() {
            return Err(format!("{head}: {outside} rows are off as a graph").into());
        }
    }
    Ok(())
}

/// Returns the number of rows with a prediction that is off by more than the tolerance.
fn far(found: &[f32], expected: &[f32], rows: usize) -> usize {
    let width = (found.len() / rows.max(1)).max(1);
    let off = |(a, b): (&[f32], &[f32])| a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let inside = found.chunks(width).zip(expected.chunks(width)).map(off).filter(|off| *off <= TOLERANCE);
    rows.saturating_sub(inside.count())
}

#[cfg(feature = "wgpu")]
fn on_a_gpu<P: Pipeline>(work: &Work, saved: &Saved, rows: &Table, expected: &[Vec<f32>]) -> Result<()> {
    let device = Device::wgpu(burn::tensor::DeviceKind::DefaultDevice);
    let some: Vec<usize> = (0..rows.rows().min(256)).collect();
    let found = by_each_head(work, &saved.load::<P>(&device)?, &rows.select(&some), &device)?;
    for (head, (found, expected)) in P::HEADS.iter().zip(found.iter().zip(expected)) {
        let outside = far(found, &expected[..found.len()], some.len());
        println!("{head}: {} of {} rows within {TOLERANCE} on the GPU", some.len() - outside, some.len());
        if outside * 100 > some.len() {
            return Err(format!("{head}: {outside} rows are off on the GPU").into());
        }
    }
    Ok(())
}
