//! One batch in device memory, and the check of its answers.
use super::subject::Element;
use super::universe::{OWNERS, Universe};
use super::verb::{Model, State, Verb, apply};
use anyhow::{Result, ensure};
use gpu::{Buffer, Device};
use phalanx::Outcome;

/// Keys that a range spans.
pub const SPAN: u32 = 12;

/// A batch of one owner: buffers that are used anew in each round.
pub struct Batch<T> {
    /// What is asked.
    pub verb: Verb,
    owner: usize,
    numbers: Vec<u32>,
    arguments: Vec<u64>,
    /// The keys.
    pub keys: Buffer<T>,
    /// The arguments.
    pub values: Buffer<T>,
    /// The codes of operations, for [`Verb::Execute`].
    pub codes: Buffer<u8>,
    /// Takes values.
    pub results: Buffer<T>,
    /// Takes outcomes.
    pub outcomes: Buffer<u8>,
    /// Takes keys, where the order of keys is asked for.
    pub found: Buffer<T>,
    /// The upper ends of ranges.
    pub highs: Buffer<T>,
    /// Takes the number of pairs in each range.
    pub counts: Buffer<u64>,
    /// Takes the numbers of values.
    pub many: Buffer<u32>,
}

/// The keys of one owner, as the operations up to now have left them.
pub struct Owned {
    owner: usize,
    states: Vec<State>,
}

impl Owned {
    /// No key is there.
    pub fn new(owner: usize, keys: usize) -> Self {
        Self { owner, states: vec![None; keys.div_ceil(OWNERS)] }
    }

    /// What is known of key `number`, which the owner has.
    pub fn state(&mut self, number: usize) -> &mut State {
        debug_assert_eq!(number % OWNERS, self.owner);
        &mut self.states[number / OWNERS]
    }

    /// What is known of key `number`, if the owner has it.
    fn known(&self, number: usize) -> Option<State> {
        (number % OWNERS == self.owner).then(|| self.states[number / OWNERS])
    }

    /// All keys are gone.
    pub fn clear(&mut self) {
        self.states.fill(None);
    }

    /// The keys that are there, by number, and their states.
    pub fn present(&self) -> impl Iterator<Item = (usize, u64)> {
        let number = |index: usize| index * OWNERS + self.owner;
        self.states.iter().enumerate().filter_map(move |(index, state)| Some((number(index), (*state)?)))
    }
}

impl<T: Element> Batch<T> {
    /// A batch of these keys of an owner; `salt` makes its arguments differ from those of other batches.
    ///
    /// # Errors
    /// The device's.
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

    /// Elements.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Makes answers that are not written be seen.
    ///
    /// # Errors
    /// The device's.
    pub fn poison(&mut self) -> Result<()> {
        self.outcomes.fill_bytes(0xee)?;
        self.counts.fill_bytes(0xee)?;
        Ok(self.many.fill_bytes(0xee)?)
    }

    /// Checks all answers and brings the model up to date. Returns how many elements were refused, which
    /// only structures that need room for versions may do.
    ///
    /// # Errors
    /// The first answer that is wrong.
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

    /// Checks neighbours: none of the owner's keys that are there lies between a key and the answer, and if
    /// the answer is one of the owner's keys, that key is there.
    fn verify_next(&self, universe: &Universe<T>, owned: &Owned) -> Result<u64> {
        let (outcomes, found, up) = (self.outcomes.read()?, self.found.read()?, self.verb == Verb::Successor);
        let present: Vec<usize> = owned.present().map(|(number, _)| number).collect();
        for (index, &number) in self.numbers.iter().enumerate() {
            let (number, verb) = (number as usize, self.verb.name());
            let is_found = outcomes[index] == Outcome::Found as u8;
            ensure!(is_found || outcomes[index] == Outcome::Absent as u8, "outcome {}", outcomes[index]);
            let next = if is_found { universe.number(found[index]) } else { None };
            ensure!(!is_found || next.is_some(), "{verb} of key number {number} is no key");
            // The owner's keys that lie between.
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

    /// The numbers of the keys of a range.
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
