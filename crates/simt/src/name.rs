//! Names that are composed at compile time from the parts of a type.

/// Maximum number of bytes in a name.
const MOST: usize = 192;

/// A name under construction: parts, joined by underscores.
///
/// ```
/// use simt::Name;
/// const NAME: &str = const { &Name::of("hinted").number(8).part("").part("64").tile(2, 4) }.as_str();
/// assert_eq!(NAME, "hinted8_64_2x4");
/// const PAIR: &str = const { &Name::of("pair").unsigned::<u32>().text("s") }.as_str();
/// assert_eq!(PAIR, "pair_u32s");
/// ```
///
/// # Cost
///
/// Evaluated at compile time, `number` and the other parts alike: no instruction, and one copy of the text in
/// the program.
#[derive(Clone, Copy, Debug)]
pub struct Name {
    text: [u8; MOST],
    len: usize,
}

impl Name {
    /// Returns the name that consists of one part.
    #[inline]
    pub const fn of(part: &str) -> Self {
        Self { text: [0; MOST], len: 0 }.part(part)
    }

    /// Appends a part, unless it is empty.
    #[inline]
    pub const fn part(self, part: &str) -> Self {
        let joins = self.len > 0 && !part.is_empty();
        if joins { self.text("_").text(part) } else { self.text(part) }
    }

    /// Appends a decimal number to the last part.
    #[inline]
    pub const fn number(self, value: usize) -> Self {
        let digit = [b'0' + (value % 10) as u8];
        let above = if value > 9 { self.number(value / 10) } else { self };
        above.extend(&digit)
    }

    /// Appends a part: the lanes or threads of a tile, and the elements of each, as in `2x4`.
    #[inline]
    pub const fn tile(self, lanes: u32, each: usize) -> Self {
        self.text("_").number(lanes as usize).text("x").number(each)
    }

    /// Appends a part: the name of the unsigned integer type with the size of `T`.
    #[inline]
    pub const fn unsigned<T>(self) -> Self {
        self.part("u").number(8 * size_of::<T>())
    }

    /// Appends text to the last part.
    #[inline]
    pub const fn text(self, text: &str) -> Self {
        self.extend(text.as_bytes())
    }

    #[inline]
    const fn extend(mut self, bytes: &[u8]) -> Self {
        assert!(self.len + bytes.len() <= MOST, "a name is too long");
        let mut index = 0;
        while index < bytes.len() {
            self.text[self.len + index] = bytes[index];
            index += 1;
        }
        self.len += bytes.len();
        self
    }

    /// Returns the name.
    #[inline]
    pub const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.text.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => panic!("parts are text"),
        }
    }
}

/// Compares the name that a line of [`crate::instances!`] gives to a type with the name of the type.
#[doc(hidden)]
#[inline]
pub const fn is_name(listed: &str, name: &str) -> bool {
    let (listed, name) = (listed.as_bytes(), name.as_bytes());
    let mut index = 0;
    while index < listed.len() && index < name.len() && listed[index] == name[index] {
        index += 1;
    }
    index == listed.len() && index == name.len()
}
