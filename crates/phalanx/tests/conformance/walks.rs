//! Counters of searches: one node per level from the root, fewer from the directory.
use crate::kinds::Kind;
use checker::MapValue;
use phalanx::map::Word;
use phalanx::{BTree, Error};

/// Builds a tree of 2000 pairs whose searches begin at the root or at a node of the directory.
fn built<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>, directory: bool) -> BTree<K, V> {
    let mut tree = kind.builder().directory(directory).build().unwrap();
    let (keys, values) = kind.columns((0..2000).map(|n| (n * 3, n)));
    tree.bulk_build(&keys, &values, 0.5).unwrap();
    assert_eq!(
        tree.get(&keys[500..510]).unwrap(),
        values[500..510].iter().copied().map(Some).collect::<Vec<_>>()
    );
    tree
}

pub fn walks_read_a_node_a_level<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>) {
    // Some keys are present, others are absent.
    let keys = kind.device.from_slice(&kind.keys((0..999).map(|n| n * 5))).unwrap();
    let tree = built(kind, false);
    let (walks, depth) = (tree.walks(&keys).unwrap(), tree.depth().unwrap() as usize);
    let expected: Vec<u64> = (0..7).map(|level| if level < depth { 999 } else { 0 }).collect();
    assert_eq!((walks.nodes, walks.links, walks.keys), (expected, 0, 999), "{}", kind.name);
    assert!(depth >= 4, "{}: {depth} levels", kind.name);

    let short = built(kind, true).walks(&keys).unwrap();
    assert_eq!((short.nodes[0], short.links), (999, 0), "{}", kind.name);
    assert!(short.nodes.iter().sum::<u64>() < 999 * depth as u64, "{}: {:?}", kind.name, short.nodes);
    assert_eq!(tree.walks(&kind.device.from_slice(&[]).unwrap()).unwrap().nodes, [0; 7], "{}", kind.name);
    let other = gpu::Device::emulator(Default::default());
    let refused = tree.walks(&other.from_slice(&kind.keys([1])).unwrap());
    assert!(matches!(refused, Err(Error::OtherDevice { .. })), "{}: {refused:?}", kind.name);
}

/// Searches in a tree without a directory visit one node per level, plus the nodes reached by right links.
pub fn trees_without_a_directory_grow<K: Word, V: Word + MapValue>(kind: &Kind<BTree<K, V>>) {
    let tree = kind.builder().directory(false).nodes(1).build().unwrap();
    let (keys, values) = kind.columns((0..1500).map(|n| (simt::hash::mix64(n) >> 33, n)));
    assert!(tree.insert(&keys, &values).unwrap().all_placed());
    assert_eq!(crate::kinds::contents(&tree).len(), 1500, "{}", kind.name);
    let asked = kind.device.from_slice(&keys).unwrap();
    let (walks, depth) = (tree.walks(&asked).unwrap(), u64::from(tree.depth().unwrap()));
    assert_eq!(walks.nodes.iter().sum::<u64>(), 1500 * depth + walks.links, "{}", kind.name);
}
