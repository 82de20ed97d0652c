//! Faults: changes of single operations of a kernel, which tests of tests inject.
use super::mutant::Executed;
use super::site::SiteId;
use crate::{Order, Scope};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A change of the operations at one [site](SiteId) of the kernels' source, injected in exploring mode.
///
/// A test injects a fault to prove that an exploration detects it. Every execution of the site is changed. If
/// the change does not apply to the site's operations, nothing happens, so a test should also require that
/// [`Self::effects`] is not 0. Clones count together.
///
/// ```
/// use simt::Order;
/// use simt::emulator::{Fault, SiteId};
///
/// let (store, load) = (SiteId::line("kernel.rs", 7), SiteId::line("kernel.rs", 9));
/// let faults = [
///     Fault::order(store.clone(), Order::Relaxed),
///     Fault::skip(store.clone()),
///     Fault::tear(store.clone()),
///     Fault::late(store.clone(), load.clone()),
///     Fault::early(load, store.clone()),
///     Fault::replace(store, |_in_memory, written| written + 1),
/// ];
/// assert!(faults.iter().all(|fault| fault.effects() == 0)); // none is injected yet: see `Options::faults`
/// ```
///
/// # Cost
///
/// Each fault allocates a counter on the host. An exploration compares each access with the sites of all
/// faults.
#[derive(Clone, Debug)]
pub struct Fault {
    pub(super) site: SiteId,
    pub(super) change: Change,
    /// The only operations of the site that are changed, if not all.
    pub(super) only: Option<Executed>,
    pub(super) effects: Arc<AtomicU64>,
}

/// Function that returns the replacement of a word, given the word in memory and that word.
pub type Replacement = fn(u128, u128) -> u128;

/// Effect of a fault.
#[derive(Clone, Debug)]
pub enum Change {
    Order(Order),
    Skip,
    Tear,
    Late {
        until: SiteId,
    },
    Early {
        from: SiteId,
    },
    Replace(Replacement),
    /// Executes accesses with this order, if theirs is stronger.
    Weaken(Order),
    /// Executes accesses and fences with this scope, if theirs is wider.
    Narrow(Scope),
    /// Delays stores until the lane has written at another site.
    Swap,
    /// Loads return what the warp last read from or wrote to the word.
    Recall,
    /// Changes a [`bound`](crate::bound).
    Bound(fn(u32) -> u32),
}

impl Fault {
    pub(super) fn new(site: SiteId, change: Change) -> Self {
        Self { site, change, only: None, effects: Arc::default() }
    }

    /// Executes accesses with another order, usually a weaker one. A weak load may return stale values if
    /// [`Options::stale_l1`](super::public::Options::stale_l1) is set. Takes effect when the order differs.
    pub fn order(site: SiteId, order: Order) -> Self {
        Self::new(site, Change::Order(order))
    }

    /// Leaves out fences, barriers ([`Block::sync`](crate::Block::sync), [`Tile::sync`](crate::Tile::sync))
    /// and writes. A read-modify-write then only reads, and a compare-exchange may report a success.
    pub fn skip(site: SiteId) -> Self {
        Self::new(site, Change::Skip)
    }

    /// Splits read-modify-writes of global memory into a load and a store: another lane may run in between,
    /// and the store does not continue the release sequence of the word that it replaces.
    pub fn tear(site: SiteId) -> Self {
        Self::new(site, Change::Tear)
    }

    /// Delays stores until the lane has executed `until` or ends. The lane's own loads do not see the stores
    /// in the meantime.
    pub fn late(site: SiteId, until: SiteId) -> Self {
        Self::new(site, Change::Late { until })
    }

    /// Executes loads of global memory early: they return the values that their words had when the lane last
    /// executed `from`. Takes effect when the value differs.
    pub fn early(site: SiteId, from: SiteId) -> Self {
        Self::new(site, Change::Early { from })
    }

    /// Replaces the words that are written, or loaded from global memory. The function gets the newest word
    /// in memory and the word that would be written or loaded. Takes effect when the result differs from
    /// that.
    pub fn replace(site: SiteId, by: Replacement) -> Self {
        Self::new(site, Change::Replace(by))
    }

    /// Returns how many operations the fault has changed so far, on all devices that it was injected in.
    pub fn effects(&self) -> u64 {
        self.effects.load(Ordering::Relaxed)
    }

    /// Counts an effect. Returns `true` for the first.
    pub(super) fn count(&self) -> bool {
        self.effects.fetch_add(1, Ordering::Relaxed) == 0
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.change {
            Change::Order(order) => write!(f, "{order:?} order of {}", self.site),
            Change::Skip => write!(f, "no {}", self.site),
            Change::Tear => write!(f, "load and store instead of {}", self.site),
            Change::Late { until } => write!(f, "{} after {until}", self.site),
            Change::Early { from } => write!(f, "{} as of {from}", self.site),
            Change::Replace(_) => write!(f, "another word from {}", self.site),
            Change::Weaken(order) => write!(f, "no order above {order:?} of {}", self.site),
            Change::Narrow(scope) => write!(f, "no scope above {scope:?} of {}", self.site),
            Change::Swap => write!(f, "{} after the next write", self.site),
            Change::Recall => write!(f, "{} as the warp last saw it", self.site),
            Change::Bound(_) => write!(f, "another bound from {}", self.site),
        }
    }
}
