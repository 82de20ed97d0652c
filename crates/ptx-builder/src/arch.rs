//! Architectures of GPUs.
use std::fmt;
use std::panic::resume_unwind;
use std::str::FromStr;
use std::thread;

/// A compute capability that PTX is built or assembled for. PTX of one runs on all later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Arch {
    /// Ampere: the baseline. Its warps have `redux`, its memory no 128-bit atomics.
    Sm80,
    /// Hopper: 128-bit loads, stores and atomics.
    Sm90,
    /// Blackwell.
    Sm100,
}

impl Arch {
    /// All that are known, in rising order.
    pub const ALL: [Self; 3] = [Self::Sm80, Self::Sm90, Self::Sm100];

    /// The number as the driver gives it: 80, 90, 100.
    pub fn number(self) -> u32 {
        match self {
            Self::Sm80 => 80,
            Self::Sm90 => 90,
            Self::Sm100 => 100,
        }
    }

    /// Does the same for several architectures side by side, for a build of one keeps one core busy. Gives
    /// the results in their order, or the first error.
    ///
    /// # Errors
    /// Those of `build`.
    ///
    /// # Panics
    /// As `build` does.
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

    /// What rustc must be told beside the name, since LLVM chooses the oldest PTX that knows the machine:
    /// cache policies need PTX 7.4 (driver 470), `ld.b128` and `atom.cas.b128` PTX 8.4 (driver 550).
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

    /// Reads `sm_90`.
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
        assert_eq!(
            Arch::each(&Arch::ALL, |arch| if arch == Arch::Sm90 { Err("no") } else { Ok(()) }),
            Err("no")
        );
    }

    #[test]
    fn names_read_back() {
        for arch in Arch::ALL {
            assert_eq!(arch.to_string().parse::<Arch>().unwrap(), arch);
        }
        assert!("sm_13".parse::<Arch>().unwrap_err().to_string().contains("sm_80, sm_90, sm_100"));
    }
}
