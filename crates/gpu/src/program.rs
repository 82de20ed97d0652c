//! Kernels as PTX.

/// The kernels of a package, or a part of them, as PTX for one or more architectures: as text, or packed by
/// `ptx_builder::Ptx::pack`. Empty files are ignored.
///
/// A file may also be machine code of some of these kernels, packed by `ptx_builder::MachineCode::pack`. A
/// device of exactly its architecture runs it without compilation. If the driver refuses it, or the variable
/// `CUDA_FORCE_PTX_JIT` is set, the kernels are compiled from the PTX.
///
/// ```
/// let program = gpu::Program { name: "mine", ptx: &[(80, b"for sm_80"), (90, b"for sm_90")] };
/// assert_eq!(program.best(86), Some((80, &b"for sm_80"[..])));
/// ```
///
/// A package may have several programs of one name: a kernel is unpacked and compiled from the one that has
/// it.
///
/// # Cost
///
/// `best` reads each architecture's number on the host, O(architectures).
#[derive(Debug, PartialEq, Eq)]
pub struct Program {
    /// Name of the package: the value of `Kernel::PROGRAM` of its kernels.
    pub name: &'static str,
    /// Architectures (90 for sm_90) and the PTX for each, for example from `include_bytes!`.
    pub ptx: &'static [(u32, &'static [u8])],
}

impl Program {
    /// Returns the first file for the newest architecture that a device of `arch` can run.
    pub fn best(&self, arch: u32) -> Option<(u32, &'static [u8])> {
        let mut runnable = self.ptx.iter().copied().filter(|&(built, _)| built <= arch);
        let first = runnable.next()?;
        Some(runnable.fold(first, |best, file| if file.0 > best.0 { file } else { best }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_text_is_the_newest_that_runs() {
        let program = Program { name: "p", ptx: &[(90, b"ninety"), (80, b"eighty"), (100, b"hundred")] };
        assert_eq!(program.best(75), None);
        for (arch, expected) in [(80, "eighty"), (89, "eighty"), (90, "ninety"), (120, "hundred")] {
            assert_eq!(program.best(arch).unwrap().1, expected.as_bytes());
        }
    }
}
