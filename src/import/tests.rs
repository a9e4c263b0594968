//! Tests of the importer as a whole, on models that real libraries wrote.

use std::path::{Path, PathBuf};

use super::{LoadOptions, load};
use crate::forest::{Forest, reference};

/// The folders of XGBoost models with expected results, in the crate's own zoo and in a larger one beside the crate.
fn zoo() -> Vec<PathBuf> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let zoos = [crate_folder.join("tests/zoo"), crate_folder.join("../shared/zoo")];
    let folders = zoos.iter().filter_map(|zoo| std::fs::read_dir(zoo).ok()).flatten();
    let mut folders: Vec<PathBuf> = folders.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.retain(|f| f.file_name().is_some_and(|name| name.to_string_lossy().starts_with("xgb-")));
    folders.sort();
    folders
}

fn model(folder: &Path) -> PathBuf {
    let file = ["model.json", "model.ubj"].map(|name| folder.join(name)).into_iter().find(|file| file.exists());
    file.unwrap_or_else(|| panic!("{} has no model", folder.display()))
}

fn array<T: npyz::Deserialize>(folder: &Path, name: &str) -> Option<Vec<T>> {
    let bytes = std::fs::read(folder.join(name)).ok()?;
    Some(npyz::NpyFile::new(&bytes[..]).expect("npy").into_vec().expect("npy values"))
}

fn check(forest: &Forest, folder: &Path) {
    let rows: Vec<f32> = array(folder, "rows.npy").expect("rows");
    let margins: Vec<f32> = array(folder, "margin.npy").expect("margins");
    let leaves: Option<Vec<i32>> = array(folder, "leaves.npy");
    let bounds = forest.sum_bound();
    let outputs = forest.outputs as usize;
    for (r, row) in rows.chunks(forest.features.len()).enumerate() {
        if let Some(leaves) = &leaves {
            let expected = &leaves[r * forest.trees.len()..][..forest.trees.len()];
            let ids: Vec<i32> = reference::leaf_ids(forest, row).iter().map(|id| *id as i32).collect();
            assert_eq!(ids, expected, "{}, row {r}", folder.display());
        }
        for (o, margin) in reference::margins(forest, row).iter().enumerate() {
            let expected = f64::from(margins[r * outputs + o]);
            let error = (margin - expected).abs();
            assert!(error <= bounds[o], "{}, row {r}, output {o}: {margin} != {expected}", folder.display());
        }
    }
}

#[test]
fn models_of_the_zoo_give_their_producers_leaves_and_margins() {
    for folder in zoo() {
        let forest = load(&model(&folder), &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        check(&forest, &folder);
        println!("{}: {} trees", folder.display(), forest.trees.len());
    }
}
