//! Small batches: messages of fixed size, whose counts stay on the device. The host waits for no device; it
//! only compares the header of the operation with the other ranks.
use super::engine::Engine;
use super::shape::Shape;
use super::work::{answer_stride, bytes_of, words, words_at};
use crate::Result;
use crate::map::encoding::Word;
use crate::map::launch::{Batch, THREADS};
use crate::map::structure::Structure;
use exchange::{Lane, Transfer};
use gpu::Grid;
use phalanx_kernels::sharded::Pair;
use phalanx_kernels::sharded::kernels::Answers;
use phalanx_kernels::sharded::small::{Fixed, HEADER, ShardedCollect, ShardedRoute};
use simt::{BoundedSlice, GlobalSlice};

/// Most elements of a small batch. For more, the wait for the counts takes little of the time.
pub const MOST: usize = 1 << 14;

/// Room of messages is a multiple of this number.
const STEP: usize = 16;

/// A small batch on its way.
struct Small<'a, K, V> {
    shard: &'a dyn Structure<Key = K, Value = V>,
    shape: &'a Shape,
    fixed: Fixed,
}

impl<K: Word, V: Word> Engine<K, V> {
    /// Returns the sizes of messages for batches of up to `longest` elements, unless they are too large. All
    /// ranks get the same answer.
    pub fn fixed(&self, longest: usize, shape: &Shape) -> Option<Fixed> {
        let fixed = Fixed::new(self.geometry.ranks, longest.next_multiple_of(STEP), shape.sent);
        let (room, part) = (fixed.room as usize, self.exchange.limits().part_bytes);
        let fits = room <= MOST && room <= self.geometry.room() && fixed.stride <= part;
        (fits && self.has_room(&fixed)).then_some(fixed)
    }

    /// Returns whether the buffers of this rank have room for messages.
    pub fn has_room(&self, fixed: &Fixed) -> bool {
        let bytes = fixed.owners as usize * fixed.stride;
        bytes <= self.work.send[0].byte_len() && fixed.room as usize <= self.geometry.most_chunk()
    }

    /// Runs a small batch: the own elements while those of the others arrive.
    pub fn run_small(
        &mut self,
        shard: &dyn Structure<Key = K, Value = V>,
        (shape, batch): (&Shape, &Batch<K, V>),
        fixed: Fixed,
    ) -> Result<()> {
        let (rank, ranks) = (self.geometry.rank, self.geometry.ranks);
        let small = Small { shard, shape, fixed };
        self.route(batch, &fixed)?;
        let requests = self.move_fixed(Lane::Even, (fixed.stride, fixed.stride))?;
        self.probe_small(&small, rank)?;
        requests.map_or(Ok(()), |moving| self.exchange.arrive(moving))?;
        let mut others = (0..ranks).filter(|&from| from != rank);
        others.try_for_each(|from| self.probe_small(&small, from))?;
        if !shape.has_answers {
            return Ok(());
        }
        let bytes = shape.answer_bytes(fixed.room as usize);
        let answers =
            self.move_fixed(Lane::Answer, (bytes, answer_stride(&self.geometry, size_of::<V>())))?;
        answers.map_or(Ok(()), |moving| self.exchange.arrive(moving))?;
        self.collect_small(batch, &fixed)
    }

    /// Submits the way of a batch into messages.
    pub fn route(&self, batch: &Batch<K, V>, fixed: &Fixed) -> Result<()> {
        let (stream, send, keys) = (self.exchange.stream(), &self.work.send[0], batch.keys.words());
        let bytes = words::<u8>(send).part(0, fixed.owners as usize * fixed.stride);
        // SAFETY: the buffers live until the stream has executed the fill and the launch. What used the
        // messages before has ended: the stream has waited for it.
        unsafe { stream.fill(bytes, 0)? };
        let kernel = ShardedRoute::<Pair<K, V>> {
            keys,
            values: batch.arguments,
            fixed: *fixed,
            counts: words(send),
            keys_to: words(send),
            values_to: words(send),
            places: self.work.places.global(),
        };
        // SAFETY: as above. The messages have room for all elements, and there is a place for each.
        unsafe { Ok(stream.launch(Grid::for_items(keys.len().next_multiple_of(32), THREADS), kernel)?) }
    }

    /// Begins to move messages or answers of fixed size to the other ranks, if there are any.
    fn move_fixed(&mut self, lane: Lane, (bytes, stride): (usize, usize)) -> Result<Option<Transfer>> {
        let (rank, ranks) = (self.geometry.rank, self.geometry.ranks);
        if ranks == 1 {
            return Ok(None);
        }
        let is_answer = lane == Lane::Answer;
        let from = bytes_of(if is_answer { &self.work.answers[0] } else { &self.work.send[0] })?;
        let lens: Vec<_> = (0..ranks).map(|other| if other == rank { 0 } else { bytes }).collect();
        let piece = |(to, len): (usize, &usize)| from.slice(to * stride..to * stride + len);
        let sends = lens.iter().enumerate().map(piece).collect::<gpu::Result<_>>()?;
        Ok(Some(self.exchange.move_pieces(lane, is_answer.into(), sends, lens)?))
    }

    /// Submits the operations of the elements from a rank.
    fn probe_small(&self, small: &Small<'_, K, V>, from: usize) -> Result<()> {
        let stride = small.fixed.stride;
        let message = match from == self.geometry.rank {
            true => words::<u8>(&self.work.send[0]).part(from * stride, stride),
            false => {
                let part = self.exchange.limits().part_bytes;
                self.exchange.window(Lane::Even)?.global().part(from * part, stride)
            }
        };
        let answers = match from == self.geometry.rank {
            true => words(&self.work.own[0]),
            false => {
                let stride = answer_stride(&self.geometry, size_of::<V>());
                words::<u8>(&self.work.answers[0]).part(from * stride, usize::MAX)
            }
        };
        small
            .shard
            .submit_in_order(self.exchange.stream(), batch_of(small.shape, &small.fixed, message, answers))
    }

    /// Submits the way of the answers into the order of the batch.
    fn collect_small(&self, batch: &Batch<K, V>, fixed: &Fixed) -> Result<()> {
        let answers = self.answers_of(0)?;
        self.collect(batch, fixed, (self.geometry.rank as u32, answers))
    }

    /// Submits [`ShardedCollect`]. `own` is the rank with own answers.
    pub fn collect(
        &self,
        batch: &Batch<K, V>,
        fixed: &Fixed,
        (own, answers): (u32, Answers<V>),
    ) -> Result<()> {
        let len = batch.keys.max_len();
        let kernel = ShardedCollect::<Pair<K, V>> {
            places: self.work.places.global().part(0, len),
            room: fixed.room,
            own,
            answers,
            results: batch.results,
            outcomes: batch.outcomes,
        };
        // SAFETY: the buffers live until the stream has executed the launch. The places were written before,
        // and the answers have arrived.
        unsafe { Ok(self.exchange.stream().launch(Grid::for_items(len, THREADS), kernel)?) }
    }
}

/// Returns the batch of a message, whose count bounds it on the device.
pub fn batch_of<K: Word, V: Word>(
    shape: &Shape,
    fixed: &Fixed,
    message: GlobalSlice<u8>,
    answers: GlobalSlice<u8>,
) -> Batch<K, V> {
    let room = fixed.room as usize;
    let keys = BoundedSlice::new(words_at(message, HEADER, room), words_at(message, 0, 1));
    shape.batch_of(keys, (message.part(HEADER, usize::MAX), room), answers)
}
