//! Values of options: how they are read, and what a large one costs.

use std::{path::PathBuf, time::Duration};

/// Reads a time such as `10s`, `500ms` or `2m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1e-3), ("s", 1.0), ("m", 60.0)];
    let found = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let seconds = found.and_then(|(number, seconds)| Some(number.trim().parse::<f64>().ok()? * seconds));
    let bounded = seconds.filter(|seconds| *seconds > 0.0 && *seconds <= 86_400.0);
    bounded
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "give a time above 0 and up to a day, such as 10s, 500ms or 2m".into())
}

/// Reads the path of a plan file. `--schedule` recognises it by the ending of its name.
pub fn toml_path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension().is_some_and(|extension| extension == "toml") {
        true => Ok(path),
        false => Err("the name of a plan file has to end in .toml, by which --schedule knows it".into()),
    }
}

/// Returns the line that announces a batch whose rows take more than a gigabyte.
pub fn announcement(batch: u32, columns: usize) -> Option<String> {
    const LARGE: f64 = 1e9;
    let bytes = f64::from(batch) * (columns * size_of::<f32>()) as f64;
    let gib = bytes / f64::from(1 << 30);
    (bytes > LARGE)
        .then(|| format!("--batch {batch} first makes {gib:.1} GiB of rows; a smaller batch shows as much"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        for wrong in ["10", "s", "-1s", "0s", "1e9s", "nans", "infs", "10 h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(toml_path("plan.toml").is_ok() && toml_path("plan.txt").is_err());
    }

    #[test]
    fn a_batch_of_gigabytes_is_announced() {
        assert_eq!(announcement(4096, 1000), None);
        let said = announcement(1 << 28, 13).expect("13 GiB");
        assert!(said.contains("--batch 268435456") && said.contains("13.0 GiB"), "{said}");
    }
}
