//! Finds the network of an IPv4 address: of all networks that begin at or below the address, the last one.
use phalanx::{BTree, Outcome};
use std::net::Ipv4Addr;

/// Networks, disjoint: first address, prefix length, and the number of the owner.
const NETWORKS: [([u8; 4], u32, u32); 5] = [
    ([10, 0, 0, 0], 8, 1),
    ([172, 16, 0, 0], 12, 2),
    ([192, 0, 2, 0], 24, 3),
    ([192, 168, 0, 0], 16, 4),
    ([203, 0, 113, 0], 24, 5),
];

fn address(octets: [u8; 4]) -> u32 {
    Ipv4Addr::from(octets).to_bits()
}

fn main() -> Result<(), phalanx::Error> {
    let mut owners = BTree::<u32, u32>::with_capacity(100)?;
    let firsts: Vec<u32> = NETWORKS.iter().map(|&(octets, ..)| address(octets)).collect();
    // The value is the position in the list.
    owners.bulk_build(&firsts, &[0, 1, 2, 3, 4], 0.7)?;

    let asked = [[10, 1, 2, 3], [172, 32, 0, 1], [192, 168, 7, 7], [9, 9, 9, 9]].map(address);
    let owner = |asked: u32, found: Option<(u32, u32)>| {
        let (first, position) = found?;
        let (_, prefix, owner) = NETWORKS[position as usize];
        (asked - first < 1 << (32 - prefix)).then_some(owner)
    };
    let found = owners.floor(&asked)?;
    let answers: Vec<Option<u32>> =
        asked.iter().zip(found).map(|(&asked, found)| owner(asked, found)).collect();
    assert_eq!(answers, [Some(1), None, Some(4), None]);

    // All networks within 192.0.0.0/8, in order of their addresses.
    let within = address([192, 0, 0, 0])..=address([192, 255, 255, 255]);
    assert_eq!(owners.range(&[within])?, [[(firsts[2], 2), (firsts[3], 3)]]);

    assert_eq!(owners.remove(&firsts[..1])?, [true]);
    assert_eq!(owners.insert(&firsts[..1], &[0])?, [Outcome::Inserted]);
    println!("owners of {:?}: {answers:?}", asked.map(Ipv4Addr::from_bits));
    Ok(())
}
