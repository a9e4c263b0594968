//! Finds schedules by their names.

use fangorn::{
    Forest,
    schedule::{Preset, Schedule},
};

use crate::error::{Error, Result};

/// Returns the schedules that `name` stands for, each with its own name: one preset, one file, or all
/// presets.
///
/// # Errors
/// The name is neither `all`, a preset nor a file that can be read, or the file holds no schedule.
pub fn named(name: &str, forest: &Forest, gpu: bool) -> Result<Vec<(String, Schedule)>> {
    let preset = |preset: Preset| (preset.name().to_owned(), preset.schedule(forest, gpu));
    if name == "all" {
        return Ok(Preset::ALL.into_iter().map(preset).collect());
    }
    if let Some(of_name) = Preset::parse(name) {
        return Ok(vec![preset(of_name)]);
    }
    let wrong = |cause: String| Error::File { path: name.into(), cause };
    let text = std::fs::read_to_string(name).map_err(|e| {
        let presets = Preset::ALL.map(Preset::name).join(", ");
        wrong(format!("{e}; give a file of directives, all, or one of {presets}"))
    })?;
    let schedule = Schedule::parse(&text).map_err(|e| wrong(e.to_string()))?;
    Ok(vec![(name.to_owned(), schedule)])
}

/// Formats a schedule on one line.
pub fn line(schedule: &Schedule) -> String {
    schedule.to_string().lines().collect::<Vec<_>>().join("; ")
}
