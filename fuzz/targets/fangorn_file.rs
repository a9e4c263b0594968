//! Checksums are made right first, so that what they would refuse is read.
#![no_main]

use fangorn::import::Format;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let bytes = sealed(bytes.to_vec()).unwrap_or_else(|| bytes.to_vec());
    fangorn_fuzz::check(Format::Fangorn, &bytes);
});

/// The bytes with right checksums, where there is room for a header.
fn sealed(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let length = bytes.len() as u64;
    bytes.get_mut(16..24)?.copy_from_slice(&length.to_le_bytes());
    let count = u32::from_le_bytes(*bytes.get(12..)?.first_chunk()?) as usize;
    let end = count.checked_mul(32)?.checked_add(24)?;
    bytes.get(..end.checked_add(4)?)?;
    for entry in (24..end).step_by(32) {
        let word = |at: usize| usize::try_from(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?)).ok();
        let (offset, size) = (word(entry + 8)?, word(entry + 16)?);
        if let Some(section) = offset.checked_add(size).and_then(|end| bytes.get(offset..end)) {
            let sum = crc32fast::hash(section);
            bytes[entry + 4..entry + 8].copy_from_slice(&sum.to_le_bytes());
        }
    }
    let sum = crc32fast::hash(&bytes[..end]);
    bytes[end..end + 4].copy_from_slice(&sum.to_le_bytes());
    Some(bytes)
}
