//! The plot of `fangorn tune`: the times of all candidates, a panel for each batch size.

use fangorn::auto::{TimedSchedule, TunedBatch};
use plotters::{
    backend::DrawingBackend,
    chart::{ChartBuilder, SeriesLabelPosition},
    coord::{Shift, combinators::IntoLogRange},
    drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea},
    element::{Circle, PathElement},
    series::LineSeries,
    style::{BLACK, Color, RGBColor, ShapeStyle, WHITE},
};

use crate::error::{Error, Result};

/// Width and height of a panel, in pixels.
const PANEL: (u32, u32) = (900, 340);
/// Colors that people with any color vision tell apart (Okabe and Ito, 2008).
const BLENDS: RGBColor = RGBColor(0, 114, 178);
const RANKS: RGBColor = RGBColor(230, 159, 0);
const VALUES: RGBColor = RGBColor(120, 120, 120);
const AUTO: RGBColor = RGBColor(213, 94, 0);
const TUNED: RGBColor = RGBColor(0, 158, 115);

/// Draws the candidates of each batch size, in the order of their times, as SVG.
///
/// # Errors
/// Drawing fails, which is a defect.
pub fn svg(title: &str, batches: &[TunedBatch]) -> Result<String> {
    let mut text = String::new();
    let size = (PANEL.0, PANEL.1 * batches.len().max(1) as u32);
    let root = plotters::backend::SVGBackend::with_string(&mut text, size).into_drawing_area();
    draw(&root, title, batches).map_err(|e| Error::Defect(format!("the plot: {e}")))?;
    drop(root);
    Ok(text)
}

fn draw<B: DrawingBackend>(
    root: &DrawingArea<B, Shift>,
    title: &str,
    batches: &[TunedBatch],
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    root.fill(&WHITE)?;
    for (batch, area) in batches.iter().zip(root.split_evenly((batches.len().max(1), 1))) {
        panel(&area, &format!("{title}, batches of {}", batch.rows), batch)?;
    }
    root.present()
}

fn panel<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    caption: &str,
    batch: &TunedBatch,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let micros = |timed: &TimedSchedule| (timed.seconds * 1e6).max(1e-9);
    let mut all: Vec<&TimedSchedule> = batch.screened.iter().collect();
    all.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let lines = [("default", &batch.auto, AUTO), ("tuned", &batch.tuned, TUNED)];
    let times = || all.iter().map(|timed| micros(timed)).chain(lines.iter().map(|line| micros(line.1)));
    let (least, most) = (times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max));
    let right = all.len() as f64 + 1.0;
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 18))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(0.0..right, (0.8 * least..1.25 * most).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(BLACK.mix(0.15))
        .x_desc("candidates, the fastest first")
        .y_desc("µs a row")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.3}"))
        .draw()?;
    let kind_of = |timed: &TimedSchedule| match timed.schedule.blends() {
        true => "blends",
        false if timed.schedule != timed.schedule.unranked() => "walks on ranks",
        false => "walks on values",
    };
    for (name, color) in [("blends", BLENDS), ("walks on ranks", RANKS), ("walks on values", VALUES)] {
        let style: ShapeStyle = color.filled();
        let points = all.iter().zip(1..).filter(|(timed, _)| kind_of(timed) == name);
        let series = points.map(|(timed, x)| Circle::new((f64::from(x), micros(timed)), 3, style));
        let series: Vec<_> = series.collect();
        if !series.is_empty() {
            chart
                .draw_series(series)?
                .label(name)
                .legend(move |(x, y)| Circle::new((x + 8, y), 3, color.filled()));
        }
    }
    for (name, timed, color) in lines {
        let line = LineSeries::new([(0.0, micros(timed)), (right, micros(timed))], color.stroke_width(2));
        chart
            .draw_series(line)?
            .label(format!("{name}: {:.4} µs a row", micros(timed)))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 13))
        .draw()
}
