//! A schedule, and what the compiler makes of it, as `fangorn lower` prints it.

use std::fmt::Display;

use fangorn::{
    Forest, Predictor,
    plan::{self, Request},
    schedule::{Preset, Schedule},
};
use serde::Serialize;

use crate::{error::Result, predictions::warnings};

/// The compiler's stages as text.
#[derive(Debug, Serialize)]
pub struct Stages {
    schedule: String,
    /// The loops as the schedule spells them out, and then with legal reductions.
    loops: String,
    plan: String,
    /// The program of the CPU target.
    program: String,
    warnings: Vec<String>,
}

/// Returns the schedule of a preset's name, or of a text with one directive a line.
///
/// # Errors
/// The text is no schedule.
pub fn schedule_of(forest: &Forest, text: &str) -> Result<Schedule> {
    match Preset::parse(text.trim()) {
        Some(preset) => Ok(preset.schedule(forest, false)),
        None => Ok(Schedule::parse(text).map_err(fangorn::Error::from)?),
    }
}

/// Lowers a forest with a schedule, for one thread.
///
/// # Errors
/// The text is no schedule, or the schedule can't be carried out.
pub fn stages(forest: &Forest, text: &str) -> Result<Stages> {
    let schedule = schedule_of(forest, text)?;
    let lowered = plan::lower_with(forest, &schedule, Request { threads: 1, ..Request::cpu() }, None)?;
    let predictor = Predictor::builder(forest).schedule(schedule.clone()).threads(1).build()?;
    let notes: String = lowered.notes().iter().map(|note| format!("# {note}\n")).collect();
    Ok(Stages {
        schedule: with_final_newline(&schedule),
        loops: with_final_newline(lowered.loops()) + "# legalised\n" + &with_final_newline(lowered.legal()),
        plan: with_final_newline(lowered.plan()) + &notes,
        program: with_final_newline(predictor.program()),
        warnings: warnings(&predictor),
    })
}

/// Returns the text of an IR, with one newline at its end.
fn with_final_newline(ir: &impl Display) -> String {
    format!("{}\n", ir.to_string().trim_end_matches('\n'))
}
