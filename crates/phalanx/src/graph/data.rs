//! Types of the data of edges.
use bytemuck::Pod;
use phalanx_kernels::graph::Flags;
use phalanx_kernels::keyed::Scalar;

mod sealed {
    pub trait Sealed {}
    impl Sealed for () {}
    impl Sealed for u32 {}
    impl Sealed for f32 {}
    impl Sealed for u64 {}
}

/// Data of an edge: nothing, a weight (`u32` or `f32`) or a timestamp (`u64`).
///
/// ```
/// use phalanx::DynamicGraph;
/// use phalanx::graph::Data;
///
/// fn vertices<E: Data>(graph: &DynamicGraph<E>) -> usize {
///     graph.vertices()
/// }
///
/// assert_eq!(vertices(&DynamicGraph::<u64>::builder().vertices(10).build()?), 10);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// O(1) on the host.
pub trait Data: sealed::Sealed + Pod + Send + Sync + PartialEq + std::fmt::Debug {
    /// Word in which kernels take the bits of the data.
    #[doc(hidden)]
    type Bits: Scalar + Pod;
    /// Whether edges have data.
    #[doc(hidden)]
    const HAS_DATA: bool;
    /// Flags that follow from the type.
    #[doc(hidden)]
    const FLAGS: Flags;
    /// Returns the value with these bits.
    #[doc(hidden)]
    fn from_bits(bits: Self::Bits) -> Self;
    /// Name of the type.
    #[doc(hidden)]
    const TYPE: &'static str;
    /// The data of edges of a file that has none.
    #[doc(hidden)]
    const ONE: Self;
    /// Returns the value that a word of a file states, if it states one that the type can have.
    #[doc(hidden)]
    fn parse(word: &str) -> Option<Self>;
}

/// Data that are a value: everything but `()`.
///
/// ```
/// use phalanx::DynamicGraph;
/// use phalanx::graph::Weight;
///
/// fn weight_of<E: Weight>(graph: &DynamicGraph<E>, edge: (u32, u32)) -> phalanx::Result<Option<E>> {
///     Ok(graph.weight(&[edge.0], &[edge.1])?[0])
/// }
///
/// let graph = DynamicGraph::<u32>::builder().vertices(10).build()?;
/// assert!(graph.insert(&[1], &[2], &[7])?.all_placed());
/// assert_eq!(weight_of(&graph, (1, 2))?, Some(7));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// O(1) on the host.
pub trait Weight: Data + crate::Value {}

impl Data for () {
    type Bits = u32;
    const HAS_DATA: bool = false;
    const FLAGS: Flags = Flags::NONE;

    fn from_bits(_bits: u32) {}

    const TYPE: &'static str = "()";
    const ONE: Self = ();

    fn parse(_word: &str) -> Option<()> {
        Some(())
    }
}

/// Returns the number in a word, unless it is NaN or beyond the range of the type.
fn parse_float(word: &str) -> Option<f32> {
    let number: f32 = word.parse().ok()?;
    let is_beyond = number.is_infinite() && word.contains(|digit: char| digit.is_ascii_digit());
    (!number.is_nan() && !is_beyond).then_some(number)
}

macro_rules! weights {
    ($($weight:ty as $word:ty: $flags:expr, $from_bits:expr, $one:expr, $parse:expr;)*) => {$(
        impl Data for $weight {
            type Bits = $word;
            const HAS_DATA: bool = true;
            const FLAGS: Flags = $flags;

            fn from_bits(bits: $word) -> Self {
                let from: fn($word) -> Self = $from_bits;
                from(bits)
            }

            const TYPE: &'static str = stringify!($weight);
            const ONE: Self = $one;

            fn parse(word: &str) -> Option<Self> {
                let parse: fn(&str) -> Option<Self> = $parse;
                parse(word)
            }
        }

        impl Weight for $weight {}
    )*};
}
weights! {
    u32 as u32: Flags::NONE, |bits| bits, 1, |word| word.parse().ok();
    f32 as u32: Flags::NONE.floats(), f32::from_bits, 1.0, parse_float;
    u64 as u64: Flags::NONE, |bits| bits, 1, |word| word.parse().ok();
}
