//! Kernels as PTX.

/// The kernels of a package as PTX text, for one or more architectures.
///
/// ```
/// let program = gpu::Program { name: "mine", ptx: &[(80, "for sm_80"), (90, "for sm_90")] };
/// assert_eq!(program.best(86), Some((80, "for sm_80")));
/// ```
///
/// # Cost
///
/// `best` reads each architecture's number on the host, O(architectures).
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// Name of the package: the value of `Kernel::PROGRAM` of its kernels.
    pub name: &'static str,
    /// Architectures (90 for sm_90) and the text for each.
    pub ptx: &'static [(u32, &'static str)],
}

impl Program {
    /// Returns the text for the newest architecture that a device of `arch` can run.
    pub fn best(&self, arch: u32) -> Option<(u32, &'static str)> {
        self.ptx.iter().copied().filter(|&(built, _)| built <= arch).max_by_key(|&(built, _)| built)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_text_is_the_newest_that_runs() {
        let program = Program { name: "p", ptx: &[(90, "ninety"), (80, "eighty"), (100, "hundred")] };
        assert_eq!(program.best(75), None);
        assert_eq!(program.best(80), Some((80, "eighty")));
        assert_eq!(program.best(89), Some((80, "eighty")));
        assert_eq!(program.best(90), Some((90, "ninety")));
        assert_eq!(program.best(120), Some((100, "hundred")));
    }
}
