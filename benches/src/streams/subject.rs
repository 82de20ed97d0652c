//! Structures that cells run on.
use super::batch::{Batch, SPAN};
use super::universe::Element;
use super::verb::{Model, Verb};
use anyhow::{Result, bail, ensure};
use gpu::{Device, Stream};
use phalanx::btree::Ordered;
use phalanx::map::Pairs;
use phalanx::mvbtree::Updates;
use phalanx::{
    BTree, HashMap, Map, Merge, MultiVersionBTree, Outcomes, SkipList, SlabHash, SlabMultiMap, SlabSet,
};

/// Activity while batches are pending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    /// None.
    None,
    /// Export of the structure.
    Export,
    /// Clearing of the structure.
    Clear,
    /// Creation and reading of a frozen view.
    Frozen,
    /// Creation of a snapshot, which is read while later batches are pending.
    Snapshot,
    /// Compaction, reclamation or sweep, whichever the structure supports.
    Maintain,
}

/// Result of a situation, and its effect on the contents.
pub enum Shown<T> {
    /// No result and no effect.
    Nothing,
    /// Pairs that the structure contained after the preceding batches.
    Contents(Pairs<T, T>),
    /// The structure is empty.
    Cleared,
}

/// Structure under test, as a cell uses it.
pub trait Subject<T: Element>: Sync + Send {
    /// Returns the model of the operations' effect on a key.
    fn model(&self) -> Model {
        Model::Map
    }

    /// Returns whether an update may be refused because no memory is left for versions.
    fn refuses(&self) -> bool {
        false
    }

    /// Submits a batch to a stream.
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] from the structure.
    fn submit(&self, stream: &Stream, batch: &mut Batch<T>) -> Result<()>;

    /// Inserts pairs with a blocking call, which may grow the structure.
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] from the structure.
    fn insert(&self, keys: &[T], values: &[T]) -> Result<Outcomes>;

    /// Returns all pairs; for sets, only the keys are meaningful.
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] from the structure.
    fn contents(&self) -> Result<Pairs<T, T>>;

    /// Removes all pairs.
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] from the structure.
    fn clear(&mut self) -> Result<()>;

    /// Checks the invariants of the structure.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when an invariant is violated.
    fn validate(&self) -> Result<()>;

    /// Compacts, reclaims or sweeps, if the structure supports it.
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] from the structure.
    fn maintain(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns all pairs through a frozen view if the structure supports it, else as [`Self::contents`].
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] from the structure.
    fn frozen_contents(&mut self) -> Result<Pairs<T, T>> {
        self.contents()
    }

    /// Takes a snapshot if the structure supports it. Returns a function that reads it.
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] from the structure.
    fn snapshot(&self) -> Result<Option<ReadSnapshot<'_, T>>> {
        Ok(None)
    }
}

/// Function that returns all pairs of a snapshot.
pub type ReadSnapshot<'a, T> = Box<dyn FnOnce() -> Result<Pairs<T, T>> + 'a>;

/// Performs a situation and then calls `rest`, which submits more batches. Reads a snapshot after that.
///
/// # Errors
/// Returns [`anyhow::Error`] when the structure or `rest` fails.
pub fn meet<T: Element>(
    subject: &mut dyn Subject<T>,
    situation: Situation,
    rest: impl FnOnce(&dyn Subject<T>) -> Result<()>,
) -> Result<Shown<T>> {
    let mut shown = Shown::Nothing;
    match situation {
        Situation::Export => shown = Shown::Contents(subject.contents()?),
        Situation::Frozen => shown = Shown::Contents(subject.frozen_contents()?),
        Situation::Clear => {
            subject.clear()?;
            shown = Shown::Cleared;
        }
        Situation::Maintain => subject.maintain()?,
        Situation::None | Situation::Snapshot => {}
    }
    let snapshot = if situation == Situation::Snapshot { subject.snapshot()? } else { None };
    rest(subject)?;
    snapshot.map_or(Ok(shown), |read| Ok(Shown::Contents(read()?)))
}

/// Submits a batch of operations on single keys to a map.
fn submit_to<T: Element, M: Map<Key = T, Value = T>>(
    map: &M,
    stream: &Stream,
    batch: &mut Batch<T>,
) -> Result<()> {
    let Batch { verb, keys, values, codes, results, outcomes, .. } = batch;
    let map = map.on(stream);
    match verb {
        Verb::Insert => map.insert(keys, values, Some(outcomes))?,
        Verb::InsertNew => map.insert_new(keys, values, Some(outcomes))?,
        Verb::Upsert => map.upsert(Merge::Add, keys, values, Some(outcomes))?,
        Verb::GetOrInsert => map.get_or_insert(keys, values, results, outcomes)?,
        Verb::Get => map.get(keys, results, outcomes)?,
        Verb::ContainsKey => map.contains_key(keys, outcomes)?,
        Verb::Remove => map.remove(keys, outcomes)?,
        Verb::Execute => map.execute(codes, keys, values, results, outcomes)?,
        verb => bail!("maps have no {}", verb.name()),
    }
    Ok(())
}

/// Submits a batch to an ordered map.
fn submit_ordered<T: Element, M: Map<Key = T, Value = T>>(
    map: &M,
    ordered: Ordered<'_, T, T>,
    stream: &Stream,
    batch: &mut Batch<T>,
) -> Result<()> {
    let Batch { keys, results, outcomes, found, highs, counts, .. } = batch;
    match batch.verb {
        Verb::Successor => ordered.successor(keys, found, results, outcomes)?,
        Verb::Predecessor => ordered.predecessor(keys, found, results, outcomes)?,
        Verb::Count => ordered.count(keys, highs, counts)?,
        Verb::Range => ordered.range(keys, highs, SPAN, found, results, counts)?,
        _ => submit_to(map, stream, batch)?,
    }
    Ok(())
}

/// Methods with the same implementation for all maps.
macro_rules! map_methods {
    () => {
        fn insert(&self, keys: &[T], values: &[T]) -> Result<Outcomes> {
            Ok(Map::insert(self, keys, values)?.into_iter().collect())
        }

        fn contents(&self) -> Result<Pairs<T, T>> {
            Ok(self.export()?)
        }

        fn clear(&mut self) -> Result<()> {
            Ok(Map::clear(self)?)
        }
    };
}

/// Methods with the same implementation for all ordered maps.
macro_rules! ordered_methods {
    () => {
        map_methods!();

        fn submit(&self, stream: &Stream, batch: &mut Batch<T>) -> Result<()> {
            submit_ordered(self, self.ordered_on(stream), stream, batch)
        }

        fn validate(&self) -> Result<()> {
            Ok(Self::validate(self)?)
        }
    };
}

impl<T: Element> Subject<T> for HashMap<T, T> {
    map_methods!();

    fn submit(&self, stream: &Stream, batch: &mut Batch<T>) -> Result<()> {
        submit_to(self, stream, batch)
    }

    fn validate(&self) -> Result<()> {
        let (pairs, counted) = (self.export()?.0.len(), self.len()?);
        ensure!(pairs == counted, "{counted} pairs are counted, and {pairs} are there");
        Ok(())
    }

    fn maintain(&mut self) -> Result<()> {
        Ok(self.compact()?)
    }
}

impl<T: Element> Subject<T> for SlabHash<T, T> {
    map_methods!();

    fn submit(&self, stream: &Stream, batch: &mut Batch<T>) -> Result<()> {
        submit_to(self, stream, batch)
    }

    fn validate(&self) -> Result<()> {
        Ok(SlabHash::validate(self)?)
    }
}

impl<T: Element> Subject<T> for BTree<T, T> {
    ordered_methods!();

    fn maintain(&mut self) -> Result<()> {
        Ok(self.compact(0.7)?)
    }

    fn frozen_contents(&mut self) -> Result<Pairs<T, T>> {
        Ok(self.frozen()?.export()?)
    }
}

impl<T: Element> Subject<T> for MultiVersionBTree<T, T> {
    ordered_methods!();

    fn refuses(&self) -> bool {
        true
    }

    fn maintain(&mut self) -> Result<()> {
        Ok(self.drain().map(drop)?)
    }

    fn snapshot(&self) -> Result<Option<ReadSnapshot<'_, T>>> {
        let snapshot = MultiVersionBTree::snapshot(self)?;
        Ok(Some(Box::new(move || Ok(self.at(&snapshot)?.iter()?.unzip()))))
    }
}

impl<T: Element> Subject<T> for SkipList<T, T> {
    ordered_methods!();

    fn maintain(&mut self) -> Result<()> {
        Ok(self.reclaim().map(drop)?)
    }
}

impl<T: Element> Subject<T> for SlabSet<T> {
    fn model(&self) -> Model {
        Model::Set
    }

    fn submit(&self, stream: &Stream, batch: &mut Batch<T>) -> Result<()> {
        let Batch { verb, keys, codes, outcomes, .. } = batch;
        match verb {
            Verb::InsertNew | Verb::Insert => self.on(stream).insert(keys, outcomes)?,
            Verb::ContainsKey => self.on(stream).contains_key(keys, outcomes)?,
            Verb::Remove => self.on(stream).remove(keys, outcomes)?,
            Verb::Execute => self.on(stream).execute(codes, keys, outcomes)?,
            verb => bail!("sets have no {}", verb.name()),
        }
        Ok(())
    }

    fn insert(&self, keys: &[T], _values: &[T]) -> Result<Outcomes> {
        Ok(SlabSet::insert(self, keys)?)
    }

    fn contents(&self) -> Result<Pairs<T, T>> {
        let keys: Vec<T> = self.iter()?.collect();
        Ok((keys, Vec::new()))
    }

    fn clear(&mut self) -> Result<()> {
        Ok(SlabSet::clear(self)?)
    }

    fn validate(&self) -> Result<()> {
        Ok(SlabSet::validate(self)?)
    }
}

impl<T: Element> Subject<T> for SlabMultiMap<T, T> {
    fn model(&self) -> Model {
        Model::Multi
    }

    fn submit(&self, stream: &Stream, batch: &mut Batch<T>) -> Result<()> {
        let Batch { verb, keys, values, outcomes, many, .. } = batch;
        match verb {
            Verb::Insert => self.on(stream).insert(keys, values, Some(outcomes))?,
            Verb::CountValues => self.on(stream).count(keys, many)?,
            Verb::RemoveOne => self.on(stream).remove_one(keys, outcomes)?,
            Verb::RemoveAll => self.on(stream).remove_all(keys, many)?,
            verb => bail!("maps with several values a key have no {}", verb.name()),
        }
        Ok(())
    }

    fn insert(&self, keys: &[T], values: &[T]) -> Result<Outcomes> {
        Ok(SlabMultiMap::insert(self, keys, values)?.into_iter().collect())
    }

    fn contents(&self) -> Result<Pairs<T, T>> {
        Ok(self.iter()?.unzip())
    }

    fn clear(&mut self) -> Result<()> {
        Ok(SlabMultiMap::clear(self)?)
    }

    fn validate(&self) -> Result<()> {
        Ok(SlabMultiMap::validate(self)?)
    }
}

/// Kind of structure that cells run on.
#[derive(Clone, Copy, Debug)]
pub struct Structure {
    /// Name in lists of cells.
    pub name: &'static str,
    /// Supported verbs.
    pub verbs: &'static [Verb],
    /// Supported situations.
    pub situations: &'static [Situation],
    /// Whether keys and values have 64 bits.
    pub is_wide: bool,
}

const MAP: &[Situation] = &[Situation::Export, Situation::Clear, Situation::Maintain];
const TREE: &[Situation] = &[Situation::Export, Situation::Clear, Situation::Maintain, Situation::Frozen];
const VERSIONED: &[Situation] =
    &[Situation::Export, Situation::Clear, Situation::Maintain, Situation::Snapshot];
const PLAIN: &[Situation] = &[Situation::Export, Situation::Clear];

const fn structure(
    name: &'static str,
    verbs: &'static [Verb],
    situations: &'static [Situation],
    is_wide: bool,
) -> Structure {
    Structure { name, verbs, situations, is_wide }
}

/// All structures. Those whose names end in `_u64` have pairs of 16 bytes.
pub const STRUCTURES: [Structure; 16] = [
    structure("hash_map", Verb::MAP, MAP, false),
    structure("hash_map_u64", Verb::MAP, MAP, true),
    structure("slab_hash", Verb::MAP, PLAIN, false),
    structure("slab_hash_u64", Verb::MAP, PLAIN, true),
    structure("slab_set", Verb::SET, PLAIN, false),
    structure("slab_multi_map", Verb::MULTI, PLAIN, false),
    structure("btree", Verb::ORDERED, TREE, false),
    structure("btree_u64", Verb::ORDERED, TREE, true),
    structure("btree_no_directory", Verb::ORDERED, TREE, false),
    structure("btree_sorted_batches", Verb::ORDERED, TREE, false),
    structure("mvbtree_in_place", Verb::ORDERED, VERSIONED, false),
    structure("mvbtree_out_of_place", Verb::ORDERED, VERSIONED, false),
    structure("mvbtree_no_directory", Verb::ORDERED, VERSIONED, false),
    structure("skip_list", Verb::ORDERED, MAP, false),
    structure("skip_list_no_directory", Verb::ORDERED, MAP, false),
    structure("skip_list_sorted_pairs", Verb::ORDERED, MAP, false),
];

impl Structure {
    /// Creates an empty structure with a capacity of about `n` keys. Blocking calls grow it.
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] from the builder.
    pub fn build<T: Element>(self, device: &Device, n: usize) -> Result<Box<dyn Subject<T>>> {
        let map = HashMap::<T, T>::builder().device(device).capacity(n);
        let slabs = SlabHash::<T, T>::builder().device(device).capacity(n);
        let multi = SlabMultiMap::<T, T>::builder().device(device).capacity(12 * n);
        let tree = || BTree::<T, T>::builder().device(device).capacity(n);
        let versions = || MultiVersionBTree::<T, T>::builder().device(device).capacity(2 * n);
        let list = || SkipList::<T, T>::builder().device(device).capacity(n);
        Ok(match self.name {
            "hash_map" | "hash_map_u64" => Box::new(map.build()?),
            "slab_hash" | "slab_hash_u64" => Box::new(slabs.build()?),
            "slab_set" => Box::new(SlabSet::<T>::builder().device(device).capacity(n).build()?),
            "slab_multi_map" => Box::new(multi.build()?),
            "btree" | "btree_u64" => Box::new(tree().build()?),
            "btree_no_directory" => Box::new(tree().directory(false).build()?),
            "btree_sorted_batches" => Box::new(tree().variant("tree_sorted_spread_128_4x4_u32_u32").build()?),
            "mvbtree_in_place" => Box::new(versions().updates(Updates::InPlace).build()?),
            "mvbtree_no_directory" => Box::new(versions().directory(false).build()?),
            "mvbtree_out_of_place" => Box::new(versions().updates(Updates::OutOfPlace).build()?),
            "skip_list" => Box::new(list().build()?),
            "skip_list_no_directory" => Box::new(list().directory(false).build()?),
            "skip_list_sorted_pairs" => {
                Box::new(list().variant("list_sorted_spread_128_8x2_u32_u32").build()?)
            }
            name => bail!("no structure is called '{name}'"),
        })
    }
}
