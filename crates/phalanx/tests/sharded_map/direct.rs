//! Kernels that write messages, and collect the answers: launched by themselves, with any number of blocks.
use phalanx::{Device, Result};
use phalanx_kernels::sharded::direct::{
    COUNTER_WORDS, Received, SEND_THREADS, SENT_BY_BLOCK, ShardedReceive, ShardedSend, Windows,
    words_of_places,
};
use phalanx_kernels::sharded::{Pair, owner_of, values_at};

/// Bytes from the message of an owner to that of the next, and of the answers.
const STRIDE: usize = 1 << 17;

/// Returns the value that belongs to a key.
fn value_of(key: u32) -> u64 {
    u64::from(key) * 3 + 1
}

/// Checks that the messages have each key once, with its value, at its owner. Returns the answers: the value,
/// and the low byte of the key as an outcome.
fn answers_to(keys: &[u32], messages: &[u8], counts: &[usize], room: usize) -> Vec<u8> {
    let (mut answers, mut all) = (vec![0u8; counts.len() * STRIDE], Vec::new());
    for (owner, &count) in counts.iter().enumerate() {
        for index in 0..count {
            let word = |at: usize, bytes: usize| &messages[owner * STRIDE + at + index * bytes..][..bytes];
            let key = u32::from_le_bytes(word(0, 4).try_into().unwrap());
            let value = u64::from_le_bytes(word(values_at(room, 4), 8).try_into().unwrap());
            assert_eq!((owner_of(key, counts.len() as u32) as usize, value), (owner, value_of(key)));
            answers[owner * STRIDE + index * 8..][..8].copy_from_slice(&value.to_le_bytes());
            answers[owner * STRIDE + room * 8 + index] = key as u8;
            all.push(key);
        }
    }
    let mut expected = keys.to_vec();
    all.sort_unstable();
    expected.sort_unstable();
    assert_eq!(all, expected, "{} owners, {} elements", counts.len(), keys.len());
    answers
}

/// Sends `len` elements to `owners` owners by some blocks, checks all messages, answers each element with its
/// value and a part of its key, and collects the answers.
fn check(owners: usize, len: usize, blocks: usize) -> Result<()> {
    let device = Device::emulator(Default::default());
    let room = len.next_multiple_of(16);
    let keys: Vec<u32> = (0..len as u32).map(|number| number.wrapping_mul(0x9e37_79b9)).collect();
    let values: Vec<u64> = keys.iter().copied().map(value_of).collect();
    let (sent, arguments) = (device.from_slice(&keys)?, device.from_slice(&values)?);
    let mut messages = device.zeroed::<u64>(owners * STRIDE / 8)?;
    let begin = messages.global().as_ptr().expose_provenance();
    let addresses: Vec<u64> = (0..owners).map(|owner| (begin + owner * STRIDE) as u64).collect();
    let (addresses, counters) =
        (device.from_slice(&addresses)?, device.zeroed::<u32>(owners * COUNTER_WORDS)?);
    let places = device.zeroed::<u32>(words_of_places(len, owners))?;
    let stream = device.stream()?;
    let kernel = ShardedSend::<Pair<u32, u64>> {
        keys: sent.global(),
        values: arguments.global(),
        windows: Windows {
            owners: owners as u32,
            room: room as u32,
            messages: addresses.global(),
            counters: counters.global(),
        },
        places: places.global(),
    };
    // SAFETY: the buffers outlive the launch; messages have room for all elements, and so have the places.
    unsafe { stream.launch(gpu::Grid::new(blocks as u32, SEND_THREADS), kernel)? };
    let counts: Vec<usize> =
        counters.read()?.iter().step_by(COUNTER_WORDS).map(|&count| count as usize).collect();
    let answers = answers_to(&keys, bytemuck::cast_slice(&messages.read()?), &counts, room);
    messages.write(bytemuck::cast_slice(&answers))?;
    let (results, outcomes) = (device.zeroed::<u64>(len)?, device.zeroed::<u8>(len)?);
    let bytes = messages.slice(..)?.cast::<u8>()?.global();
    let kernel = ShardedReceive::<Pair<u32, u64>> {
        answers: Received {
            owners: owners as u32,
            room: room as u32,
            stride: STRIDE,
            values: messages.global(),
            outcomes: bytes,
        },
        places: places.global(),
        len,
        results: results.global(),
        outcomes: outcomes.global(),
    };
    let grid = gpu::Grid::new(len.div_ceil(SENT_BY_BLOCK) as u32, SEND_THREADS);
    // SAFETY: as above.
    unsafe { stream.launch(grid, kernel)? };
    assert_eq!(results.read()?, values, "{owners} owners, {len} elements");
    let low: Vec<u8> = keys.iter().map(|&key| key as u8).collect();
    assert_eq!(outcomes.read()?, low);
    Ok(())
}

#[test]
fn each_element_is_sent_once_and_gets_its_answer() -> Result<()> {
    for owners in [1, 2, 3, 5, 32] {
        for len in [1usize, 31, 1023, 1024, 1025, 5000] {
            for blocks in [1, 2, len.div_ceil(SENT_BY_BLOCK)] {
                check(owners, len, blocks)?;
            }
        }
    }
    Ok(())
}
