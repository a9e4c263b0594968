//! What every target does with the bytes it is given.

use fangorn::{
    Predictor,
    cpu::Rows,
    forest::reference,
    import::{Format, Limits, LoadOptions, parse, parse_as},
};

/// Room enough for any rule to matter, and little enough that a claim that is believed shows.
fn options() -> LoadOptions {
    let limits = Limits {
        file_bytes: 1 << 20,
        trees: 1 << 10,
        nodes: 1 << 16,
        depth: 1 << 12,
        features: 1 << 12,
        outputs: 1 << 8,
        category_words: 1 << 16,
        memory_bytes: 1 << 24,
        string_bytes: 1 << 12,
    };
    LoadOptions { limits, iteration_range: None, raw_categories: true, gains: true }
}

/// Reads bytes as a model of a format. What loads keeps the rules and predicts as the reference does; what does not is
/// refused on one line.
pub fn check(format: Format, bytes: &[u8]) {
    let options = options();
    // Telling the format must not fail on anything either.
    let _ = parse(bytes, &options);
    let forest = match parse_as(format, bytes, &options) {
        Ok(forest) => forest,
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "more than a line: {error}");
            return;
        }
    };
    forest.verify().expect("what loads keeps the rules");
    let columns = forest.features.len();
    if columns == 0 {
        return;
    }
    let values = [0.0, f32::NAN, 1.0, -1.5, f32::INFINITY, 3e-36, 1e9, f32::NEG_INFINITY];
    let rows: Vec<f32> = (0..4 * columns).map(|i| values[(i + i / columns) % values.len()]).collect();
    // A layout may refuse a forest that it can't hold.
    let Ok(predictor) = Predictor::new(&forest) else { return };
    let found =
        predictor.leaf_slots(&Rows::new(&rows, columns).expect("whole rows")).expect("its own columns");
    let expected: Vec<u32> =
        rows.chunks(columns).flat_map(|row| reference::leaf_slots(&forest, row)).collect();
    assert_eq!(found, expected, "{}", forest.to_text());
}
