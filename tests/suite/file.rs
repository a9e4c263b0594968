//! Our own file: exact round trips, and refusals by name of whatever is damaged.

use crate::generate;
use crate::support;

use fangorn::{
    Forest,
    file::{Contents, NamedText, VERSION},
    import::{ErrorKind, Limits, LoadOptions, parse},
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use support::for_each_specimen;

fn full(forest: Forest) -> Contents {
    let profile = Some((0..forest.leaf_count() as u64).map(|n| n * n).collect());
    let text = |name: &str, text: &str| NamedText { name: name.into(), text: text.into() };
    let schedules = vec![text("default", "reorder(tree, batch)\n"), text("näher", "")];
    Contents { forest, schedules, plan_files: vec![text("cpu", "plan\n")], profile }
}

fn refusal(bytes: &[u8]) -> fangorn::import::ImportError {
    Contents::from_bytes(bytes, &LoadOptions::default()).expect_err("a refusal")
}

#[test]
fn the_zoo_comes_back_exactly() {
    for_each_specimen(|s| {
        let contents = full(s.forest.clone());
        let bytes = contents.to_bytes();
        assert_eq!(bytes, contents.to_bytes(), "{}: the same bytes", s.name);
        assert_eq!(
            Contents::from_bytes(&bytes, &LoadOptions::default()).expect(&s.name),
            contents,
            "{}",
            s.name
        );
        assert_eq!(parse(&bytes, &LoadOptions::default()).expect(&s.name), s.forest, "{}", s.name);
    });
}

#[test]
fn random_forests_come_back_exactly() {
    let config = Config { cases: 500, failure_persistence: None, ..Config::default() };
    let result = TestRunner::new(config).run(&generate::forest(), |forest| {
        let bytes = Contents::new(forest.clone()).to_bytes();
        prop_assert_eq!(parse(&bytes, &LoadOptions::default()).expect("what was written"), forest);
        Ok(())
    });
    result.unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn every_flipped_bit_and_every_missing_byte_is_refused() {
    let bytes = full(generate::forest_of("depth 2, chain 3; features 4; outputs 2")).to_bytes();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let error = refusal(&damaged);
        assert!(!error.to_string().contains('\n'), "one line: {error}");
    }
    for length in 0..bytes.len() {
        refusal(&bytes[..length]);
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(refusal(&longer).cause().contains("the header tells of"), "{}", refusal(&longer));
}

/// The bytes with their checksums made right, so that what they say is read.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let word =
        |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8")) as usize;
    let count = u32::from_le_bytes(bytes[12..16].try_into().expect("4")) as usize;
    for entry in (0..count).map(|i| 24 + 32 * i) {
        let (offset, length) = (word(&bytes, entry + 8), word(&bytes, entry + 16));
        if let Some(section) = offset.checked_add(length).and_then(|end| bytes.get(offset..end)) {
            let sum = crc32fast::hash(section);
            bytes[entry + 4..entry + 8].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let end = 24 + 32 * count;
    let sum = crc32fast::hash(&bytes[..end]);
    bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn a_newer_format_and_an_unknown_section_are_named() {
    let bytes = Contents::new(generate::forest_of("depth 1")).to_bytes();
    let mut newer = bytes.clone();
    newer[8] = VERSION as u8 + 1;
    let error = refusal(&sealed(newer));
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.cause().contains("format 2") && error.remedy().contains("newer"), "{error}");
    let mut unknown = bytes.clone();
    unknown[24..28].copy_from_slice(b"ZZZZ");
    let error = refusal(&sealed(unknown));
    assert_eq!((error.kind(), error.cause()), (ErrorKind::Unsupported, "section `ZZZZ` is not known"));
    let mut missing = bytes;
    missing[24..28].copy_from_slice(b"extr");
    let error = refusal(&sealed(missing));
    assert_eq!(error.cause(), "section `HEAD` is missing");
}

/// Bytes that match their checksums but lie: an error of one line, or a forest that verifies.
#[test]
fn mutations_never_panic_and_what_loads_is_sound() {
    let bytes = full(generate::forest_of("depth 2, chain 3; features 4; outputs 2")).to_bytes();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let mut loaded = 0;
    for _ in 0..20_000 {
        let mut damaged = bytes.clone();
        for _ in 0..=below(3) {
            let at = below(damaged.len());
            match below(4) {
                0 => damaged[at] ^= 1 << below(8),
                1 => damaged[at] = 0xff,
                2 => {
                    let from = below(damaged.len() - 8);
                    let to = below(damaged.len() - 8);
                    damaged.copy_within(from..from + 8, to);
                }
                _ => {
                    let at = at / 8 * 8;
                    damaged[at..at + 4].copy_from_slice(&(u32::MAX >> below(32)).to_le_bytes());
                }
            }
        }
        // Only what the checks let through shows whether they are needed.
        damaged[12..16].copy_from_slice(&bytes[12..16]);
        match Contents::from_bytes(&sealed(damaged), &LoadOptions::default()) {
            Ok(contents) => {
                loaded += 1;
                contents.forest.verify().expect("what loads verifies");
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "one line: {error}"),
        }
    }
    assert!(loaded > 1000, "{loaded} of 20 000 load, so the mutations reach the values");
}

#[test]
fn limits_hold() {
    let bytes = Contents::new(generate::forest_of("3 x depth 2; features 4; outputs 2")).to_bytes();
    let refused = |limits: Limits, field: &str| {
        let error = parse(&bytes, &LoadOptions { limits, ..LoadOptions::default() }).expect_err(field);
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(error.remedy().contains(field), "{error}");
    };
    refused(Limits { trees: 2, ..Limits::default() }, "trees");
    refused(Limits { nodes: 20, ..Limits::default() }, "nodes");
    refused(Limits { depth: 1, ..Limits::default() }, "depth");
    refused(Limits { features: 3, ..Limits::default() }, "features");
    refused(Limits { outputs: 1, ..Limits::default() }, "outputs");
    refused(Limits { string_bytes: 2, ..Limits::default() }, "string_bytes");
    refused(Limits { file_bytes: 100, ..Limits::default() }, "file_bytes");
    let options = LoadOptions { iteration_range: Some(0..1), ..LoadOptions::default() };
    assert_eq!(parse(&bytes, &options).expect_err("a range").kind(), ErrorKind::Options);
}
