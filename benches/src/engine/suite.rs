//! Suite files: measurements as data.
//!
//! ```toml
//! title = "Hash map: throughput over load factor"
//! structure = "HashMap"
//! variants = ["default"]           # names of the structure's variants; absent: all of them
//! ops = ["insert", "find_hit", "find_miss"]
//! key_bits = [32]
//! value_bits = [32]
//! seeds = [1]
//!
//! [gpu]                            # sizes on a GPU
//! n = [67108864]
//! warmup = 2
//! reps = 11
//!
//! [emulator]                       # sizes on the emulator: enough to execute every line
//! n = [2048]
//! warmup = 0
//! reps = 2
//!
//! [params]                         # every combination is a case
//! load_factor = [0.5, 0.8, 0.95]
//!
//! [limit]                          # machine limit that bounds an operation; it may depend on n
//! insert = "cas8"
//! find_hit = [{ up_to = 1048576, name = "line128_l2" }, { name = "line128" }]
//!
//! [expect]                         # fraction of operations that must succeed (insert or find something)
//! find_hit = 1.0
//! find_miss = 0.0
//!
//! [figure]                         # each operation has a figure; `plots` combines operations, or shows
//! x = "load_factor"                # other fields
//!
//! [[against]]                      # a table of ratios to the records with these parameters
//! params = { placement = "remote" }
//! ops = ["insert"]                 # absent: all
//! paper = "2 to 9 times, against managed memory"
//!
//! [[also]]                         # further cases: these fields replace those above; limits and expected
//!                                  # fractions of their operations may also stand above
//! structure = "SlabHash"
//! ops = ["insert"]
//! limit.insert = "line128"
//! ```
use super::record::{Param, Params};
use itertools::{Itertools, iproduct};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Suite file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// Name of the suite: `family/name`, from the file's path.
    #[serde(skip)]
    pub name: String,
    /// Title of one line.
    pub title: String,
    /// Source of the suite, and remarks on its results.
    #[serde(default)]
    pub about: String,
    /// Measured structure.
    pub structure: String,
    /// Measured variants; if empty, all variants of the structure.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Timed operations.
    pub ops: Vec<String>,
    /// Widths of keys.
    #[serde(default = "words")]
    pub key_bits: Vec<u32>,
    /// Widths of values.
    #[serde(default = "words")]
    pub value_bits: Vec<u32>,
    /// Seeds of inputs.
    #[serde(default = "one")]
    pub seeds: Vec<u64>,
    /// Sizes on a GPU.
    pub gpu: Sizes,
    /// Sizes on the emulator.
    pub emulator: Sizes,
    /// Parameters and their values.
    #[serde(default)]
    pub params: BTreeMap<String, Vec<Param>>,
    /// Limit that bounds each operation, for all parts that do not state their own limits.
    #[serde(default)]
    pub limit: BTreeMap<String, Limit>,
    /// Fraction of an operation's calls that must succeed, for all parts that do not state their own.
    #[serde(default)]
    pub expect: BTreeMap<String, f64>,
    /// Figure settings.
    #[serde(default)]
    pub figure: Figure,
    /// Baselines to which ratios are shown.
    #[serde(default)]
    pub against: Vec<Against>,
    /// Further cases: other structures for comparison, other sizes, other widths.
    #[serde(default)]
    pub also: Vec<Also>,
}

/// Baseline of a suite: other records of the same suite, operation and size.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Against {
    /// Parameters that the baseline's records have, and those of other records lack. Their other parameters
    /// are equal.
    pub params: BTreeMap<String, Param>,
    /// Compared operations; if empty, all.
    #[serde(default)]
    pub ops: Vec<String>,
    /// Ratios of the paper, with the baseline to which they refer.
    pub paper: String,
}

/// Fields of further cases that replace those of the suite.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Also {
    structure: Option<String>,
    variants: Option<Vec<String>>,
    ops: Option<Vec<String>>,
    key_bits: Option<Vec<u32>>,
    value_bits: Option<Vec<u32>>,
    gpu: Option<Sizes>,
    emulator: Option<Sizes>,
    params: Option<BTreeMap<String, Vec<Param>>>,
    limit: Option<BTreeMap<String, Limit>>,
    expect: Option<BTreeMap<String, f64>>,
}

impl Also {
    /// Returns the suite with these fields replaced. Limits and expected shares that are not set here are
    /// inherited for the operations of the further cases.
    fn within(&self, suite: &Suite) -> Suite {
        fn or<T: Clone>(own: &Option<T>, other: &T) -> T {
            own.as_ref().unwrap_or(other).clone()
        }
        let ops = or(&self.ops, &suite.ops);
        Suite {
            structure: or(&self.structure, &suite.structure),
            variants: or(&self.variants, &suite.variants),
            key_bits: or(&self.key_bits, &suite.key_bits),
            value_bits: or(&self.value_bits, &suite.value_bits),
            gpu: or(&self.gpu, &suite.gpu),
            emulator: or(&self.emulator, &suite.emulator),
            params: or(&self.params, &suite.params),
            limit: self.limit.clone().unwrap_or_else(|| of_ops(&suite.limit, &ops)),
            expect: self.expect.clone().unwrap_or_else(|| of_ops(&suite.expect, &ops)),
            ops,
            also: Vec::new(),
            ..suite.clone()
        }
    }
}

fn of_ops<T: Clone>(map: &BTreeMap<String, T>, ops: &[String]) -> BTreeMap<String, T> {
    map.iter().filter(|(op, _)| ops.contains(op)).map(|(op, value)| (op.clone(), value.clone())).collect()
}

/// Machine limit that bounds an operation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Limit {
    /// For all sizes.
    Always(String),
    /// Steps in ascending order: the first one that includes the size holds.
    BySize(Vec<LimitStep>),
}

/// Limit up to a size.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitStep {
    name: String,
    /// Largest size; `None` stands for all sizes.
    up_to: Option<u64>,
}

impl Limit {
    /// Returns the name of the limit for a size, if there is one.
    fn at(&self, n: u64) -> Option<&str> {
        match self {
            Self::Always(name) => Some(name),
            Self::BySize(steps) => {
                let step = steps.iter().find(|step| step.up_to.is_none_or(|most| n <= most));
                step.map(|step| step.name.as_str())
            }
        }
    }

    /// Returns whether each step applies to some size.
    fn is_ascending(&self) -> bool {
        let Self::BySize(steps) = self else { return true };
        let most = |step: &LimitStep| step.up_to.unwrap_or(u64::MAX);
        !steps.is_empty() && steps.is_sorted_by(|a, b| most(a) < most(b))
    }
}

/// Sizes and repetitions.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sizes {
    /// Sizes. Each is a case.
    pub n: Vec<u64>,
    /// Number of repetitions before the timed ones.
    pub warmup: u32,
    /// Number of timed repetitions.
    pub reps: u32,
    /// Values that replace those of the suite's `params`.
    #[serde(default)]
    pub params: BTreeMap<String, Vec<Param>>,
}

/// Figure settings of a suite.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Parameter on the horizontal axis (or `n`); `None` draws bars.
    pub x: Option<String>,
    /// Whether the horizontal axis is logarithmic.
    #[serde(default)]
    pub log_x: bool,
    /// Whether the vertical axis is logarithmic.
    #[serde(default)]
    pub log_y: bool,
    /// Comparisons with a figure each. Each operation that is in none of them has a figure of its own.
    #[serde(default)]
    pub plots: Vec<Plot>,
}

/// Question that a suite answers by one figure: the records and their field.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Title of the figure.
    pub title: String,
    /// Operations; if empty, all of the suite.
    #[serde(default)]
    pub ops: Vec<String>,
    /// Field of the records: `mops`, `median_ms`, `gb_s`, `lines` (their sum), `overhead`, `epochs` (a figure
    /// over the epochs of each record), or a name in `counted`.
    #[serde(default = "mops")]
    pub y: String,
}

impl Plot {
    /// Returns the plot of the rate of one operation.
    pub fn of_op(op: &str) -> Self {
        Self { title: op.to_owned(), ops: vec![op.to_owned()], y: mops() }
    }

    /// Returns whether an operation is among those of the plot.
    pub fn includes(&self, op: &str) -> bool {
        self.ops.is_empty() || self.ops.iter().any(|asked| asked == op)
    }
}

fn mops() -> String {
    "mops".to_owned()
}

fn words() -> Vec<u32> {
    vec![32]
}

fn one() -> Vec<u64> {
    vec![1]
}

/// Error in a suite file or in the selection of suites.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file is not a suite. The message contains the line and what was expected there.
    #[error("suite {suite}: {message}")]
    Syntax {
        /// Name of the suite.
        suite: String,
        /// Message of the parser.
        message: String,
    },
    /// A field has an invalid value.
    #[error("suite {suite}: `{field}` {problem}")]
    Invalid {
        /// Name of the suite.
        suite: String,
        /// Name of the field.
        field: String,
        /// Description of the problem.
        problem: String,
    },
    /// No suite has this name.
    #[error(
        "there is no suite '{asked}'; there are: {known}; a suite of your own is a file whose name ends in \
         .toml"
    )]
    Unknown {
        /// Requested name.
        asked: String,
        /// Existing names.
        known: String,
    },
    /// The file of a suite cannot be read.
    #[error("the suite in '{file}' cannot be read; is the path right? {source}")]
    Unreadable {
        /// Path of the file.
        file: String,
        /// Cause.
        source: std::io::Error,
    },
}

/// Single measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Name of the suite.
    pub suite: String,
    /// Name of the structure.
    pub structure: String,
    /// Name of the variant.
    pub variant: String,
    /// Timed operation.
    pub op: String,
    /// Bits per key.
    pub key_bits: u32,
    /// Bits per value.
    pub value_bits: u32,
    /// Size.
    pub n: u64,
    /// Values of the parameters.
    pub params: Params,
    /// Seed of the input.
    pub seed: u64,
    /// Number of repetitions before the timed ones.
    pub warmup: u32,
    /// Number of timed repetitions.
    pub reps: u32,
    /// Limit that bounds the operation.
    pub limit: Option<String>,
    /// Fraction of the operations that must succeed.
    pub expected_share: Option<f64>,
}

impl Case {
    /// Returns a required numeric parameter.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] when the parameter is missing or is text.
    pub fn number(&self, name: &str) -> Result<f64, Error> {
        self.param(name)?.number().ok_or_else(|| self.invalid(name, "must be a number".to_owned()))
    }

    /// Returns an optional numeric parameter.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] when the parameter is text.
    pub fn number_if_given(&self, name: &str) -> Result<Option<f64>, Error> {
        if self.params.contains_key(name) { self.number(name).map(Some) } else { Ok(None) }
    }

    /// Returns a required parameter as text.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] when the parameter is missing.
    pub fn text(&self, name: &str) -> Result<String, Error> {
        self.param(name).map(Param::to_string)
    }

    /// Returns the value of the choice that a parameter names. The first choice is the default.
    ///
    /// # Errors
    /// Returns [`Error::Invalid`] when the parameter names no choice.
    pub fn choice<T: Copy>(&self, name: &str, choices: &[(&str, T)]) -> Result<T, Error> {
        let Some(param) = self.params.get(name) else { return Ok(choices[0].1) };
        let named = choices.iter().find(|(choice, _)| *choice == param.to_string());
        let known = choices.iter().map(|(choice, _)| format!("'{choice}'")).join(" or ");
        let problem = || self.invalid(name, format!("is '{param}'; it can be {known}"));
        named.map(|(_, value)| *value).ok_or_else(problem)
    }

    fn param(&self, name: &str) -> Result<&Param, Error> {
        let problem = || self.invalid(name, "is missing; the structure needs it".to_owned());
        self.params.get(name).ok_or_else(problem)
    }

    fn invalid(&self, name: &str, problem: String) -> Error {
        Error::Invalid { suite: self.suite.clone(), field: format!("params.{name}"), problem }
    }
}

/// Selection of a suite's sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Whether to use the sizes of the emulator instead of those of the GPU.
    pub emulator: bool,
    /// Whether to use only the first value of every list, and at most three repetitions.
    pub quick: bool,
    /// Number of timed repetitions, instead of the suite's.
    pub reps: Option<u32>,
}

impl Selection {
    /// Returns the selected values of a list.
    fn of<T>(self, values: &[T]) -> &[T] {
        if self.quick { &values[..values.len().min(1)] } else { values }
    }
}

impl Suite {
    /// Parses a suite.
    ///
    /// # Errors
    /// Returns [`Error::Syntax`], with the line, when the text is not a suite, and [`Error::Invalid`] for an
    /// empty list or an operation that is not among `ops`.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let suite: Self = toml::from_str(text)
            .map_err(|error| Error::Syntax { suite: name.to_owned(), message: error.to_string() })?;
        let suite = Self { name: name.to_owned(), ..suite };
        suite.check_names()?;
        suite.parts().iter().try_for_each(Self::check)?;
        Ok(suite)
    }

    /// Returns the suite itself and its further cases, as suites of the same name.
    pub fn parts(&self) -> Vec<Self> {
        let own = Also::default().within(self);
        std::iter::once(own).chain(self.also.iter().map(|also| also.within(self))).collect()
    }

    /// Checks that every operation with a limit or an expected share belongs to some part.
    fn check_names(&self) -> Result<(), Error> {
        let further = self.also.iter().filter_map(|also| also.ops.as_ref());
        let ops: Vec<&String> = further.chain([&self.ops]).flatten().collect();
        self.check_ops(|op| ops.contains(&op))?;
        let plots = self.figure.plots.iter().flat_map(|plot| &plot.ops).map(|op| ("figure.plots", op));
        let against = self.against.iter().flat_map(|against| &against.ops).map(|op| ("against", op));
        let unknown = plots.chain(against).find(|(_, op)| !ops.contains(op));
        let problem = |op: &String| format!("names the operation '{op}', which no part has");
        unknown.map_or(Ok(()), |(place, op)| self.fail_at(Some(place.to_owned()), &problem(op)))
    }

    fn check(&self) -> Result<(), Error> {
        let lists = [
            ("ops", self.ops.is_empty()),
            ("key_bits", self.key_bits.is_empty()),
            ("value_bits", self.value_bits.is_empty()),
            ("seeds", self.seeds.is_empty()),
            ("gpu.n", self.gpu.n.is_empty()),
            ("emulator.n", self.emulator.n.is_empty()),
        ];
        let params = self.params.iter().map(|(name, values)| (format!("params.{name}"), values.is_empty()));
        let mut lists = lists.map(|(field, empty)| (field.to_owned(), empty)).into_iter().chain(params);
        self.fail_at(lists.find(|(_, empty)| *empty).map(|(field, _)| field), "must not be empty")?;
        let is_zero = self.gpu.reps == 0 || self.emulator.reps == 0;
        self.fail_at(is_zero.then(|| "reps".to_owned()), "must be at least 1")?;
        self.check_ops(|op| self.ops.contains(op))
    }

    fn check_ops(&self, known: impl Fn(&String) -> bool) -> Result<(), Error> {
        let limit = |op: &String| format!("limit.{op}");
        let expect = |op: &String| format!("expect.{op}");
        let is_unknown = |op: &&String| !known(op);
        let unlimited = self.limit.keys().find(is_unknown).map(limit);
        let unknown = unlimited.or_else(|| self.expect.keys().find(is_unknown).map(expect));
        self.fail_at(unknown, "names an operation that is not in `ops`")?;
        let unordered = self.limit.iter().find(|(_, limit)| !limit.is_ascending());
        self.fail_at(unordered.map(|(op, _)| limit(op)), "must list steps with ascending `up_to`")?;
        let bad = self.expect.iter().find(|(_, share)| !(0.0..=1.0).contains(*share));
        self.fail_at(bad.map(|(op, _)| expect(op)), "must lie in 0..=1")
    }

    /// Fails if there is a field with the problem.
    fn fail_at(&self, field: Option<String>, problem: &str) -> Result<(), Error> {
        let (suite, problem) = (self.name.clone(), problem.to_owned());
        field.map_or(Ok(()), |field| Err(Error::Invalid { suite, field, problem }))
    }

    /// Returns all cases of a suite without further cases. Operations vary fastest. `variants` are all
    /// variants of the structure.
    pub fn cases(&self, selection: Selection, variants: &[String]) -> Vec<Case> {
        let sizes = if selection.emulator { &self.emulator } else { &self.gpu };
        let variants = if self.variants.is_empty() { variants } else { &self.variants };
        let (numbers, seeds) = (selection.of(&sizes.n), selection.of(&self.seeds));
        let (keys, values) = (selection.of(&self.key_bits), selection.of(&self.value_bits));
        let params = self.combinations(sizes, selection);
        let reps = selection.reps.unwrap_or(if selection.quick { sizes.reps.min(3) } else { sizes.reps });
        let case = |(variant, &n, &key_bits, &value_bits, &seed, params, op): Point<'_>| Case {
            suite: self.name.clone(),
            structure: self.structure.clone(),
            variant: variant.clone(),
            op: op.clone(),
            key_bits,
            value_bits,
            n,
            params: params.clone(),
            seed,
            warmup: sizes.warmup,
            reps: reps.max(1),
            limit: self.limit.get(op).and_then(|limit| limit.at(n)).map(str::to_owned),
            expected_share: self.expect.get(op).copied(),
        };
        iproduct!(variants, numbers, keys, values, seeds, &params, &self.ops).map(case).collect()
    }

    /// Returns all combinations of the parameters' values.
    fn combinations(&self, sizes: &Sizes, selection: Selection) -> Vec<Params> {
        let mut params = self.params.clone();
        params.extend(sizes.params.clone());
        let values = |(name, values): (&String, &Vec<Param>)| {
            let pair = |value: &Param| (name.clone(), value.clone());
            selection.of(values).iter().map(pair).collect::<Vec<_>>()
        };
        params.iter().map(values).multi_cartesian_product().map(Params::from_iter).collect()
    }
}

/// Variant, size, key bits, value bits, seed, parameters and operation of a case.
type Point<'a> = (&'a String, &'a u64, &'a u32, &'a u32, &'a u64, &'a Params, &'a String);

#[cfg(test)]
mod tests {
    use super::*;

    const SUITE: &str = r#"
title = "A suite"
structure = "Fake"
ops = ["insert", "find_hit"]
key_bits = [32, 64]

[gpu]
n = [100, 200]
warmup = 1
reps = 5

[emulator]
n = [10]
warmup = 0
reps = 1
params.load_factor = [0.5]

[params]
load_factor = [0.5, 0.9]
mode = ["a"]

[limit]
insert = "cas8"

[expect]
find_hit = 1.0
"#;

    const GPU: Selection = Selection { emulator: false, quick: false, reps: None };

    fn cases(selection: Selection) -> Vec<Case> {
        Suite::parse("family/name", SUITE).unwrap().cases(selection, &["only".to_owned()])
    }

    #[test]
    fn every_combination_is_a_case() {
        let cases = cases(GPU);
        assert_eq!(cases.len(), 2 * 2 * 2 * 2);
        assert_eq!((cases[0].op.as_str(), cases[1].op.as_str()), ("insert", "find_hit"));
        assert_eq!(cases[0].limit.as_deref(), Some("cas8"));
        assert_eq!((cases[1].limit.as_ref(), cases[1].expected_share), (None, Some(1.0)));
        assert_eq!(cases[0].text("mode").unwrap(), "a");
        assert_eq!(cases[0].number("load_factor").unwrap(), 0.5);
        assert!(cases[0].number("mode").unwrap_err().to_string().contains("must be a number"));
        assert!(cases[0].number("nothing").is_err());
    }

    #[test]
    fn selections_choose_sizes() {
        assert_eq!(cases(Selection { emulator: true, ..GPU }).len(), 4);
        let quick = cases(Selection { quick: true, ..GPU });
        assert_eq!((quick.len(), quick[0].reps), (2, 3));
        assert_eq!(cases(Selection { reps: Some(7), ..GPU })[0].reps, 7);
    }

    const ALSO: &str = r#"
[[also]]
structure = "Other"
ops = ["insert"]
limit.insert = "line128"

[[also]]
ops = ["find_hit"]
key_bits = [64]
params = {}
"#;

    #[test]
    fn further_cases_replace_what_they_name() {
        let suite = Suite::parse("family/name", &format!("{SUITE}{ALSO}")).unwrap();
        let parts = suite.parts();
        let cases: Vec<_> = parts.iter().map(|part| part.cases(GPU, &["only".to_owned()])).collect();
        assert_eq!(cases[0], self::cases(GPU));
        assert_eq!(cases[1].len(), 8);
        let case = &cases[1][0];
        assert_eq!((case.structure.as_str(), case.limit.as_deref()), ("Other", Some("line128")));
        assert_eq!(case.expected_share, None);
        assert_eq!(cases[2].len(), 2);
        let case = &cases[2][1];
        assert_eq!((case.structure.as_str(), case.key_bits, case.n), ("Fake", 64, 200));
        assert_eq!((case.limit.as_ref(), case.expected_share), (None, Some(1.0)));
        assert!(case.params.is_empty());
        let wrong = format!("{SUITE}{}", ALSO.replace("limit.insert", "limit.fly"));
        assert!(Suite::parse("family/name", &wrong).unwrap_err().to_string().contains("limit.fly"));
    }

    #[test]
    fn limits_and_shares_may_be_those_of_further_cases() {
        let also = "[[also]]\nops = [\"remove\"]\n";
        let suite = SUITE.replace("[expect]", "remove = \"cas8\"\n[expect]\nremove = 0.5");
        let parts = Suite::parse("family/name", &format!("{suite}{also}")).unwrap().parts();
        let case = &parts[1].cases(GPU, &["only".to_owned()])[0];
        assert_eq!((case.op.as_str(), case.limit.as_deref()), ("remove", Some("cas8")));
        assert_eq!(case.expected_share, Some(0.5));
        assert_eq!(parts[0].cases(GPU, &["only".to_owned()]), cases(GPU));
        let error = Suite::parse("family/name", &suite).unwrap_err().to_string();
        assert!(error.contains("limit.remove"), "{error}");
    }

    #[test]
    fn limits_may_depend_on_the_size() {
        let parse = |steps: &str| {
            Suite::parse("family/name", &SUITE.replace("insert = \"cas8\"", &format!("insert = {steps}")))
        };
        let limit = |steps: &str| -> Vec<Option<String>> {
            let cases = parse(steps).unwrap().cases(GPU, &["only".to_owned()]);
            let inserts = cases.into_iter().filter(|case| case.op == "insert" && case.n != 150);
            let mut limits: Vec<_> = inserts.map(|case| (case.n, case.limit)).collect();
            limits.sort();
            limits.dedup();
            limits.into_iter().map(|(_, limit)| limit).collect()
        };
        let [small, large] = ["small", "large"].map(|name| Some(name.to_owned()));
        let steps = "[{ up_to = 100, name = \"small\" }, { name = \"large\" }]";
        assert_eq!(limit(steps), [small.clone(), large]);
        assert_eq!(limit("[{ up_to = 199, name = \"small\" }]"), [small, None]);
        for wrong in ["[]", "[{ name = \"a\" }, { up_to = 1, name = \"b\" }]"] {
            assert!(parse(wrong).unwrap_err().to_string().contains("limit.insert"), "{wrong}");
        }
    }

    #[test]
    fn numbers_may_be_missing_but_not_words() {
        let case = &cases(GPU)[0];
        assert_eq!(case.number_if_given("load_factor").unwrap(), Some(0.5));
        assert_eq!(case.number_if_given("nothing").unwrap(), None);
        assert!(case.number_if_given("mode").is_err());
    }

    #[test]
    fn mistakes_are_explained_with_their_line() {
        let plots = "[figure]\nplots = [{ title = 'both', ops = ['insert', 'fly'] }]\n";
        let cases: [(String, &[&str]); 4] = [
            (SUITE.replace("key_bits", "key_bitz"), &["family/name", "line 5", "key_bitz"]),
            (SUITE.replace("find_hit = 1.0", "find_mis = 1.0"), &["expect.find_mis"]),
            (format!("{SUITE}{plots}"), &["figure.plots", "'fly'"]),
            (SUITE.replace("n = [10]", "n = []"), &["emulator.n"]),
        ];
        for (suite, parts) in cases {
            let error = Suite::parse("family/name", &suite).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn choices_are_named_or_refused() {
        let case = &cases(GPU)[0];
        assert_eq!(case.choice("mode", &[("b", 1), ("a", 2)]).unwrap(), 2);
        assert_eq!(case.choice("nothing", &[("b", 1), ("a", 2)]).unwrap(), 1, "the default");
        let error = case.choice("mode", &[("b", 1), ("c", 2)]).unwrap_err().to_string();
        assert!(error.contains("`params.mode` is 'a'; it can be 'b' or 'c'"), "{error}");
    }
}
