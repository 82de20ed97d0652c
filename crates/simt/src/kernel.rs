//! Entry points. The arguments of a kernel are one plain struct, and that struct is the kernel: launching it
//! with an argument of the wrong type, or too few, does not compile.

/// A kernel and its arguments: what [`kernel`](macro@crate::kernel) makes of a function.
///
/// `#[kernel] fn fill(out: GlobalSlice<u32>, value: u32) { .. }` makes `struct Fill { out, value }`.
pub trait Kernel: Copy {
    /// The package that holds the kernel: the name its PTX is registered under.
    const PROGRAM: &'static str;
    /// The function's name, without the instance.
    const NAME: &'static str;
    /// The instance of a generic kernel, or nothing.
    const INSTANCE: Option<&'static str>;

    /// The most registers a thread of it may have, or what the assembler likes. Fewer registers let more
    /// threads run side by side, which is worth a few spilt words where a kernel waits for memory.
    const REGISTERS: Option<u32> = None;

    /// What one thread does.
    fn run(self);

    /// The name of the entry in PTX.
    #[cfg(not(target_arch = "nvptx64"))]
    fn symbol() -> String {
        symbol_of(Self::NAME, Self::INSTANCE)
    }
}

/// A type that generic kernels are compiled for, and the name it has in their symbols. [`crate::instances!`]
/// implements it.
pub trait Instance: Copy + 'static {
    /// Letters, digits and underscores.
    const NAME: &'static str;
}

/// The one place that says how a symbol is spelt; `instances!` spells its entries the same way.
#[cfg(not(target_arch = "nvptx64"))]
#[doc(hidden)]
pub fn symbol_of(name: &str, instance: Option<&str>) -> String {
    match instance {
        Some(instance) => format!("{name}__{instance}"),
        None => name.to_owned(),
    }
}
