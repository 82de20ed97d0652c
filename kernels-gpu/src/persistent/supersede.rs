//! Updates that end without a write, since another update of the same key took effect meanwhile. So many
//! updates of one key at the same time cost few writes.
//!
//! An update that cannot lock the key's slot notes what the slot has ([`Seen`]), and searches again. If the
//! item has changed by then, this update counts as one just before the change, whose value nobody has read.
use super::keys::{Keys, Wanted, find_key};
use super::kind::Config;
use super::layout::NOWHERE;
use super::mode::Visible;
use super::search::Sought;
use super::view::PersistentView;
use simt::{GlobalSlice, Order, Scope, device, recheck};

/// The slot of a key that an update could not lock.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    /// Position of the slot, or [`NOWHERE`].
    position: u32,
    /// A digest of the value, if it is a constant of the kind.
    digest: u32,
}

#[device]
impl Seen {
    pub(super) const NOTHING: Self = Self { position: NOWHERE, digest: 0 };

    /// Reads the slot of a key after a failed attempt to lock it. Also returns whether the update is over,
    /// since the item has its value.
    #[device(caller)]
    pub(super) fn of<C: Config>(
        view: PersistentView<C>,
        (keys, values): (Keys, GlobalSlice<u32>),
        (wanted, position): (Wanted, u32),
    ) -> (Self, bool) {
        let Some(value) = visible_value(view, keys, (wanted, position)) else {
            return (Self::NOTHING, false);
        };
        let is_own = C::IS_SMALL && value == small_value(values, wanted.index);
        (Self { position, digest: digest(value) }, is_own)
    }

    /// Returns whether a later search shows that the item has been changed or removed since, so that the
    /// update is over.
    #[device(caller)]
    pub(super) fn is_superseded<C: Config>(
        self,
        view: PersistentView<C>,
        keys: Keys,
        (wanted, sought): (Wanted, Sought),
    ) -> bool {
        if self.position == NOWHERE || sought.position == NOWHERE {
            return false;
        }
        let is_same_slot = sought.position == self.position;
        if !C::IS_SMALL {
            // An update writes the new item to another slot.
            return !is_same_slot;
        }
        if !is_same_slot {
            return false;
        }
        match visible_value(view, keys, (wanted, self.position)) {
            Some(value) => digest(value) != self.digest,
            None => false,
        }
    }
}

/// Returns what lookups see in a slot that a search has read: the value, if the slot has the key's item.
#[device(caller)]
fn visible_value<C: Config>(
    view: PersistentView<C>,
    keys: Keys,
    (wanted, position): (Wanted, u32),
) -> Option<u64> {
    // SAFETY: a search has read the slot.
    let group = unsafe { view.version(position / C::SLOTS) };
    let version = group.load(Order::Acquire, Scope::Device);
    // SAFETY: as above.
    let state = unsafe { view.acquire_fingerprint(position) };
    let (is_same, value) = find_key::<C, Visible>(view, keys, (wanted, position));
    let is_item = is_same && recheck(state.may_have(wanted.hashed.fingerprint()));
    // With another version, the state may be that of an item and the key that of the next one, or the value
    // one that is not yet in the copy of the cache.
    let is_visible = is_item && recheck(group.load(Order::Relaxed, Scope::Device) == version);
    if is_visible { Some(value) } else { None }
}

/// Returns a digest of a value: other digests are those of other values.
#[device]
fn digest(value: u64) -> u32 {
    (value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32
}

/// Returns the value of an element of 8 bytes.
#[device(caller)]
pub(super) fn small_value(values: GlobalSlice<u32>, index: u32) -> u64 {
    let first = index as usize * 2;
    values.read(first) as u64 | (values.read(first + 1) as u64) << 32
}

/// Makes the change of a slot durable by which the calling lane's update is over: the other update may not
/// have completed when this one's batch does.
#[device(caller)]
pub(super) fn settle<C: Config>(view: PersistentView<C>, position: u32) {
    if C::IS_SMALL {
        // The lane has read the value, whose store has system scope. Whoever reads the image after the lane's
        // warp has ended reads the value, too, or a later one.
        view.mark_dirty(view.place(position));
    } else {
        // The other update's stores are before the lane's read of the fingerprint.
        view.order_image();
    }
}
