//! The unit tests of files of the command line that stand by themselves. A test program of the command line itself would
//! compile all of it a second time.

#[allow(dead_code, reason = "the tests read a part of it")]
#[path = "../../src/bin/fangorn/rows/chunks.rs"]
mod chunks;
#[path = "../../src/bin/fangorn/values.rs"]
mod values;
