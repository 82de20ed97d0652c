//! Traits of the standard library. They cannot return errors, so they panic where the calls on which they
//! build return one.
use crate::map::IntoIter;
use crate::{Key, Result, Value};

/// Returns the result of a call whose caller takes no error.
///
/// # Panics
/// With the message of the error, if the call failed.
#[track_caller]
fn or_panic<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// Implements the traits for a structure of `$item`s, whose `iter` returns an `$iter`.
macro_rules! std_traits {
    ($type:ident<$($parameter:ident: $bound:ident),*>, $item:ty, $iter:ty) => {
        /// An empty structure, created by `try_new`.
        ///
        /// # Panics
        /// If no device is available, or it lacks the memory.
        impl<$($parameter: $bound),*> Default for crate::$type<$($parameter),*> {
            #[track_caller]
            fn default() -> Self {
                or_panic(Self::try_new())
            }
        }

        /// Collects a structure, by `try_from_iter`.
        ///
        /// # Panics
        /// If no device is available, or it lacks the memory.
        impl<$($parameter: $bound),*> FromIterator<$item> for crate::$type<$($parameter),*> {
            #[track_caller]
            fn from_iter<I: IntoIterator<Item = $item>>(elements: I) -> Self {
                or_panic(Self::try_from_iter(elements))
            }
        }

        /// Inserts elements, by `try_extend`.
        ///
        /// # Panics
        /// If some elements do not fit, or the device is lost or lacks the memory. The elements that fit are
        /// inserted.
        impl<$($parameter: $bound),*> Extend<$item> for crate::$type<$($parameter),*> {
            #[track_caller]
            fn extend<I: IntoIterator<Item = $item>>(&mut self, elements: I) {
                or_panic(self.try_extend(elements));
            }
        }

        /// Compares the elements, by `try_eq`.
        ///
        /// # Panics
        /// If a device is lost or lacks the memory.
        impl<$($parameter: $bound),*> PartialEq for crate::$type<$($parameter),*> {
            #[track_caller]
            fn eq(&self, other: &Self) -> bool {
                or_panic(self.try_eq(other))
            }
        }

        /// Iterates over a copy of the elements on the host, as `iter` returns it.
        ///
        /// # Panics
        /// If the device is lost or lacks the memory.
        impl<$($parameter: $bound),*> IntoIterator for &crate::$type<$($parameter),*> {
            type Item = $item;
            type IntoIter = $iter;

            #[track_caller]
            fn into_iter(self) -> $iter {
                or_panic(self.iter())
            }
        }

        /// Iterates over a copy of the elements on the host, as `iter` returns it.
        ///
        /// # Panics
        /// If the device is lost or lacks the memory.
        impl<$($parameter: $bound),*> IntoIterator for crate::$type<$($parameter),*> {
            type Item = $item;
            type IntoIter = $iter;

            #[track_caller]
            fn into_iter(self) -> $iter {
                or_panic(self.iter())
            }
        }
    };
}

#[cfg(feature = "hash-map")]
std_traits!(HashMap<K: Key, V: Value>, (K, V), IntoIter<K, V>);
#[cfg(feature = "slab-hash")]
std_traits!(SlabHash<K: Key, V: Value>, (K, V), IntoIter<K, V>);
#[cfg(feature = "btree")]
std_traits!(BTree<K: Key, V: Value>, (K, V), IntoIter<K, V>);
#[cfg(feature = "mvbtree")]
std_traits!(MultiVersionBTree<K: Key, V: Value>, (K, V), IntoIter<K, V>);
#[cfg(feature = "skip-list")]
std_traits!(SkipList<K: Key, V: Value>, (K, V), IntoIter<K, V>);
#[cfg(feature = "slab-hash")]
std_traits!(SlabMultiMap<K: Key, V: Value>, (K, V), IntoIter<K, V>);
#[cfg(feature = "slab-hash")]
std_traits!(SlabSet<K: Key>, K, std::vec::IntoIter<K>);
