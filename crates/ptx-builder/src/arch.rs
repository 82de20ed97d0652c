//! GPU architectures.
use std::fmt;
use std::panic::resume_unwind;
use std::str::FromStr;
use std::thread;

/// A compute capability for which PTX is built or assembled. PTX for one runs on all later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// Ampere, the baseline. It has `redux`, but no 128-bit atomics.
    Sm80 = 80,
    /// Hopper. It has 128-bit loads, stores and atomics.
    Sm90 = 90,
    /// Blackwell.
    Sm100 = 100,
}

impl Arch {
    /// All known architectures, in ascending order.
    pub const ALL: [Self; 3] = [Self::Sm80, Self::Sm90, Self::Sm100];

    /// Returns the number as the driver reports it: 80, 90, 100.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// Builds for several architectures concurrently, since one build keeps only one core busy. Returns the
    /// results in order, or the first error.
    ///
    /// # Errors
    /// As `build`.
    ///
    /// # Panics
    /// As `build`.
    pub fn each<T: Send, E: Send>(
        archs: &[Self],
        build: impl Fn(Self) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        thread::scope(|scope| {
            let build = &build;
            let builds: Vec<_> = archs.iter().map(|&arch| scope.spawn(move || build(arch))).collect();
            builds
                .into_iter()
                .map(|build| build.join().unwrap_or_else(|payload| resume_unwind(payload)))
                .collect()
        })
    }

    /// Returns the compiler flags needed in addition to the architecture's name. LLVM chooses the oldest PTX
    /// version that supports the architecture, but cache policies need PTX 7.4 (driver 470), and `ld.b128`
    /// and `atom.cas.b128` need PTX 8.4 (driver 550).
    pub(crate) fn target_features(self) -> Option<&'static str> {
        match self {
            Self::Sm80 => Some("+ptx74"),
            Self::Sm90 => Some("+ptx84"),
            Self::Sm100 => None,
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.number())
    }
}

impl FromStr for Arch {
    type Err = crate::Error;

    /// Parses the form `sm_90`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|arch| arch.to_string() == text);
        found.ok_or_else(|| crate::Error::UnknownArch { asked: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_built_and_an_error_is_told() {
        let numbers = Arch::each(&Arch::ALL, |arch| Ok::<_, ()>(arch.number()));
        assert_eq!(numbers, Ok(vec![80, 90, 100]));
        let fails = Arch::each(&Arch::ALL, |arch| if arch == Arch::Sm90 { Err("no") } else { Ok(()) });
        assert_eq!(fails, Err("no"));
    }

    #[test]
    fn names_read_back() {
        for arch in Arch::ALL {
            assert_eq!(arch.to_string().parse::<Arch>().unwrap(), arch);
        }
        assert!("sm_13".parse::<Arch>().unwrap_err().to_string().contains("sm_80, sm_90, sm_100"));
    }
}
