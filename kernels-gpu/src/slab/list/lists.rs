//! The view of slab lists that kernels take, and the properties of a kind of lists.
use super::super::handle::Handle;
use super::super::pool::{Phased, Pool};
use super::node::{Chosen, Node};
use crate::keyed::{
    Combination, Counters, EntryRef, Kind, Operation, Outcome, Scalar, Slot, TileKind, View, hash, kind_name,
};
use core::fmt;
use core::marker::PhantomData;
use simt::hash::reduce;
use simt::{Convergence, Global, Instance, Name, Order, Scope, Thread, Tile, device};

/// A kind of lists: slots `S`, slabs of the pool `P`, read by tiles of `W` lanes, `L` slots per lane.
#[derive(Clone, Copy, Debug)]
pub struct Lists<S, P, const W: u32, const L: usize>(PhantomData<(S, P)>);

/// The properties of [`Lists`] that hosts need beyond those of a [`Kind`].
pub trait Config: Kind<View = ListsView<Self>> {
    /// Pool from which the slabs are allocated.
    type Pool: Pool;
    /// Number of pairs or keys in a slab.
    const SLOTS: u32;

    /// Compacts the list of `bucket` by the calling thread's tile, and frees the slabs that are no longer
    /// needed. The lanes of a tile pass the same bucket. See [`ListsView::flush`].
    fn flush(view: ListsView<Self>, bucket: Option<u32>, keep: bool);

    /// Examines the list of `bucket`. Returns the result to the first lane of the calling thread's tile, and
    /// `None` to the others. See [`Findings`].
    fn inspect(view: ListsView<Self>, bucket: Option<u32>) -> Option<Findings>;

    /// Applies `gather` to all pairs of the key of each lane that passes `pending`; see [`super::Gather`].
    fn gather<G: super::Gather<Slot = Self::Slot>>(
        view: ListsView<Self>,
        pending: bool,
        gather: G,
        key: Self::Key,
    ) -> u32;
}

/// A kind of lists whose kernels only read, while nothing writes.
pub trait ReadOnly: Config {
    /// The kind of lists that it reads.
    type Writers: Config<Key = Self::Key, Value = Self::Value>;
}

impl<S: Slot, P: Pool, const W: u32, const L: usize> ReadOnly for Lists<S, Phased<P>, W, L> {
    type Writers = Lists<S, P, W, L>;
}

impl<S: Slot, P: Pool, const W: u32, const L: usize> Instance for Lists<S, P, W, L> {
    const NAME: &'static str = const { &kind_name::<S>(Name::of(S::NAME).part(P::NAME), W, L) }.as_str();
}

/// Result of the examination of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Number of nodes behind the head.
    pub nodes: u32,
    /// 1 if an empty slot lies before a taken one, contrary to the order in which slots are filled.
    pub gaps: u32,
    /// Number of links to slabs that are not live. The examination does not follow them.
    pub dead_links: u32,
    /// Number of pairs.
    pub pairs: u32,
}

/// Lists as a kernel sees them: a head slab for each bucket and one more, and a pool for the other slabs.
#[repr(C)]
pub struct ListsView<M: Config> {
    heads: Global<u64>,
    counters: Counters,
    pool: M::Pool,
    buckets: u32,
    seed: u64,
}

impl<M: Config> Clone for ListsView<M> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Config> Copy for ListsView<M> {}

impl<M: Config> fmt::Debug for ListsView<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListsView").field("heads", &self.heads).field("buckets", &self.buckets).finish()
    }
}

impl<M: Config> View for ListsView<M> {
    type Kind = M;
}

impl<M: Config> ListsView<M> {
    /// Returns a view of `buckets` lists, and of one more behind them for the keys equal to a reserved
    /// pattern.
    ///
    /// # Safety
    /// - `heads` points to `(buckets + 1) * M::Pool::BYTES` bytes and `counters` to `COUNTER_SHARDS *
    ///   SHARD_WORDS` words of device memory, aligned to 256 bytes, that outlive all uses of the view.
    /// - Every byte of the heads and of the pool's free slabs was `0xFF` before the first operation, and only
    ///   operations of this kind have written to them and to the slabs that they allocated.
    /// - `buckets` is not 0 and below 2^32 - 1.
    pub unsafe fn new(heads: *mut u64, counters: *mut u64, pool: M::Pool, buckets: u32) -> Self {
        // SAFETY: the caller's obligation; kernels make only relaxed accesses to both.
        let (heads, counters) = unsafe { (Global::new(heads), Counters::new(Global::new(counters))) };
        Self { heads, counters, pool, buckets, seed: 0 }
    }

    /// Returns the view with the seed of its hash function, by which all operations on the lists must find
    /// the keys. A view begins with the seed 0.
    #[device]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Returns the number of buckets, without the one for reserved keys.
    #[device]
    pub fn bucket_count(self) -> u32 {
        self.buckets
    }

    /// Returns the stored form of the key and its bucket.
    #[device]
    pub(super) fn start(self, key: M::Key) -> (<M::Slot as Slot>::Stored, u32) {
        if let Some(alias) = M::Slot::alias(key) {
            return (alias, self.buckets);
        }
        let stored = <M::Slot as Slot>::Stored::from_u64(key.to_u64());
        (stored, reduce(hash(key, self.seed).first, self.buckets))
    }

    /// Returns the counters.
    #[device]
    pub(super) fn counters(self) -> Counters {
        self.counters
    }

    /// Returns the pool.
    #[device]
    pub(super) fn pool(self) -> M::Pool {
        self.pool
    }

    /// Returns the pool from which the slabs are allocated.
    ///
    /// # Safety
    /// - The caller frees, retires and writes only slabs that it has allocated itself.
    #[device]
    pub unsafe fn raw_pool(self) -> M::Pool {
        self.pool
    }
}

#[device(caller)]
impl<S: Slot, P: Pool, const W: u32, const L: usize> ListsView<Lists<S, P, W, L>> {
    /// Returns the first node of a bucket.
    ///
    /// # Safety
    /// - `bucket` is at most [`Self::bucket_count`].
    #[device]
    pub(super) unsafe fn head(self, bucket: u32) -> Node<S, W, L> {
        const { assert!(Node::<S, W, L>::BYTES == P::BYTES, "a node is a slab") };
        // SAFETY: there is a head for every bucket and for the one behind them.
        unsafe { Node::at(self.heads.offset(bucket as usize * (P::BYTES / 8))) }
    }

    /// As [`Self::head`], for any bucket. Ends the launch if there is no such bucket.
    fn checked_head(self, bucket: u32) -> Node<S, W, L> {
        if bucket > self.buckets {
            simt::trap();
        }
        // SAFETY: the bucket has been checked.
        unsafe { self.head(bucket) }
    }

    /// Returns the node that a link of these lists names.
    ///
    /// # Safety
    /// - `link` was read in a node of these lists and is not [`Handle::NONE`], or it names a blank slab of
    ///   the pool.
    pub(super) unsafe fn node(self, link: Handle) -> Node<S, W, L> {
        // SAFETY: links name live slabs of the pool, which are nodes or blank.
        unsafe { Node::at(self.pool.slab(link)) }
    }

    /// Calls `see` for every node of a bucket's list in order. All lanes of the tile call it together. Tiles
    /// in lockstep iterate together: a tile whose list has ended calls `see` with `None` until all lists have
    /// ended.
    ///
    /// A node's link is read before `see` is called, so `see` may change the node.
    ///
    /// # Panics
    /// Ends the launch if `bucket` is above [`Self::bucket_count`].
    pub fn for_each_node(
        self,
        tile: Tile<W, impl Convergence>,
        bucket: Option<u32>,
        mut see: impl FnMut(Option<Node<S, W, L>>),
    ) {
        let mut at = bucket.map(|bucket| self.checked_head(bucket));
        while tile.any_converged(at.is_some()) {
            let link = at.map(|node| Handle::from_word(node.link().load(Order::Relaxed, Scope::Device)));
            see(at);
            // SAFETY: the link was read in a node.
            at = link.and_then(Handle::some).map(|link| unsafe { self.node(link) });
        }
    }

    /// Compacts a bucket's list: moves its pairs into its first nodes, in their order, and frees the slabs
    /// behind those nodes. Without `keep`, drops the pairs too. Requires exclusive access to the bucket. The
    /// lanes of the tile call it together.
    ///
    /// The tile reads a node completely before it writes to it, and writes only to nodes that it has read:
    /// pairs only move towards the head.
    ///
    /// # Panics
    /// Ends the launch if `bucket` is above [`Self::bucket_count`].
    pub fn flush(self, tile: Tile<W, impl Convergence>, bucket: u32, keep: bool) {
        let mut end = self.checked_head(bucket);
        let mut filled = 0;
        self.for_each_node(tile, Some(bucket), |node| {
            let Some(node) = node else { return };
            let lane = node.read(tile.rank(), true, Order::Relaxed).lane;
            tile.sync();
            let words = lane.words();
            let stays = |word: S::Word| keep && S::is_live(word);
            let Chosen { before, all, .. } = Chosen::by::<W, L>(tile, |j| stays(words[j]));
            let next = if filled + all > Node::<S, W, L>::SLOTS { self.after(end) } else { None };
            let (second, mut place) = (next.unwrap_or(end), filled + before);
            let mut j = 0;
            while j < L {
                let word = words[j];
                if stays(word) {
                    let behind = place.checked_sub(Node::<S, W, L>::SLOTS);
                    let (node, place) = behind.map_or((end, place), |place| (second, place));
                    node.slot(place).store(word, Order::Relaxed, Scope::Device);
                }
                place += stays(word) as u32;
                j += 1;
            }
            filled += all;
            if let Some(next) = next {
                (end, filled) = (next, filled - Node::<S, W, L>::SLOTS);
            }
            tile.sync();
        });
        self.cut(tile, end, filled);
    }

    /// Examines a bucket's list by one lane. Requires exclusive access to the bucket.
    ///
    /// # Panics
    /// Ends the launch if `bucket` is above [`Self::bucket_count`].
    pub fn inspect(self, bucket: u32) -> Findings {
        let (mut found, mut at, mut empty) = (Findings::default(), self.checked_head(bucket), false);
        loop {
            let mut position = 0;
            while position < Node::<S, W, L>::SLOTS {
                let word = at.slot(position).load(Order::Relaxed, Scope::Device);
                found.gaps |= (empty && !S::is_empty(word)) as u32;
                empty |= S::is_empty(word);
                found.pairs += S::is_live(word) as u32;
                position += 1;
            }
            let link = Handle::from_word(at.link().load(Order::Relaxed, Scope::Device));
            if link.is_none() {
                return found;
            }
            if !self.pool.is_live(link) {
                found.dead_links += 1;
                return found;
            }
            found.nodes += 1;
            // SAFETY: the link names a live slab.
            at = unsafe { self.node(link) };
        }
    }

    /// Returns the node after `node`, if there is one.
    fn after(self, node: Node<S, W, L>) -> Option<Node<S, W, L>> {
        let link = Handle::from_word(node.link().load(Order::Relaxed, Scope::Device));
        // SAFETY: the link was read in a node.
        link.some().map(|link| unsafe { self.node(link) })
    }

    /// Ends a list in the node `end`: its first `filled` slots stay and the others become empty; the slabs
    /// behind it are blanked and freed.
    fn cut(self, tile: Tile<W, impl Convergence>, end: Node<S, W, L>, filled: u32) {
        let mut link = Handle::from_word(end.link().load(Order::Relaxed, Scope::Device));
        tile.sync();
        self.blank(tile, end, filled);
        while !link.is_none() {
            // SAFETY: the link was read in a node.
            let node = unsafe { self.node(link) };
            let next = Handle::from_word(node.link().load(Order::Relaxed, Scope::Device));
            tile.sync();
            self.blank(tile, node, 0);
            tile.sync();
            if tile.rank() == 0 {
                self.pool.free(link);
            }
            link = next;
        }
    }

    /// Empties the slots from `from` on and resets the link to [`Handle::NONE`].
    fn blank(self, tile: Tile<W, impl Convergence>, node: Node<S, W, L>, from: u32) {
        let mut position = tile.rank();
        while position < Node::<S, W, L>::SLOTS {
            if position >= from {
                node.slot(position).store(S::EMPTY, Order::Relaxed, Scope::Device);
            }
            position += W;
        }
        if tile.rank() == 0 {
            node.link().store(Handle::NONE.to_word(), Order::Relaxed, Scope::Device);
        }
    }
}

impl<S: Slot, P: Pool, const W: u32, const L: usize> Lists<S, P, W, L> {
    /// Whether a lane reads more of a slab at once than in the default kind, and so needs more registers.
    const HOLDS_MUCH: bool = L * size_of::<S::Word>() > 32;
}

// SAFETY: heads are accessed only for existing buckets, and other slabs only through links in nodes, which
// name slabs of the pool.
unsafe impl<S: Slot, P: Pool, const W: u32, const L: usize> Kind for Lists<S, P, W, L> {
    type Key = S::Key;
    type Value = S::Value;
    type Slot = S;
    type View = ListsView<Self>;
    const TILE: u32 = W;
    /// Measured: with 40 registers an insert is 2 % faster than with 48, a mixed batch 1 %, of 16-byte pairs
    /// 4 %.
    const REGISTERS: u32 = if Self::HOLDS_MUCH { 48 } else { 40 };
    /// Measured: with 32 registers, which allow the maximum number of resident threads per multiprocessor,
    /// lookups are 7 % faster than with 40.
    const READS_IN: u32 = if Self::HOLDS_MUCH { 40 } else { 32 };
    /// Measured: combination in a warp costs insertions of distinct keys 4 to 6 %.
    const COMBINES: Combination = Combination::InBatches;
    /// The same lists hold the pairs of maps with several values per key.
    const UNIQUE: bool = false;

    #[device(caller)]
    fn execute<O: Operation>(
        lists: ListsView<Self>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        lists.share(Tile::<W>::lockstep(), pending, operation, key, argument)
    }

    #[device]
    fn counters(lists: ListsView<Self>) -> Counters {
        lists.counters
    }

    fn scan_threads(lists: ListsView<Self>) -> usize {
        (lists.buckets as usize + 1) * W as usize
    }

    /// Scans one bucket per tile, along its list in slot order: the lanes of a tile see neighbouring slots,
    /// and operations take effect in lane order. So copies and exports preserve the order of a key's pairs.
    #[device(caller)]
    fn scan(lists: ListsView<Self>, thread: usize, mut see: impl FnMut(Option<EntryRef<Self>>)) {
        let tile = Tile::<W>::lockstep();
        let bucket = thread / W as usize;
        let exists = bucket <= lists.buckets as usize;
        lists.for_each_node(tile, exists.then_some(bucket as u32), |node| {
            let mut position = tile.rank();
            while position < W * L as u32 {
                let slot = node.filter(|_| position < Self::SLOTS).map(|node| node.slot(position));
                see(slot.and_then(|slot| EntryRef::read(slot, bucket == lists.buckets as usize)));
                position += W;
            }
        });
    }
}

#[device(caller)]
impl<S: Slot, P: Pool, const W: u32, const L: usize> Config for Lists<S, P, W, L> {
    type Pool = P;
    const SLOTS: u32 = Node::<S, W, L>::SLOTS;

    fn flush(view: ListsView<Self>, bucket: Option<u32>, keep: bool) {
        if let Some(bucket) = bucket {
            view.flush(Tile::<W, simt::Independent>::this(), bucket, keep);
        }
    }

    fn inspect(view: ListsView<Self>, bucket: Option<u32>) -> Option<Findings> {
        let is_first = (Thread::index() as u32).is_multiple_of(W);
        bucket.filter(|_| is_first).map(|bucket| view.inspect(bucket))
    }

    fn gather<G: super::Gather<Slot = S>>(
        view: ListsView<Self>,
        pending: bool,
        gather: G,
        key: S::Key,
    ) -> u32 {
        view.gather(Tile::<W>::lockstep(), pending, gather, key)
    }
}

impl<S: Slot, P: Pool, const W: u32, const L: usize> TileKind<W> for Lists<S, P, W, L> {
    #[device(caller)]
    fn share<O: Operation>(
        lists: ListsView<Self>,
        tile: Tile<W, impl Convergence>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        lists.share(tile, pending, operation, key, argument)
    }
}
