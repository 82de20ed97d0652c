//! Batch in device memory, and the check of its results.
use super::universe::{Element, OWNERS, Universe};
use super::verb::{Model, State, Verb, apply};
use anyhow::{Result, ensure};
use gpu::{Buffer, Device};
use phalanx::Outcome;

/// Number of keys in a range.
pub const SPAN: u32 = 12;

/// Batch of one owner. Its buffers are reused in each round.
pub struct Batch<T> {
    /// Operation of the batch.
    pub verb: Verb,
    owner: usize,
    numbers: Vec<u32>,
    arguments: Vec<u64>,
    /// Keys.
    pub keys: Buffer<T>,
    /// Arguments of the operations.
    pub values: Buffer<T>,
    /// Operation codes, for [`Verb::Execute`].
    pub codes: Buffer<u8>,
    /// Output: values.
    pub results: Buffer<T>,
    /// Output: outcomes.
    pub outcomes: Buffer<u8>,
    /// Output: keys, for operations on the order of keys.
    pub found: Buffer<T>,
    /// Upper ends of ranges.
    pub highs: Buffer<T>,
    /// Output: number of pairs in each range.
    pub counts: Buffer<u64>,
    /// Output: number of values of each key.
    pub many: Buffer<u32>,
}

/// Model of the keys of one owner, after all operations so far.
pub struct Owned {
    owner: usize,
    states: Vec<State>,
}

impl Owned {
    /// Creates a model in which no key is present.
    pub fn new(owner: usize, keys: usize) -> Self {
        Self { owner, states: vec![None; keys.div_ceil(OWNERS)] }
    }

    /// Returns the state of key `number`, which must belong to the owner.
    pub fn state(&mut self, number: usize) -> &mut State {
        debug_assert_eq!(number % OWNERS, self.owner);
        &mut self.states[number / OWNERS]
    }

    /// Returns the state of key `number`, if it belongs to the owner.
    fn known(&self, number: usize) -> Option<State> {
        (number % OWNERS == self.owner).then(|| self.states[number / OWNERS])
    }

    /// Marks all keys as absent.
    pub fn clear(&mut self) {
        self.states.fill(None);
    }

    /// Returns the numbers of the keys that are present, and their states.
    pub fn present(&self) -> impl Iterator<Item = (usize, u64)> {
        let number = |index: usize| index * OWNERS + self.owner;
        self.states.iter().enumerate().filter_map(move |(index, state)| Some((number(index), (*state)?)))
    }
}

impl<T: Element> Batch<T> {
    /// Creates a batch of these keys of an owner. `salt` distinguishes its arguments from those of other
    /// batches.
    ///
    /// # Errors
    /// Returns [`gpu::Error`] when the device fails or runs out of memory.
    pub fn new(
        device: &Device,
        universe: &Universe<T>,
        owner: usize,
        verb: Verb,
        (numbers, salt): (&[u32], u64),
    ) -> Result<Self> {
        let key = |number: u32| universe.keys()[number as usize];
        let len = numbers.len();
        let keys: Vec<T> = numbers.iter().map(|&number| key(number)).collect();
        let arguments: Vec<u64> = numbers.iter().map(|&number| u64::from(number) * 64 + salt % 64).collect();
        let values: Vec<T> = arguments.iter().map(|&argument| T::from_u64(argument)).collect();
        let codes: Vec<u8> = (0..len).map(|index| verb.operation(index).code() as u8).collect();
        let last = universe.keys().len() - 1;
        let high = |number: u32| universe.keys()[((number + SPAN) as usize - 1).min(last)];
        let highs: Vec<T> = numbers.iter().map(|&number| high(number)).collect();
        let spans = if verb == Verb::Range { SPAN as usize } else { 1 };
        Ok(Self {
            verb,
            owner,
            numbers: numbers.to_vec(),
            arguments,
            keys: device.from_slice(&keys)?,
            values: device.from_slice(&values)?,
            codes: device.from_slice(&codes)?,
            results: device.zeroed(len * spans)?,
            outcomes: device.filled(len, 0xee)?,
            found: device.zeroed(len * spans)?,
            highs: device.from_slice(&highs)?,
            counts: device.filled(len, 0xee)?,
            many: device.filled(len, 0xee)?,
        })
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns whether the batch has no elements.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Fills the outputs with invalid values, so that results that are never written are detected.
    ///
    /// # Errors
    /// Returns [`gpu::Error`] when the device fails.
    pub fn poison(&mut self) -> Result<()> {
        self.outcomes.fill_bytes(0xee)?;
        self.counts.fill_bytes(0xee)?;
        Ok(self.many.fill_bytes(0xee)?)
    }

    /// Checks all results and updates the model. Returns the number of refused elements. Only structures that
    /// need memory for versions may refuse elements.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] that describes the first wrong result.
    pub fn verify(
        &self,
        model: Model,
        universe: &Universe<T>,
        owned: &mut Owned,
        refuses: bool,
    ) -> Result<u64> {
        match (self.verb, model) {
            (Verb::Successor | Verb::Predecessor, _) => self.verify_next(universe, owned),
            (Verb::Count, _) => self.verify_count(universe, owned),
            (Verb::Range, _) => self.verify_range(universe, owned),
            (_, Model::Multi) => self.verify_multi(owned),
            _ => self.verify_operations(model, owned, refuses),
        }
    }

    fn verify_operations(&self, model: Model, owned: &mut Owned, refuses: bool) -> Result<u64> {
        let (outcomes, results, mut refused) = (self.outcomes.read()?, self.results.read()?, 0);
        let tells = model == Model::Map && matches!(self.verb, Verb::Get | Verb::GetOrInsert | Verb::Execute);
        let mask = u64::MAX >> (64 - <T as workloads::Key>::BITS);
        for (index, &number) in self.numbers.iter().enumerate() {
            let state = owned.state(number as usize);
            let before = *state;
            let found = Outcome::from_code(outcomes[index]);
            if refuses && found == Some(Outcome::Refused) {
                refused += 1;
                continue;
            }
            let (operation, argument) = (self.verb.operation(index), self.arguments[index]);
            let (outcome, value) = apply(operation, argument, mask, state);
            ensure!(
                found == Some(outcome),
                "{:?} of key number {number} of stream {}, whose value was {before:?}: {} ({found:?}) in \
                 place of {outcome:?}",
                operation,
                self.owner,
                outcomes[index]
            );
            let told = value.filter(|_| tells && outcome != Outcome::Inserted);
            let result = results[index].to_u64();
            ensure!(
                told.is_none_or(|value| value == result),
                "key number {number}: value {result}, not {told:?}"
            );
        }
        Ok(refused)
    }

    fn verify_multi(&self, owned: &mut Owned) -> Result<u64> {
        let (outcomes, many) = (self.outcomes.read()?, self.many.read()?);
        for (index, &number) in self.numbers.iter().enumerate() {
            let state = owned.state(number as usize);
            let before = state.unwrap_or(0);
            let (answer, expected, after) = match self.verb {
                Verb::Insert => (u64::from(outcomes[index]), Outcome::Inserted as u64, before + 1),
                Verb::RemoveOne if before == 0 => (u64::from(outcomes[index]), Outcome::Absent as u64, 0),
                Verb::RemoveOne => (u64::from(outcomes[index]), Outcome::Removed as u64, before - 1),
                Verb::RemoveAll => (u64::from(many[index]), before, 0),
                _ => (u64::from(many[index]), before, before),
            };
            ensure!(
                answer == expected,
                "{} of key number {number}, which had {before} values: {answer}, not {expected}",
                self.verb.name()
            );
            *state = (after > 0).then_some(after);
        }
        Ok(0)
    }

    /// Checks neighbours: no present key of the owner lies between a key and its result, and if the result is
    /// one of the owner's keys, that key is present.
    fn verify_next(&self, universe: &Universe<T>, owned: &Owned) -> Result<u64> {
        let (outcomes, found, up) = (self.outcomes.read()?, self.found.read()?, self.verb == Verb::Successor);
        let (present, verb): (Vec<usize>, _) =
            (owned.present().map(|(number, _)| number).collect(), self.verb.name());
        for (index, &number) in self.numbers.iter().enumerate() {
            let number = number as usize;
            let is_found = outcomes[index] == Outcome::Found as u8;
            ensure!(is_found || outcomes[index] == Outcome::Absent as u8, "outcome {}", outcomes[index]);
            let next = if is_found { universe.number(found[index]) } else { None };
            ensure!(!is_found || next.is_some(), "{verb} of key number {number} is no key");
            // The owner's keys between the key and its neighbour.
            let (low, high) = match (up, next) {
                (true, next) => (number + 1, next.unwrap_or(universe.keys().len())),
                (false, next) => (next.map_or(0, |next| next + 1), number),
            };
            ensure!(low <= high, "{verb} of key number {number} is {next:?}");
            let passed = present[present.partition_point(|&at| at < low)..].first();
            ensure!(
                passed.is_none_or(|&at| at >= high),
                "{verb} of key number {number}: {next:?}, not {passed:?}"
            );
            let own = next.and_then(|next| owned.known(next));
            ensure!(own != Some(None), "{verb} of key number {number}: {next:?} is not there");
        }
        Ok(0)
    }

    /// Returns the numbers of the keys in a range.
    fn span(&self, universe: &Universe<T>, number: u32) -> std::ops::Range<usize> {
        number as usize..((number + SPAN) as usize).min(universe.keys().len())
    }

    fn verify_count(&self, universe: &Universe<T>, owned: &Owned) -> Result<u64> {
        let counts = self.counts.read()?;
        for (&number, count) in self.numbers.iter().zip(counts) {
            let span = self.span(universe, number);
            let own = span.clone().filter(|&at| owned.known(at).flatten().is_some()).count();
            let others = span.filter(|&at| owned.known(at).is_none()).count();
            let bounds = own as u64..=(own + others) as u64;
            ensure!(bounds.contains(&count), "range from key number {number}: {count} pairs, not {bounds:?}");
        }
        Ok(0)
    }

    fn verify_range(&self, universe: &Universe<T>, owned: &Owned) -> Result<u64> {
        let (counts, found, values) = (self.counts.read()?, self.found.read()?, self.results.read()?);
        for (index, (&number, count)) in self.numbers.iter().zip(counts).enumerate() {
            ensure!(count <= u64::from(SPAN), "range from key number {number}: {count} pairs");
            let first = index * SPAN as usize;
            let place = first..first + count as usize;
            let mut at = number as usize;
            let span = self.span(universe, number);
            for (key, value) in found[place.clone()].iter().zip(&values[place]) {
                let rest = at.min(span.end)..span.end;
                let next = rest.clone().find(|&at| universe.keys()[at] == *key);
                let next =
                    next.ok_or_else(|| anyhow::anyhow!("range from key number {number}: a strange key"))?;
                let passed = (at..next).find(|&at| owned.known(at).flatten().is_some());
                ensure!(passed.is_none(), "range from key number {number} lacks {passed:?}");
                let own = owned.known(next);
                ensure!(
                    own.is_none_or(|state| state == Some(value.to_u64())),
                    "range from key number {number}: {next} has {}, not {own:?}",
                    value.to_u64()
                );
                at = next + 1;
            }
            let passed = (at..span.end).find(|&at| owned.known(at).flatten().is_some());
            ensure!(passed.is_none(), "range from key number {number} lacks {passed:?} at its end");
        }
        Ok(0)
    }
}
