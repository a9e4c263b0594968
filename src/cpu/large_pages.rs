//! Large pages for large results.

/// Bytes from which large pages are asked for.
#[cfg(target_os = "linux")]
const LARGE: usize = 4 << 20;

/// Asks the system for large pages for a buffer of 4 MiB or more before it is written: the first write to each page of
/// 4 KiB costs more than the rest of its writes. The contents stay as they are. On a system without large pages nothing
/// changes.
///
/// ```
/// let mut room = vec![0f32; 4 << 20];
/// fangorn::cpu::prefer_large_pages(&mut room);
/// assert!(room.iter().all(|x| *x == 0.0));
/// ```
pub fn prefer_large_pages<T>(room: &mut [T]) {
    #[cfg(target_os = "linux")]
    if size_of_val(room) >= LARGE {
        let page = 4096;
        let begin = room.as_mut_ptr() as usize;
        let first = begin.next_multiple_of(page);
        let end = (begin + size_of_val(room)) / page * page;
        // SAFETY: `room` has at least `LARGE` bytes, so `first` is before `end` and the pages between them lie inside
        // it. The advice does not change their content.
        unsafe { libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_HUGEPAGE) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = room;
}
