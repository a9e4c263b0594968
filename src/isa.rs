//! Which instructions the CPU's kernels use.

use std::{ffi::OsStr, sync::OnceLock};

/// The name of a set of instructions in this variable keeps kernels from using more than that: for testing on a machine that has
/// more. On x86-64 `portable`, `avx2` or `avx512`, on 64-bit ARM `portable` or `neon`; empty is as if it were unset. Read once.
pub const ISA: &str = "FANGORN_ISA";

/// `slow` or `fast` in this variable is taken for how the machine gathers values, which otherwise is measured: for testing what
/// is done on another one. It matters with AVX2 and up; empty is as if it were unset. Read once.
pub const GATHERS: &str = "FANGORN_GATHERS";

/// Sets of instructions. Of one architecture's each has those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Isa {
    /// What every machine of the target has.
    Portable,
    /// Of 64-bit ARM.
    Neon,
    /// Of x86-64, as what follows.
    Avx2,
    /// F, DQ and BW.
    Avx512,
}

/// The sets that this variable may name, by name.
fn sets() -> impl Iterator<Item = (&'static str, Isa)> + Clone {
    let all =
        [("portable", Isa::Portable), ("neon", Isa::Neon), ("avx2", Isa::Avx2), ("avx512", Isa::Avx512)];
    all.into_iter().filter(|(_, isa)| match isa {
        Isa::Portable => true,
        Isa::Neon => cfg!(target_arch = "aarch64"),
        Isa::Avx2 | Isa::Avx512 => cfg!(target_arch = "x86_64"),
    })
}

/// Whether gathers are fast, by name.
const SPEEDS: [(&str, bool); 2] = [("slow", false), ("fast", true)];

/// A variable of the environment whose value means nothing here.
#[derive(Clone, Debug)]
pub(crate) struct WrongVariable {
    pub(crate) variable: &'static str,
    pub(crate) value: String,
    pub(crate) names: String,
}

/// What a variable's value stands for; `None` where it has none.
fn chosen<T>(
    variable: &'static str,
    value: Option<&OsStr>,
    choices: impl Iterator<Item = (&'static str, T)> + Clone,
) -> Result<Option<T>, WrongVariable> {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return Ok(None) };
    match choices.clone().find(|(name, _)| value == *name) {
        Some((_, choice)) => Ok(Some(choice)),
        None => {
            let names: Vec<_> = choices.map(|(name, _)| name).collect();
            let value = value.to_string_lossy().escape_debug().to_string();
            Err(WrongVariable { variable, value, names: names.join(", ") })
        }
    }
}

/// What the environment says.
#[derive(Clone, Debug)]
struct EnvironmentSettings {
    most: Option<Isa>,
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
    gathers: Option<bool>,
    wrong: Option<WrongVariable>,
}

fn environment() -> &'static EnvironmentSettings {
    static SAID: OnceLock<EnvironmentSettings> = OnceLock::new();
    SAID.get_or_init(|| {
        let most = chosen(ISA, std::env::var_os(ISA).as_deref(), sets());
        let gathers = chosen(GATHERS, std::env::var_os(GATHERS).as_deref(), SPEEDS.into_iter());
        let wrong = most.as_ref().err().or(gathers.as_ref().err()).cloned();
        EnvironmentSettings { most: most.ok().flatten(), gathers: gathers.ok().flatten(), wrong }
    })
}

/// Refuses a value of [`ISA`] or [`GATHERS`] that means nothing here: what is tested under it would not be what was meant. Programs
/// ask when they are made; what is only printed of a schedule does not.
pub(crate) fn check() -> Result<(), WrongVariable> {
    environment().wrong.clone().map_or(Ok(()), Err)
}

/// What this machine is able to, and is allowed. A wrong [`ISA`] allows all until [`check`] refuses it.
pub(crate) fn isa() -> Isa {
    static FOUND: OnceLock<Isa> = OnceLock::new();
    *FOUND.get_or_init(|| environment().most.map_or(able(), |most| able().min(most)))
}

#[cfg(target_arch = "x86_64")]
fn able() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw");
    match (avx2, avx512) {
        (true, true) => Isa::Avx512,
        (true, false) => Isa::Avx2,
        _ => Isa::Portable,
    }
}

#[cfg(target_arch = "aarch64")]
fn able() -> Isa {
    // Kernels permute a word's bytes the lowest first; Miri knows few of the instructions.
    if cfg!(any(target_endian = "big", miri)) { Isa::Portable } else { Isa::Neon }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn able() -> Isa {
    Isa::Portable
}

/// What [`GATHERS`] says of how the machine gathers values, if anything.
#[cfg(target_arch = "x86_64")]
pub(crate) fn gathers_said() -> Option<bool> {
    environment().gathers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_a_name_or_nothing() {
        let speed = |value: &str| chosen(GATHERS, Some(OsStr::new(value)), SPEEDS.into_iter());
        assert!(matches!(chosen(GATHERS, None, SPEEDS.into_iter()), Ok(None)));
        assert!(matches!(speed(""), Ok(None)));
        assert!(matches!(speed("slow"), Ok(Some(false))));
        assert!(matches!(speed("fast"), Ok(Some(true))));
        let wrong = crate::Error::from(speed("Fast").expect_err("a name of another case")).to_string();
        assert!(wrong.contains("FANGORN_GATHERS is `Fast`") && wrong.contains("slow, fast"), "{wrong}");
    }

    #[test]
    fn sets_are_those_of_the_target() {
        let of = |name: &str| chosen(ISA, Some(OsStr::new(name)), sets()).ok().flatten();
        assert_eq!(of("portable"), Some(Isa::Portable));
        assert_eq!(of("avx512").is_some(), cfg!(target_arch = "x86_64"));
        assert_eq!(of("avx2").is_some(), cfg!(target_arch = "x86_64"));
        assert_eq!(of("neon").is_some(), cfg!(target_arch = "aarch64"));
        assert_eq!(of("sse2"), None);
    }
}
