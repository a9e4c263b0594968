//! The structure of a forest as the words of a tensor: the bytes of a `.fangorn` file, four a word.

use std::sync::Arc;

use burn::{
    module::Param,
    tensor::{Int, Tensor},
};
use fangorn::{
    Forest, check::SelfCheck, file::Contents, forest::Profile, import::LoadOptions, op::ForestOp,
    schedule::Schedule,
};

use crate::error::Result;

/// Compiles a forest with a schedule, or with the default schedule of each device.
pub(super) fn operator(
    forest: Forest,
    schedule: Option<&Schedule>,
    profile: Option<Profile>,
    check: SelfCheck,
) -> Result<Arc<ForestOp>> {
    let builder = ForestOp::builder(forest).schedule(schedule.cloned()).profile(profile);
    Ok(Arc::new(builder.check(check).build()?))
}

/// Returns the words of a forest. The first byte of a word is in its low bits, and zeros fill up the last
/// word.
pub(super) fn words(forest: &Forest) -> Vec<i32> {
    let mut bytes = Contents::new(forest.clone()).to_bytes();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Reads the forest from its words.
pub(super) fn forest(words: &[i32]) -> Result<Forest, String> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    // The file holds its own length, which may end inside the last word.
    if let Some(length) = bytes.get(16..24).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes) {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length <= bytes.len() && bytes.len() - length < 4 {
            bytes.truncate(length);
        }
    }
    let read = Contents::from_bytes(&bytes, &LoadOptions { raw_categories: true, ..LoadOptions::default() });
    read.map(|contents| contents.forest).map_err(|e| format!("`structure` is no .fangorn file: {e}"))
}

/// Returns two words that tell structures apart: the 64-bit FNV-1a hash of the words' bytes.
pub(super) fn fingerprint(words: &[i32]) -> [i32; 2] {
    let bytes = words.iter().flat_map(|w| w.to_le_bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    [hash as i32, (hash >> 32) as i32]
}

/// Returns the operator for the structure and fingerprint that a record has brought. It is `present` if the
/// forest is still the same.
pub(super) fn reload(
    structure: &Param<Tensor<1, Int>>,
    fingerprint: &Param<Tensor<1, Int>>,
    present: &Result<Arc<ForestOp>, String>,
    schedule: Option<&Schedule>,
) -> Result<Arc<ForestOp>, String> {
    let read = |name: &str, param: &Param<Tensor<1, Int>>| {
        let read = param.val().try_into_vec_as::<i32>();
        read.map_err(|e| format!("`{name}` can't be read as words of 32 bits: {e:?}"))
    };
    let words = read("structure", structure)?;
    let (found, said) = (self::fingerprint(&words), read("fingerprint", fingerprint)?);
    if found[..] != said[..] {
        return Err(
            "`structure` and `fingerprint` are of two forests; load all tensors of one module, or make the module of \
             the record's own forest (ForestModuleConfig::of_structure)"
                .into(),
        );
    }
    let forest = forest(&words)?;
    match present {
        Ok(op) if *op.forest() == forest => Ok(op.clone()),
        present => {
            let check = present.as_ref().map_or(SelfCheck::Quick, |op| op.check());
            // The profile stays valid for other leaf values of the same structure, and is dropped for another
            // structure.
            let profile = present.as_ref().ok().and_then(|op| op.profile());
            let profile = profile.filter(|profile| profile.check(&forest).is_ok()).cloned();
            operator(forest, schedule, profile, check).map_err(|e| e.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use fangorn::Forest;

    use super::{fingerprint, forest, words};

    fn stump(value: f64) -> Forest {
        let mut forest = Forest::builder(1, 1).names(["x"]);
        forest.tree(0).leaf(0, &[value]);
        forest.build().expect("a forest")
    }

    #[test]
    fn words_and_back() {
        for value in [0.5, -1.25] {
            let words = words(&stump(value));
            assert_eq!(forest(&words), Ok(stump(value)));
        }
        let [a, b] = [0.5, 0.25].map(|value| fingerprint(&words(&stump(value))));
        assert_ne!(a, b);
    }

    #[test]
    fn broken_words_are_refused() {
        let whole = words(&stump(0.5));
        for words in [&[][..], &whole[..3], &whole[..whole.len() - 1], &[7; 100]] {
            let error = forest(words).expect_err("no file");
            assert!(error.contains("structure"), "{error}");
        }
        let mut turned = whole;
        let last = turned.len() - 1;
        turned[last] ^= 1 << 9;
        assert!(forest(&turned).is_err(), "a bit that is turned");
    }
}
