//! Variants: kernels are compiled for types, and a structure selects one of these types when it is built.
use crate::{Error, Result};
use gpu::Device;
use phalanx_kernels::keyed::Kind;
use simt::Instance;
use std::any::TypeId;
use std::fmt::{Debug, Formatter};
use std::marker::PhantomData;

/// The variant `M` as a value. Each family implements its trait of kernels for the tags of its variants.
pub struct VariantTag<M>(PhantomData<fn() -> M>);

impl<M> VariantTag<M> {
    /// The only value.
    pub const NEW: Self = Self(PhantomData);
}

/// Identity and requirements of a variant.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// Name that selects it in a builder.
    pub name: &'static str,
    /// Whether it needs a 16-byte compare-and-swap.
    needs_wide_swap: bool,
    /// The variant's type. A name is not sufficient: another crate's variant may have the same one.
    id: TypeId,
}

impl Variant {
    /// Returns the identity of the variant `M`.
    pub fn of<M: Kind + Instance>() -> Self {
        Self { name: M::NAME, needs_wide_swap: M::NEEDS_WIDE_SWAP, id: TypeId::of::<M>() }
    }

    /// Returns the identity of the variant `M`, which is no kind of keyed structure.
    pub fn with<M: 'static>(name: &'static str, needs_wide_swap: bool) -> Self {
        Self { name, needs_wide_swap, id: TypeId::of::<M>() }
    }

    /// Returns whether this is the variant `M`.
    pub fn is<M: 'static>(self) -> bool {
        self.id == TypeId::of::<M>()
    }

    /// Returns an error if this is not the variant `M`.
    pub fn check<M: Instance + 'static>(self) -> Result<()> {
        if self.is::<M>() {
            return Ok(());
        }
        Err(Error::OtherVariant { asked: M::NAME, found: self.name.to_owned() })
    }

    /// Returns whether the variant needs a 16-byte compare-and-swap.
    pub fn needs_wide_swap(self) -> bool {
        self.needs_wide_swap
    }

    /// Returns whether the variant's kernels run on the device.
    fn runs_on(self, device: &Device) -> bool {
        !self.needs_wide_swap || device.supports_cas128()
    }

    /// Returns an error if the variant's kernels do not run on the device.
    pub fn check_runs_on(self, device: &Device) -> Result<()> {
        if self.runs_on(device) {
            return Ok(());
        }
        Err(Error::NeedsWideSwap { name: self.name.to_owned(), device: device.name() })
    }
}

impl Debug for Variant {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Kernels of a variant, whatever their family.
pub trait HasVariant {
    /// Returns the variant.
    fn variant(&self) -> Variant;
}

impl<M: Kind + Instance> HasVariant for VariantTag<M> {
    fn variant(&self) -> Variant {
        Variant::of::<M>()
    }
}

/// Returns the kernels of the variant called `name` or, without a name, of the first one that runs on the
/// device. Lists of variants begin with the defaults.
pub fn select<T: HasVariant + ?Sized + 'static>(
    device: &Device,
    name: Option<&str>,
    variants: impl Iterator<Item = &'static T> + Clone,
) -> Result<&'static T> {
    let fits = |kernels: &&T| match name {
        Some(name) => kernels.variant().name == name,
        None => kernels.variant().runs_on(device),
    };
    let first = || name.is_none().then(|| variants.clone().next()).flatten();
    let Some(selected) = variants.clone().find(fits).or_else(first) else {
        return Err(Error::UnknownVariant {
            name: name.unwrap_or_default().to_owned(),
            known: names(variants).join(", "),
        });
    };
    selected.variant().check_runs_on(device)?;
    Ok(selected)
}

/// Returns the variants' names.
pub fn names<T: HasVariant + ?Sized + 'static>(
    variants: impl Iterator<Item = &'static T>,
) -> Vec<&'static str> {
    variants.map(|kernels| kernels.variant().name).collect()
}

/// Defines `fn $all<K, V>()`, an iterator over the kernels of the variants with keys `K` and values `V` in
/// the list `$list`, whose types implement `$bound`. `$second`, by default `Value`, is the name of the
/// bound's type that is `V`.
macro_rules! variants {
    ($(#[$meta:meta])* $all:ident: $kernels:ident, $list:path, $bound:path) => {
        $crate::map::variant::variants! { $(#[$meta])* $all: $kernels, $list, $bound, Value }
    };
    ($(#[$meta:meta])* $all:ident: $kernels:ident, $list:path, $bound:path, $second:ident) => {
        $(#[$meta])*
        pub fn $all<K: phalanx_kernels::keyed::Scalar, V: phalanx_kernels::keyed::Scalar>()
        -> impl Iterator<Item = &'static dyn $kernels<K, V>> + Clone {
            use $crate::map::variant::VariantTag;
            use $list as list;

            struct Collect(Vec<&'static dyn std::any::Any>);

            impl list::Visitor for Collect {
                type Output = std::convert::Infallible;

                fn visit<M: $bound + simt::Instance>(&mut self) -> Option<Self::Output> {
                    self.0.push(const {
                        &(&VariantTag::<M>::NEW as &'static dyn $kernels<M::Key, M::$second>)
                    });
                    None
                }
            }

            /// Not generic: the emulator's kernels are compiled in this crate, and not again in every program
            /// that creates a structure. This crate's unit tests, which select no variant, compile none.
            #[cfg_attr(test, allow(unused_mut))]
            fn any() -> Vec<&'static dyn std::any::Any> {
                let mut kernels = Collect(Vec::new());
                #[cfg(not(test))]
                list::visit(&mut kernels);
                kernels.0
            }

            any().into_iter().filter_map(|any| any.downcast_ref::<&'static dyn $kernels<K, V>>().copied())
        }
    };
}
pub(crate) use variants;
